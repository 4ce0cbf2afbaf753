"""Ways to run a model for some of its values: ONNX Runtime, onnx's reference evaluator, the lifted source.

Each run is in a child process with limits. It leaves the values in a file, from which they are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.verification.children.child import Limits
from onnxlift.verification.locate import probes_of
from onnxlift.verification.model_file import ModelFile
from onnxlift.verification.models import run_file
from onnxlift.verification.sides import Sides
from onnxlift.verification.values import read_values, write_values

RUNTIMES = {
    "ort": "ONNX Runtime",
    "ort-plain": "ONNX Runtime without optimisations",
    "reference": "onnx.reference",
    "lifted": "the lifted module",
}
"""The runtimes that can be compared, with what they are called in a report."""


def parse_runtimes(text: str | Sequence[str]) -> tuple[str, str]:
    """Return the two runtimes that a text like `ort,reference` names."""
    names = [part.strip() for part in text.split(",")] if isinstance(text, str) else list(text)
    for name in names:
        if name not in RUNTIMES:
            raise OnnxLiftError(f"there is no runtime {quote(name)}: it is one of {', '.join(RUNTIMES)}.")
    if len(names) != 2 or names[0] == names[1]:
        raise OnnxLiftError("name two runtimes to compare, with a comma between them: ort,reference.")
    if names[0] == "lifted":
        raise OnnxLiftError(f"the lifted module is compared with a runtime of ONNX: write {names[1]},lifted.")
    return names[0], names[1]


class Runner(Protocol):
    """A way to run a model.

    `most` is how many values may be taken from one run; None means as many as fit into memory."""

    title: str
    most: int | None

    def run(self, inputs: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        """Return the values that have these names, as far as they can be had."""
        ...


class OnnxRunner:
    """Runs an ONNX model, reduced to what the values need that are asked for."""

    def __init__(
        self,
        job: Path,
        tag: str,
        model: ir.Model,
        file: ModelFile,
        limits: Limits,
        runtime: str,
        *,
        exact: bool,
        who: str,
    ) -> None:
        self.job = job
        self.tag = tag
        self.file = file
        self.limits = limits
        self.runtime = runtime
        self.exact = exact
        self.who = who
        self.title = RUNTIMES[runtime]
        # A value that is an output keeps ONNX Runtime from fusing its node, so that the fault may hide.
        self.most = 1 if runtime == "ort" else None
        self.outputs = {value.name for value in model.graph.outputs}
        self._written: Mapping[str, Any] | None = None

    def run(self, inputs: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        if self._written is not inputs:
            write_values(self.job / f"{self.tag}_inputs", inputs)
            self._written = inputs
        given = {name: inputs[name] for name in names if name in inputs}
        wanted = [name for name in dict.fromkeys(names) if name not in given]
        if not wanted:
            return given
        task = {
            "inputs": f"{self.tag}_inputs",
            "results": f"{self.tag}_values",
            "outputs": [name for name in wanted if name in self.outputs],
            "inside": [name for name in wanted if name not in self.outputs],
            "exact": self.exact,
            "optimised": self.runtime == "ort",
            "only": True,
        }
        fixed = {"reference": "onnx.reference", "ort": "onnxruntime"}.get(self.runtime, "")
        self.title = run_file(self.job, self.file, task, self.who, self.limits, fixed)
        if self.runtime == "ort":
            self.title += ", with its optimisations"
        return {**given, **read_values(self.job / f"{self.tag}_values")}


class LiftedRunner:
    """Runs the lifted source, which records the values that its statements compute."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.title = str(sides.source.name) if sides.is_edited else "the lifted module"
        self.most: int | None = None

    def run(self, inputs: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        write_values(self.sides.job / "inputs", inputs)
        wanted = {*names} - set(self.sides.outputs)
        self.sides.run_lifted(probes_of(self.sides.lifted.source_map, self.sides.lines, wanted))
        found = read_values(self.sides.job / "lifted")
        return {**{name: inputs[name] for name in names if name in inputs}, **found}

    def statement(self, value: str) -> tuple[int, str]:
        """Return the line and the text of the statement that computes a value; (0, "") if there is none."""
        text = self.sides.source.read_text(encoding="utf-8").splitlines()
        for each in self.sides.lifted.source_map.statements:
            first = self.sides.lines.get(each.first_line)
            if first is not None and any(value in names for names in each.values.values()):
                last = max(self.sides.lines.get(each.last_line, first), first)
                return first, "\n".join(text[first - 1 : last])
        return 0, ""
