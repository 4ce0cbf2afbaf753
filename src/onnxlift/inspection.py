"""Describe a model without lifting it: inputs, outputs, size, operators, and which of these cannot be lifted."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.types import FLOATS, Dim, shape_text, type_of
from onnxlift.ir.graph.walk import Region, all_nodes, regions
from onnxlift.ir.load import load
from onnxlift.lifting.ops import registry

from .sizes import format_bytes


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of the model.

    A size is a number, a name, or None if it is unknown. `shape` is None if the rank is unknown."""

    name: str
    type: str
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        return plain(f"{self.name}  {self.type}  {shape_text(self.shape)}")


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

    @property
    def unsupported(self) -> tuple[OperatorUse, ...]:
        return tuple(use for use in self.operators if not use.lifted_by)

    def to_dict(self) -> dict[str, Any]:
        """Return the same facts as plain dicts and lists, for `json.dumps`."""
        return {**asdict(self), "operators": [{**asdict(o), "supported": bool(o.lifted_by)} for o in self.operators]}

    def __str__(self) -> str:
        opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.opsets.items())
        size = "" if self.file_bytes is None else f", {format_bytes(self.file_bytes)}"
        lines = [
            plain(f"{self.name}{size}"),
            plain(f"  produced by  {self.producer or '?'}, IR version {self.ir_version}, opset {opsets}"),
            f"  nodes        {self.nodes:,}" + (f" and {self.functions} functions" if self.functions else ""),
            f"  parameters   {self.parameters:,} ({format_bytes(self.weight_bytes)} of weights)",
            *(f"  {'inputs' if not i else '':11}  {value}" for i, value in enumerate(self.inputs)),
            *(f"  {'outputs' if not i else '':11}  {value}" for i, value in enumerate(self.outputs)),
            "",
        ]
        width = max((len(use.title) for use in self.operators), default=0)
        for use in self.operators:
            mark = "" if use.lifted_by == "operator" else f"  {use.lifted_by or 'NOT SUPPORTED'}"
            lines.append(f"  {use.title:{width}}  {use.count:>7,}{mark}")
        if self.unsupported:
            lines += ["", f"{len(self.unsupported)} of {len(self.operators)} operators cannot be lifted."]
        return "\n".join(lines)


def inspect(source: Any) -> Inspection:
    """Describe the model in `source`: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.

    The weights are not read; external data need not be there."""
    model = load(source, with_data=False)
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    constants = [
        v.const_value for region in regions(model) for v in region.graph.initializers.values() if v.const_value
    ]
    producer = " ".join(filter(None, [model.producer_name, model.producer_version]))
    return Inspection(
        name=path.name if path is not None else model.graph.name or "model",
        file_bytes=path.stat().st_size if path is not None else None,
        producer=producer,
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        inputs=tuple(map(_value_info, model.graph.inputs)),
        outputs=tuple(map(_value_info, model.graph.outputs)),
        nodes=sum(1 for _ in all_nodes(model.graph)),
        functions=len(model.functions),
        parameters=sum(tensor.size for tensor in constants if tensor.dtype in FLOATS),
        weight_bytes=sum(tensor.nbytes for tensor in constants if tensor.dtype != ir.DataType.STRING),
        operators=tuple(_operators(model)),
    )


def plain(text: str) -> str:
    """Return a text from the model for a terminal, cut off after 1000 characters.

    A character that could move the cursor or hide text is written as an escape."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:1000])


def _value_info(value: ir.Value) -> ValueInfo:
    kind = type_of(value)
    name = str(kind).partition(" (")[0]
    return ValueInfo(value.name or "", name, kind.shape)


def _operators(model: ir.Model) -> list[OperatorUse]:
    """List every operator that a node of the model or of its functions names, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for region in regions(model):
        counts.update((node.domain, node.op_type, _lifted_by(node, model, region)) for node in region.graph)
    uses = [OperatorUse(domain, op_type, count, how) for (domain, op_type, how), count in counts.items()]
    return sorted(uses, key=lambda use: (-use.count, use.domain, use.op_type))


def _lifted_by(node: ir.Node, model: ir.Model, region: Region) -> str:
    if node.op_identifier() in model.functions:
        return "function of the model"
    if registry.is_supported(node.domain, node.op_type):
        return "operator"
    if (node.domain, node.op_type) in (("", "Constant"), ("", "Identity")):
        return "operator"  # nodes of these two are removed before operator functions are looked up
    schema = schema_for(node.domain, node.op_type, region.opset(node))
    bodies = ("has_function", "has_context_dependent_function")
    return "function of its schema" if any(getattr(schema, body, False) for body in bodies) else ""
