"""Compare two ONNX models: run both with ONNX Runtime on the same inputs, at two sizes where sizes are open.

The first is the one that is right. Each runs in a child process with limits, without ONNX Runtime's optimisations, so
that only what the models say is compared. Inputs and outputs are matched by name; if the names differ, by their order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.errors import VerifyError
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.sizes import parse_size

from .byte_products import FACTORS
from .children.child import ChildError, Limits, run_child
from .compare import Comparison, as_carried, describe
from .given import Given, Inputs, read_given
from .judge import Judge, compare_outputs
from .model_file import ModelFile, model_file
from .report import describe_comparison
from .values import read_values, write_values

LARGEST_SECOND = 4096
"""Sizes up to this one are doubled for the second run."""


@dataclass(frozen=True)
class Run:
    """One run of both models: the inputs, and how the outputs compare. `problem` says why there are none."""

    inputs: Mapping[str, str]
    outputs: tuple[Comparison, ...]
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem and all(output.passed for output in self.outputs)


@dataclass(frozen=True)
class ModelVerification:
    """The result of comparing two models. It is true if they match, and readable when printed."""

    original: str
    result: str
    reference: str
    runs: tuple[Run, ...]
    problems: tuple[str, ...] = ()
    """What cannot match, whatever the inputs are: inputs or outputs of another number or type."""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether every output has the right type, shape and numbers, at all sizes that were tried."""
        return not self.problems and bool(self.runs) and all(run.passed for run in self.runs)

    def __bool__(self) -> bool:
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        runs = [
            {
                "passed": run.passed,
                "inputs": dict(run.inputs),
                "outputs": [{**asdict(output), "passed": output.passed} for output in run.outputs],
                "problem": run.problem,
            }
            for run in self.runs
        ]
        return {
            "passed": self.passed,
            "original": self.original,
            "result": self.result,
            "reference": self.reference,
            "runs": runs,
            "problems": list(self.problems),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        verdict = "matches" if self.passed else "does not match"
        lines = [f"{self.result} {verdict} {self.original} ({self.reference})"]
        lines += [f"  FAILED  {problem}" for problem in self.problems]
        for run in self.runs:
            lines += [f"  input   {name}  {kind}" for name, kind in run.inputs.items()]
            lines += [f"  {'ok' if o.passed else 'FAILED':6}  {o.name}  {describe_comparison(o)}" for o in run.outputs]
            lines += [f"  FAILED  {run.problem}"] if run.problem else []
        return "\n".join([*lines, *(f"  note    {note}" for note in self.notes)])

    @property
    def summary(self) -> str:
        """One line for the report of another verb."""
        if self.passed:
            times = "at one size" if len(self.runs) == 1 else f"at {len(self.runs)} sizes"
            return f"matches {times} ({self.reference})"
        wrong = [*self.problems, *(run.problem for run in self.runs if run.problem)]
        wrong += [f"{o.name}: {describe_comparison(o)}" for run in self.runs for o in run.outputs if not o.passed]
        return f"DOES NOT MATCH: {wrong[0] if wrong else 'nothing could be compared'}"


def verify_models(
    original: Any,
    result: Any,
    *,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> ModelVerification:
    """Compare the outputs of `result` with those of `original` on the same inputs, at two sizes if sizes are open.

    Both are a path, bytes, a ModelProto, an onnx_ir.Model or the report of a verb. Inputs that are not given are made
    up from the original. Raises a VerifyError if the original does not run, or a limit is reached."""
    original, result = unwrapped(original), unwrapped(result)
    first, second = load(original), load(result)
    infer(first)
    infer(second)
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        job = Path(folder)
        models = (
            model_file(original, data_files(first), job, "original"),
            model_file(result, data_files(second), job, "result"),
        )
        limits = Limits(timeout, None if memory is None else parse_size(memory))
        pair = Pair(job, first, second, models, limits, Judge(first.graph, rtol, atol))
        return pair.compare(given, title(original, "the original"), title(result, "the result"))


def title(source: Any, otherwise: str) -> str:
    """Return what to call a model in a report: the name of its file, if it has one."""
    return Path(source).name if isinstance(source, str | os.PathLike) else otherwise


class Pair:
    """Two models in the folder `job`, where they find their inputs and leave their outputs."""

    def __init__(
        self,
        job: Path,
        original: ir.Model,
        result: ir.Model,
        files: tuple[ModelFile, ModelFile],
        limits: Limits,
        judge: Judge,
    ) -> None:
        self.job = job
        self.original, self.result = original.graph, result.graph
        self.files = files
        self.limits = limits
        self.judge = judge
        self.runtime = ""
        self.notes: list[str] = []
        self.exact = multiplies_bytes(original)

    def compare(self, given: Given, original: str, result: str) -> ModelVerification:
        problems = list(self.problems())
        runs: list[Run] = []
        if not problems:
            values = self.find_inputs(given)
            runs.append(self._run(values))
            if runs[0].passed and given.sizes(self.original).chosen:
                others = self.find_other_inputs(given)
                if others is None:
                    self.notes.append(
                        "compared at one size only: the original takes none of the others that were tried"
                    )
                else:
                    runs.append(self._run(others))
        return ModelVerification(original, result, self.runtime, tuple(runs), tuple(problems), tuple(self.notes))

    def problems(self) -> Iterator[str]:
        """Yield what cannot match, whatever the inputs are."""
        yield from self._match("input")
        yield from self._match("output")

    def _match(self, kind: str) -> Iterator[str]:
        """Yield what keeps the inputs (or outputs) of the two models from being the same."""
        ours, theirs = _names(self.result, kind), _names(self.original, kind)
        if len(ours) != len(theirs):
            yield f"it has {len(ours)} {kind}s ({', '.join(ours)}), and should have {len(theirs)} ({', '.join(theirs)})"
        elif set(ours) != set(theirs):
            self.notes.append(f"{kind}s are matched by their order: their names differ")

    def _partner(self, kind: str) -> dict[str, str]:
        """Return the name in the result of each input (or output) of the original."""
        ours, theirs = _names(self.result, kind), _names(self.original, kind)
        return {name: name for name in theirs} if set(ours) == set(theirs) else dict(zip(theirs, ours, strict=True))

    def find_inputs(self, given: Given) -> dict[str, Any]:
        """Return inputs that the original takes."""
        return given.taken_by(self.original, self._note_runtime, "the result")

    def find_other_inputs(self, given: Given) -> dict[str, Any] | None:
        """Return inputs of other sizes that the original takes; None if it takes none of those that are tried."""
        sizes = given.sizes(self.original)
        chosen, leading = sizes.chosen, sizes.leading
        batch = {name: size + 1 for name, size in chosen.items() if name in leading}
        rest = {name: size * 2 for name, size in chosen.items() if name not in leading and size <= LARGEST_SECOND}
        for other in ({**batch, **rest}, batch, rest, dict.fromkeys(batch, 1)):
            changed = {**chosen, **other}
            if changed == dict(chosen):
                continue
            try:
                values = given.make(self.original, sizes=changed)
            except VerifyError:
                continue  # too large
            if self._takes(values):
                return values
        return None

    def _takes(self, values: Mapping[str, Any]) -> bool:
        """Run the original on these inputs; tell whether it takes them."""
        try:
            self._note_runtime(values)
        except ChildError as error:
            if not error.refused:
                raise
            return False
        return True

    def _note_runtime(self, values: Mapping[str, Any]) -> None:
        self.runtime = self.run_original(values)

    def run_original(self, values: Mapping[str, Any]) -> str:
        """Run the original on these inputs, keep what it computes, and return the name of the runtime."""
        write_values(self.job / "inputs", values)
        return self._run_model(0, "inputs", "original")

    def own_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of the result, if these are those of the original, which has just run on them."""
        partners = self._partner("input")
        return {partners[name]: value for name, value in values.items()}

    def _run(self, values: Mapping[str, Any]) -> Run:
        """Run the result on inputs on which the original has just run, and compare."""
        described = {name: describe(value) for name, value in values.items()}
        write_values(self.job / "own_inputs", self.own_inputs(values))
        try:
            runtime = self._run_model(1, "own_inputs", "result")
        except ChildError as error:
            if not error.refused and not error.crashed:
                raise
            return Run(described, (), f"the original runs on this, and the result does not: {error}")
        if runtime != self.runtime:
            self.notes.append(f"the result was run by {runtime}")
        return Run(described, self.judged(values))

    def judged(self, values: Mapping[str, Any]) -> tuple[Comparison, ...]:
        """Compare the outputs that both have left for these inputs; if they differ, with regard to the rounding."""
        outputs = self.compared()
        if not all(each.passed for each in outputs) and not self.judge.is_given:
            self.judge.others = self.run_otherwise(values)
            outputs = self.compared()
            self.judge.others = []
        return outputs

    def compared(self) -> tuple[Comparison, ...]:
        """Compare the outputs that both have left."""
        expected, found = read_values(self.job / "original"), read_values(self.job / "result")
        actual = {name: as_carried(found[own]) for name, own in self._partner("output").items()}
        return compare_outputs(self.original, actual, expected, self.judge)

    def run_otherwise(self, values: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return outputs of the original in which only the rounding is another, each with the reason for it."""
        write_values(self.job / "nudged", self.judge.nudged(values))
        ways: dict[str, dict[str, Any]] = {
            "with and without its optimisations": {"optimised": True},
            "if inputs and weights change in their last digit": {"inputs": "nudged", "nudged": True},
        }
        found: list[tuple[str, Mapping[str, Any]]] = []
        for number, (reason, options) in enumerate(ways.items()):
            try:
                self._run_model(0, options.pop("inputs", "inputs"), f"other_{number}", **options)
            except ChildError:
                continue  # it says nothing about the rounding
            found.append((reason, read_values(self.job / f"other_{number}")))
        return found

    def _run_model(self, which: int, inputs: str, results: str, **more: Any) -> str:
        graph, who = ((self.original, "the original"), (self.result, "the result"))[which]
        task = {"inputs": inputs, "results": results, "outputs": _names(graph, "output"), "exact": self.exact, **more}
        return run_file(self.job, self.files[which], task, who, self.limits)


def run_file(job: Path, file: ModelFile, task: Mapping[str, Any], who: str, limits: Limits, runtime: str = "") -> str:
    """Run a model in a child; return the name of the runtime. If ONNX Runtime crashes, onnx's evaluator runs it.

    The task names the files of inputs and results, the outputs, and perhaps values `inside` that are wanted as well.
    `runtime` is "onnxruntime" or "onnx.reference" if it must be this one and no other."""
    task = {"side": "reference", "model": str(file.path), "folder": str(file.folder), "inside": [], **task}
    try:
        answer = run_child(job, {**task, "runtime": runtime}, who, limits)
    except ChildError as error:
        if not error.crashed or runtime:
            raise
        answer = run_child(job, {**task, "runtime": "onnx.reference"}, who, limits)
    return str(answer["runtime"])


def multiplies_bytes(model: ir.Model) -> bool:
    """Tell whether the model has products of bytes, which not every processor computes exactly."""
    return any(node.op_type in FACTORS for region in regions(model) for node in region.graph)


def _names(graph: ir.Graph, kind: str) -> list[str]:
    values = graph.inputs if kind == "input" else graph.outputs
    return [value.name or "" for value in values if kind == "output" or constant(value) is None]
