"""What the integers stand for that a layer takes and gives: `(x - zero_point) * scale`, as weights of the layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import DataType

from .layers import Weight
from .operand import Constant, Tensor

BYTES = (DataType.UINT8, DataType.INT8)


def own(values: Sequence[Tensor | int], shape: tuple[int, ...], dtype: DataType = DataType.FLOAT) -> Weight:
    """Return numbers as a weight of the layer's own: what one layer gives and the next one takes is one constant in the
    file, and would be a tie between the two. Each is a constant of one element, or a number."""
    kind = dtype.numpy()
    array = np.stack(
        [each.const.reshape(()) if isinstance(each, Constant) else np.asarray(each, kind) for each in values]
    )
    return Weight(ir.Value(name="", const_value=ir.tensor(array.reshape(shape)), type=ir.TensorType(dtype)), shape)


def has_steps(*scales: int, zeros: Sequence[int], data: Sequence[int]) -> Callable[[ir.Node], bool]:
    """Return a function that tells of a node whether its scales are constants of one float32, its zero points are
    constants of one byte or missing, and its data are bytes of one type. Each of these is given as the places of
    inputs; places behind the last input do not count."""

    def tell(node: ir.Node) -> bool:
        kinds = {value.dtype for value in _at(node, data)}
        if len(kinds) != 1 or not kinds <= {*BYTES}:
            return False
        numbers = [constant(value) for value in _at(node, scales)]
        points = [constant(value) for value in _at(node, zeros)]
        if any(tensor is None or tensor.size != 1 for tensor in (*numbers, *points)):
            return False
        types = {tensor.dtype for tensor in numbers if tensor is not None}
        return types == {DataType.FLOAT} and all(tensor is None or tensor.dtype in kinds for tensor in points)

    return tell


def _at(node: ir.Node, places: Sequence[int]) -> list[ir.Value]:
    inputs = [node.inputs[place] for place in places if place < len(node.inputs)]
    return [value for value in inputs if value is not None]
