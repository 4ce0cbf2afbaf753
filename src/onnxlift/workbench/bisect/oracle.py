"""Compare pairs of values: both sides run with these values as outputs, as many at a time as memory allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.verification.children.child import ChildError
from onnxlift.verification.compare import Comparison, Judgement, as_carried, compare, is_float
from onnxlift.verification.judge import Judge, random_values
from onnxlift.verification.refusals import refusal
from onnxlift.verification.trace import Traced

from .pairing import Pair, Pairing
from .runners import Runner

MOST_VALUES = 512
"""The most values that are taken from one run."""
MOST_BYTES = 256 << 20
"""The most memory that the values of one run should take, as far as their sizes are known."""
NOT_COMPUTED = "the second side does not compute it"
UNKNOWN_SIZE = 64
"""What is taken for a size of which nothing is known."""


class Oracle:
    """Knows how the pairs compare that were tested."""

    def __init__(
        self,
        pairing: Pairing,
        runners: tuple[Runner, Runner],
        judge: Judge,
        inputs: tuple[Mapping[str, Any], Mapping[str, Any]],
        tolerances: tuple[float | None, float | None] = (None, None),
    ) -> None:
        self.pairing = pairing
        self.runners = runners
        self.judge = judge
        self.inputs = inputs
        self.tolerances = tolerances
        self.results: dict[Pair, Traced] = {}
        self.hidden: set[Pair] = set()
        """Pairs of which a side does not tell the value."""
        self.runs = 0
        self._random = random_values(pairing.models[0].graph)
        self._sizes = dict(_named_sizes(pairing.models[0].graph, inputs[0]))

    def is_known(self, pair: Pair) -> bool:
        return pair in self.results or pair in self.hidden or pair.a.name in self._random

    def is_same(self, pair: Pair, *, exactly: bool = False) -> bool | None:
        """Tell whether two values agree: within tolerance, or `exactly`. None if it is not known."""
        if pair.a.name in self._random:
            return True
        found = self.results.get(pair)
        return None if found is None else found.is_equal if exactly else found.passed

    def test(self, pairs: Sequence[Pair], *, to_first: bool = False) -> None:
        """Compare pairs; with `to_first`, in the order of the nodes, up to the first that differs.

        If a side fails on them, only those are compared before the first that it cannot compute."""
        wanted = sorted((pair for pair in pairs if not self.is_known(pair)), key=self.pairing.position)
        if not wanted:
            return
        self.runs += 1
        expected = self.fetch(0, [pair.a for pair in wanted])
        try:
            actual = self.fetch(1, [pair.b for pair in wanted])
        except ChildError as error:
            if not error.refused and not error.crashed:
                raise
            if len(wanted) > 1:
                middle = len(wanted) // 2
                self.test(wanted[:middle], to_first=to_first)
                if all(self.is_same(pair) is not False for pair in wanted[:middle]):
                    self.test(wanted[middle:], to_first=to_first)
                return
            reason = f"{NOT_COMPUTED}: {refusal(error)}"
            self._note(wanted[0], [Comparison(wanted[0].a.name or "", "", (), reason)])
            return
        for pair in wanted:
            name_a, name_b = pair.a.name or "", pair.b.name or ""
            if name_a in expected and name_b in actual:
                found = compare_values(self.judge, self.tolerances, name_a, actual[name_b], expected[name_a])
                self._note(pair, found)
            else:
                self.hidden.add(pair)
            if to_first and self.is_same(pair) is False:
                break

    def fetch(self, side: int, values: Sequence[ir.Value]) -> Mapping[str, Any]:
        """Return values of one side by name."""
        return self.runners[side].run(self.inputs[side], [value.name or "" for value in values])

    def portion(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return as many of the pairs as one run may give, spread evenly over the order of the nodes."""
        ordered = sorted(pairs, key=self.pairing.position)
        limits = [most for runner in self.runners if (most := runner.most) is not None]
        sizes = [self._bytes(pair.a) for pair in ordered]
        mean = max(1, sum(sizes) // max(1, len(sizes)))
        most = min(MOST_VALUES, max(1, MOST_BYTES // mean), *limits)
        if len(ordered) <= most:
            return ordered
        return [ordered[(2 * place + 1) * len(ordered) // (2 * most)] for place in range(most)]

    def batches(self, pairs: Sequence[Pair]) -> list[list[Pair]]:
        """Return all pairs in the order of the nodes, in portions that one run may give."""
        found: list[list[Pair]] = [[]]
        room = MOST_BYTES
        for pair in sorted(pairs, key=self.pairing.position):
            room -= self._bytes(pair.a)
            if found[-1] and (room < 0 or len(found[-1]) == MOST_VALUES):
                found.append([])
                room = MOST_BYTES - self._bytes(pair.a)
            found[-1].append(pair)
        return found

    def _note(self, pair: Pair, comparisons: Sequence[Comparison]) -> None:
        node = pair.a.producer()
        name, operator = ("", "input") if node is None else (node.name or "", node.op_type)
        is_match = self.pairing.partner_of(pair.a, 0) is pair.b
        other = "" if is_match else pair.b.name or ""
        self.results[pair] = Traced(pair.a.name or "", name, operator, tuple(comparisons), other)

    def _bytes(self, value: ir.Value) -> int:
        """Return about how large a value is."""
        shape = type_of(value).shape
        known = value.dtype not in (None, ir.DataType.STRING, ir.DataType.UNDEFINED)
        size = value.dtype.itemsize if known and value.dtype is not None else 4.0
        for each in (UNKNOWN_SIZE, UNKNOWN_SIZE) if shape is None else shape:
            size *= each if isinstance(each, int) else self._sizes.get(str(each), UNKNOWN_SIZE)
        return int(size)


def compare_values(
    judge: Judge, tolerances: tuple[float | None, float | None], name: str, actual: Any, expected: Any
) -> list[Comparison]:
    """Compare a value of the second side with that of the first, also if it was converted to another precision."""
    actual = as_carried(actual)
    if not _differ_in_precision(actual, expected):
        return judge.compare(name, actual, expected)
    coarse = max(actual.dtype, expected.dtype, key=_coarseness)
    with np.errstate(over="ignore"):
        carried = actual.astype(expected.dtype)
    return compare(name, carried, expected, Judgement(*tolerances, precision=coarse))


def _named_sizes(graph: ir.Graph, inputs: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the sizes that have names, as the inputs tell them."""
    return [
        (each, size)
        for value in graph.inputs
        if isinstance(inputs.get(value.name or ""), np.ndarray)
        for each, size in zip(type_of(value).shape or (), inputs[value.name or ""].shape, strict=False)
        if isinstance(each, str)
    ]


def _differ_in_precision(actual: Any, expected: Any) -> bool:
    both = isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray)
    return both and actual.dtype != expected.dtype and is_float(actual.dtype) and is_float(expected.dtype)


def _coarseness(dtype: np.dtype[Any]) -> tuple[int, bool]:
    return -dtype.itemsize, dtype.name == "bfloat16"
