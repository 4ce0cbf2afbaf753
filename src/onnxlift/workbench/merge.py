"""`merge`: two models as one, in which outputs of the first are inputs of the second.

The result is verified against running the first and then the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.editing.names import name_apart
from onnxlift.ir.graph.interface import INTERFACE, Interface, interface_of
from onnxlift.ir.graph.types import ValueType
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import infer
from onnxlift.sizes import format_bytes
from onnxlift.unforeseen import answered
from onnxlift.verification.pieces import Piece

from .cutting import declare
from .extract import interface_lines
from .joining.connections import Connection, Pairs, find_connections, unite_sizes
from .joining.names import name_functions, name_nodes, new_names, rename_values, values_of
from .joining.opsets import Named, align_opsets, pin_opsets
from .joining.sizes import named_sizes, new_sizes, rename_sizes
from .joining.weights import equal_weights
from .report import Checking, ModelReport, name_of, open_model
from .values import known_type, type_dict

Prefixes = tuple[str, str]


@dataclass(frozen=True)
class MergeReport(ModelReport):
    """Two models as one: what was connected, the inputs and outputs by now, and what was renamed and shared."""

    connected: tuple[tuple[str, str], ...] = ()
    """Outputs of the first model, and the inputs of the second that they go to, under their former names."""
    inputs: Mapping[str, ValueType] = field(default_factory=dict)
    outputs: Mapping[str, ValueType] = field(default_factory=dict)
    nodes: tuple[int, int] = (0, 0)
    """The number of nodes of each model, with those of subgraphs."""
    renamed: int = 0
    """The number of values that have another name than in their own model."""
    shared: int = 0
    shared_bytes: int = 0
    """The initialisers of the second model that were in the first already, and their size."""

    def facts(self) -> dict[str, Any]:
        return {
            "connected": [{"output": output, "input": input_} for output, input_ in self.connected],
            "inputs": [{"name": name, **type_dict(type_)} for name, type_ in self.inputs.items()],
            "outputs": [{"name": name, **type_dict(type_)} for name, type_ in self.outputs.items()],
            "nodes": {"first": self.nodes[0], "second": self.nodes[1]},
            "renamed": self.renamed,
            "shared": {"initialisers": self.shared, "bytes": self.shared_bytes},
        }

    def lines(self) -> list[str]:
        first, second = self.nodes
        return [
            *(f"  connected      {quote(output)} -> {quote(input_)}" for output, input_ in self.connected),
            f"  nodes          {first:,} + {second:,}",
            f"  renamed        {self.renamed:,} values",
            f"  shared         {self.shared:,} initialisers, {format_bytes(self.shared_bytes)}",
            *interface_lines(self.inputs, self.outputs),
        ]


def merge(
    first: Any,
    second: Any,
    *,
    map: Pairs | None = None,
    prefix_a: str = "",
    prefix_b: str = "",
    keep: bool = False,
    verify: bool = True,
    **checking: Any,
) -> MergeReport:
    """Return one model that runs `first` and then `second`, on outputs of the first.

    `map` says which outputs go to which inputs; without it, those of equal names do. Outputs of the first that were
    connected are outputs no longer, unless they are to be kept (`keep`). Other inputs of both with the same name and
    type are one input. Names that collide give way by a prefix, or all names of a model get `prefix_a` or `prefix_b`.
    Unless `verify` is False, the result is compared with running one after the other; `checking` takes the options of
    `verify`."""
    with answered():
        one, other = open_model(first), open_model(second)
        names = name_of(first, one), name_of(second, other)
        infer(one)
        infer(other)
        nodes = _count(one), _count(other)
        join = _Join(one, other, keep, (prefix_a, prefix_b))
        join.opsets, join.notes = align_opsets(Named(names[0], one), Named(names[1], other))
        connections = find_connections(one.graph, other.graph, map)
        connected = tuple((each.output.name or "", each.input.name or "") for each in connections)
        pieces = join.run(connections, first, second)
        infer(one)
        report = MergeReport(
            f"{names[0]} + {names[1]}",
            one,
            notes=tuple(dict.fromkeys(join.notes)),
            connected=connected,
            inputs={value.name or "": known_type(value) for value in one.graph.inputs},
            outputs={value.name or "": known_type(value) for value in one.graph.outputs},
            nodes=nodes,
            renamed=join.renamed,
            shared=len(join.shared_weights),
            shared_bytes=sum(value.const_value.nbytes for value in join.shared_weights if value.const_value),
        )
    result = Piece(one, _same(one.graph.inputs), _same(one.graph.outputs))
    return replace(report, verification=Checking(verify, **checking).compare_pieces(pieces, result))


def _count(model: ir.Model) -> int:
    return sum(1 for _ in all_nodes(model.graph))


def _same(values: Iterable[ir.Value]) -> dict[str, str]:
    return {value.name or "": value.name or "" for value in values}


class _Join:
    """The work of joining `other` to `one`, which becomes the result."""

    def __init__(self, one: ir.Model, other: ir.Model, keep: bool, prefixes: Prefixes) -> None:
        self.one, self.other = one, other
        self.keep = keep
        self.prefixes = prefixes
        self.opsets: dict[str, int] = {}
        self.notes: list[str] = []
        self.renamed = 0
        self.shared_weights: Sequence[ir.Value] = ()

    def run(self, connections: Sequence[Connection], first: Any, second: Any) -> list[Piece]:
        """Join the models; return them as pieces of the whole, for verifying."""
        one, other = self.one.graph, self.other.graph
        own_names = {value: value.name or "" for graph in (one, other) for value in (*graph.inputs, *graph.outputs)}
        inputs, outputs = (list(one.inputs), list(other.inputs)), (list(one.outputs), list(other.outputs))
        taken = {each.input: each.output for each in connections}
        same = self._same_inputs(connections)
        pairs = [*connections, *same]
        united = unite_sizes(pairs, self.notes)
        interfaces = self._unite_types(united)
        leaving = {each.output for each in connections} if not self.keep else set()
        kept = [value for value in outputs[0] if value not in leaving]
        weights = equal_weights(one, other, set(outputs[1]))
        self.shared_weights = list(weights)
        gone = {**taken, **{each.input: each.output for each in same}, **weights}
        renamed = self._rename(kept, gone)
        pin_opsets(self.one)
        pin_opsets(self.other)
        name_functions(self.one, self.other, self.prefixes)
        name_nodes(one, other, self.prefixes)
        passed = self._connect(gone, outputs[1])
        self._move(kept, passed, gone)
        self._declare(interfaces, renamed)
        name_apart(self.one)
        pieces = (first, inputs[0], outputs[0], outputs[0]), (second, inputs[1], outputs[1], passed)
        return [
            Piece(
                source,
                {own_names[value]: gone.get(value, value).name or "" for value in of_inputs},
                {own_names[value]: new.name or "" for value, new in zip(of_outputs, now, strict=True)},
            )
            for source, of_inputs, of_outputs, now in pieces
        ]

    def _same_inputs(self, connections: Sequence[Connection]) -> list[Connection]:
        """Return the inputs that both models take under one name, with one type."""
        taken = {each.input for each in connections}
        mine = {value.name: value for value in self.one.graph.inputs}
        defaults = interface_of(self.one).defaults.keys() | interface_of(self.other).defaults.keys()
        found: list[Connection] = []
        for value in self.other.graph.inputs:
            if value in taken or value.name not in mine or value.name in defaults or any(self.prefixes):
                continue
            first, second = known_type(mine[value.name]), known_type(value)
            if (first.dtype, first.kind, _form(first)) == (second.dtype, second.kind, _form(second)):
                found.append(Connection(mine[value.name], value))
                self.notes.append(f"both models take {quote(value.name or '')}: it is one input of the result")
        return found

    def _unite_types(self, united: Mapping[str, Any]) -> tuple[Interface, Interface]:
        """Give the named sizes of both models their names in the result; return what both declare."""
        sizes = named_sizes(self.one), named_sizes(self.other)
        first, second = new_sizes(*sizes, united, self.prefixes)
        return rename_sizes(self.one, first), rename_sizes(self.other, second)

    def _rename(self, kept: Sequence[ir.Value], gone: Mapping[ir.Value, ir.Value]) -> tuple[dict[str, str], ...]:
        """Rename values, so that each name is unique in the result; return the new names by the old ones."""
        one, other = self.one.graph, self.other.graph
        first = {value.name for value in values_of(one) if value.name}
        second = {value.name for value in values_of(other) if value.name and value not in gone}
        # An output that is an input which has been connected is written by a node of its own, under its name.
        second.update(value.name for value in other.outputs if value.name)
        seen = (
            {value.name for value in (*one.inputs, *kept) if value.name},
            {value.name for value in other.inputs if value.name and value not in gone}
            | {value.name for value in other.outputs if value.name},
        )
        renamed = new_names(first, second, seen=seen, prefixes=self.prefixes)
        for name in sorted(seen[1] & renamed[1].keys()):
            if not self.prefixes[1]:
                new = renamed[1][name]
                self.notes.append(f"{quote(name)} of the second model is called {quote(new)}: the first has that name")
        for value in gone:  # it leaves, so its name does not count, unless it is an output as well
            if value.is_initializer():
                del other.initializers[value.name or ""]
        rename_values(one, renamed[0])
        rename_values(other, renamed[1])
        self.renamed = sum(map(len, renamed))
        return renamed

    def _connect(self, gone: Mapping[ir.Value, ir.Value], outputs: Sequence[ir.Value]) -> list[ir.Value]:
        """Let nodes read what they are connected to; return the outputs of the second model."""
        passed: list[ir.Value] = []
        for value in outputs:
            if value in gone:
                identity = ir.node("Identity", [gone[value]], name=f"{value.name}_output")
                identity.outputs[0].name = value.name
                identity.outputs[0].type, identity.outputs[0].shape = value.type, value.shape
                self.other.graph.append(identity)
                passed.append(identity.outputs[0])
            else:
                passed.append(value)
        self.other.graph.outputs.clear()
        for value, new in gone.items():
            value.replace_all_uses_with(new)
        return passed

    def _move(self, kept: Sequence[ir.Value], passed: Sequence[ir.Value], gone: Mapping[ir.Value, ir.Value]) -> None:
        """Move all that is left of the second model to the first."""
        one, other = self.one, self.other
        inputs = [value for value in other.graph.inputs if value not in gone]
        other.graph.inputs.clear()
        one.graph.inputs.extend(inputs)
        for name, value in list(other.graph.initializers.items()):
            del other.graph.initializers[name]
            one.graph.register_initializer(value)
        nodes = list(other.graph)
        other.graph.remove(nodes)
        one.graph.extend(nodes)
        one.graph.outputs.clear()
        one.graph.outputs.extend([*kept, *passed])
        for identifier, function in other.functions.items():
            one.functions.setdefault(identifier, function)
        one.opset_imports.update(self.opsets)
        one.ir_version = max(one.ir_version or 0, other.ir_version or 0)
        for key, text in other.metadata_props.items():
            if one.metadata_props.setdefault(key, text) != text:
                self.notes.append(f"the metadata {quote(key)} differs: that of the first model stays")

    def _declare(self, interfaces: Sequence[Interface], renamed: Sequence[Mapping[str, str]]) -> None:
        """Let the result say of its interface, and of values inside, what the files of both models said."""
        types: dict[str, onnx.TypeProto] = {}
        defaults: dict[str, ir.TensorProtocol] = {}
        told: dict[str, onnx.TypeProto] = {}
        described: set[str] = set()
        for interface, names in zip(interfaces, renamed, strict=True):
            for all_, own in ((types, interface.types), (told, interface.told)):
                for name, type_ in own.items():
                    all_.setdefault(names.get(name, name), type_)
            for name, tensor in interface.defaults.items():
                defaults.setdefault(names.get(name, name), tensor)
            described.update(names.get(name, name) for name in interface.described)
        self.one.meta[INTERFACE] = Interface(types, defaults, frozenset(described), told)
        declare(self.one, types)


def _form(type_: ValueType) -> list[int | None] | None:
    """Return the sizes of a type as far as they are numbers."""
    return None if type_.shape is None else [size if isinstance(size, int) else None for size in type_.shape]
