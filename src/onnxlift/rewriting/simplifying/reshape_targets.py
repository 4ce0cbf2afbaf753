"""Write 0 in the target of a reshape for a size that its input has at the same place, instead of shape arithmetic.

    Reshape(x, Concat(Shape(x)[0], Shape(x)[1], 12, 64))   ->   Reshape(x, [0, 0, 12, 64])

It applies if every element of the target is a number, or the name of the size that x has at that place (a 0 copies it).
At most one other named element becomes -1, the rest of the elements, if nothing else is -1 and no size of x is known to
be 0.

It does not apply in these cases. The target has a number where the shape of the result has a name: the number says that
the size must be this, and a -1 would make the model forget it. An element is unknown, or is a number 0 in a target that
was not constant.

PyTorch's newer exporter sets `allowzero`, where a 0 in the target means an empty axis. It goes, since what is copied is
the size that the name stands for, empty or not.

Sound because equal names are equal sizes. A -1 cannot be inferred if x is empty, so it is only used if the sizes beside
it are numbers other than 0.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import elements_of, shape_of
from onnxlift.stages import step


@step("reshape-targets", repeats=True)
def run(model: ir.Model) -> int:
    """Make the targets of reshapes constant; return how many."""
    return sweep(model, {"Reshape": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) != 2:
        return
    target, shape = elements_of(node.inputs[1]), shape_of(node.inputs[0])
    if target is None or shape is None or constant(node.inputs[1]) is not None:
        return
    result = shape_of(node.outputs[0]) or target
    sizes: list[int] = []
    for i, size in enumerate(target):
        if isinstance(size, int) and size > 0 and isinstance(result[i], str):
            return
        if isinstance(size, int) and size != 0:
            sizes.append(size)
        elif isinstance(size, str) and i < len(shape) and shape[i] == size:
            sizes.append(0)
        elif isinstance(size, str):
            sizes.append(-1)
        else:
            return
    if sizes.count(-1) > 1 or (-1 in sizes and 0 in sizes and -1 not in target):
        return
    value = edit.constant(f"{node.outputs[0].name}.shape", np.array(sizes, np.int64))
    node.replace_input_with(1, value)
    node.attributes.pop("allowzero", None)
    edit.changes += 1
