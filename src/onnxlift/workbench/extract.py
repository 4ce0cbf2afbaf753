"""`extract`: a part of a model as a model of its own, between any values, or a module.

The part is verified against the whole: the whole runs with the values at the cut as outputs, the part runs on those
that it takes, and must give what the whole computes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import ValueType
from onnxlift.ir.graph.walk import all_nodes, inner_nodes
from onnxlift.ir.inference.infer import infer
from onnxlift.sizes import format_bytes
from onnxlift.unforeseen import answered
from onnxlift.verification.pieces import Piece

from .cutting import cut, dependent_values, nodes_between, unknown_ranks
from .modules import nodes_in_gaps, nodes_of_module
from .report import Checking, ModelReport, name_of, open_model
from .values import MainValues, known_type, reads, type_dict

_RANDOM = frozenset({"RandomNormal", "RandomUniform"})  # they have no inputs, and yet are no constants


@dataclass(frozen=True)
class ExtractReport(ModelReport):
    """A part of a model: its inputs and outputs with their types, and how much of the whole it is."""

    inputs: Mapping[str, ValueType] = field(default_factory=dict)
    outputs: Mapping[str, ValueType] = field(default_factory=dict)
    nodes: tuple[int, int] = (0, 0)
    """The number of nodes of the whole and of the part, with those of subgraphs."""
    bytes: tuple[int, int] = (0, 0)
    """The size of the weights of the whole and of the part."""

    def facts(self) -> dict[str, Any]:
        return {
            "inputs": [{"name": name, **type_dict(type_)} for name, type_ in self.inputs.items()],
            "outputs": [{"name": name, **type_dict(type_)} for name, type_ in self.outputs.items()],
            "nodes": {"before": self.nodes[0], "after": self.nodes[1]},
            "bytes": {"before": self.bytes[0], "after": self.bytes[1]},
        }

    def lines(self) -> list[str]:
        return [
            f"  nodes          {self.nodes[1]:,} of {self.nodes[0]:,}",
            f"  weights        {format_bytes(self.bytes[1])} of {format_bytes(self.bytes[0])}",
            *interface_lines(self.inputs, self.outputs),
        ]


def interface_lines(inputs: Mapping[str, ValueType], outputs: Mapping[str, ValueType]) -> list[str]:
    """Return a line for each input and output of a model."""
    width = max(map(len, map(quoted, (*inputs, *outputs))), default=0)
    return [
        f"  {kind:15}{quoted(name):{width}}  {type_}"
        for kind, values in (("input", inputs), ("output", outputs))
        for name, type_ in values.items()
    ]


def quoted(name: str) -> str:
    """Return a name as it is if it is harmless, else in quotes, so that no name of a model controls a terminal."""
    return name if name.isprintable() and len(name) <= 200 else quote(name)


def extract(
    source: Any,
    *,
    from_: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    module: str | None = None,
    verify: bool = True,
    **checking: Any,
) -> ExtractReport:
    """Return the part of the model in `source` that computes the values `to` from the values `from_`.

    Without `from_` it begins at the model's inputs, without `to` it ends at its outputs. Or it is a `module`: all nodes
    at or below its path, with the values that come from outside as inputs, and those that are read outside as outputs.
    Unless `verify` is False, the part is compared with the whole; `checking` takes the options of `verify`."""
    starts, ends = _listed(from_), _listed(to)
    if module is not None and (starts or ends):
        raise OnnxLiftError("say where to cut either by values (from, to) or by a module, not by both.")
    if module is None and not starts and not ends:
        raise OnnxLiftError("say what to extract: values (--from, --to), or a module (--module).")
    with answered():
        model = open_model(source)
        infer(model)
        notes: list[str] = []
        name, before = name_of(source, model), _size(model)
        if module is not None:
            nodes, inputs, outputs = _of_module(model, module, notes)
        else:
            nodes, inputs, outputs = _between(model, starts, ends, notes)
        types = {value.name or "": known_type(value) for value in (*inputs, *outputs)}
        names = [value.name or "" for value in inputs], [value.name or "" for value in outputs]
        gives = {value.name or "" for value in (*inputs, *outputs) if not value.is_graph_input()}
        whole_inputs = [value.name or "" for value in model.graph.inputs]
        notes += unknown_ranks([*inputs, *outputs])
        cut(model, nodes, inputs, outputs)
        after = _size(model)
        report = ExtractReport(
            name,
            model,
            notes=tuple(notes),
            inputs={each: types[each] for each in names[0]},
            outputs={each: types[each] for each in names[1]},
            nodes=(before[0], after[0]),
            bytes=(before[1], after[1]),
        )
    whole = Piece(source, _same(whole_inputs), _same(sorted(gives)))
    part = Piece(model, _same(names[0]), _same(names[1]))
    return replace(report, verification=Checking(verify, **checking).compare_pieces([whole], part))


def _listed(names: str | Sequence[str]) -> list[str]:
    return list(dict.fromkeys([names] if isinstance(names, str) else names))


def _same(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}


Part = tuple[Collection[ir.Node], list[ir.Value], list[ir.Value]]
"""The nodes of a part, its inputs and its outputs."""


def _between(model: ir.Model, starts: Sequence[str], ends: Sequence[str], notes: list[str]) -> Part:
    """Return the part between values. The model's own inputs are added if the outputs need them."""
    graph, values = model.graph, MainValues(model)
    given = [values.find(name) for name in starts]
    outputs = [values.find(name) for name in ends] or list(dict.fromkeys(graph.outputs))
    if given and not ends:
        outputs = _depending(graph, given, outputs, notes)
    nodes = nodes_between(graph, given, outputs)
    read = {value for node in nodes for value in reads(node)} | set(outputs)
    needed = [value for value in graph.inputs if value in read and value not in given]
    for value in given:
        if value not in read and value.is_graph_input():
            notes.append(f"nothing reads the input {quote(value.name or '')}; it stays, because it was asked for")
        elif value not in read:
            asked = " or ".join(quote(output.name or "") for output in outputs[:3])
            others = ", ".join(quote(other.name or "") for other in needed) or "no input at all"
            raise OnnxLiftError(
                f"nothing that leads to {asked} reads {quote(value.name or '')}, but only {others}: leave it out of "
                "--from, or look whether --from and --to are the wrong way round."
            )
    if given and needed:
        names = ", ".join(quote(value.name or "") for value in needed)
        several = len(needed) > 1
        notes.append(
            f"the model's input{'s' if several else ''} {names} {'are inputs' if several else 'is an input'} of the "
            f"part as well: its outputs depend on {'them' if several else 'it'} past the cut"
        )
    return nodes, [*given, *needed], outputs


def _depending(
    graph: ir.Graph, given: Sequence[ir.Value], outputs: Sequence[ir.Value], notes: list[str]
) -> list[ir.Value]:
    """Return the outputs that depend on the values given: the others are no end of a part that begins there."""
    dependent = dependent_values(graph, given)
    found = [value for value in outputs if value in dependent]
    names = ", ".join(quote(value.name or "") for value in given)
    if not found:
        raise OnnxLiftError(f"no output of the model depends on {names}: say where the part ends (--to).")
    left_out = ", ".join(quote(value.name or "") for value in outputs if value not in dependent)
    if left_out:
        notes.append(f"left out, since they do not depend on {names}: the outputs {left_out}")
    return found


def _of_module(model: ir.Model, module: str, notes: list[str]) -> Part:
    """Return the part that a module is. Constants that are computed outside are computed inside as well."""
    graph = model.graph
    own = nodes_of_module(graph, module, "Say where to cut by values (--from, --to).")
    between = nodes_in_gaps(graph, own)
    if between:
        count = "1 node" if len(between) == 1 else f"{len(between)} nodes"
        notes.append(f"{count} without the name of a module came along: they lie between nodes of this one")
        together = {*own, *between}
        own = [node for node in graph if node in together]
    inside = {value for node in own for value in node.outputs}
    constant = _constant_values(graph)
    of_module = set(own)
    read_outside = {value for node in graph if node not in of_module for value in reads(node)} | set(graph.outputs)
    outputs = [value for node in own for value in node.outputs if value in read_outside]
    if not outputs:
        outputs = [value for value in own[-1].outputs if value.name]
    needed = dict.fromkeys(value for node in own for value in reads(node) if value not in inside)
    inputs = [value for value in needed if value not in constant]
    nodes = nodes_between(graph, inputs, outputs)
    read = {value for node in nodes for value in reads(node)}
    return nodes, [value for value in inputs if value in read], outputs


def _constant_values(graph: ir.Graph) -> set[ir.Value]:
    """Return the values that do not depend on any input."""
    found = set(graph.initializers.values())
    for node in graph:
        is_random = any(each.op_type in _RANDOM for each in (node, *inner_nodes(node)))
        if not is_random and all(value in found for value in reads(node)):
            found.update(node.outputs)
    return found


def _size(model: ir.Model) -> tuple[int, int]:
    """Return the number of nodes of the main graph, with its subgraphs, and the bytes of its weights."""
    tensors = (value.const_value for value in model.graph.initializers.values())
    size = sum(tensor.nbytes for tensor in tensors if tensor is not None and tensor.dtype != ir.DataType.STRING)
    return sum(1 for _ in all_nodes(model.graph)), size
