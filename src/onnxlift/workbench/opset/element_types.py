"""Hold the types of a node's values against its schema; where one is missing, compute in a wider one.

    y = Sin(x) of bfloat16   ->   y = Cast(Sin(Cast(x, to=float)), to=bfloat16)      before opset 22

1. bfloat16 and float16 go through float: the result is rounded once, which no kernel of the narrow type does better.
   Not for operators that cut a number into bits or bytes.
2. Integers and bool go through a wider type for operators that only move, compare or choose numbers: every number of
   the narrow type is one of the wide type, and the result is one of the inputs, so the way back is exact.
3. Integers go through a wider integer type for sums, differences and products: the low bits are the same, and a Cast
   back keeps these.

4. Floats of several types, where an older revision takes one for all, go through the widest: BatchNormalization has had
   types of their own for its parameters since opset 14.

A type that the older opset has no Cast for does not exist there at all. The Cast is then refused in its turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx.defs
import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for

from .step import Refusal, Step, Value

D = ir.DataType
_FLOATS: dict[ir.DataType, tuple[ir.DataType, ...]] = {D.BFLOAT16: (D.FLOAT,), D.FLOAT16: (D.FLOAT,)}
_WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    D.BOOL: (D.UINT8, D.INT32, D.INT64, D.FLOAT),
    D.INT8: (D.INT16, D.INT32, D.INT64, D.FLOAT, D.DOUBLE),
    D.UINT8: (D.INT16, D.INT32, D.INT64, D.FLOAT, D.DOUBLE),
    D.INT16: (D.INT32, D.INT64, D.FLOAT, D.DOUBLE),
    D.UINT16: (D.INT32, D.INT64, D.FLOAT, D.DOUBLE),
    D.INT32: (D.INT64, D.DOUBLE),
    D.UINT32: (D.INT64, D.DOUBLE),
    D.BFLOAT16: (D.FLOAT,),
    D.FLOAT16: (D.FLOAT,),
    D.FLOAT: (D.DOUBLE,),
}
_INTEGERS = (D.INT32, D.INT64, D.UINT32, D.UINT64)

MOVES_OR_CHOOSES = frozenset(
    "Equal Greater GreaterOrEqual Less LessOrEqual Where Max Min Clip Relu Abs Sign ReduceMax ReduceMin ArgMax ArgMin "
    "TopK MaxPool GlobalMaxPool Reshape Transpose Squeeze Unsqueeze Flatten Identity Concat Split Slice Gather "
    "GatherElements GatherND ScatterElements ScatterND Tile Expand Pad DepthToSpace SpaceToDepth Compress OneHot "
    "NonZero Trilu Unique ReverseSequence Upsample Hardmax IsNaN IsInf Floor Ceil Round Size Shape Mod".split()
)
ADDS_OR_MULTIPLIES = frozenset(
    "Add Sub Mul Neg Sum CumSum ReduceSum ReduceProd ReduceSumSquare ReduceL1 MatMul Gemm Einsum".split()
)
_BITS = frozenset({"Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "Constant", "ConstantOfShape"})
_MADE = frozenset({"EyeLike", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"})
"""Operators whose attribute `dtype` says what they give."""
_HOLDS_GRAPHS = frozenset({"If", "Loop", "Scan"})
"""Operators that give what their graphs compute, so that a Cast before and after them changes nothing."""


Missing = dict[str, tuple[ir.DataType | None, ...]]
"""The element types that a node has for a type variable of its schema; None is not a tensor's."""


def missing_types(node: ir.Node, schema: onnx.defs.OpSchema) -> Missing:
    """Return the type variables of the schema for which the node has types that the schema lacks, or several types.

    Types that are not known are taken to fit: a runtime would refuse them, so no number can be wrong."""
    found: dict[str, dict[ir.DataType | None, None]] = {}
    lacking: set[str] = set()
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for index, value in enumerate(values):
            formal = formals[min(index, len(formals) - 1)] if formals else None
            name = type_name(value)
            if value is None or formal is None or not name or not formal.types:
                continue
            is_tensor = isinstance(value.type, ir.TensorType)
            if name not in formal.types:
                lacking.add(formal.type_str)
            elif not is_tensor or not formal.is_homogeneous:
                continue
            found.setdefault(formal.type_str, {})[value.dtype if is_tensor else None] = None
    return {name: tuple(types) for name, types in found.items() if name in lacking or len(types) > 1}


def type_name(value: Value | None) -> str:
    """Return the type of a value as schemas write it, "" if it is not known."""
    if value is None or value.type is None or value.dtype in (None, D.UNDEFINED):
        return ""
    kind: ir.TypeProtocol = value.type
    wrap = "{}"
    while isinstance(kind, ir.SequenceType | ir.OptionalType):
        wrap = wrap.format("seq({})" if isinstance(kind, ir.SequenceType) else "optional({})")
        inner = kind.elem_type
        assert not isinstance(inner, ir.DataType)
        kind = inner
    names = {D.FLOAT: "float", D.DOUBLE: "double"}
    dtype = value.dtype
    assert dtype is not None
    return wrap.format(f"tensor({names.get(dtype, dtype.name.lower())})")


def compute_wider(s: Step, missing: Missing, why: str) -> list[Value]:
    """Return the node's outputs, computed in types that its schema has."""
    schema = schema_for(s.node.domain, s.node.op_type, s.opset)
    assert schema is not None
    wider = check_wider(s.node.op_type, schema, missing, why)
    inputs = [_through(s, value, schema.inputs, index, wider) for index, value in enumerate(s.node.inputs)]
    made = s.same(*inputs)
    results: list[Value] = []
    for index, value in enumerate(made):
        variable = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
        narrow = s.node.outputs[index].dtype
        is_wider = variable in wider and narrow != wider[variable]
        results.append(s.cast(value, narrow) if is_wider and narrow is not None else value)
    return results


def check_wider(op_type: str, schema: onnx.defs.OpSchema, missing: Missing, why: str) -> dict[str, ir.DataType]:
    """Return the type to compute in for each type variable; refuse if there is none."""
    wider: dict[str, ir.DataType] = {}
    for variable, dtypes in missing.items():
        found = _common(op_type, [dtype for dtype in dtypes if dtype is not None], _allowed(schema, variable))
        if found is None or None in dtypes:
            names = ["a sequence or optional value" if dtype is None else dtype.name.lower() for dtype in dtypes]
            raise Refusal(f"{op_type} does not take {' and '.join(names)} {why}")
        wider[variable] = found
    return wider


def _common(op_type: str, dtypes: Sequence[ir.DataType], allowed: frozenset[ir.DataType]) -> ir.DataType | None:
    """Return a type that holds all numbers of these types. Several of them are floats, as of a norm's parameters."""
    if len(dtypes) == 1:
        return _wider(op_type, dtypes[0], allowed)
    if not set(dtypes) <= {D.FLOAT16, D.BFLOAT16, D.FLOAT, D.DOUBLE}:
        return None
    widest = D.DOUBLE if D.DOUBLE in dtypes else D.FLOAT
    return widest if widest in allowed else None


def _wider(op_type: str, dtype: ir.DataType, allowed: frozenset[ir.DataType]) -> ir.DataType | None:
    if op_type in _BITS | _MADE | _HOLDS_GRAPHS:
        return None
    if dtype in _FLOATS:
        choices: Sequence[ir.DataType] = _FLOATS[dtype]
    elif op_type in MOVES_OR_CHOOSES:
        choices = _WIDER.get(dtype, ())
    elif op_type in ADDS_OR_MULTIPLIES and dtype in (D.INT8, D.UINT8, D.INT16, D.UINT16):
        choices = _INTEGERS
    else:
        choices = ()
    return next((choice for choice in choices if choice in allowed), None)


def _allowed(schema: onnx.defs.OpSchema, variable: str) -> frozenset[ir.DataType]:
    names = {"FLOAT": "float", "DOUBLE": "double"}
    formals = [formal for formal in (*schema.inputs, *schema.outputs) if formal.type_str == variable]
    types = set.intersection(*(set(formal.types) for formal in formals)) if formals else set()
    return frozenset(d for d in D if f"tensor({names.get(d.name, d.name.lower())})" in types)


def _through(
    s: Step,
    value: Value | None,
    formals: Sequence[onnx.defs.OpSchema.FormalParameter],
    index: int,
    wider: dict[str, ir.DataType],
) -> Value | None:
    variable = formals[min(index, len(formals) - 1)].type_str
    if value is None or variable not in wider or value.dtype in (None, D.UNDEFINED, wider[variable]):
        return value
    return s.cast(value, wider[variable])
