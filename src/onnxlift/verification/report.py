"""The report of `verify`: whether every output matches, how closely, and where the two sides first differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .compare import Comparison


@dataclass(frozen=True)
class Divergence:
    """The first value of the model, in the order of its nodes, in which the two sides differ."""

    value: str
    node: str
    op_type: str
    comparison: Comparison
    nodes: tuple[str, ...]
    """The ONNX nodes behind the statement that computes the value."""
    first_line: int
    """The line of that statement in the source; 0 if no statement of the source computes the value."""
    last_line: int
    source: str
    module: str
    """The path of the module that holds the statement."""
    compared: int
    """The number of values before it; all of them match."""

    def __str__(self) -> str:
        lines = [
            f"First difference: {self.value!r}, computed by node {self.node!r} ({self.op_type}): "
            f"{_describe(self.comparison)}",
            f"  {self.compared} values before it match.",
        ]
        if self.source:
            others = [node for node in self.nodes if node != self.node]
            beside = f" (with {', '.join(others[-4:])})" if others else ""
            place = f" in {self.module}" if self.module else ""
            lines.append(f"  It is computed here{place}{beside}:")
            lines += [f"  {self.first_line + i:5} | {text}" for i, text in enumerate(self.source.splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """The result of a verification. It is true if the verification passed, and readable when printed."""

    name: str
    reference: str
    inputs: Mapping[str, str]
    outputs: tuple[Comparison, ...]
    seed: int
    divergence: Divergence | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether every output has the right type, shape and numbers."""
        return all(output.passed for output in self.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`. Distances that are not defined are None."""
        report = asdict(self)
        report["outputs"] = [{**asdict(output), "passed": output.passed} for output in self.outputs]
        return {"passed": self.passed, **report}

    def __str__(self) -> str:
        verdict = "matches" if self.passed else "does not match"
        lines = [f"{self.name} {verdict} {self.reference}"]
        lines += [f"  input   {name}  {kind}" for name, kind in self.inputs.items()]
        lines += [f"  {'ok' if o.passed else 'FAILED':6}  {o.name}  {_describe(o)}" for o in self.outputs]
        lines += [f"  note    {note}" for note in self.notes]
        if self.divergence is not None:
            lines += ["", str(self.divergence)]
        return "\n".join(lines)


def _describe(comparison: Comparison) -> str:
    numbers = {"max abs": comparison.max_abs, "max rel": comparison.max_rel}
    parts = [f"{comparison.dtype} {comparison.shape}"]
    parts += [f"{title} {number:.3g}" for title, number in numbers.items() if number is not None]
    if comparison.cosine is not None:
        parts.append(f"cosine {comparison.cosine:.9f}")
    if comparison.note:
        parts.append(comparison.note)
    if comparison.problem:
        parts.append(comparison.problem)
    return ", ".join(parts)
