"""Tell which slices are short enough to stand together in one line: `torch.cat((x[:, ::2], x[:, 1::2]), -1)`."""

from __future__ import annotations

from onnxlift.lifting.code.expr import Expr, Literal, Ref, SliceExpr, Subscript, Wrapped, bare, children, walk


def is_piece(expr: Expr) -> bool:
    """Tell whether this is a slice such as `x[:, 1::2]`, with nothing but numbers in the brackets."""
    if not isinstance(expr, Subscript) or not isinstance(bare(expr._base), Ref):
        return False
    return all(isinstance(part, SliceExpr | Literal | Wrapped) for index in expr._index for part in walk(index))


def length_of_piece(expr: Expr) -> int:
    """Count the characters of a slice of `x`."""
    match expr := bare(expr):
        case Subscript():
            return 1 + 2 * len(expr._index) + sum(map(length_of_piece, expr._index))
        case SliceExpr():
            return 1 + (expr._step is not None) + sum(map(length_of_piece, children(expr)))
        case Literal():
            return len(repr(expr._value))
    return 0
