"""Amounts as formulas over named sizes: `768*batch*seq^2 + 64*batch`.

A `Size` is an int, or a `Formula`: a polynomial with integer coefficients. What is no polynomial (`(h + 1)//2`, the
larger of two formulas) is a factor in it. A formula without a symbol is an int, so that numbers stay numbers. `UNKNOWN`
is an amount that depends on a size that nothing tells; whatever is computed from it is unknown as well, but for a
product with zero.

Sizes are at least 1 where two formulas are compared.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from onnxlift.ir.inference import symbolic
from onnxlift.ir.inference.infer import is_invented_size

_Terms = dict[tuple["Factor", ...], int]
MOST_TERMS = 2_000
"""A product with more terms is taken for unknown: no honest model has one."""
MOST_COMPARED = 200
_USUAL_SIZE = 30
"""About as large is a size that is open: terms are compared by it, where only some can be shown."""
_POWERS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


class Formula:
    """A polynomial in named sizes. Its terms are None if it is unknown."""

    __slots__ = ("terms",)

    def __init__(self, terms: _Terms | None) -> None:
        self.terms = terms

    def __add__(self, other: Size) -> Size:
        theirs = _terms(other)
        if self.terms is None or theirs is None:
            return UNKNOWN
        return _size(_sum(self.terms, theirs, 1))

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        theirs = _terms(other)
        if self.terms is None or theirs is None:
            return UNKNOWN
        return _size(_sum(self.terms, theirs, -1))

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            if other == 0 or other == 1:
                return self if other else 0
            return UNKNOWN if self.terms is None else Formula({key: n * other for key, n in self.terms.items()})
        theirs = other.terms
        if self.terms is None or theirs is None or len(self.terms) * len(theirs) > MOST_TERMS:
            return UNKNOWN
        result: _Terms = {}
        for left, a in self.terms.items():
            for right, b in theirs.items():
                key = tuple(sorted(left + right, key=str))
                result[key] = result.get(key, 0) + a * b
        return _size(result)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(None if self.terms is None else frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return f"Formula({self})"

    def __str__(self) -> str:
        return text_of(self)


Size = int | Formula
UNKNOWN = Formula(None)


@dataclass(frozen=True)
class Extreme:
    """The larger or the smaller of several formulas (`max` or `min`), where none is so for all sizes."""

    function: str
    sizes: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(text_of, self.sizes))})"


@dataclass(frozen=True)
class Quotient:
    """A formula divided by a number, rounded up."""

    size: Formula
    divisor: int

    def __str__(self) -> str:
        return f"ceil(({text_of(self.size)})/{self.divisor})"


Factor = str | Extreme | Quotient


def is_known(size: Size) -> bool:
    """Tell whether the amount is a number or a formula."""
    return isinstance(size, int) or size.terms is not None


def size_of(dim: int | str | None) -> Size:
    """Return a dimension of a value as an amount; UNKNOWN for one that only inference has named."""
    if isinstance(dim, int):
        return dim
    return _symbolic(dim) if dim is not None else UNKNOWN


@lru_cache(maxsize=1 << 14)
def _symbolic(dim: str) -> Size:
    terms = None if is_invented_size(dim) else symbolic.terms_of(dim)
    return UNKNOWN if terms is None else _size({tuple(key): number for key, number in terms.items()})


def symbol(name: str) -> Formula:
    """Return the formula that is one name."""
    return Formula({(name,): 1})


def divided(size: Size, divisor: int) -> Size:
    """Return an amount divided by a number, rounded up."""
    if isinstance(size, int):
        return -(-size // divisor)
    if size.terms is None or divisor == 1:
        return size
    if all(number % divisor == 0 for number in size.terms.values()):
        return Formula({key: number // divisor for key, number in size.terms.items()})
    return Formula({(Quotient(size, divisor),): 1})


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of all sizes, 1 if there are none. It is 0 if one of them is, even if others are unknown."""
    every = list(sizes)
    total: Size = 1
    for size in every if 0 not in every else (0,):
        total = total * size
    return total


def is_at_least(a: Size, b: Size) -> bool:
    """Tell whether `a >= b` is seen to hold for all sizes that are 1 or more."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    difference = _terms(a - b)
    if difference is None or len(difference) > MOST_COMPARED:
        return False
    spare = {key: number for key, number in difference.items() if number > 0}
    for key, number in sorted(difference.items(), key=lambda item: -len(item[0])):
        missing = -number
        bounds = Counter(map(_bound, key)) if missing > 0 else Counter[Factor]()
        for larger in sorted(spare, key=len) if missing > 0 else ():
            if _covers(Counter(larger), Counter(key)) or _covers(Counter(larger), bounds):
                used = min(missing, spare[larger])
                spare[larger] -= used
                missing -= used
        if missing > 0:
            return False
    return True


def _covers(larger: Counter[Factor], smaller: Counter[Factor]) -> bool:
    """Tell whether a product is at least as large as another: it has the same factors, and symbols beside them.

    Other factors, such as `h//2`, may be zero."""
    return not smaller - larger and all(isinstance(each, str) and each.isidentifier() for each in larger - smaller)


@lru_cache(maxsize=1 << 10)
def _bound(factor: Factor) -> Factor:
    """Return a symbol that is at least as large as the factor: `h` for `(h + 1)//2` or `min(32, h)`; or the factor."""
    match ast.parse(factor, mode="eval").body if isinstance(factor, str) else None:
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int(divisor))):
            terms = symbolic.terms_of(ast.unparse(left)) or {}
            names = [key for key in terms if key]
            if len(names) == 1 and len(names[0]) == 1 and sum(terms.values()) <= divisor and min(terms.values()) >= 0:
                return names[0][0]
        case ast.Call(func=ast.Name(id="min"), args=[ast.Constant(), ast.Name(id=name)]):
            return name
    return factor


def largest(sizes: Sequence[Size]) -> Size:
    """Return the largest of some amounts: one of them, or `max(...)` of those that may be it."""
    return _extreme("max", sizes, is_at_least)


def smallest(sizes: Sequence[Size]) -> Size:
    """Return the smallest of some amounts: one of them, or `min(...)` of those that may be it."""
    return _extreme("min", sizes, lambda a, b: is_at_least(b, a))


def _extreme(function: str, sizes: Sequence[Size], is_beyond: Callable[[Size, Size], bool]) -> Size:
    if not all(map(is_known, sizes)):
        return UNKNOWN
    kept: list[Size] = []
    for size in sizes:
        if not any(is_beyond(other, size) for other in kept):
            kept = [other for other in kept if not is_beyond(size, other)] + [size]
    return kept[0] if len(kept) == 1 else Formula({(Extreme(function, tuple(kept)),): 1})


def at(size: Size, sizes: Mapping[str, int]) -> Size:
    """Return the amount with numbers in the place of names."""
    if isinstance(size, int) or size.terms is None:
        return size
    total: Size = 0
    for key, number in size.terms.items():
        total = total + product([number, *(_factor_at(factor, sizes) for factor in key)])
    return total


def _factor_at(factor: Factor, sizes: Mapping[str, int]) -> Size:
    if isinstance(factor, Extreme):
        found = [at(size, sizes) for size in factor.sizes]
        return largest(found) if factor.function == "max" else smallest(found)
    if isinstance(factor, Quotient):
        return divided(at(factor.size, sizes), factor.divisor)
    if factor in sizes:
        return sizes[factor]
    number = _evaluated(ast.parse(factor, mode="eval").body, sizes)
    return symbol(factor) if number is None else number


def _evaluated(tree: ast.expr, sizes: Mapping[str, int]) -> int | None:
    """Return the number that a factor such as `(h + 1)//2` has; None if it needs a size that is not given."""
    match tree:
        case ast.Name(id=name):
            return sizes.get(name)
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = _evaluated(operand, sizes)
            return None if found is None else -found
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _evaluated(left, sizes), _evaluated(right, sizes)
            return None if a is None or b is None else _computed(operator, a, b)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            found_all = [_evaluated(argument, sizes) for argument in arguments]
            numbers = [number for number in found_all if number is not None]
            if len(numbers) == len(found_all):
                return max(numbers) if name == "max" else min(numbers)
    return None


def _computed(operator: ast.operator, a: int, b: int) -> int | None:
    match operator:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b
        case ast.Mod():
            return a % b
    return None


def names_in(size: Size) -> set[str]:
    """Return the named sizes that an amount depends on."""
    found: set[str] = set()
    for key in (_terms(size) or {}) if isinstance(size, Formula) else ():
        for factor in key:
            if isinstance(factor, Extreme):
                found = found.union(*map(names_in, factor.sizes))
            elif isinstance(factor, Quotient):
                found |= names_in(factor.size)
            else:
                found |= {each.id for each in ast.walk(ast.parse(factor, mode="eval")) if isinstance(each, ast.Name)}
    return found - {"max", "min"}


class Sum:
    """A sum that grows: many amounts are added faster than one by one."""

    __slots__ = ("is_known", "terms")

    def __init__(self) -> None:
        self.terms: _Terms = {}
        self.is_known = True

    def add(self, size: Size) -> None:
        """Add an amount."""
        if isinstance(size, int):
            self.terms[()] = self.terms.get((), 0) + size
        elif size.terms is None:
            self.is_known = False
        else:
            for key, number in size.terms.items():
                self.terms[key] = self.terms.get(key, 0) + number

    @property
    def size(self) -> Size:
        """The sum of all that was added."""
        return _size(dict(self.terms)) if self.is_known else UNKNOWN


def _terms(size: Size) -> _Terms | None:
    return {(): size} if isinstance(size, int) else size.terms


def _sum(a: _Terms, b: _Terms, sign: int) -> _Terms:
    result = dict(a)
    for key, number in b.items():
        result[key] = result.get(key, 0) + sign * number
    return result


def _size(terms: _Terms) -> Size:
    kept = {key: number for key, number in terms.items() if number}
    if not kept:
        return 0
    return kept[()] if kept.keys() == {()} else Formula(kept)


def text_of(size: Size, *, short: bool = False, longest: int | None = None) -> str:
    """Write an amount: `batch*(24*seq^2 + 64)`; if `short`, with rounded numbers: `batch*(1.2M*seq + 64)`.

    If it would be longer than `longest`, the last terms are left out: `batch*(1.2M*seq + …)`."""
    if isinstance(size, int):
        return short_number(size) if short else str(size)
    if size.terms is None:
        return "?"
    common = reduce(lambda a, b: a & b, (Counter(key) for key in size.terms))
    inner = {tuple((Counter(key) - common).elements()): number for key, number in size.terms.items()}
    if len(inner) == 1:
        ((rest, number),) = inner.items()
        return _product_text(common + Counter(rest), number, short)
    front = _product_text(common, 1, short) if common else ""
    kept = _weightiest(inner, short, None if longest is None else longest - len(front) - 3 * bool(front))
    text = ""
    for key in sorted(kept, key=lambda key: (-len(key), -abs(inner[key]), [str(factor) for factor in key])):
        sign = "-" if inner[key] < 0 else "+"
        term = _product_text(Counter(key), inner[key], short)
        text += (f" {sign} " if text else "-" if sign == "-" else "") + term
    text += " + …" if len(kept) < len(inner) else ""
    return f"{front}*({text})" if front else text


def _weightiest(terms: _Terms, short: bool, room: int | None) -> list[tuple[Factor, ...]]:
    """Return the terms that matter most, as many as fit into so many letters, but at least one."""
    if room is None:
        return list(terms)
    kept: list[tuple[Factor, ...]] = []
    taken = 4  # for the dots
    for key in sorted(terms, key=lambda key: -abs(terms[key]) * _USUAL_SIZE ** len(key)):
        taken += len(_product_text(Counter(key), terms[key], short)) + 3
        if kept and taken - 3 > room:
            break
        kept.append(key)
    return kept


def _product_text(factors: Counter[Factor], number: int, short: bool) -> str:
    parts = []
    for factor in sorted(factors, key=str):
        text = str(factor)
        is_plain = text.isidentifier() or not isinstance(factor, str)
        text = text if is_plain else f"({text})"
        parts.append(text if factors[factor] == 1 else f"{text}^{factors[factor]}")
    if abs(number) != 1 or not parts:
        parts.insert(0, short_number(abs(number)) if short else str(abs(number)))
    return "*".join(parts)


def short_number(number: float) -> str:
    """Write a number with three digits and a letter: 4.09G, 25.6M, 512."""
    for power, letter in _POWERS:
        if abs(number) >= power * 0.9995:
            scaled = number / power
            digits = max(0, 2 - int(math.log10(max(abs(scaled), 1)) + 1e-9))
            return f"{scaled:.{digits}f}{letter}"
    return f"{number:.0f}" if number == int(number) else f"{number:.3g}"
