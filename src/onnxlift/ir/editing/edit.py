"""Editing a graph without losing what must stay: its outputs keep their names, order and number.

A pass visits nodes in topological order and redirects the uses of values. Nodes that it drops let go of their inputs
at once, so that counts of uses stay right, and are taken out of the graph together when the sweep is over (taking
them out one by one would cost a look at all graph outputs each time).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.walk import Region, regions
from onnxlift.ir.origin.tensors import mark_made, mark_restored, may_be_trained

Array = np.ndarray[Any, Any]
_FEW = 16


class Names:
    """The names of all values of a model, collected when first asked for."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._taken: Counter[str] | None = None
        self._numbers: Counter[str] = Counter()

    def fresh(self, base: str) -> str:
        """`base`, or `base` with a number where that is taken; nobody gets it again."""
        taken = self._names()
        name = base
        while name in taken:
            self._numbers[base] += 1
            name = f"{base}_{self._numbers[base]}"
        taken[name] += 1
        return name

    def like(self, name: str) -> str:
        """A name as its maker might have gone on counting: `linear_7` for another `linear_3`."""
        base = re.sub(r"_\d{1,9}$", "", name)
        taken = self._names()
        while f"{base}_{self._numbers[base]}" in taken:
            self._numbers[base] += 1
        return self.fresh(f"{base}_{self._numbers[base]}")

    def distinct(self, name: str) -> str:
        """The name for a value that is called `name` and moves to another graph: a new one if another has it too."""
        taken = self._names()
        if taken[name] <= 1:
            return name
        taken[name] -= 1
        return self.fresh(name)

    def _names(self) -> Counter[str]:
        if self._taken is None:
            self._taken = Counter()
            for region in regions(self._model):
                graph = region.graph
                for values in (graph.inputs, graph.initializers.values(), *(node.outputs for node in graph)):
                    self._taken.update(value.name for value in values if value.name)
        return self._taken


class Edit:
    """The edits that one pass makes to one graph. `changes` counts the rewrites."""

    def __init__(self, region: Region, names: Names) -> None:
        self.names = names
        self.graph = region.graph
        self.opset = region.opset
        self.changes = 0
        self.shared: set[ir.Value] = set()
        """Values that were found to have many readers: asking again would make a list of them each time."""
        self._dropped: dict[ir.Node, None] = {}
        self._shared: dict[tuple[object, ...] | None, ir.Value] = {}
        self._positions: dict[ir.Value, list[int]] = {}
        for position, value in enumerate(self.graph.outputs):
            self._positions.setdefault(value, []).append(position)

    def redirect(self, old: ir.Value, new: ir.Value) -> bool:
        """Let everybody who reads `old` read `new`; False, and nothing done, if a graph output stands in the way.

        An output of the graph keeps its name: `new` takes it over, if it is made in this graph and is not itself an
        input, an initialiser or another output.
        """
        if not self.can_redirect(old, new):
            return False
        if old in self._positions:
            name = old.name
            self._set_outputs(old, new)
            old.name = None
            new.name = name
        for node, index in old.uses():
            node.replace_input_with(index, new)
        if new.type is None:
            new.type = old.type
        if new.shape is None:
            new.shape = old.shape
        return True

    def can_redirect(self, old: ir.Value, new: ir.Value) -> bool:
        """Whether `redirect` is possible."""
        producer = new.producer()
        owned = producer is not None and producer.graph is self.graph and not new.is_graph_output()
        return owned or old not in self._positions

    def bypass(self, node: ir.Node, source: ir.Value | None) -> bool:
        """Remove a node that passes on `source`: its first output is replaced by it. True if that was possible."""
        if source is None or any(output.uses() or output in self._positions for output in node.outputs[1:]):
            return False
        if not self.redirect(node.outputs[0], source):
            return False
        self.drop(node)
        self.changes += 1
        return True

    def fold(
        self,
        node: ir.Node,
        results: Sequence[ir.TensorProtocol | Array],
        reason: str = "computed from constants",
    ) -> None:
        """Replace a node by initialisers with the names of its outputs."""
        outputs = list(node.outputs)
        names = [output.name for output in outputs]
        for output, name, result in zip(outputs, names, results, strict=True):
            if not name or not (output.uses() or output in self._positions):
                continue
            output.name = None
            value = initialiser(self.graph, name, result, reason)
            if output in self._positions:
                self._set_outputs(output, value)
            for user, index in output.uses():
                user.replace_input_with(index, value)
        self.drop(node)
        self.changes += 1

    def replace(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Iterable[ir.Attr] = (),
        *,
        domain: str | None = None,
        named_by: ir.Node | None = None,
    ) -> ir.Node:
        """Put a node with one output in the place of `node`, which keeps the output's name, type and shape. It has the
        same domain unless another is given, and the name and metadata of `named_by` (by default of `node`)."""
        (_,) = node.outputs
        return self.join([node], op_type, inputs, attributes, before=node, domain=domain, named_by=named_by)

    def join(
        self,
        nodes: Sequence[ir.Node],
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Iterable[ir.Attr] = (),
        *,
        before: ir.Node,
        domain: str | None = None,
        named_by: ir.Node | None = None,
    ) -> ir.Node:
        """Put one node in the place of several that have one output each, in front of `before`, which comes before all
        who read them: it has all these outputs, in the order of `nodes`, with their names, types and shapes, and the
        name and metadata of `named_by` (by default of `before`)."""
        olds = [node.outputs[0] for node in nodes]
        outputs = [ir.Value(type=old.type, shape=old.shape) for old in olds]
        source = before if named_by is None else named_by
        domain = before.domain if domain is None else domain
        new = _node(domain, op_type, inputs, attributes, outputs, before=before, beside=source, name=source.name)
        new.doc_string = source.doc_string
        self.graph.insert_before(before, new)
        for node, old, output in zip(nodes, olds, outputs, strict=True):
            self._take_over(old, output)
            self.drop(node)
        self.changes += 1
        return new

    def _take_over(self, old: ir.Value, new: ir.Value) -> None:
        """Let `new` have the name, the metadata and all users of `old`."""
        new.meta.update(old.meta)
        new.metadata_props.update(old.metadata_props)
        name, old.name = old.name, None
        new.name = name
        if old in self._positions:
            self._set_outputs(old, new)
        for user, index in old.uses():
            user.replace_input_with(index, new)

    def insert(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Iterable[ir.Attr] = (),
        *,
        like: ir.Value,
        shape: Sequence[int | str | None],
        name: str,
        beside: ir.Node | None = None,
        domain: str = "",
        shared: bool = False,
    ) -> ir.Value:
        """The output of a new node in front of `before`: of the element type of `like` and the given shape,
        with a name after `name` that says it is generated. The node belongs to the module of `beside` (by default of
        `before`). If it reads one node's output, it stands right behind that one, so that the order of the computation
        stays the author's. If it is `shared`, whoever asks for the same again gets the same, and it stands in front of
        the first one who did."""
        attributes = list(attributes)
        key = (domain, op_type, *map(_identity, inputs), *map(str, attributes)) if shared else None
        if key in self._shared:
            return self._shared[key]
        neighbour = before if beside is None else beside
        output = ir.Value(type=like.type, shape=ir.Shape(shape))
        output.name = self.names.fresh(f"{name}_output_0")
        scope, slash, _ = (neighbour.name or "").rpartition("/")
        own_name = f"{scope}{slash}{op_type}"
        node = _node(domain, op_type, inputs, attributes, [output], before=before, beside=neighbour, name=own_name)
        sources = {value.producer() for value in inputs if value is not None} - {None}
        source = sources.pop() if len(sources) == 1 else None
        if source is not None and source.graph is self.graph and not shared:
            self.graph.insert_after(source, node)
        else:
            self.graph.insert_before(before, node)
        if key is not None:
            self._shared[key] = output
        return output

    def shape(self, before: ir.Node, value: ir.Value) -> ir.Value:
        """The shape of `value` as a new node gives it, in front of `before`."""
        integers = ir.Value(type=ir.TensorType(ir.DataType.INT64))
        axes = None if value.shape is None else len(value.shape)
        return self.insert(before, "Shape", [value], like=integers, shape=[axes], name=f"{value.name}.shape")

    def axes(self, node: ir.Node, axes: Sequence[int]) -> tuple[list[ir.Value], list[ir.Attr]]:
        """The axes of a Squeeze or Unsqueeze in the place of `node`: as an input, and before opset 13 an attribute."""
        if self.opset(node) < 13:
            return [], [ir.AttrInt64s("axes", axes)]
        return [self.constant(f"{node.outputs[0].name}.axes", np.array(axes, np.int64))], []

    def constant(self, name: str, array: Array) -> ir.Value:
        """A new constant of this graph, under this name or a similar one."""
        return initialiser(self.graph, self.names.fresh(name), array)

    def drop(self, node: ir.Node) -> None:
        """Take the node out of the graph when the sweep ends; its inputs are free at once."""
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        self._dropped[node] = None

    def is_output(self, value: ir.Value) -> bool:
        return value in self._positions

    def is_dropped(self, node: ir.Node) -> bool:
        return node in self._dropped

    def finish(self) -> int:
        """Carry out the removals; gives the number of changes."""
        if self._dropped:
            self.graph.remove(list(self._dropped))
            self._dropped.clear()
        return self.changes

    def _set_outputs(self, old: ir.Value, new: ir.Value) -> None:
        positions = self._positions.pop(old)
        for position in positions:
            self.graph.outputs[position] = new
        self._positions.setdefault(new, []).extend(positions)


Visit = Callable[[Edit, ir.Node], object]


@dataclass(frozen=True)
class Lifted:
    """An operator that idioms put into graphs, as a key of the table that `sweep` takes."""

    op_type: str


Operators = str | Lifted | tuple[str | Lifted, ...]
"""One operator or several; a mere name is one of the default domain."""


def sweep(model: ir.Model, visits: Visit | Mapping[Operators, Visit]) -> int:
    """Show the nodes of every graph, in topological order, to functions; gives the number of changes that these made.

    `visits` says who is shown which operators: `{"Add": _bias, ("Conv", Lifted("PaddedConv")): _layer}`. For a pattern
    that is not found from certain operators it is one function, which sees every node.
    """
    changes = 0
    names = Names(model)
    shown = visits if callable(visits) else _by_operator(visits)
    for region in list(regions(model)):
        edit = Edit(region, names)
        for node, visit in _visits(region.graph, shown):
            if not edit.is_dropped(node):
                visit(edit, node)
        changes += edit.finish()
    return changes


def _by_operator(visits: Mapping[Operators, Visit]) -> dict[str, dict[str, Visit]]:
    """Return the functions of a table by the operator's name, then by its domain."""
    found: dict[str, dict[str, Visit]] = {}
    for operators, visit in visits.items():
        for operator in operators if isinstance(operators, tuple) else (operators,):
            name = operator.op_type if isinstance(operator, Lifted) else operator
            domain = DOMAIN if isinstance(operator, Lifted) else ""
            if found.setdefault(name, {}).setdefault(domain, visit) is not visit:
                raise ValueError(f"two functions of one table ask for {name}")
    return found


def _visits(graph: ir.Graph, shown: Visit | dict[str, dict[str, Visit]]) -> Iterator[tuple[ir.Node, Visit]]:
    """Go through the nodes that somebody wants to see, in order. The others, most of all, must cost next to nothing:
    a hundred passes go through every graph."""
    if callable(shown):
        for node in graph:
            yield node, shown
        return
    for node in graph:
        by_domain = shown.get(node.op_type)
        if by_domain is not None and node.domain in by_domain:
            yield node, by_domain[node.domain]


def initialiser(
    graph: ir.Graph,
    name: str,
    data: ir.TensorProtocol | Array,
    reason: str = "a step of ours has made it",
    *,
    is_named: bool = False,
) -> ir.Value:
    """Return a new initialiser of `graph` that is a constant, and not trained; the `reason` says why it is there. It
    `is_named` if the name is the original's, whatever that looks like."""
    value = _initialiser(graph, name, data)
    mark_made(value, reason, is_named=is_named)
    return value


def weight_initialiser(
    graph: ir.Graph, name: str, data: ir.TensorProtocol | Array, reason: str, *, is_named: bool = False
) -> ir.Value:
    """Return a new initialiser of `graph` that was a weight in the original, or holds the numbers of one; the `reason`
    says how we know. It `is_named` if the name is the original's, whatever that looks like."""
    value = _initialiser(graph, name, data)
    mark_restored(value, reason, is_named=is_named)
    return value


def _initialiser(graph: ir.Graph, name: str, data: ir.TensorProtocol | Array) -> ir.Value:
    tensor = data if not isinstance(data, np.ndarray) else ir.Tensor(data, name=name)
    value = ir.Value(
        name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def _node(
    domain: str,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Iterable[ir.Attr],
    outputs: Sequence[ir.Value],
    *,
    before: ir.Node,
    beside: ir.Node,
    name: str | None,
) -> ir.Node:
    """Make a node to be put in front of `before`: it has the version of that one, where it is of the same domain, and
    the metadata of `beside`, whose module it belongs to."""
    return ir.Node(
        domain,
        op_type,
        inputs,
        attributes,
        outputs=outputs,
        version=before.version if before.domain == domain else None,
        name=name,
        metadata_props=dict(beside.metadata_props),
    )


def _identity(value: ir.Value | None) -> object:
    """What is the same for the same value, and for constants of one or a few numbers that are the same."""
    tensor = constant(value)
    if tensor is None or tensor.size > _FEW or may_be_trained(value):
        return value
    return tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
