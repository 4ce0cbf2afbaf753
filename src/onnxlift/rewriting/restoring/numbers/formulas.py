"""Formulas that people apply to each number of a parameter before they use it: `1 - mix`, `-log_scale.exp()`, `w /
8`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, product, starmap

import numpy as np

from onnxlift.ir.editing.edit import Array

MOST_ROWS = 8  # rows of the same direction that are tried
_LAST_BITS = 4
_CLOSE = 1e-5

_ONE = np.float32(1)


@dataclass(frozen=True)
class Formula:
    """A formula of one number.

    `operators` are its ONNX operators in order. `compute` gives its results. `number` is the constant operand of the
    operators that take two.
    """

    operators: tuple[str, ...]
    compute: Callable[[Array], Array]
    is_exact: bool = True
    about_one: bool = False  # whether its error is that of numbers about one, however small the result is
    number: np.float32 = _ONE

    def gives(self, numbers: Array, expected: Array) -> Array:
        """Tell for each expected number whether the formula computes it from the number at the same place. The
        comparison is bit by bit, or up to the last bits where libraries differ in them."""
        with np.errstate(all="ignore"):
            result = self.compute(numbers)
            if self.is_exact:
                return np.equal(result, expected)
            size = np.ones_like(result) if self.about_one else np.abs(result)
            is_near: Array = np.abs(result - expected) <= _LAST_BITS * np.spacing(size)
            return is_near


def _exponential(array: Array) -> Array:
    return np.exp(array.astype(np.float64)).astype(np.float32)


def _sigmoid(array: Array) -> Array:
    return (1 / (1 + np.exp(-array.astype(np.float64)))).astype(np.float32)


AS_IT_IS = Formula((), lambda array: array)

FORMULAS = (
    Formula(("Sub",), lambda array: _ONE - array),
    Formula(("Add",), lambda array: _ONE + array),
    Formula(("Neg",), np.negative),
    Formula(("Exp",), _exponential, is_exact=False),
    Formula(("Exp", "Neg"), lambda array: -_exponential(array), is_exact=False),
    Formula(("Sigmoid",), _sigmoid, is_exact=False),
    Formula(("Sigmoid", "Sub"), lambda array: _ONE - _sigmoid(array), is_exact=False, about_one=True),
)

OF_TWO = frozenset({"Sub", "Add", "Mul", "Div"})  # operators with a second operand, the number


def scaled(numbers: Array, result: Array) -> Iterator[Formula]:
    """Yield products and quotients with a number that could give `result`: all of `numbers` in some order, or some rows
    or columns. The shortest number comes first, as an author would have written it."""
    if numbers.size == result.size:
        factors = _factors_of_all(numbers, result)
    elif numbers.ndim == result.ndim == 2:
        pairs = product((numbers, numbers.T), (result, result.T))
        factors = chain.from_iterable(starmap(_factors_of_rows, pairs))
    else:
        factors = iter(())
    for factor in factors:
        products = [Formula(("Mul",), partial(np.multiply, c), number=c) for c in _around(factor)]
        quotients = [Formula(("Div",), partial(_divided, c), number=c) for c in _around(1 / factor)]
        yield from sorted((*products, *quotients), key=lambda formula: len(str(formula.number)))


def _factors_of_all(numbers: Array, result: Array) -> Iterator[float]:
    """Yield the possible factors if `result` has all numbers: the largest numbers of both tell them, wherever they
    are."""
    sizes = [np.abs(array) for array in (numbers, result)]
    largest, total = ([float(of(array)) for array in sizes] for of in (np.max, partial(np.sum, dtype=np.float64)))
    if numbers.size < 2 or not all(0 < size < np.inf for size in (*largest, *total)):
        return
    factor = largest[1] / largest[0]
    if abs(factor * total[0] - total[1]) <= _CLOSE * total[1]:
        yield factor
        yield -factor


def _factors_of_rows(numbers: Array, result: Array) -> Iterator[float]:
    """Yield the possible factors if `result` has some rows: a row with the direction of its first row tells them."""
    if numbers.shape[1] != result.shape[1] or numbers.shape[1] < 2:
        return
    (a, b), (c, d) = numbers[:, :2].T.astype(np.float64), result[0, :2].astype(np.float64)
    for row in np.flatnonzero(np.abs(a * d - b * c) <= _CLOSE * np.abs(a * d))[:MOST_ROWS]:
        place = np.abs(numbers[row]).argmax()
        factor = float(result[0, place]) / (float(numbers[row, place]) or np.inf)
        if 0 < abs(factor) < np.inf:
            yield factor


def _divided(number: np.float32, array: Array) -> Array:
    return array / number


def _around(number: float) -> list[np.float32]:
    if not np.finfo(np.float32).tiny < abs(number) < np.finfo(np.float32).max:
        return []
    nearest = np.float32(number)
    return [nearest, np.nextafter(nearest, np.float32(np.inf)), np.nextafter(nearest, np.float32(-np.inf))]
