"""Compare an export with the ONNX model: ONNX Runtime runs first, at several sizes, and torch then runs on the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from onnxlift.errors import VerifyError
from onnxlift.verification.children.child import ChildError
from onnxlift.verification.compare import describe
from onnxlift.verification.given import Given
from onnxlift.verification.models import ModelVerification, Pair, Run
from onnxlift.verification.values import write_values

Values = dict[str, Any]


class ExportedPair(Pair):
    """An ONNX model and what it is exported to, which has the same inputs and outputs.

    What the two compute of the inputs of number N is in the files `original_N` and `result_N` of the folder."""

    def run_originals(self, given: Given, *, once: bool = False) -> list[Values]:
        """Run the original at sizes that it takes: some that suit it, others if sizes are open, and a batch of one.

        Return the inputs: only the first, if it is to run `once`."""
        sets = [self.find_inputs(given)]
        self._keep(0)
        sizes = given.sizes(self.original)
        if once or not sizes.chosen:
            return sets
        others = self.find_other_inputs(given)
        if others is None:
            self.notes.append("compared at one size only: the original takes none of the others that were tried")
            return sets
        self._keep(1)
        sets.append(others)
        single = {**sizes.chosen, **{name: 1 for name in sizes.chosen if name in sizes.leading}}
        values = given.make(self.original, sizes=single)
        if _shapes(values) not in map(_shapes, sets) and self.takes(given, single):
            self._keep(2)
            sets.append(values)
        return sets

    def takes(self, given: Given, sizes: Mapping[str, int]) -> bool:
        """Tell whether the original runs at these sizes."""
        try:
            values = given.make(self.original, sizes=sizes)
        except VerifyError:
            return False  # too large
        try:
            self.runtime = self.run_original(values)
        except ChildError as error:
            if not error.refused:
                raise
            return False
        return True

    def compare_all(
        self, sets: Sequence[Values], refusals: Sequence[str], original: str, runtime: str
    ) -> ModelVerification:
        """Compare what both have left for each of the inputs; `refusals` say why the export computed nothing."""
        runs = tuple(self._each(sets, refusals))
        notes = (f"the export was run by {runtime}", *self.notes)
        return ModelVerification(original, "the export", self.runtime, runs, (), notes)

    def _each(self, sets: Sequence[Values], refusals: Sequence[str]) -> Iterator[Run]:
        for number, (values, refusal) in enumerate(zip(sets, refusals, strict=True)):
            described = {name: describe(value) for name, value in values.items()}
            if refusal:
                yield Run(described, (), f"the original runs on this, and the export does not: {refusal}")
                continue
            for name in ("original", "result"):
                self._rename(f"{name}_{number}", name)
            write_values(self.job / "inputs", values)
            yield Run(described, self.judged(values))

    def _keep(self, number: int) -> None:
        """Keep what the original has just computed as that of a number."""
        self._rename("original", f"original_{number}")

    def _rename(self, name: str, other: str) -> None:
        for suffix in (".json", ".bin"):
            (self.job / f"{name}{suffix}").replace(self.job / f"{other}{suffix}")


def _shapes(values: Values) -> list[tuple[int, ...]]:
    return [np.shape(value) for value in values.values() if isinstance(value, np.ndarray)]
