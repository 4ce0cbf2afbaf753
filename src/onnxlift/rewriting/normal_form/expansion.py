"""Replace calls by bodies: the part that inlining functions and expanding operators have in common.

    y = f(x, alpha=2)   ->   the nodes of f, reading x for f's input, with 2 for references to alpha

Every copy of a body gets value and node names of its own. If the body uses another version of an opset than the model,
its nodes say so in `node.version`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from onnxlift.errors import LoadError, quote
from onnxlift.ir.checking.form import MAX_NESTING
from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.walk import Region, all_nodes, subgraphs

Operators = Callable[[str, str], bool]
"""Tells whether an operator, given by domain and op type, is in a set."""

BodyOf = Callable[[ir.Node], ir.Function | None]
"""Gives the body to replace a node by; None if the node stays."""

CALLS = "calls"
"""Key in `Node.meta`. It maps the name of each call that the node was expanded from to the name of the function."""

NameOf = Callable[[ir.Node, ir.Node], str]
"""Gives the name of a copy, from the call and the node of the body."""


class Expansion:
    """Replaces calls by bodies, and calls inside the bodies too. `changes` counts them."""

    def __init__(self, model: ir.Model, body_of: BodyOf, name_of: NameOf, names: Names | None = None) -> None:
        self.opsets = model.opset_imports
        self.body_of = body_of
        self.name_of = name_of
        self.changes = 0
        self._names = Names(model) if names is None else names
        self._node_names: dict[str, int] = {node.name: 1 for node in all_nodes(model.graph) if node.name}

    def expand(self, graph: ir.Graph, depth: int = 0) -> None:
        """Expand all calls in `graph` and the graphs inside it."""
        if depth > MAX_NESTING:
            raise LoadError(
                f"subgraphs are nested more than {MAX_NESTING} deep in graph {quote(graph.name or '')}, once the "
                "functions that it calls are expanded."
            )
        edit = Edit(Region(graph, self.opsets, depth), self._names)
        waiting = list(reversed(graph))
        while waiting:
            node = waiting.pop()
            body = self.body_of(node)
            if body is not None:
                waiting.extend(reversed(self.replace(edit, node, body)))
                continue
            for inner in subgraphs(node):
                self.expand(inner, depth + 1)
        self.changes += edit.finish()

    def replace(self, edit: Edit, call: ir.Node, body: ir.Function) -> list[ir.Node]:
        """Put a copy of `body` before `call` and remove the call; return the nodes of the copy."""
        if len(call.inputs) > len(body.inputs) or len(call.outputs) > len(body.outputs):
            raise LoadError(
                f"node {quote(call.name or '')} passes {len(call.inputs)} inputs to {quote(body.name)} and takes "
                f"{len(call.outputs)} outputs from it; it has {len(body.inputs)} and {len(body.outputs)}."
            )
        copy = _Copy(self, call, body)
        nodes = [copy.node(node) for node in body]
        edit.graph.insert_before(call, nodes)
        for output, inner in zip(call.outputs, body.outputs, strict=False):
            result = copy.values.get(inner, inner)
            if result is None:
                self._give_nothing(edit, call, output)
                continue
            if not edit.can_redirect(output, result):
                connection = ir.Node("", "Identity", [result], name=call.name, metadata_props=call.metadata_props)
                connection.outputs[0].name = self._names.fresh(output.name or "output")
                edit.graph.insert_before(call, connection)
                result = connection.outputs[0]
            edit.redirect(output, result)
            if output.name and result.producer() in nodes and not edit.is_output(result):
                # Keep the caller's name: it says what the result is for.
                result.name, output.name = output.name, None
        edit.drop(call)
        edit.changes += 1
        return nodes

    def _give_nothing(self, edit: Edit, call: ir.Node, output: ir.Value) -> None:
        """Leave out an output of the call that is an optional input of the body, if the call does not pass that
        input."""
        if edit.is_output(output):
            raise LoadError(
                f"output {quote(output.name or '')} of the graph is an input of {quote(call.op_type)} that node "
                f"{quote(call.name or '')} does not pass."
            )
        for user, index in output.uses():
            user.replace_input_with(index, None)

    def fresh_node_name(self, name: str) -> str:
        count = self._node_names.get(name, 0)
        self._node_names[name] = count + 1
        return name if not count else self.fresh_node_name(f"{name}_{count}")

    def fresh_value_name(self, name: str) -> str:
        return self._names.fresh(name)

    def version_in(self, body: ir.Function, domain: str) -> int | None:
        """Return the version of the opset `domain` in the body; None if it is the version of the model."""
        version = body.opset_imports.get(domain)
        return None if version == self.opsets.get(domain) else version


class _Copy:
    """One copy of a body. `values` maps each value of the body to that of the copy, and each input of the body to what
    is passed."""

    def __init__(self, expansion: Expansion, call: ir.Node, body: ir.Function) -> None:
        self.expansion = expansion
        self.call = call
        self.body = body
        self.attributes = _passed_attributes(call, body)
        self.calls = {**call.meta.get(CALLS, {}), (call.name or "").strip("/"): body.name}
        passed = [*call.inputs, *[None] * (len(body.inputs) - len(call.inputs))]
        self.values: dict[ir.Value, ir.Value | None] = dict(zip(body.inputs, passed, strict=True))

    def node(self, node: ir.Node) -> ir.Node:
        attributes = [self.attribute(name, attribute) for name, attribute in node.attributes.items()]
        copy = ir.Node(
            node.domain,
            node.op_type,
            [self.values.get(value, value) if value is not None else None for value in node.inputs],
            [attribute for attribute in attributes if attribute is not None],
            overload=node.overload,
            num_outputs=len(node.outputs),
            version=self.expansion.version_in(self.body, node.domain),
            name=self.expansion.fresh_node_name(self.expansion.name_of(self.call, node)),
            doc_string=node.doc_string,
            metadata_props={**self.call.metadata_props, **node.metadata_props},
        )
        copy.meta[CALLS] = self.calls
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            self.adopt(old, new)
        return copy

    def adopt(self, old: ir.Value, new: ir.Value) -> ir.Value:
        """Let `new` stand for `old` in the copy, and return it. Its shape is left to inference, since the name of a
        size means another size in each call."""
        new.name = self.expansion.fresh_value_name(old.name) if old.name else old.name
        new.type = old.type
        self.values[old] = new
        return new

    def attribute(self, name: str, attribute: ir.Attr) -> ir.Attr | None:
        """Return a copy of the attribute, with references resolved. Return None for a reference to an attribute that
        the call does not pass: the copy does not have it then."""
        if attribute.is_ref():
            found = self.attributes.get(attribute.ref_attr_name or "")
            return None if found is None else self.attribute(name, found)
        match attribute.type:
            case ir.AttributeType.GRAPH:
                return ir.AttrGraph(name, self.graph(attribute.as_graph()))
            case ir.AttributeType.GRAPHS:
                return ir.AttrGraphs(name, [self.graph(graph) for graph in attribute.as_graphs()])
        return ir.Attr(name, attribute.type, attribute.value, doc_string=attribute.doc_string)

    def graph(self, graph: ir.Graph) -> ir.Graph:
        inputs = [self.adopt(value, ir.Value(shape=value.shape)) for value in graph.inputs]
        initialisers = [
            self.adopt(value, ir.Value(shape=value.shape, const_value=value.const_value))
            for value in graph.initializers.values()
        ]
        nodes = [self.node(node) for node in graph]
        outputs = [self.values.get(value, value) for value in graph.outputs]
        return ir.Graph(
            inputs,
            [value for value in outputs if value is not None],
            nodes=nodes,
            initializers=initialisers,
            opset_imports=dict(graph.opset_imports),
            name=graph.name,
        )


def _passed_attributes(call: ir.Node, body: ir.Function) -> Mapping[str, ir.Attr]:
    defaults = {name: attribute for name, attribute in body.attributes.items() if attribute.value is not None}
    return {**defaults, **call.attributes}
