"""Compare two values: how far are they apart, and is that rounding or a mistake?

A floating-point tensor matches if it has NaN and infinity at the same places as expected, and elsewhere

    |actual - expected| <= rtol * |expected| + atol * magnitude

where `magnitude` is that of the largest expected element: the rounding error of a small element comes from the large
ones that it was computed with. All other values must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

SMALLEST_MAGNITUDE = 0.1
"""The smallest `magnitude`. A tensor of smaller numbers is mostly what is left of sums of larger ones."""


@dataclass(frozen=True)
class Tolerance:
    rtol: float
    atol: float
    """Relative to the magnitude of the tensor, unless `is_absolute`."""
    is_absolute: bool = False


_TOLERANCES = {
    np.dtype(np.float64): Tolerance(1e-6, 1e-9),
    np.dtype(np.float32): Tolerance(1e-3, 1e-5),
    np.dtype(np.float16): Tolerance(2e-2, 2e-3),
    np.dtype(ml_dtypes.bfloat16): Tolerance(5e-2, 1e-2),
    np.dtype(np.complex64): Tolerance(1e-3, 1e-5),
    np.dtype(np.complex128): Tolerance(1e-6, 1e-9),
}
_FLOAT8 = Tolerance(0.15, 0.02)  # sums in another order may round to a neighbouring number

# Type that torch lacks -> the type in which lifted code holds it; see `run.to_torch`.
_CARRIED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(ml_dtypes.int4): np.dtype(np.int8),
    np.dtype(ml_dtypes.int2): np.dtype(np.int8),
    np.dtype(ml_dtypes.uint4): np.dtype(np.uint8),
    np.dtype(ml_dtypes.uint2): np.dtype(np.uint8),
    np.dtype(ml_dtypes.float6_e2m3fn): np.dtype(np.float32),
    np.dtype(ml_dtypes.float6_e3m2fn): np.dtype(np.float32),
    np.dtype(ml_dtypes.float4_e2m1fn): np.dtype(np.float32),
}


@dataclass(frozen=True)
class Comparison:
    """The result of comparing one tensor. `problem` says what is wrong, and is empty if the tensor matches."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    problem: str = ""
    max_abs: float | None = None
    max_rel: float | None = None
    cosine: float | None = None
    note: str = ""
    wrong: int = 0
    """The number of elements that are not as they should be."""
    odd: int = 0
    """The number of those that are NaN or infinite on one side only."""

    @property
    def passed(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class Judgement:
    """What a difference is judged by.

    `rtol` and `atol` replace the tolerance of the type; such an `atol` is absolute, not relative to the magnitude.
    `precision` is the type of half precision in which the value is computed, if there is one. `others` are results of
    the reference that differ from the expected one by rounding alone, each with the reason."""

    rtol: float | None = None
    atol: float | None = None
    precision: np.dtype[Any] | None = None
    others: tuple[tuple[str, Any], ...] = ()

    @property
    def is_given(self) -> bool:
        """Tell whether the user says how far off a value may be."""
        return self.rtol is not None or self.atol is not None

    def tolerance(self, dtype: np.dtype[Any]) -> Tolerance:
        """Return the tolerance for elements of a type."""
        usual = _TOLERANCES.get(dtype, _FLOAT8 if _carried(dtype) == dtype else Tolerance(0, 0))
        if not self.is_given:
            return usual
        rtol, atol = (usual.rtol if self.rtol is None else self.rtol), (usual.atol if self.atol is None else self.atol)
        return Tolerance(rtol, atol, self.atol is not None)

    def part(self, key: Any) -> Judgement:
        """Return the same for an element of a sequence or an entry of a map."""
        return replace(self, others=tuple((reason, other[key]) for reason, other in self.others))


def compare(name: str, actual: Any, expected: Any, by: Judgement | None = None) -> list[Comparison]:
    """Compare a value; return one comparison for a tensor, and one for each element of a sequence or entry of a map."""
    return list(_compare(name, actual, expected, by or Judgement()))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether numbers of the type are rounded: floating point (also of ml_dtypes) and complex numbers."""
    return dtype in _TOLERANCES or dtype.name.startswith("float")


def _compare(name: str, actual: Any, expected: Any, by: Judgement) -> Iterator[Comparison]:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and expected.keys() == actual.keys():
        for key, value in expected.items():
            yield from _compare(f"{name}[{key!r}]", actual[key], value, by.part(key))
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, value in enumerate(expected):
            yield from _compare(f"{name}[{index}]", actual[index], value, by.part(index))
        if not expected:
            yield Comparison(name, "sequence", (0,))
    elif expected is None and actual is None:
        yield Comparison(name, "optional", ())
    elif any(value is None or isinstance(value, list | Mapping) for value in (actual, expected)):
        yield Comparison(name, _kind(actual), (), f"is {_kind(actual)}, and should be {_kind(expected)}")
    else:
        yield compare_arrays(name, np.asarray(actual), np.asarray(expected), by)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list | Mapping):
        word = "sequence" if isinstance(value, list) else "map"
        return f"a {word} of {len(value)}"
    return "a tensor"


def compare_arrays(name: str, actual: Array, expected: Array, by: Judgement | None = None) -> Comparison:
    """Compare two tensors with the tolerance of their type.

    A difference beyond it is called rounding, and no mismatch, in two cases: the value is computed in half precision,
    and the difference is within the tolerance of that; or the reference differs from itself by half as much or more,
    where only the rounding is another."""
    by = by or Judgement()
    dtype, shape = actual.dtype.name, actual.shape
    wanted = _carried(expected.dtype)
    if _is_text(actual) and _is_text(expected):
        dtype, wanted = "string", actual.dtype
    if actual.dtype != wanted:
        return Comparison(name, dtype, shape, f"is {dtype}, and should be {wanted.name}")
    if shape != expected.shape:
        return Comparison(name, dtype, shape, f"has shape {shape}, and should have {expected.shape}")
    if not is_float(wanted):
        found = _compare_exactly(name, dtype, actual, expected)
        return found if found.passed or by.is_given else _name_rounding(found, expected, by)
    found = _compare_floats(name, dtype, actual, expected, by.tolerance(expected.dtype))
    if found.passed or by.is_given:
        return found
    if by.precision is not None and by.precision != expected.dtype:
        coarse = _compare_floats(name, dtype, actual, expected, by.tolerance(by.precision))
        if coarse.passed:
            return replace(coarse, note=f"rounding: the model computes in {by.precision.name}")
    return _name_rounding(found, expected, by)


def _name_rounding(found: Comparison, expected: Array, by: Judgement) -> Comparison:
    """Return the comparison as passed, with a note, if the reference differs from itself by half as much or more."""
    for reason, other in by.others:
        if not isinstance(other, np.ndarray) or other.dtype != expected.dtype or other.shape != expected.shape:
            continue
        again = compare_arrays(found.name, other, expected)
        if found.odd or again.odd:
            continue
        if is_float(expected.dtype):
            ours, theirs, how = found.max_abs, again.max_abs, "by up to {:.3g}"
        else:
            ours, theirs, how = found.wrong, again.wrong, "in {:,} elements"
        if ours is not None and theirs is not None and ours <= 2 * theirs:
            note = f"rounding: the reference differs from itself {how.format(theirs)} {reason}"
            return replace(found, problem="", note=note)
    return found


def as_carried(value: Any) -> Any:
    """Return a value of a runtime in the types in which lifted code holds it: int4 in int8, and so on."""
    if isinstance(value, list):
        return [as_carried(item) for item in value]
    is_narrow = isinstance(value, np.ndarray) and value.dtype in _CARRIED
    return value.astype(_CARRIED[value.dtype]) if is_narrow else value


def _carried(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return _CARRIED.get(dtype, dtype)


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "OUST"


def _compare_exactly(name: str, dtype: str, actual: Array, expected: Array) -> Comparison:
    if _is_text(expected):
        different = int(sum(a != e for a, e in zip(actual.flat, expected.flat, strict=True)))
    else:
        different = int(np.count_nonzero(actual != expected))
    problem = f"{different:,} of {expected.size:,} elements differ" if different else ""
    distance = None
    if expected.dtype.kind in "iu" and expected.size:
        distance = float(np.max(np.abs(actual.astype(np.float64) - expected.astype(np.float64))))
    return Comparison(name, dtype, actual.shape, problem, max_abs=distance, wrong=different)


def _compare_floats(name: str, dtype: str, actual: Array, expected: Array, tolerance: Tolerance) -> Comparison:
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, e = actual.astype(wide).reshape(-1), expected.astype(wide).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(e)
    # Elements that are not finite on one of the sides: NaN must meet NaN, and infinity the same infinity.
    odd = ~finite & ~((np.isnan(a) & np.isnan(e)) | (a == e))
    a, e = a[finite], e[finite]
    distance, size = np.abs(a - e), np.abs(e)
    magnitude = 1.0 if tolerance.is_absolute else max(float(size.max(initial=0)), SMALLEST_MAGNITUDE)
    beyond = distance > tolerance.rtol * size + tolerance.atol * magnitude
    problems = []
    if odd.any():
        problems.append(f"{int(odd.sum()):,} of {expected.size:,} elements are NaN or infinite on one side only")
    if beyond.any():
        problems.append(f"{int(beyond.sum()):,} of {expected.size:,} elements are too far off")
    nonzero = size > 0
    return Comparison(
        name,
        dtype,
        actual.shape,
        ", ".join(problems),
        max_abs=float(distance.max()) if distance.size else None,
        max_rel=float((distance[nonzero] / size[nonzero]).max()) if nonzero.any() else None,
        cosine=_cosine(a, e),
        wrong=int(odd.sum()) + int(beyond.sum()),
        odd=int(odd.sum()),
    )


def _cosine(a: Array, e: Array) -> float | None:
    lengths = float(np.linalg.norm(a)) * float(np.linalg.norm(e))
    if not 0 < lengths < np.inf:
        return None
    return float(np.clip(np.vdot(a, e).real / lengths, -1, 1))


def describe(value: Any) -> str:
    """Describe a value in a few words: `float32 (2, 3)`."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"sequence of {len(value)}: {describe(value[0])}" if value else "empty sequence"
    if isinstance(value, Mapping):
        return f"map of {len(value)}"
    name = "string" if value.dtype.kind in "OUST" else value.dtype.name
    return f"{name} {tuple(value.shape)}"
