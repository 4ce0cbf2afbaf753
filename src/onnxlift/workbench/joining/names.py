"""Keep the names of two models apart that are joined: values, nodes and functions.

1. What callers see keeps its name: an inner name gives way to that of an input or output of the other model.
2. If both are seen, or neither is, the second model's name gives way.
3. A name gives way by a prefix, and only if it must, unless a prefix is asked for: then all of that model's get it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes, subgraphs


def graphs_within(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yield a graph, and all subgraphs in it."""
    yield graph
    for node in all_nodes(graph):
        yield from subgraphs(node)


def values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield all values that a graph and its subgraphs define: inputs, initialisers and outputs of nodes."""
    for each in graphs_within(graph):
        yield from each.inputs
        yield from (value for value in each.initializers.values() if not value.is_graph_input())
        yield from (value for node in each for value in node.outputs)


def new_names(
    first: Collection[str],
    second: Collection[str],
    *,
    seen: tuple[Collection[str], Collection[str]],
    prefixes: tuple[str, str] = ("", ""),
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the new names in the first and in the second model, by the old ones, for those that change.

    `seen` are the names that callers of each see."""
    renamed: tuple[dict[str, str], dict[str, str]] = ({}, {})
    taken = {*first, *second}
    for names, prefix, new in zip((first, second), prefixes, renamed, strict=True):
        if prefix:
            new.update((name, f"{prefix}{name}") for name in sorted(names))
            taken.update(new.values())
    of_first = {renamed[0].get(old, old): old for old in first}
    for old in sorted(second):
        name = renamed[1].get(old, old)
        if name not in of_first:
            continue
        gives_way = 0 if old in seen[1] and of_first[name] not in seen[0] else 1
        renamed[gives_way][of_first[name] if gives_way == 0 else old] = _fresh(f"{'ab'[gives_way]}_{name}", taken)
    return renamed


def _fresh(name: str, taken: set[str]) -> str:
    base, number = name, 1
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def rename_values(graph: ir.Graph, names: dict[str, str]) -> None:
    """Give values of a graph and of its subgraphs other names."""
    for value in list(values_of(graph)) if names else ():
        if value.name in names:
            value.name = names[value.name]


def name_nodes(first: ir.Graph, second: ir.Graph, prefixes: tuple[str, str]) -> None:
    """Give the nodes of both graphs names that are unique in both together."""
    names = [{node.name for node in all_nodes(graph) if node.name} for graph in (first, second)]
    for graph, renamed in zip((first, second), new_names(*names, seen=((), ()), prefixes=prefixes), strict=True):
        for node in all_nodes(graph):
            if node.name in renamed:
                node.name = renamed[node.name]


def name_functions(first: ir.Model, second: ir.Model, prefixes: tuple[str, str]) -> int:
    """Rename functions that would be mistaken for others in the joined model; return how many both models share.

    A function of the second that is equal to one of the first is shared. One that differs from a function or an
    operator of the same name in the other model is renamed."""
    shared = _equal_functions(first, second) if not any(prefixes) else set()
    for own, other, prefix, letter in ((first, second, prefixes[0], "a"), (second, first, prefixes[1], "b")):
        used = {node.op_identifier() for node in _every_node(other)} - shared
        if own is second:
            used |= first.functions.keys() - shared
        taken = {function[1] for function in (*first.functions, *second.functions)}
        renamed = {
            identifier: f"{prefix}{identifier[1]}" if prefix else _fresh(f"{letter}_{identifier[1]}", taken)
            for identifier in own.functions
            if prefix or (identifier in used and (own is second or identifier not in other.functions))
        }
        _rename_functions(own, renamed)
    return len(shared)


def _every_node(model: ir.Model) -> Iterator[ir.Node]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield from all_nodes(graph)


def _equal_functions(first: ir.Model, second: ir.Model) -> set[ir.OperatorIdentifier]:
    """Return the functions that both models define in the same way, down to those that they call."""
    found = {
        identifier
        for identifier, function in second.functions.items()
        if identifier in first.functions and _bytes(first.functions[identifier]) == _bytes(function)
    }
    while True:
        calls_other = {
            identifier
            for identifier in found
            for node in all_nodes(second.functions[identifier].graph)
            if node.op_identifier() not in found
            and (node.op_identifier() in second.functions or node.op_identifier() in first.functions)
        }
        if not calls_other:
            return found
        found -= calls_other


def _bytes(function: ir.Function) -> bytes:
    return bytes(ir.serde.serialize_function(function).SerializeToString(deterministic=True))


def _rename_functions(model: ir.Model, names: dict[ir.OperatorIdentifier, str]) -> None:
    for node in list(_every_node(model)) if names else ():
        if node.op_identifier() in names:
            node.op_type = names[node.op_identifier()]
    for identifier, name in names.items():
        function = model.functions.pop(identifier)
        function.name = name
        model.functions[function.identifier()] = function
