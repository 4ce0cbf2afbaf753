"""Rules on names: of nodes, and of values in subgraphs."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.workbench.lint.rule import Found, Place, by_reading, lint_rule
from onnxlift.workbench.lint.subject import Body, File


@lint_rule("OL101", "unnamed-node", "info", "file", fix=by_reading)
def nodes_without_a_name(file: File) -> Iterable[Found]:
    """A node has no name.

    ONNX does not ask for names. But profiles, error messages and tools for quantisation tell nodes apart by them, and
    a node without one appears there as an empty string.

    `--fix` names such nodes by operator and position."""
    for body in file.bodies:
        for index, node in enumerate(body.nodes):
            if not node.name and node.op_type != "Constant":  # runtimes make it an initialiser, without its name
                yield Found(body.place(index), "it has no name.")


@lint_rule("OL102", "repeated-node-name", "error", "file", fix=by_reading)
def nodes_with_the_same_name(file: File) -> Iterable[Found]:
    """Two nodes of a graph have the same name.

    ONNX Runtime refuses such a model ("two nodes with same node name"), although onnx's checker does not see it. Copies
    of nodes that a script has made are the usual reason. Constant nodes, and nodes of different subgraphs, may share a
    name: it takes these.

    `--fix` adds a number to the names of all but the first."""
    for body in file.bodies:
        names: set[str] = set()
        for index, node in enumerate(body.nodes):
            if node.op_type == "Constant":
                continue
            if node.name and node.name in names:
                yield Found(body.place(index), f"another node is called {quote(node.name)} as well.")
            names.add(node.name)


def name_apart_inside(model: ir.Model) -> None:
    """Rename values of subgraphs whose names hide those of values around them."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        _rename_hiding(graph, frozenset(), _all_names(graph))


@lint_rule("OL103", "hidden-name", "error", "file", fix=name_apart_inside)
def names_that_hide_those_around(file: File) -> Iterable[Found]:
    """A value in a subgraph has the name of a value of the graph around it.

    ONNX wants each name to be given once, in a graph with all its subgraphs. onnx's checker and ONNX Runtime refuse the
    model, or read the wrong value.

    `--fix` renames the inner values; or give them a prefix where the model is built."""
    for body in file.bodies:
        hiding = (name for name in body.defined if any(name in each.defined for each in body.outer))
        for name in sorted({*hiding} - _captured(body)):
            text = f"its value {quote(name)} has the name of one in the graph around it."
            yield Found(_body_place(body, name), text)


def _captured(body: Body) -> frozenset[str]:
    """Return the inputs of a branch of an If: some exporters declare there what the branch reads from outside."""
    is_branch = body.title.startswith(("then_branch", "else_branch"))
    return frozenset(value.name for value in body.graph.input) if body.graph is not None and is_branch else frozenset()


def _body_place(body: Body, name: str) -> Place:
    return Place(body.title, value=name)


def _all_names(graph: ir.Graph) -> set[str]:
    names = {value.name for value in _values(graph) if value.name}
    for node in graph:
        for inner in subgraphs(node):
            names |= _all_names(inner)
    return names


def _values(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


def _rename_hiding(graph: ir.Graph, around: frozenset[str], taken: set[str]) -> None:
    for value in _values(graph):
        if value.name and value.name in around:
            number, name = 1, value.name
            while f"{name}_{number}" in taken:
                number += 1
            taken.add(f"{name}_{number}")
            _rename(graph, value, f"{name}_{number}")
    inner_scope = around | {value.name for value in _values(graph) if value.name}
    for node in graph:
        for inner in subgraphs(node):
            _rename_hiding(inner, inner_scope, taken)


def _rename(graph: ir.Graph, value: ir.Value, name: str) -> None:
    old = value.name or ""
    if graph.initializers.get(old) is value:
        del graph.initializers[old]
        value.name = name
        graph.initializers[name] = value
    else:
        value.name = name
