"""A weight divided by its largest singular value was made by `torch.nn.utils.spectral_norm` or its parametrisation.

    Div(W, MatMul(u, MatMul(M, v)))  ->  the weight of a layer that is written as spectral_norm(nn.Linear(...))

M is W as a matrix: the axis `dim` comes first (by a Transpose, if it is not the first one), and the other axes are
flattened into one. Where the exporter has folded that, M is a constant of these numbers. u and v are vectors that the
function keeps as buffers, and brings nearer to the singular vectors at each step of training. A model for inference
reads them as they are.

It applies to the weight of a linear layer or convolution, if all three are named as one of the two functions names
them: `weight_orig`, `weight_u` and `weight_v`, or `parametrizations.weight.original`, `0._u` and `0._v`. The vectors
may also have a name without a module: the parametrisation copies them, and an exporter that folds the copies calls
these `clone`.

Not if the axes are in another order, if another node reads a value in between, or if anything but layers reads the
weight.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.tensors import may_be_trained
from onnxlift.rewriting.idioms.parts.computed_weight import ComputedWeight, layer_of, numbers, owner_of, put
from onnxlift.stages import step

_PARAMETRISED = "parametrizations.weight"
_NAMES = {
    "nn.utils.spectral_norm": ("weight_orig", "weight_u", "weight_v"),
    "nn.utils.parametrizations.spectral_norm": (
        f"{_PARAMETRISED}.original",
        f"{_PARAMETRISED}.0._u",
        f"{_PARAMETRISED}.0._v",
    ),
}


@step("spectral-norm")
def run(model: ir.Model) -> int:
    """Recognise weights that are divided by their singular value; return how many."""
    return sweep(model, {"Div": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    weight, divisor = node.inputs
    outer = made_by(edit, divisor, "MatMul")
    inner = made_by(edit, outer.inputs[1], "MatMul") if outer is not None else None
    layer = layer_of(edit, node.outputs[0])
    if outer is None or inner is None or layer is None or weight is None:
        return
    u, (matrix, v) = outer.inputs[0], inner.inputs
    if u is None or matrix is None or v is None or not all(may_be_trained(value) for value in (weight, u, v)):
        return
    if rank(u) != 1 or rank(v) != 1 or not is_private(edit, divisor) or not is_private(edit, outer.inputs[1]):
        return
    found = _matrix(edit, matrix, weight)
    names = _names(weight, u, v)
    if found is None or names is None:
        return
    dim, moves = found
    function, owner = names
    parts = dict(zip(_NAMES[function], (weight, u, v), strict=True))
    default = 1 if layer == "ConvTranspose" else 0
    _, *buffers = parts
    computed = ComputedWeight(function, parts, {} if dim == default else {"dim": dim}, frozenset(buffers))
    put(edit, node, owner, computed, lambda: _weight(weight, u, v, dim))
    drop_unused(edit, [outer, inner, *moves])


def _matrix(edit: Edit, matrix: ir.Value, weight: ir.Value) -> tuple[int, list[ir.Node]] | None:
    """Return the axis of the weight that is the first axis of the matrix, and the nodes between both.

    Return None if this is no matrix of this weight, or has the axes in another order.
    """
    shape = shape_of(weight)
    if shape is None:
        return None
    if constant(matrix) is not None and matrix is not weight:
        dims = (dim for dim in range(len(shape)) if np.array_equal(numbers(matrix), _as_matrix(numbers(weight), dim)))
        dim = next(dims, None)
        return None if dim is None else (dim, [])
    flat = made_by(edit, matrix, "Reshape", "Flatten")
    source = matrix if flat is None else flat.inputs[0]
    turned = made_by(edit, source, "Transpose")
    perm = list(range(len(shape))) if turned is None else list(permutation(turned) or ())
    source = source if turned is None else turned.inputs[0]
    dim = perm[0] if len(perm) == len(shape) else 0
    if source is not weight or perm != [dim, *(axis for axis in range(len(shape)) if axis != dim)]:
        return None
    if shape_of(matrix) != (shape[dim], product(size for axis, size in enumerate(shape) if axis != dim)):
        return None
    return dim, [node for node in (flat, turned) if node is not None]


def _names(weight: ir.Value, *vectors: ir.Value) -> tuple[str, str] | None:
    """Return the function that gives the weight and the vectors these names, and the module that they belong to."""
    for function, (key, *buffers) in _NAMES.items():
        owner = owner_of(weight, key)
        if owner is not None and all(
            "." not in (vector.name or "") or owner_of(vector, name) == owner
            for vector, name in zip(vectors, buffers, strict=True)
        ):
            return function, owner
    return None


def _weight(weight: ir.Value, u: ir.Value, v: ir.Value, dim: int) -> Array:
    array = numbers(weight)
    result: Array = array / (numbers(u) @ (_as_matrix(array, dim) @ numbers(v)))
    return result


def _as_matrix(array: Array, dim: int) -> Array:
    return np.moveaxis(array, dim, 0).reshape(array.shape[dim], -1)
