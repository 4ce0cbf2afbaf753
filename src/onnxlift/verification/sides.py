"""The two sides of a verification, the lifted model and the ONNX model: each runs in a child process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from onnxlift.errors import VerifyError
from onnxlift.ir.graph.types import TORCH_DTYPE
from onnxlift.lifted import Lifted

from .byte_products import FACTORS
from .children.child import ChildError, Limits, read_answer, run_child
from .given import Given
from .judge import Judge, random_values
from .locate import LineMap, first_divergence, match_lines, probes_of
from .model_file import model_file
from .refusals import blame_inputs
from .report import Gradients, Report
from .trace import Traced
from .values import read_values, write_values


@dataclass(frozen=True)
class Result:
    """The values that both sides computed, by the names of the ONNX values, and the runtime of the ONNX model."""

    actual: Mapping[str, Any]
    expected: Mapping[str, Any]
    runtime: str


class Sides:
    """Both sides of a comparison in the folder `job`, where they find their inputs and leave their outputs."""

    def __init__(
        self,
        job: Path,
        source: Any,
        lifted: Lifted,
        against: str | os.PathLike[str] | None,
        limits: Limits,
        wants_gradients: bool,
    ) -> None:
        self.job = job
        self.wants_gradients = wants_gradients
        self.gradients: Gradients | None = None
        self.lifted = lifted
        self.limits = limits
        self.model = model_file(source, lifted.data_files(), job)
        self.outputs = [value.name or "" for value in lifted.model.graph.outputs]
        self.is_edited = False
        self.exact = False  # True: ONNX Runtime must multiply bytes exactly (see byte_products.py)
        if against is None:
            self.source = lifted.save(job / "lifted_files")[0]
        else:
            self.is_edited = True
            self.source = Path(against).absolute()
            if not self.source.is_file():
                raise VerifyError(f"there is no file {str(against)!r} to verify.")

    def run(self, look_inside: bool) -> Result:
        """Run both sides, and return their outputs.

        With `look_inside`, also return those values inside the model that the lifted source computes too."""
        probes = None
        if look_inside:
            wanted = self.values.keys() - set(self.outputs)
            probes = probes_of(self.lifted.source_map, self.lines, wanted)
        self.run_lifted(probes)
        actual = read_values(self.job / "lifted")
        runtime = self._run_reference([name for name in actual if name not in self.outputs])
        return Result(actual, read_values(self.job / "reference"), runtime)

    def run_lifted(self, probes: Mapping[str, Any] | None) -> None:
        asks = self.wants_gradients and self.gradients is None  # once is enough
        task = self._lifted_task(probes)
        try:
            answer: Mapping[str, Any] = run_child(
                self.job, {**task, "gradients": asks}, "the lifted model", self.limits
            )
        except ChildError as error:
            known = read_answer(self.job)
            if not asks or known is None or "error" in known:
                raise
            # It has given its outputs, so this happened with gradients on.
            kind, text = "error" if error.crashed else "limit", f"with gradients on, {error}"
            answer = {"gradients": {"parameters": 0, "without": {}, kind: text}}
        if asks and "gradients" in answer:
            self.gradients = Gradients(**answer["gradients"])

    def _lifted_task(self, probes: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what the child is told that runs the lifted model."""
        types = {value.name or "": self._changed_type(value) for value in self.lifted.model.graph.inputs}
        task: dict[str, Any] = {"side": "lifted", "source": str(self.source), "outputs": self.outputs, "probes": probes}
        task["types"] = {name: dtype for name, dtype in types.items() if dtype is not None}
        own = self.lifted.precisions[-1] if len(set(self.lifted.precisions)) > 1 else None
        if self.is_edited and own is not None:
            task["dtype"] = TORCH_DTYPE[own]
        return task

    def _changed_type(self, value: ir.Value) -> str | None:
        """Return torch's name for the type of an input, if it is another than in the file; else None."""
        stored = self.lifted.stored_types.get(value.name or "")
        is_same = stored is None or value.dtype is None or stored.dtype == value.dtype
        return None if is_same or value.dtype is None else TORCH_DTYPE[value.dtype]

    def _run_reference(self, inside: Sequence[str], **more: Any) -> str:
        """Run the ONNX model, and return the name of the runtime. If ONNX Runtime crashes, run onnx's evaluator."""
        places = {"model": str(self.model.path), "folder": str(self.model.folder)}
        task = {"side": "reference", **places, "outputs": self.outputs, "inside": list(inside), "exact": self.exact}
        task |= more
        try:
            answer = run_child(self.job, {**task, "runtime": ""}, "ONNX Runtime", self.limits)
            return str(answer["runtime"])
        except ChildError as error:
            if not error.crashed:
                raise
            answer = run_child(self.job, {**task, "runtime": "onnx.reference"}, "onnx.reference", self.limits)
            return f"{answer['runtime']} ({str(error).splitlines()[0].rstrip('.')})"

    def run_otherwise(self, nudged: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return outputs of the ONNX model in which only the rounding is another, each with the reason for it."""
        write_values(self.job / "nudged", nudged)
        ways: dict[str, dict[str, Any]] = {
            "with and without its optimisations": {"optimised": True, "results": "optimised"},
            "if inputs and weights change in their last digit": {
                "inputs": "nudged",
                "nudged": True,
                "results": "of_nudged",
            },
        }
        found: list[tuple[str, Mapping[str, Any]]] = []
        for reason, options in ways.items():
            try:
                self._run_reference((), **options)
            except ChildError:
                continue  # it says nothing about the rounding
            found.append((reason, read_values(self.job / options["results"])))
        return found

    def find_inputs(self, given: Given, values: Mapping[str, Any], error: ChildError) -> dict[str, Any]:
        """Find inputs that ONNX Runtime takes, after a side has failed on `values`, and put them into the folder.

        Raises the error if ONNX Runtime takes them as they are: then the lifted model is at fault. Raises another if it
        takes no others either."""
        refused = self._refusal() if error.refused else None
        if refused is None:
            raise error
        graph = self.lifted.model.graph
        tried = [_shapes(values)]
        for others in given.others(graph, self.lifted.stored_types):
            write_values(self.job / "inputs", others)
            if self._refusal() is None:
                return others
            tried.append(_shapes(others))
        raise blame_inputs(refused, tried, list(values), bool(given.sizes(graph).chosen)) from error

    def _refusal(self) -> ChildError | None:
        """Return the error of ONNX Runtime on the inputs in the folder; None if it takes them, or says nothing."""
        try:
            self._run_reference(())
        except ChildError as refusal:
            return refusal if refusal.refused else None
        return None

    @cached_property
    def lines(self) -> LineMap:
        """Line of the lifted source -> line of the file that is run."""
        return match_lines(self.lifted.source, self.source.read_text(encoding="utf-8"))

    @cached_property
    def values(self) -> dict[str, tuple[str, str]]:
        """Every value that a node of the main graph computes, in order: value -> name and operator of the node."""
        proto = onnx.load(self.model.path, load_external_data=False)
        return {
            value: (node.name or f"{node.op_type}_{index}", node.op_type)
            for index, node in enumerate(proto.graph.node)
            for value in node.output
            if value
        }

    @property
    def multiply_bytes(self) -> bool:
        """Tell whether the model multiplies bytes. ONNX Runtime may do that wrongly (see byte_products.py)."""
        return any(op_type in FACTORS for _, op_type in self.values.values())

    def locate(self, report: Report, result: Result, judge: Judge, *, trace: bool) -> Report:
        """Return the report with the first value that differs, or with a note that all values inside match.

        With `trace`, the report lists all values up to there."""
        random = random_values(self.lifted.model.graph)
        actual, expected = result.actual, result.expected
        ordered = [name for name in self.values if name in actual and name in expected and name not in random]
        rows = [
            Traced(name, *self.values[name], tuple(judge.compare(name, actual[name], expected[name])))
            for name in ordered
        ]
        text = self.source.read_text(encoding="utf-8")
        found = first_divergence(rows, self.lifted.source_map, self.lines, text)
        if trace:
            report = replace(report, trace=tuple(rows if found is None else rows[: found.compared + 1]))
        if found is None:
            inside = len(set(ordered) - set(self.outputs))
            return replace(report, notes=(*report.notes, f"{inside} values inside the model match as well"))
        return replace(report, divergence=found)


def _shapes(values: Mapping[str, Any]) -> str:
    """Write the shapes of inputs in a line: `x (2, 7), mask (2, 7)`."""
    return ", ".join(f"{name} {np.shape(value)}" for name, value in values.items() if isinstance(value, np.ndarray))
