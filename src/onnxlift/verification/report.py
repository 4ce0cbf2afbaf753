"""The report of `verify`: whether every output matches, how closely, and where the two sides first differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from onnxlift.report import patterns

from .compare import Comparison
from .trace import Traced, trace_lines


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
            f"{describe_comparison(self.comparison)}",
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
class Gradients:
    """The result of a call with gradients on: forward and backward in eval mode, and forward in train mode."""

    parameters: int
    """The number of parameters that want a gradient."""
    without: Mapping[str, str]
    """The parameters that get none, each with the reason."""
    error: str = ""
    """What failed; empty if nothing did."""
    limit: str = ""
    """Why it was not done in full: PyTorch cannot do it here, or it took more time or memory than is allowed."""

    def __str__(self) -> str:
        return f"{self.parameters - len(self.without)} of {self.parameters} parameters get one"

    @property
    def notes(self) -> Iterator[str]:
        """What a reader should know of it: which parameters get no gradient, and what was not done."""
        for reason in dict.fromkeys(self.without.values()):
            names = [name for name, why in self.without.items() if why == reason]
            yield f"no gradient for {', '.join(patterns(names))}: {reason}"
        if self.limit:
            yield f"gradients were not checked in full: {self.limit}"


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
    gradients: Gradients | None = None
    """None if it was not asked for."""
    trace: tuple[Traced, ...] = ()
    """The values in the order of the nodes, up to the first that differs; empty if nobody asked."""

    @property
    def passed(self) -> bool:
        """Tell whether every output has the right type, shape and numbers, and the model can be called and trained with
        gradients on."""
        return self.matches and (self.gradients is None or not self.gradients.error)

    @property
    def matches(self) -> bool:
        """Tell whether every output has the right type, shape and numbers."""
        return all(output.passed for output in self.outputs)

    def __bool__(self) -> bool:
        return self.passed

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`. Distances that are not defined are None."""
        report = asdict(self)
        report["outputs"] = [{**asdict(output), "passed": output.passed} for output in self.outputs]
        report["trace"] = [row.to_dict() for row in self.trace]
        return {"passed": self.passed, **report}

    def __str__(self) -> str:
        verdict = "matches" if self.matches else "does not match"
        but = ", but does not train" if self.matches and not self.passed else ""
        lines = [f"{self.name} {verdict} {self.reference}{but}"]
        lines += [f"  input   {name}  {kind}" for name, kind in self.inputs.items()]
        lines += [f"  {'ok' if o.passed else 'FAILED':6}  {o.name}  {describe_comparison(o)}" for o in self.outputs]
        if self.gradients is not None and self.gradients.error:
            lines.append(f"  FAILED  gradients  {self.gradients.error}")
        elif self.gradients is not None and self.gradients.parameters and not self.gradients.limit:
            lines.append(f"  ok      gradients  {self.gradients}")
        notes = (*self.notes, *(self.gradients.notes if self.gradients is not None else ()))
        lines += [f"  note    {note}" for note in notes]
        if self.trace:
            lines += ["", *(f"  {line}" for line in trace_lines(self.trace))]
        if self.divergence is not None:
            lines += ["", str(self.divergence)]
        return "\n".join(lines)


def describe_comparison(comparison: Comparison) -> str:
    """Describe in a line how two tensors compare: type, shape, distances, and what is wrong."""
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
