"""One bisection: find inputs on which the outputs differ, search for the place, prove it, and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.api import lift
from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.load import load
from onnxlift.ir.reading.weights import data_files
from onnxlift.verification.children.child import ChildError, Limits
from onnxlift.verification.compare import describe
from onnxlift.verification.given import Given
from onnxlift.verification.judge import Judge
from onnxlift.verification.model_file import ModelFile, model_file
from onnxlift.verification.models import Pair as ModelPair
from onnxlift.verification.models import multiplies_bytes
from onnxlift.verification.sides import Sides
from onnxlift.verification.trace import Traced
from onnxlift.workbench.diff.comparing import Comparer

from .describing import Describer
from .oracle import NOT_COMPUTED, Oracle, compare_values
from .pairing import Pair, Pairing
from .proving import Prover
from .report import BisectReport, Culprit
from .runners import LiftedRunner, OnnxRunner, Runner
from .search import Place, Search

SEEDS = 3
"""So many inputs are made up before the outputs are taken for equal."""
MOST_OUTPUTS = 8
"""Of so many outputs that differ it is found out where that begins."""


@dataclass(frozen=True)
class Settings:
    """What the user asks for, beside the models and the inputs."""

    runtimes: tuple[str, str]
    against: str | os.PathLike[str] | None
    rtol: float | None
    atol: float | None
    limits: Limits
    trace: bool = False
    on_round: Callable[[], None] = lambda: None

    def inside(self, *, exactly: bool) -> Settings:
        """Return the same for a graph inside the one that was looked at; with `exactly`, every difference counts."""
        found = replace(self, trace=False, against=None)
        return replace(found, rtol=0.0, atol=0.0) if exactly else found


class Bisection:
    """Two sides in the folder `job`: two models, or one model and two ways to run it."""

    def __init__(
        self, job: Path, sources: Sequence[Any], pairing: Pairing, comparer: Comparer | None, settings: Settings
    ) -> None:
        self.job = job
        self.sources = sources
        self.pairing = pairing
        self.settings = settings
        self.describer = Describer(pairing, comparer)
        self.are_two = len(sources) == 2
        models = pairing.models
        self.files = [
            model_file(source, data_files(model), job, f"model_{place}")
            for place, (source, model) in enumerate(zip(sources, models, strict=False))
        ]
        self.exact = any(multiplies_bytes(model) for model in models)
        self.judge = Judge(models[0].graph, settings.rtol, settings.atol)
        self.runners = self._runner(0), self._runner(1)
        files = self.files[0], self.files[-1]
        self.models = ModelPair(job, models[0], models[1], files, settings.limits, self.judge)
        self.notes: list[str] = []
        self.last: Traced | None = None
        """The first value beyond the tolerance: the last one of the trace."""

    def _runner(self, side: int) -> Runner:
        place = side if self.are_two else 0
        runtime, limits = self.settings.runtimes[side], self.settings.limits
        who = ("the first model", "the second model")[side] if self.are_two else "the model"
        if runtime != "lifted":
            model, file = self.pairing.models[place], self.files[place]
            return OnnxRunner(self.job, f"side_{side}", model, file, limits, runtime, exact=self.exact, who=who)
        return LiftedRunner(
            Sides(self.job, self.sources[0], lift(self.sources[0]), self.settings.against, limits, False)
        )

    def run(self, given: Given, name_a: str, name_b: str) -> BisectReport:
        """Return where the two sides first differ."""
        self._check()
        seeds: list[int] = []
        oracle: Oracle | None = None
        for seed, values in self._attempts(given):
            seeds += [seed] if seed not in seeds else []
            oracle = Oracle(self.pairing, self.runners, self.judge, (values, self._own_inputs(values)), self._given)
            oracle.test(self.pairing.outputs)
            if any(oracle.is_same(pair) is False for pair in self.pairing.outputs):
                break
        if oracle is None:
            raise OnnxLiftError("the models have nothing that could be compared.")
        report = BisectReport(
            name_a,
            name_b,
            runtimes=(self.runners[0].title, self.runners[1].title),
            inputs={name: describe(value) for name, value in oracle.inputs[0].items()},
            seeds=tuple(seeds),
            outputs=tuple(oracle.results[pair] for pair in self.pairing.outputs if pair in oracle.results),
        )
        failed = next((row.problem for row in report.outputs if row.problem.startswith(NOT_COMPUTED)), None)
        self.notes += [f"the second side does not run{failed.removeprefix(NOT_COMPUTED)}"] if failed else []
        for row in report.outputs:
            if any(each.max_abs is None and np.prod(each.shape) and _is_float(each.dtype) for each in row.comparisons):
                self.notes.append(f"output {quote(row.value)} has no finite number to compare: give other inputs")
        report = self._blame(report, oracle)
        return replace(
            report,
            runtimes=(self.runners[0].title, self.runners[1].title),
            trace=tuple(self._rows(report, oracle)),
            compared=len(oracle.results),
            runs=oracle.runs,
            notes=tuple(self.notes),
        )

    def _rows(self, report: BisectReport, oracle: Oracle) -> Iterator[Traced]:
        """Yield the values that were compared, in the order of the nodes, up to the first beyond the tolerance.

        Those before it that differ are left out: what is computed from them agrees again."""
        for pair in sorted(oracle.results, key=self.pairing.position):
            row = oracle.results[pair]
            is_last = row is self.last
            if row.passed or is_last or report.culprit is None:
                yield row
            if is_last:
                return

    @property
    def _given(self) -> tuple[float | None, float | None]:
        return self.settings.rtol, self.settings.atol

    def _check(self) -> None:
        """Refuse models that cannot be run on the same inputs."""
        problems = [problem for problem in self.models.problems() if "inputs" in problem] if self.are_two else []
        if problems:
            raise OnnxLiftError(f"the second model cannot be run on the inputs of the first: {problems[0]}.")
        outputs = [len(model.graph.outputs) for model in self.pairing.models]
        if outputs[0] != outputs[1]:
            self.notes.append(f"the models have {outputs[0]} and {outputs[1]} outputs: those that match are compared")

    def _attempts(self, given: Given) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield inputs that the first side takes: of several seeds, and of a second size where sizes are open."""
        first = self.models.find_inputs(given)
        yield given.seed, first
        sizes = {name: value.shape for name, value in first.items() if isinstance(value, np.ndarray)}
        graph = self.pairing.models[0].graph
        for seed in range(given.seed + 1, given.seed + SEEDS):
            other = replace(given, seed=seed, shapes={**sizes, **(given.shapes or {})})
            values = other.make(graph)
            if _are_equal(values, first):
                break  # all inputs are given
            yield seed, values
        if given.sizes(graph).chosen:
            others = self.models.find_other_inputs(given)
            if others is not None:
                yield given.seed, others

    def _own_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of the second side."""
        names = {pair.a.name: pair.b.name or "" for pair in self.pairing.inputs}
        return {names.get(name, name): value for name, value in values.items()}

    def _blame(self, report: BisectReport, oracle: Oracle) -> BisectReport:
        wrong = [pair for pair in self.pairing.outputs if oracle.is_same(pair) is False]
        if self.settings.trace:
            self._trace(oracle)
        if not wrong:
            return report
        search = Search(oracle, on_round=self.settings.on_round)
        places: dict[Pair, Place] = {}
        for pair in wrong[:MOST_OUTPUTS]:
            found = search.locate(pair)
            places.setdefault(found.pair, found)
        first, *others = sorted(places.values(), key=lambda place: self.pairing.position(place.pair))
        self.last = oracle.results[first.pair]
        prover = Prover(self, oracle)
        proof = prover.prove(first)
        note = ""
        if proof is None and not others:
            if self._is_rounding(oracle, wrong):
                rows = tuple(oracle.results[pair] for pair in self.pairing.outputs if pair in oracle.results)
                return replace(report, outputs=rows)
            first, proof, note = prover.trace_back(first)
        culprit = self._with_source(self.describer.culprit(first, oracle, note))
        return replace(
            report,
            culprit=culprit,
            others=tuple(self.describer.culprit(place, oracle) for place in others),
            reproducer=proof,
        )

    def _trace(self, oracle: Oracle) -> None:
        """Compare all values in the order of the nodes, up to the first that differs."""
        found: dict[Pair, None] = {}
        waiting = list(self.pairing.outputs)
        while waiting:
            pair = waiting.pop()
            if pair not in found:
                found[pair] = None
                waiting += self.pairing.step(pair).sources
        for batch in oracle.batches(list(found)):
            oracle.test(batch, to_first=True)
            if any(oracle.is_same(pair) is False for pair in batch):
                return

    def _is_rounding(self, oracle: Oracle, wrong: Sequence[Pair]) -> bool:
        """Tell whether the first model differs from itself as much, where only the rounding is another."""
        if self.judge.is_given:
            return False
        self.models.run_original(oracle.inputs[0])
        self.judge.others = self.models.run_otherwise(oracle.inputs[0])
        for pair in wrong:
            del oracle.results[pair]
        oracle.test(wrong)
        self.judge.others = []
        return all(oracle.is_same(pair) for pair in wrong)

    def _with_source(self, culprit: Culprit) -> Culprit:
        runner = self.runners[1]
        if not isinstance(runner, LiftedRunner):
            return culprit
        line, text = runner.statement(culprit.value.value)
        return replace(culprit, line=line, source=text)

    def runs_parts(self, side: int) -> bool:
        """Tell whether this side can run a part of the model by itself."""
        return self.settings.runtimes[side] != "lifted" or self.settings.against is None

    def run_part(self, side: int, model: ir.Model, data: bytes, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a part of the model, which is `data` as a file, and return its outputs."""
        names = [value.name or "" for value in model.graph.outputs]
        return self._part_runner(side, model, data).run(inputs, names)

    def _part_runner(self, side: int, model: ir.Model, data: bytes) -> Runner:
        runtime, limits = self.settings.runtimes[side], self.settings.limits
        if runtime == "lifted":
            inner = self.job / "lifted_part"
            inner.mkdir(exist_ok=True)
            return LiftedRunner(Sides(inner, data, lift(data), None, limits, False))
        path = self.job / f"part_{side}.onnx"
        path.write_bytes(data)
        file = ModelFile(path, self.job)
        return OnnxRunner(self.job, f"part_{side}", model, file, limits, runtime, exact=self.exact, who="the part")

    def agree(self, parts: Sequence[tuple[bytes, Mapping[str, Any]]], exactly: bool) -> bool:
        """Run a part of each side on its inputs; tell whether all outputs agree, one after the other."""
        (data_a, inputs_a), (data_b, inputs_b) = parts
        model_a, model_b = load(data_a), load(data_b)
        expected = self.run_part(0, model_a, data_a, inputs_a)
        try:
            actual = self.run_part(1, model_b, data_b, inputs_b)
        except ChildError as error:
            if not error.refused and not error.crashed:
                raise
            return False
        judge = Judge(model_a.graph, self.settings.rtol, self.settings.atol)
        for value_a, value_b in zip(model_a.graph.outputs, model_b.graph.outputs, strict=False):
            name = value_a.name or ""
            found = compare_values(judge, self._given, name, actual[value_b.name or ""], expected[name])
            row = Traced(name, "", "", tuple(found))
            if not (row.is_equal if exactly else row.passed):
                return False
        return True


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _are_equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return all(np.array_equal(np.asarray(value), np.asarray(b[name])) for name, value in a.items())
