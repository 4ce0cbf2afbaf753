"""Prove that a place is to blame: cut out of both models and run on the same inputs, it still differs.

If it does not, it only enlarges a difference that was there before, too small to count. Then the place is enlarged up
to a few nodes. If that does not help, the difference grows slowly, and begins where values are first not equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxlift.errors import quote
from onnxlift.verification.children.child import ChildError
from onnxlift.verification.compare import Comparison, Judgement, Tolerance
from onnxlift.verification.judge import Judge
from onnxlift.verification.refusals import refusal
from onnxlift.verification.trace import Traced

from .oracle import NOT_COMPUTED, Oracle, compare_values
from .pairing import Pairing
from .parts import Part, cut_part
from .reproducer import Reproducer, can_be_stored, keys_of
from .search import MOST_NODES, Place, Search

if TYPE_CHECKING:
    from .bisection import Bisection

MOST_TRIES = 4
EXACTLY = Tolerance(0.0, 0.0)


class Prover:
    """Proves places of one bisection, and makes the reproducer."""

    def __init__(self, bisection: Bisection, oracle: Oracle) -> None:
        self.bisection = bisection
        self.oracle = oracle
        self.pairing: Pairing = bisection.pairing

    def prove(self, place: Place, *, exactly: bool = False) -> Reproducer | None:
        """Return a reproducer of the difference at a place, or of a slightly larger one; None if there is none.

        With `exactly`, any difference counts."""
        for tries, candidate in enumerate(self._grown(place)):
            if tries == MOST_TRIES:
                break
            found = self._try(candidate, exactly)
            if found is not None:
                return found
        return None

    def trace_back(self, place: Place) -> tuple[Place, Reproducer | None, str]:
        """Return the place where a difference begins that grows slowly, with its reproducer and a note."""
        late = f"the difference grows slowly, and exceeds the tolerance at {quote(place.pair.a.name or '')}"
        if self.bisection.are_two:
            exact = Search(self.oracle, exactly=True)
            origin = exact.locate(place.pair)
            if self.bisection.describer.is_changed(origin):
                return origin, self.prove(origin, exactly=True), late
        note = (
            "the difference grows slowly over many nodes, as rounding does: this is where it exceeds the tolerance, "
            "and no single node is to blame"
        )
        return place, None, note

    def _grown(self, place: Place) -> Iterator[Place]:
        """Yield the place, then larger ones around it: with the nodes before it whose values are not quite equal."""
        while place.size <= MOST_NODES or not place.sources:
            yield place
            unequal = [pair for pair in place.sources if self.oracle.is_same(pair, exactly=True) is not True]
            if not unequal:
                return
            source = max(unequal, key=self.pairing.position)
            step = self.pairing.step(source)
            rest = [pair for pair in place.sources if pair != source]
            nodes = tuple(tuple(dict.fromkeys([*place.nodes[side], *step.nodes[side]])) for side in (0, 1))
            place = Place(place.pair, (nodes[0], nodes[1]), tuple(dict.fromkeys([*rest, *step.sources])))

    def _try(self, place: Place, exactly: bool) -> Reproducer | None:
        """Cut the place out of both models, and run both parts on the values of the first model."""
        bisection = self.bisection
        sources = [*place.sources, *self.pairing.inputs]
        values = dict(self.oracle.fetch(0, [pair.a for pair in sources]))
        if not all(can_be_stored(value) for value in values.values()):
            note = "no reproducer is made: a value that it reads is of a type that numpy cannot store"
            bisection.notes += [note] if note not in bisection.notes else []
            return None
        keys = keys_of(values)
        parts = [
            cut_part(
                bisection.sources[side if bisection.are_two else 0],
                {pair[side].name or "": pair.a.name or "" for pair in reversed(sources)},
                place.pair[side].name or "",
                values,
            )
            for side in (0, 1)
        ]
        data = [part.to_bytes() for part in parts]
        outcome = self._run(place, parts, data, values)
        if outcome.row.is_equal if exactly else outcome.row.passed:
            return None
        node = next((each for each in bisection.describer.blamed(place) if each is not None), None)
        used = {of_first for part in parts for of_first in part.inputs.values()}
        return Reproducer(
            model=data[0],
            other=data[1] if bisection.are_two else None,
            inputs={keys[name]: np.array(value) for name, value in values.items() if name in used},
            feeds=(_feeds(parts[0], keys), _feeds(parts[1], keys)),
            runtimes=bisection.settings.runtimes,
            node="" if node is None else f"{node.op_type} {node.name}",
            nodes=max(part.nodes for part in parts),
            tolerance=EXACTLY if exactly else outcome.tolerance,
            found=outcome.found,
        )

    def _run(self, place: Place, parts: list[Part], data: list[bytes], values: Mapping[str, Any]) -> _Outcome:
        """Run both parts on the same values, and compare."""
        bisection = self.bisection
        expected = self._run_part(0, parts[0], data[0], values)
        judgement = Judgement(bisection.settings.rtol, bisection.settings.atol)
        tolerance = judgement.tolerance(expected.dtype) if isinstance(expected, np.ndarray) else EXACTLY
        name, found = parts[0].output, None
        try:
            if not bisection.runs_parts(1):
                actual = found = np.array(self.oracle.fetch(1, [place.pair.b])[place.pair.b.name or ""])
            else:
                actual = self._run_part(1, parts[1], data[1], values)
        except ChildError as error:
            if not error.refused and not error.crashed:
                raise
            failed = Comparison(name, "", (), f"{NOT_COMPUTED}: {refusal(error)}")
            return _Outcome(Traced(name, "", "", (failed,)), tolerance, None)
        judge = Judge(parts[0].model.graph, bisection.settings.rtol, bisection.settings.atol)
        comparisons = compare_values(judge, (judgement.rtol, judgement.atol), name, actual, expected)
        return _Outcome(Traced(name, "", "", tuple(comparisons)), tolerance, found)

    def _run_part(self, side: int, part: Part, data: bytes, values: Mapping[str, Any]) -> Any:
        given = {name: np.asarray(values[of_first]) for name, of_first in part.inputs.items()}
        return self.bisection.run_part(side, part.model, data, given)[part.output]


@dataclass(frozen=True)
class _Outcome:
    """How two parts compare, by what tolerance, and what the second side gave if its part cannot be run again."""

    row: Traced
    tolerance: Tolerance
    found: Any


def _feeds(part: Part, keys: Mapping[str, str]) -> dict[str, str]:
    return {name: keys[of_first] for name, of_first in part.inputs.items()}
