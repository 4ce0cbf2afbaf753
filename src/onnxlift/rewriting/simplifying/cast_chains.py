"""Leave out the first of two casts in a row if it loses nothing, and turn CastLike into Cast.

    Cast(Cast(x, B), C)   ->   Cast(x, C)      where B holds every value of x's type exactly
    CastLike(x, y)        ->   Cast(x, C)      where C is the type of y, if that is known

A round trip (`int32 -> int64 -> int32`) becomes a cast to x's own type, which `no-ops` removes. It does not apply if
the first cast may round or wrap (`float32 -> int64`, `int64 -> float32`): then it computes something. Nor does it apply
to a float between two integer types, unless the last type also holds every value: for values out of range, the two ways
differ.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.stages import step

_BITS = {  # type -> bits of precision (the sign not counted)
    ir.DataType.BOOL: 1,
    ir.DataType.INT8: 7,
    ir.DataType.UINT8: 8,
    ir.DataType.INT16: 15,
    ir.DataType.UINT16: 16,
    ir.DataType.INT32: 31,
    ir.DataType.UINT32: 32,
    ir.DataType.INT64: 63,
    ir.DataType.UINT64: 64,
    ir.DataType.BFLOAT16: 8,
    ir.DataType.FLOAT16: 11,
    ir.DataType.FLOAT: 24,
    ir.DataType.DOUBLE: 53,
}
_FLOATS = (ir.DataType.BFLOAT16, ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)
_UNSIGNED = (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64)


@step("cast-chains", repeats=True)
def run(model: ir.Model) -> int:
    """Shorten chains of casts; return how many casts were bypassed."""
    return sweep(model, {"CastLike": _cast_like, "Cast": _cast})


def _cast_like(edit: Edit, node: ir.Node) -> None:
    dtype = node.outputs[0].dtype
    if dtype in _BITS:
        edit.replace(node, "Cast", node.inputs[:1], [ir.AttrInt64("to", int(dtype))])


def _cast(edit: Edit, node: ir.Node) -> None:
    if node.inputs[0] is None:
        return
    first = node.inputs[0].producer()
    if first is None or not is_standard(first, "Cast") or first.inputs[0] is None:
        return
    source, middle, last = first.inputs[0].dtype, node.inputs[0].dtype, node.outputs[0].dtype
    if source is None or middle is None or last is None or not is_lossless(source, middle):
        return
    through_float = source not in _FLOATS and middle in _FLOATS and last not in _FLOATS
    if through_float and last != ir.DataType.BOOL and not is_lossless(source, last):
        return
    node.replace_input_with(0, first.inputs[0])
    edit.changes += 1


def is_lossless(source: ir.DataType, target: ir.DataType) -> bool:
    """Tell whether every value of type `source` is also one of type `target`."""
    if source not in _BITS or target not in _BITS:
        return False
    if source == target:
        return True
    if source in _FLOATS:
        # float16 and bfloat16 differ in range as well as in precision
        return target in (ir.DataType.FLOAT, ir.DataType.DOUBLE) and _BITS[target] > _BITS[source]
    if source == ir.DataType.BOOL:
        return True
    if target == ir.DataType.BOOL or (target in _UNSIGNED and source not in _UNSIGNED):
        return False
    if target == ir.DataType.FLOAT16:
        return _BITS[source] <= 8  # its largest value is 65504
    return _BITS[target] >= _BITS[source]
