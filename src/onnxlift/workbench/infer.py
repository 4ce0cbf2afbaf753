"""`infer`: the types and sizes of all values, as formulas over the model's named dimensions; written into it, or told.

Inference is that of ir/inference/, which never fails. Declared types of outputs and of values inside are made more
exact where it knows more, and stay where they say more. Where both cannot be right, inference is believed, and it is
told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.interface import INTERFACE, interface_of
from onnxlift.ir.graph.types import ValueType
from onnxlift.ir.graph.walk import all_nodes, regions, subgraphs
from onnxlift.ir.inference.infer import infer as infer_types
from onnxlift.unforeseen import answered

from .declared_types import Declared, sharpened
from .extract import quoted
from .report import Checking, ModelReport, name_of, open_model
from .sizes import fix_sizes
from .values import known_type, suggestion, type_dict


@dataclass(frozen=True)
class InferredValue:
    """A value and what is known of it: `role` is input, output, initialiser or inside."""

    name: str
    type: ValueType
    role: str
    operator: str = ""
    """The operator that computes it."""
    place: str = ""
    """The node of the main graph whose subgraph it is in."""

    @property
    def is_known(self) -> bool:
        """Tell whether its element type is known, and if it is a tensor the number of axes."""
        return self.type.dtype is not None and (self.type.kind != "tensor" or self.type.shape is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            **type_dict(self.type),
            "role": self.role,
            "operator": self.operator,
            "place": self.place,
        }


@dataclass(frozen=True)
class InferReport(ModelReport):
    """The types and sizes of a model's values, and the model with all of them written into it."""

    values: tuple[InferredValue, ...] = ()
    """Those that were asked for; else all of the main graph and its subgraphs but initialisers, in their order."""
    unknown: tuple[str, ...] = ()
    """Values of which the type or the number of axes is not known."""
    sharpened: tuple[str, ...] = ()
    """Outputs whose declared types were made more exact."""
    strict: bool = False
    brief: bool = False
    """Whether its text leaves out the table of values."""

    @property
    def passed(self) -> bool:
        return super().passed and not (self.strict and self.unknown)

    @property
    def why_not_written(self) -> str:
        strict = self.strict and self.unknown
        return "--strict was asked for, and not all is known" if strict else super().why_not_written

    def facts(self) -> dict[str, Any]:
        return {
            "values": [value.to_dict() for value in self.values],
            "unknown": list(self.unknown),
            "sharpened": list(self.sharpened),
        }

    def lines(self) -> list[str]:
        lines: list[str] = []
        if not self.brief:
            names = [quoted(value.name) for value in self.values]
            texts = [str(value.type) for value in self.values]
            widths = min(max(map(len, names), default=0), 60), min(max(map(len, texts), default=0), 50)
            for value, name, text in zip(self.values, names, texts, strict=True):
                role = "" if value.role == "inside" else value.role
                operator = value.operator
                if value.place:
                    operator = f"{operator} in {quoted(value.place)}" if operator else f"given by {quoted(value.place)}"
                lines.append(f"  {role:12}  {name:{widths[0]}}  {text:{widths[1]}}  {operator}".rstrip())
        if self.brief:
            lines.append(f"  values         {len(self.values):,}")
        if self.unknown:
            listed = [quoted(name) for name in self.unknown[: len(self.unknown) if self.strict else 3]]
            more = ", ..." if len(listed) < len(self.unknown) else ""
            lines.append(f"  unknown        {len(self.unknown):,}: {', '.join(listed)}{more}")
        if self.sharpened:
            lines.append(f"  more exact     {', '.join(map(quoted, self.sharpened))}")
        return lines


def infer(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: str | Sequence[str] = (),
    strict: bool = False,
    verify: bool = False,
    **checking: Any,
) -> InferReport:
    """Return the types and sizes of the values of the model in `source`, and the model with these written into it.

    `shapes` of inputs and sizes of named dimensions (`dims`) are fixed for good. `values` are names or globs of those
    to tell; all are written. If `strict`, the report has passed only if the type and rank of every value is known.
    With `verify`, the result is compared with the original; `checking` takes the options of `verify`."""
    with answered():
        model = open_model(source)
        fix_sizes(model, shapes or {}, dims or {})
        infer_types(model)
        notes: list[str] = []
        sharper = _describe(model, notes)
        every = list(_all_values(model))
        computed = [value for value in every if value.role != "initialiser"]
        wanted = [values] if isinstance(values, str) else list(values)
        report = InferReport(
            name_of(source, model),
            model,
            notes=tuple(notes),
            values=tuple(_chosen(every, wanted) if wanted else computed),
            unknown=tuple(dict.fromkeys(value.name for value in computed if not value.is_known)),
            sharpened=tuple(sharper),
            strict=strict,
        )
    return report.verified(source, Checking(verify, shapes=shapes or {}, dims=dims or {}, **checking))


def _all_values(model: ir.Model) -> Iterator[InferredValue]:
    """Yield the values of the main graph and its subgraphs: inputs, initialisers, and what nodes compute."""
    graph = model.graph
    outputs = set(graph.outputs)
    for value in graph.inputs:
        yield InferredValue(value.name or "", _type(value, model), "input")
    for value in graph.initializers.values():
        yield InferredValue(value.name or "", _type(value, model), "initialiser")
    for node in graph:
        for body in subgraphs(node):
            yield from _inner_values(body, node, model)
        for value in node.outputs:
            if value.name:
                role = "output" if value in outputs else "inside"
                yield InferredValue(value.name, _type(value, model), role, _operator(node))


def _inner_values(graph: ir.Graph, holder: ir.Node, model: ir.Model) -> Iterator[InferredValue]:
    place = holder.name or ""
    for value in graph.inputs:
        yield InferredValue(value.name or "", _type(value, model), "inside", "", place)
    for value in graph.initializers.values():
        yield InferredValue(value.name or "", _type(value, model), "initialiser", "", place)
    for node in graph:
        for body in subgraphs(node):
            yield from _inner_values(body, holder, model)
        for value in node.outputs:
            if value.name:
                yield InferredValue(value.name, _type(value, model), "inside", _operator(node), place)


def _operator(node: ir.Node) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _type(value: ir.Value, model: ir.Model) -> ValueType:
    """Return what is known of a value: what inference has found, and what the file says beyond that."""
    interface = interface_of(model)
    declared = interface.types.get(value.name or "") or interface.told.get(value.name or "")
    found = known_type(value)
    return found if declared is None else Declared(declared).type_of(found)


def _chosen(values: Sequence[InferredValue], wanted: Sequence[str]) -> list[InferredValue]:
    """Return the values that are meant by names or globs, in the order of the graph."""
    names = {value.name for value in values}
    chosen: set[str] = set()
    for text in wanted:
        matching = {text} & names or {name for name in names if fnmatchcase(name, text)}
        if not matching and any(sign in text for sign in "*?["):
            raise OnnxLiftError(f"no value of the model matches {text!r}.")
        if not matching:
            hint = suggestion(text, list(dict.fromkeys(value.name for value in values)))
            raise OnnxLiftError(f"the model has no value named {text!r}{hint}.")
        chosen |= matching
    return [value for value in values if value.name in chosen]


def _describe(model: ir.Model, notes: list[str]) -> list[str]:
    """Let the model that is written tell all types. Return the outputs that are declared more exactly than before."""
    interface = interface_of(model)
    types, told = dict(interface.types), dict(interface.told)
    symbols = {size for value in model.graph.inputs for size in known_type(value).shape or () if isinstance(size, str)}
    sharper: list[str] = []
    for value in model.graph.outputs:
        if value.name in types and not value.is_graph_input():
            types[value.name], is_sharper = sharpened(value, types[value.name], symbols, notes)
            sharper += [value.name] if is_sharper else []
    defined = [value for node in all_nodes(model.graph) for value in node.outputs if value.name]
    bodies = (region.graph for region in regions(model) if region.function is not None)
    times = Counter(value.name for value in defined)
    times.update(value.name for body in bodies for node in body for value in node.outputs)
    for value in defined:
        if value.name not in told:
            continue
        if times[value.name] == 1:
            told[value.name], _ = sharpened(value, told[value.name], symbols, notes)
        else:  # one name for several values, in several branches: who knows which of them the file means
            del told[value.name]
    described = interface.described | {value.name for value in defined if value.name}
    model.meta[INTERFACE] = replace(interface, types=types, told=told, described=described)
    return sharper
