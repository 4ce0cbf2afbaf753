"""Conversions between element types.

`graph/types.py` says how types that torch lacks are stored: int4 and the like in a byte, float4 and float6 in float32,
strings in numpy arrays.
"""

from __future__ import annotations

from onnxlift.ir.graph.types import TORCH_DTYPE, DataType
from onnxlift.lifting.code.expr import Expr, Literal, builtin, unequal
from onnxlift.lifting.ops import sizes
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import HALVES, Node, Result, data_type, exact_dtype, torch_dtype
from onnxlift.lifting.ops.operand import Operand, Scalar, Tensor
from onnxlift.lifting.ops.registry import op

METHODS = {
    DataType.FLOAT: "float",
    DataType.DOUBLE: "double",
    DataType.INT64: "long",
    DataType.INT32: "int",
    DataType.BOOL: "bool",
}
FLOAT8 = frozenset({DataType.FLOAT8E4M3FN, DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2, DataType.FLOAT8E5M2FNUZ})
SUB_BYTE = {
    DataType.INT4: (4, True),
    DataType.UINT4: (4, False),
    DataType.INT2: (2, True),
    DataType.UINT2: (2, False),
}
FLOAT6 = {  # bits of the mantissa, the least exponent, the largest number
    DataType.FLOAT6E2M3: (3, 0, 7.5),
    DataType.FLOAT6E3M2: (2, -2, 28.0),
}
_SIZE_TYPES = (DataType.INT64, DataType.INT32, DataType.FLOAT, DataType.DOUBLE, DataType.BOOL)


@op("Cast")
def Cast(n: Node, input: Operand, *, to: int | str, saturate: int = 1, round_mode: str = "up") -> Result:
    """In opset 1 the type is given by its name."""
    names = {member.name: member for member in DataType}
    numbers = {member.value: member for member in DataType}
    target = names.get(to.upper()) if isinstance(to, str) else numbers.get(to)
    if target is None:
        n.fail(f"it casts to the element type {to!r}, which is not known")
    return _cast(n, input, target, bool(saturate), round_mode)


@op("CastLike")
def CastLike(n: Node, input: Operand, target_type: Operand, *, saturate: int = 1, round_mode: str = "up") -> Result:
    target = n.output.dtype or target_type.type.dtype
    if target is None:
        n.fail("the element type of its second input is not known")
    return _cast(n, input, target, bool(saturate), round_mode)


@op("BitCast")
def BitCast(n: Node, input: Tensor, *, to: int) -> Result:
    """The same bits, read as a number of another type of the same width."""
    source, target = input.type.dtype, data_type(to)
    if source in SUB_BYTE and target in SUB_BYTE and SUB_BYTE[source][0] == SUB_BYTE[target][0]:
        return input if source == target else kernel("low_bits")(input, *SUB_BYTE[target])
    in_other = {*SUB_BYTE, *FLOAT6, DataType.FLOAT4E2M1, DataType.STRING}  # types that are not stored in their own bits
    if source is None or source in in_other or target in in_other or source.bitwidth != target.bitwidth:
        n.fail(f"it reads the bits of {'an unknown type' if source is None else source.name} as {target.name}")
    return input.view(exact_dtype(target))


def _cast(n: Node, input: Operand, target: DataType, saturate: bool, round_mode: str) -> Result:
    source = input.type.dtype
    if source == target:
        return input
    if target in _SIZE_TYPES:
        return n.elementwise(
            lambda x: _cast_tensor(n, x, source, target, saturate, round_mode),
            input if not isinstance(input, Tensor) else Tensor(input, input.type),
            sizes=lambda x: _cast_size(x, target),
        )
    return _cast_tensor(n, n.tensor(input), source, target, saturate, round_mode)


def _cast_size(x: Scalar, target: DataType) -> Scalar | None:
    if target == DataType.BOOL:
        return Scalar(bool(x.number) if x.number is not None else unequal(x, 0), target)
    if x.type.is_bool:
        return Scalar(builtin("int")(x) if x.number is None else int(x.number), target, nonnegative=True)
    if target in (DataType.FLOAT, DataType.DOUBLE):
        return Scalar(x._expr, target, x.nonnegative)
    if x.number is not None:
        return Scalar(int(x.number), target)
    return Scalar(x._expr if sizes.is_whole(x) else builtin("int")(x), target, x.nonnegative)


def _cast_tensor(n: Node, x: Expr, source: DataType | None, target: DataType, saturate: bool, round_mode: str) -> Expr:
    if source == DataType.STRING:
        return _from_strings(n, x, target)
    if target == DataType.STRING:
        return kernel("spell_numbers")(x)
    if target in FLOAT8:
        more = {} if saturate else {"saturate": Literal(False)}
        return kernel("to_float8")(x, torch_dtype(target), **more)
    if target == DataType.FLOAT8E8M0:
        options = {"saturate": saturate, "round_mode": round_mode}
        return kernel("to_float8_e8m0")(x, **{k: v for k, v in options.items() if v not in (True, "up")})
    if target == DataType.FLOAT4E2M1:
        return kernel("to_float4_e2m1")(x)
    if target in FLOAT6:
        return kernel("to_float6")(x, *FLOAT6[target])
    if target in SUB_BYTE:
        return kernel("low_bits")(x, *SUB_BYTE[target])
    if target not in TORCH_DTYPE:
        n.fail(f"it casts to {target.name.lower()}")
    if source is not None and TORCH_DTYPE.get(source) == TORCH_DTYPE[target]:
        return x  # both types are stored in the same torch type
    return converted(x, target)


def converted(x: Expr, target: DataType | None) -> Expr:
    """Return `x` in another of torch's own types, as people write it: `x.float()`, `x.to(torch.uint8)`. Half precision
    is that of the weights: `x.to(self.weight.dtype)`."""
    if target not in METHODS:
        return x.to(torch_dtype(target))
    method: Expr = getattr(x, METHODS[target])
    return method()


def _from_strings(n: Node, x: Expr, target: DataType) -> Expr:
    if target not in METHODS and target not in (*HALVES, DataType.INT8, DataType.INT16, DataType.UINT8):
        n.fail(f"it casts strings to {target.name.lower()}")
    return kernel("parse_numbers")(x, torch_dtype(target), n.device)
