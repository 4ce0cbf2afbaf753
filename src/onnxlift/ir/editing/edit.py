"""Edit a graph so that its outputs keep their names, order and number.

A pass visits nodes in topological order and redirects the uses of values. A node that it drops lets go of its inputs
at once, so that the number of uses of each value stays right. It leaves the graph only when the sweep is over, together
with all others: removing nodes one by one would look at all graph outputs each time.
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
        """Return `base`, with a number if it is taken, and reserve it."""
        taken = self._names()
        name = base
        while name in taken:
            self._numbers[base] += 1
            name = f"{base}_{self._numbers[base]}"
        taken[name] += 1
        return name

    def like(self, name: str) -> str:
        """Return and reserve a free name that differs from `name` by its number only: `linear_3` -> `linear_7`."""
        base = re.sub(r"_\d{1,9}$", "", name)
        taken = self._names()
        while f"{base}_{self._numbers[base]}" in taken:
            self._numbers[base] += 1
        return self.fresh(f"{base}_{self._numbers[base]}")

    def distinct(self, name: str) -> str:
        """Return the name for a value that is called `name` and moves to another graph.

        It is `name` itself, or a new one if another value of the model has the same name."""
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
        """Values that are known to have many readers. Counting these again would make a list of them each time."""
        self._dropped: dict[ir.Node, None] = {}
        self._shared: dict[tuple[object, ...] | None, ir.Value] = {}
        self._positions: dict[ir.Value, list[int]] = {}
        for position, value in enumerate(self.graph.outputs):
            self._positions.setdefault(value, []).append(position)

    def redirect(self, old: ir.Value, new: ir.Value) -> bool:
        """Let all readers of `old` read `new`. If `can_redirect` says no, return False and change nothing.

        If `old` is an output of the graph, `new` becomes that output and takes over its name.
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
        """Tell whether `redirect` is possible.

        It is, unless `old` is an output of the graph and `new` cannot become it: `new` must be made by a node of this
        graph, and not be an output already."""
        producer = new.producer()
        owned = producer is not None and producer.graph is self.graph and not new.is_graph_output()
        return owned or old not in self._positions

    def bypass(self, node: ir.Node, source: ir.Value | None) -> bool:
        """Remove a node whose first output is `source` unchanged: its readers read `source`. Tell whether it worked.

        It does not if `source` is None, another output of the node is used, or `redirect` is not possible."""
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
        """Replace a node by initialisers that hold `results`, under the names of its outputs."""
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
        """Put a new node in the place of `node`, which has one output; return the new node.

        The new output has the old one's name, type and shape. The new node has the domain of `node` unless another is
        given, and the name and metadata of `named_by` (by default of `node`)."""
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
        """Put one new node in the place of several that have one output each; return the new node.

        It has an output for each of `nodes`, in their order, with the name, type and shape of the old one. It stands in
        front of `before`, which must come before all readers of these outputs. Its name and metadata are those of
        `named_by` (by default of `before`)."""
        olds = [node.outputs[0] for node in nodes]
        outputs = [ir.Value(type=old.type, shape=old.shape) for old in olds]
        source = before if named_by is None else named_by
        domain = before.domain if domain is None else domain
        new = _node(domain, op_type, inputs, attributes, outputs, before=before, beside=source, name=source.name)
        new.doc_string = source.doc_string
        self.graph.insert_before(before, new)
        for node, old, output in zip(nodes, olds, outputs, strict=True):
            self.take_over(old, output)
            self.drop(node)
        self.changes += 1
        return new

    def take_over(self, old: ir.Value, new: ir.Value) -> None:
        """Give `new` the name, the metadata and all readers of `old`; if `old` is a graph output, `new` becomes it."""
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
        """Insert a new node in front of `before`, and return its output.

        The output has the element type of `like` and the given shape. Its name is made from `name`, in the form of
        generated names: `name_output_0`. The node belongs to the module of `beside` (by default of `before`). If only
        one node makes its inputs, it stands right behind that node, so that the author's order of computation stays.
        With `shared`, asking for the same node again gives the same output; the node then stands in front of the
        `before` of the first call."""
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
        """Insert a Shape node in front of `before`, and return the shape of `value` as its output."""
        integers = ir.Value(type=ir.TensorType(ir.DataType.INT64))
        axes = None if value.shape is None else len(value.shape)
        return self.insert(before, "Shape", [value], like=integers, shape=[axes], name=f"{value.name}.shape")

    def axes(self, node: ir.Node, axes: Sequence[int]) -> tuple[list[ir.Value], list[ir.Attr]]:
        """Return inputs and attributes that give a Squeeze or Unsqueeze in the place of `node` its axes.

        Since opset 13 the axes are an input, before that an attribute."""
        if self.opset(node) < 13:
            return [], [ir.AttrInt64s("axes", axes)]
        return [self.constant(f"{node.outputs[0].name}.axes", np.array(axes, np.int64))], []

    def constant(self, name: str, array: Array) -> ir.Value:
        """Add a constant to this graph, and return it. Its name is `name`, with a number if that is taken."""
        return initialiser(self.graph, self.names.fresh(name), array)

    def adopt_weights(self, branch: ir.Graph) -> None:
        """Move the initialisers of a branch, none of which is an output of it, into this graph."""
        for name, value in list(branch.initializers.items()):
            free = self.names.distinct(name)  # while the value is still in a graph, and counts
            del branch.initializers[name]
            value.name = free
            self.graph.register_initializer(value)

    def drop(self, node: ir.Node) -> None:
        """Drop the node: it lets go of its inputs now, and is removed from the graph when the sweep ends."""
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        self._dropped[node] = None

    def is_output(self, value: ir.Value) -> bool:
        return value in self._positions

    def is_dropped(self, node: ir.Node) -> bool:
        return node in self._dropped

    def finish(self) -> int:
        """Remove the dropped nodes from the graph; return the number of changes."""
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
class LiftedOperator:
    """An operator of the domain `onnxlift`, which idioms put into graphs; used as a key of the table for `sweep`."""

    op_type: str


Operators = str | LiftedOperator | tuple[str | LiftedOperator, ...]
"""One operator or several. A plain string names an operator of the default domain."""


def sweep(model: ir.Model, visits: Visit | Mapping[Operators, Visit]) -> int:
    """Call functions on the nodes of every graph, in topological order; return the number of changes that they made.

    `visits` maps operators to the function that is called on their nodes:

        {"Add": _bias, ("Conv", Lifted("PaddedConv")): _layer}

    If a pattern cannot be found from certain operators, `visits` is one function, which is called on every node.
    """
    changes = 0
    names = Names(model)
    shown = visits if callable(visits) else _by_operator(visits)
    for region in list(regions(model)):
        edit: Edit | None = None  # until there is a node to visit: mostly there is none
        for node, visit in _visits(region.graph, shown):
            edit = edit or Edit(region, names)
            if not edit.is_dropped(node):
                visit(edit, node)
        changes += edit.finish() if edit is not None else 0
    return changes


def _by_operator(visits: Mapping[Operators, Visit]) -> dict[str, dict[str, Visit]]:
    """Return the functions of a table by the operator's name, then by its domain."""
    found: dict[str, dict[str, Visit]] = {}
    for operators, visit in visits.items():
        for operator in operators if isinstance(operators, tuple) else (operators,):
            name = operator.op_type if isinstance(operator, LiftedOperator) else operator
            domain = DOMAIN if isinstance(operator, LiftedOperator) else ""
            if found.setdefault(name, {}).setdefault(domain, visit) is not visit:
                raise ValueError(f"two functions of one table ask for {name}")
    return found


def _visits(graph: ir.Graph, shown: Visit | dict[str, dict[str, Visit]]) -> Iterator[tuple[ir.Node, Visit]]:
    """Yield the nodes for which there is a function, in order, each with its function.

    Most nodes have none. Skipping them must cost next to nothing, since a hundred passes go through every graph."""
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
    """Add an initialiser to `graph` that is a constant and not trained, and return it.

    `reason` says why it is there. `is_named` says that the name comes from the original, even if it looks made up."""
    value = _initialiser(graph, name, data)
    mark_made(value, reason, is_named=is_named)
    return value


def weight_initialiser(
    graph: ir.Graph, name: str, data: ir.TensorProtocol | Array, reason: str, *, is_named: bool = False
) -> ir.Value:
    """Add an initialiser to `graph` that was a weight in the original, or holds the numbers of one, and return it.

    `reason` says how we know. `is_named` says that the name comes from the original, even if it looks made up."""
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
    """Make a node that is to stand in front of `before`.

    If both are of the same domain, it has the opset version of `before`. It has the metadata of `beside`, so that it
    belongs to the same module."""
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
    """Return a key that is equal for inputs that can stand for each other.

    That is the value itself. For a constant of a few numbers that nobody trains it is its type, shape and bytes."""
    tensor = constant(value)
    if tensor is None or tensor.size > _FEW or may_be_trained(value):
        return value
    return tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
