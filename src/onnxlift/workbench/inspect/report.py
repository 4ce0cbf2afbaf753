"""What `inspect` tells of a model: inputs, outputs, size, operators, and what else was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from onnxlift.ir.graph.types import Dim, shape_text
from onnxlift.sizes import format_bytes
from onnxlift.terminal import plain

from .metadata import Metadata
from .module import ModuleInfo
from .nodes import GraphInfo
from .weights import WeightInfo, table, to_dicts


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of the model.

    A size is a number, a name, or None if it is unknown. `shape` is None if the rank is unknown."""

    name: str
    type: str
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        return plain(f"{self.name}  {self.type}  {shape_text(self.shape)}")


WIDEST = 40
"""A longer name does not move the types of the others."""


def _listed(title: str, values: Sequence[ValueInfo]) -> Iterator[str]:
    """Write inputs or outputs, types below types."""
    names, types = [plain(value.name) for value in values], [plain(value.type) for value in values]
    widths = [min(max(map(len, texts), default=0), WIDEST) for texts in (names, types)]
    for place, (value, name, kind) in enumerate(zip(values, names, types, strict=True)):
        first = title if not place else ""
        yield f"  {first:11}  {name:{widths[0]}}  {kind:{widths[1]}}  {plain(shape_text(value.shape))}"


@dataclass(frozen=True)
class OperatorUse:
    """One operator of a model, with the number of its nodes.

    `lifted_by` says what lifts it: "operator" (its operator function), "function of the model" or "function of its
    schema" (the body of that function). It is empty if the operator cannot be lifted."""

    domain: str
    op_type: str
    count: int
    lifted_by: str

    @property
    def title(self) -> str:
        return plain(f"{self.domain}::{self.op_type}" if self.domain else self.op_type)


@dataclass(frozen=True)
class Inspection:
    """A model in numbers; readable when printed."""

    name: str
    file_bytes: int | None
    producer: str
    ir_version: int
    opsets: dict[str, int]
    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    nodes: int
    functions: int
    parameters: int
    weight_bytes: int
    operators: tuple[OperatorUse, ...]
    graphs: tuple[GraphInfo, ...] | None = None
    """The graph, and the functions, node by node. This and what follows is None if nobody asked."""
    weights: tuple[WeightInfo, ...] | None = None
    metadata: Metadata | None = None
    module: ModuleInfo | None = None

    @property
    def unsupported(self) -> tuple[OperatorUse, ...]:
        return tuple(use for use in self.operators if not use.lifted_by)

    def to_dict(self) -> dict[str, Any]:
        """Return the same facts as plain dicts and lists, for `json.dumps`. What nobody asked for is left out."""
        facts: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)[:-4]}
        facts["inputs"], facts["outputs"] = (list(map(asdict, each)) for each in (self.inputs, self.outputs))
        facts["operators"] = [{**asdict(use), "supported": bool(use.lifted_by)} for use in self.operators]
        if self.graphs is not None:
            facts["graphs"] = [graph.to_dict() for graph in self.graphs]
        if self.weights is not None:
            facts["weights"] = to_dicts(self.weights)
        if self.metadata is not None:
            facts["metadata"] = self.metadata.to_dict()
        if self.module is not None:
            facts["module"] = self.module.to_dict()
        return facts

    def __str__(self) -> str:
        parts = [part.lines() for part in (self.metadata, self.module) if part is not None]
        if self.weights is not None:
            parts.append(["weights", *table(self.weights)])
        if self.graphs is not None:
            parts += [list(graph.lines()) for graph in self.graphs]
        return "\n".join("\n".join(lines) for lines in [[self._title()], *parts]) if parts else self._summary()

    def _title(self) -> str:
        size = "" if self.file_bytes is None else f", {format_bytes(self.file_bytes)}"
        return plain(f"{self.name}{size}")

    def _summary(self) -> str:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        lines = [
            self._title(),
            plain(f"  produced by  {self.producer or '?'}, IR version {self.ir_version}, opset {opsets}"),
            f"  nodes        {self.nodes:,}" + (f" and {self.functions} functions" if self.functions else ""),
            f"  parameters   {self.parameters:,} ({format_bytes(self.weight_bytes)} of weights)",
            *_listed("inputs", self.inputs),
            *_listed("outputs", self.outputs),
            "",
        ]
        width = max((len(use.title) for use in self.operators), default=0)
        for use in self.operators:
            mark = "" if use.lifted_by == "operator" else f"  {use.lifted_by or 'NOT SUPPORTED'}"
            lines.append(f"  {use.title:{width}}  {use.count:>7,}{mark}")
        if self.unsupported:
            lines += ["", f"{len(self.unsupported)} of {len(self.operators)} operators cannot be lifted."]
        return "\n".join(lines)
