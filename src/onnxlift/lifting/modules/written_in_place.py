"""Tell which operands are written where they are used, and need no variable: short sizes, and strings."""

from __future__ import annotations

from itertools import islice

import onnx_ir as ir

from onnxlift.lifting.code.expr import Attribute, Binary, Expr, Literal, Ref, Subscript, bare, builtin, np, walk
from onnxlift.lifting.ops.operand import Dims, Scalar

LONGEST_SIZES = 120  # names, numbers and operators in a list of sizes that is written where it is used


def is_simple(scalar: Scalar) -> bool:
    """Tell whether this is a number, `x.shape[0]`, `x.ndim`, or a comparison of one of these with a number."""
    if scalar.number is not None:
        return True
    expr = bare(scalar)
    if isinstance(expr, Binary) and expr._op in ("==", "!=") and isinstance(bare(expr._right), Literal):
        expr = bare(expr._left)
    return isinstance(expr, Subscript | Ref) or (isinstance(expr, Attribute) and expr._name == "ndim")


def is_long(dims: Dims) -> bool:
    """Tell whether sizes need a line of their own: otherwise each use would repeat the text, and uses of uses repeat it
    again."""
    return sum(1 for _ in islice(walk(dims.as_expr()), LONGEST_SIZES + 1)) > LONGEST_SIZES


def text_literal(value: ir.Value) -> Expr:
    """Return an array of strings as a literal, since no file of weights can hold it."""
    assert value.const_value is not None
    texts = [
        t.decode("utf-8", "surrogateescape") if isinstance(t, bytes) else str(t) for t in value.const_value.numpy().flat
    ]
    array = np.array(texts, dtype=builtin("object"))
    shape = tuple(int(d) for d in value.shape or () if isinstance(d, int))
    return array if len(shape) == 1 else array.reshape(*shape) if shape else array.reshape(())
