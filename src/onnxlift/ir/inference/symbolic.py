"""Arithmetic on sizes that may be symbols: `Dim` is an int, or a canonical text such as `batch`, `2*seq + 1`, `h//2`.

A symbol stands for a size, so it is never negative. A text is a polynomial in symbols with integer coefficients. A part
that is no polynomial (`//`, `%`, `max`, `min`) is an opaque factor in it. There is one canonical text for each
polynomial, and equal texts mean equal sizes. Each operation parses its texts anew, so there is no table of known
expressions, and the result depends on the arguments only. Functions return None if the answer cannot be expressed, or
would be too long; callers treat that as an unknown size.

A dimension name of the model that is neither an identifier nor canonical (`batch-size`, `b + a`) is a symbol that can
be compared with others but not computed with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from onnxlift.ir.graph.shapes import Dim

_Monomial = tuple[str, ...]
_Polynomial = dict[_Monomial, int]

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OPAQUE = re.compile(r"//|%|max\(|min\(")
_MAX_TERMS = 16
_MAX_TEXT = 200
_INT64 = range(-(2**63), 2**63)


def terms_of(a: Dim) -> Mapping[tuple[str, ...], int] | None:
    """Return the polynomial that `a` is the text of: its products of factors, each with its coefficient.

    None for a name that cannot be computed with."""
    return _parse(a)


def add(a: Dim, b: Dim) -> Dim | None:
    """Return `a + b`."""
    if isinstance(a, int) and isinstance(b, int):
        return _checked(a + b)
    return _combine(a, b, 1)


def subtract(a: Dim, b: Dim) -> Dim | None:
    """Return `a - b`."""
    if isinstance(a, int) and isinstance(b, int):
        return _checked(a - b)
    return 0 if a == b else _combine(a, b, -1)


def multiply(a: Dim, b: Dim) -> Dim | None:
    """Return `a * b`."""
    if isinstance(a, int) and isinstance(b, int):
        return _checked(a * b)
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    left, right = _parse(a), _parse(b)
    if left is None or right is None or len(left) * len(right) > _MAX_TERMS:
        return None
    terms: _Polynomial = {}
    for left_factors, left_coefficient in left.items():
        for right_factors, right_coefficient in right.items():
            factors = tuple(sorted(left_factors + right_factors))
            terms[factors] = terms.get(factors, 0) + left_coefficient * right_coefficient
    return _render(terms)


def product(dims: Iterable[Dim]) -> Dim | None:
    """Return the product of all `dims` (1 if there are none)."""
    total: Dim | None = 1
    for dim in dims:
        total = None if total is None else multiply(total, dim)
    return total


def divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """Return `a / b` if the division leaves no remainder, whatever the symbols are; else None."""
    if a == b and b != 0:
        return 1
    if b == 1:
        return a
    numerator, denominator = _parse(a), _parse(b)
    if numerator is None or denominator is None or len(denominator) != 1:
        return None
    ((divisor_factors, divisor),) = denominator.items()
    quotient: _Polynomial = {}
    for factors, coefficient in numerator.items():
        remaining = list(factors)
        for factor in divisor_factors:
            if factor not in remaining:
                return None
            remaining.remove(factor)
        if coefficient % divisor:
            return None
        quotient[tuple(remaining)] = coefficient // divisor
    return _render(quotient)


def floor_divide(a: Dim, b: Dim) -> Dim | None:
    """Return `a // b`, rounded down; None unless `b` is a positive int.

    Multiples of `b` are taken out of the quotient, so that no negative coefficient stays in it: `(h - 3)//2` becomes
    `(h + 1)//2 - 2`. A quotient inside the quotient is joined with it: `(h//5 + 1)//2` becomes `(h + 5)//10`.
    """
    if not isinstance(b, int) or b <= 0:
        return None
    if isinstance(a, int):
        return a // b
    terms = _parse(a)
    if terms is None:
        return None
    outside = _render({factors: coefficient // b for factors, coefficient in terms.items()})
    inside = _render({factors: coefficient % b for factors, coefficient in terms.items()})
    quotient = None if inside is None else _joined_quotient(inside, b)
    return None if outside is None or quotient is None else add(quotient, outside)


def _joined_quotient(a: Dim, b: int) -> Dim | None:
    """Return `a // b`, where all coefficients of `a` are at least 0 and below `b`."""
    if isinstance(a, int):
        return a // b
    inner = [(factors[0], parts) for factors in _alone(a) if (parts := _quotient_parts(factors[0])) is not None]
    if len(inner) != 1:
        return _opaque(f"{_grouped(a)}//{b}", a)
    ((quotient, (numerator, divisor)),) = inner
    rest = subtract(a, quotient)
    scaled = None if rest is None else multiply(rest, divisor)
    whole = None if scaled is None else add(numerator, scaled)
    return None if whole is None else floor_divide(whole, divisor * b)


def _alone(a: Dim) -> list[_Monomial]:
    """Return the terms of `a` that are a single factor with the coefficient 1."""
    return [factors for factors, coefficient in (_parse(a) or {}).items() if len(factors) == 1 and coefficient == 1]


def _quotient_parts(factor: str) -> tuple[Dim, int] | None:
    """Return numerator and divisor, if the factor is a quotient; else None."""
    match ast.parse(factor, mode="eval").body if "//" in factor else None:
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int(divisor))):
            return _evaluate(left), divisor
    return None


def modulo(a: Dim, b: Dim) -> Dim | None:
    """Return `a % b`, which is never negative; None unless `b` is a positive int."""
    if not isinstance(b, int) or b <= 0:
        return None
    terms = _parse(a)
    rest = None if terms is None else _render({factors: coefficient % b for factors, coefficient in terms.items()})
    if rest is None or isinstance(rest, int):
        return rest
    return _opaque(f"{_grouped(rest)}%{b}", rest)


def maximum(a: Dim, b: Dim) -> Dim | None:
    """Return the larger of two sizes."""
    return _extreme("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim | None:
    """Return the smaller of two sizes."""
    return _extreme("min", a, b)


def is_nonnegative(a: Dim) -> bool:
    """Tell whether `a >= 0` is seen to hold for all values of its symbols: no coefficient is negative."""
    return a >= 0 if isinstance(a, int) else all(c >= 0 for c in (_parse(a) or {}).values())


def split_number(a: Dim) -> tuple[Dim, int]:
    """Split `a` into a symbolic part and a number that add up to it: `2*seq - 1` -> (`2*seq`, -1)."""
    number = (_parse(a) or {}).get((), 0)
    rest = subtract(a, number) if number else a
    return (a, 0) if rest is None else (rest, number)


def compare(a: Dim, b: Dim) -> int | None:
    """Return -1, 0 or 1 if `a < b`, `a == b` or `a > b` holds for all values of the symbols; else None."""
    if a == b:
        return 0
    difference = subtract(a, b)
    if isinstance(difference, int):
        return (difference > 0) - (difference < 0)
    above, below = subtract(a, _successor(b)), subtract(b, _successor(a))
    if above is not None and is_nonnegative(above):
        return 1
    if below is not None and is_nonnegative(below):
        return -1
    return None


def broadcast(a: Dim, b: Dim) -> Dim | None:
    """Return the size that two broadcast dimensions give in every run that does not fail.

    `min(64, seq)` with `seq` gives `seq`: the two are equal, or one of them is 1, and then the other is 1 as well. Such
    sizes come from slicing a table of positions to the length of the input.
    """
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int):
        return a  # the other is 1 or equal at run time
    if isinstance(b, int):
        return b
    for clipped, size in ((a, b), (b, a)):
        bound = re.fullmatch(rf"min\((\d+), {re.escape(size)}\)", clipped)
        if bound and int(bound[1]) > 1:
            return size
    return None


def _successor(a: Dim) -> Dim:
    # A name that cannot be parsed can only be compared by name; adding one to it must not fail.
    result = add(a, 1)
    return a if result is None else result


def _extreme(function: str, a: Dim, b: Dim) -> Dim | None:
    order = compare(a, b)
    if order is None:
        difference = subtract(a, b)
        if difference is not None and is_nonnegative(difference):
            order = 1
        else:
            difference = subtract(b, a)
            if difference is not None and is_nonnegative(difference):
                order = -1
    if order is not None:
        return a if (order >= 0) == (function == "max") else b
    bounded = (is_nonnegative(a), is_nonnegative(b))
    if not (any(bounded) if function == "max" else all(bounded)):
        return None  # an opaque factor must not be negative
    first, second = sorted((a, b), key=lambda dim: (isinstance(dim, str), str(dim)))
    return _opaque(f"{function}({first}, {second})", first, second)


def _opaque(text: str, *parts: Dim) -> Dim | None:
    """Return `text` as one factor, if its parts can be computed with and it is not too long; else None."""
    return text if len(text) <= _MAX_TEXT and all(_parse(part) is not None for part in parts) else None


def _combine(a: Dim, b: Dim, sign: int) -> Dim | None:
    if b == 0:
        return a
    left, right = _parse(a), _parse(b)
    if left is None or right is None:
        return None
    terms = dict(left)
    for factors, coefficient in right.items():
        terms[factors] = terms.get(factors, 0) + sign * coefficient
    return _render(terms)


def _checked(value: int) -> int | None:
    return value if value in _INT64 else None


def _grouped(a: Dim) -> str:
    return str(a) if isinstance(a, int) or _IDENTIFIER.fullmatch(a) else f"({a})"


def _render(terms: Mapping[_Monomial, int]) -> Dim | None:
    """Return the canonical text of a polynomial: longest products first, then by name, the constant last."""
    kept = {factors: coefficient for factors, coefficient in terms.items() if coefficient}
    if any(coefficient not in _INT64 for coefficient in kept.values()) or len(kept) > _MAX_TERMS:
        return None
    if not kept or set(kept) == {()}:
        return kept.get((), 0)
    text = ""
    for factors in sorted(kept, key=lambda factors: (-len(factors), factors)):
        coefficient = kept[factors]
        alone = len(factors) == 1 and coefficient == 1
        parts = [f"({factor})" if _OPAQUE.search(factor) and not alone else factor for factor in factors]
        if abs(coefficient) != 1 or not parts:
            parts.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        text += (f" {sign} " if text else "-" if sign == "-" else "") + "*".join(parts)
    return text if len(text) <= _MAX_TEXT else None


def _parse(dim: Dim) -> _Polynomial | None:
    """Return the polynomial whose canonical text is `dim`; None for a name that cannot be computed with."""
    return {(): dim} if isinstance(dim, int) else _parse_text(dim)


@lru_cache(maxsize=1 << 16)
def _parse_text(text: str) -> _Polynomial | None:
    if _IDENTIFIER.fullmatch(text):
        return {(text,): 1}
    if len(text) > _MAX_TEXT or not text.isascii():
        return None
    try:
        dim = _evaluate(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NotArithmeticError):
        return None
    if dim != text:
        return None  # a name of the model that only looks like arithmetic
    return _terms(ast.parse(text, mode="eval").body)


class _NotArithmeticError(Exception):
    pass


def _terms(tree: ast.expr) -> _Polynomial:
    """Return the polynomial of a syntax tree that is known to be canonical."""
    match tree:
        case ast.Constant(value=int(value)):
            return {(): value}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {factors: -coefficient for factors, coefficient in _terms(operand).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            sign = 1 if isinstance(operator, ast.Add) else -1
            return _terms(left) | {factors: sign * coefficient for factors, coefficient in _terms(right).items()}
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            ((left_factors, left_coefficient),) = _terms(left).items()
            ((right_factors, right_coefficient),) = _terms(right).items()
            return {tuple(sorted(left_factors + right_factors)): left_coefficient * right_coefficient}
        case _:
            return {(str(_evaluate(tree)),): 1}


def _evaluate(tree: ast.expr) -> Dim:
    """Evaluate the expression with the operations above. Raises _NotArithmeticError if it is something else."""
    result: Dim | None = None
    match tree:
        case ast.Name(id=name):
            result = name
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            result = value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = multiply(_evaluate(operand), -1)
        case ast.BinOp(left=left, op=operator, right=right):
            function = _OPERATORS.get(type(operator))
            result = function(_evaluate(left), _evaluate(right)) if function else None
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[left, right]):
            result = _extreme(name, _evaluate(left), _evaluate(right))
    if result is None:
        raise _NotArithmeticError
    return result


_OPERATORS = {
    ast.Add: add,
    ast.Sub: subtract,
    ast.Mult: multiply,
    ast.FloorDiv: floor_divide,
    ast.Mod: modulo,
}
