"""Instance normalisation by statistics that were gathered in training (`track_running_stats=True`) is one layer.

    y = BatchNormalization(Reshape(x, (1, batch * channels, ..)), weight, bias, mean, variance), each Tile(.., batch)
    Reshape(y, shape of x)    ->   TrackedInstanceNorm(x, weight, bias, mean, variance)

PyTorch's exporters write the layer like this. If the size of the batch is fixed, they fold some or all of the Tiles. A
folded Tile is a constant whose numbers are the same for each image of the batch, and which has no name of the model's.
The result has no weight and bias if an exporter made these of ones and zeros (see `norms_without_weights.py`).

Nobody else reads a value in between, and the batch normalisation takes the statistics that it is given. Sound because
each image of a batch is normalised by the same numbers, whichever axis counts the images.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, drop_unused, is_filler, is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.ir.inference.symbolic import multiply
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.stages import step


@step("tracked-instance-norm")
def run(model: ir.Model) -> int:
    """Recognise instance normalisations with statistics; return how many."""
    return sweep(model, {"Reshape": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    norm = made_by(edit, node.inputs[0], "BatchNormalization")
    joined = made_by(edit, norm.inputs[0], "Reshape") if norm is not None else None
    if norm is None or joined is None or len(norm.outputs) != 1 or attribute(norm, "training_mode", 0) != 0:
        return
    x = joined.inputs[0]
    shape = shape_of(x)
    if x is None or shape is None or not 3 <= len(shape) <= 5:
        return
    channels = multiply(shape[0], shape[1])
    if shape_of(joined.outputs[0]) != (1, channels, *shape[2:]) or shape_of(node.outputs[0]) != shape:
        return
    repeated = norm.inputs[1:]
    if not all(shape_of(value) == (channels,) for value in repeated):
        return
    weights = [_repeated(edit, value, x, shape) for value in repeated]
    if None in weights:
        return
    if not is_private(edit, node.inputs[0]) or not is_private(edit, norm.inputs[0]):
        return
    is_affine = not is_filler(weights[0], 1) or not is_filler(weights[1], 0)
    attributes = [
        ir.AttrFloat32(name, attribute(norm, name, default)) for name, default in (("epsilon", 1e-5), ("momentum", 0.9))
    ]
    inputs = [x, *(weights[:2] if is_affine else (None, None)), *weights[2:]]
    tiles = [made_by(edit, value, "Tile") for value in repeated]
    edit.replace(node, "TrackedInstanceNorm", inputs, attributes, domain=DOMAIN)
    drop_unused(edit, [norm, joined, *(tile for tile in tiles if tile is not None)])


def _repeated(edit: Edit, value: ir.Value | None, x: ir.Value, shape: Shape) -> ir.Value | None:
    """Return the constant with a number for each channel of `x` that `value` repeats for each image."""
    images, channels = shape[:2]
    tile, tensor = made_by(edit, value, "Tile"), constant(value)
    if tile is not None:
        part = tile.inputs[0]
        is_vector = constant(part) is not None and shape_of(part) == (channels,)
        return part if is_vector and part is not None and part.dtype == x.dtype else None
    if value is None or tensor is None or value.dtype != x.dtype or not isinstance(images, int) or images < 1:
        return None
    if not origin_of(value).is_programs_own:
        return None  # a layer's own weight, which may be all ones before training
    rows = tensor.numpy().reshape(images, -1)
    return edit.constant(f"{value.name}", rows[0].copy()) if (rows == rows[0]).all() else None
