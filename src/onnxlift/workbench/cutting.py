"""Cut a part out of a model: other inputs and outputs, and only the nodes between them, with what these need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.interface import INTERFACE, interface_of
from onnxlift.ir.graph.walk import all_nodes, inner_nodes

from .values import has_type, reads


def nodes_between(graph: ir.Graph, inputs: Collection[ir.Value], outputs: Iterable[ir.Value]) -> set[ir.Node]:
    """Return the nodes of `graph` that the outputs need if the inputs are given."""
    given = set(inputs)
    needed: set[ir.Node] = set()
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if value not in given and node is not None and node not in needed:
            needed.add(node)
            waiting.extend(reads(node))
    return needed


def dependent_values(graph: ir.Graph, values: Iterable[ir.Value]) -> set[ir.Value]:
    """Return `values`, and all values of `graph` that are computed from them."""
    found = set(values)
    for node in graph:
        if any(value in found for value in reads(node)):
            found.update(node.outputs)
    return found


def cut(model: ir.Model, nodes: Collection[ir.Node], inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> None:
    """Reduce the model, in place, to `nodes` between new inputs and outputs.

    1. Inputs that other nodes computed become inputs of the same names and types.
    2. A node that stays and computes a new input as well keeps that output under another name.
    3. Initialisers, functions and opsets stay as far as they are needed.
    """
    graph = model.graph
    for value in (*inputs, *outputs):
        check_type(value, model)
    outputs = list(outputs)
    taken = {value.name for node in all_nodes(graph) for value in node.outputs} | set(graph.initializers)
    graph.outputs.clear()
    for node in [node for node in reversed(graph) if node not in nodes]:
        _forget(node, graph)
    former = {value.name for value in graph.inputs}
    starts = [value.name for value in inputs]
    graph.inputs.clear()
    for value in inputs:
        new = value
        if value.producer() is not None or value.is_initializer():
            new = _as_input(value, graph)
            outputs = [new if output is value else output for output in outputs]
            if value.producer() is not None and value.producer() in nodes:
                value.name = _fresh(value.name or "", taken)
        graph.inputs.append(new)
    used = {value for node in graph for value in reads(node)} | set(outputs)
    for name in [name for name, value in graph.initializers.items() if value not in used]:
        del graph.initializers[name]
    graph.outputs.extend(outputs)
    _drop_functions(model)
    _drop_opsets(model)
    declare(model, ({*starts} & former) | ({value.name for value in outputs} - {*starts}))


def declare(model: ir.Model, declared: Collection[str | None]) -> None:
    """Let the model's interface be that of its graph by now. The types that the file declares hold for `declared`.

    Others have the types that inference finds; if it finds no shape, those that the file tells of values inside."""
    interface = interface_of(model)
    values = {value.name: value for value in (*model.graph.inputs, *model.graph.outputs)}
    types = {name: type_ for name, type_ in interface.types.items() if name in declared and name in values}
    for name, type_ in interface.told.items():
        if name in values and values[name].shape is None:
            types.setdefault(name, type_)
    model.meta[INTERFACE] = replace(
        interface,
        types=types,
        defaults={name: tensor for name, tensor in interface.defaults.items() if name in types},
        described=interface.described - values.keys(),
        told={name: type_ for name, type_ in interface.told.items() if name not in values},
    )


def check_type(value: ir.Value, model: ir.Model) -> None:
    """Refuse a value whose type nobody knows: it cannot be an input or an output."""
    interface = interface_of(model)
    if not has_type(value) and value.name not in interface.types and value.name not in interface.told:
        raise OnnxLiftError(
            f"nothing tells the type of value {quote(value.name or '')}, so it cannot be an input or an output. Take "
            "another value, or let the model tell the type (value_info)."
        )


def unknown_ranks(values: Iterable[ir.Value]) -> Iterator[str]:
    """Yield a note if the ranks of tensors are not known that become inputs or outputs."""
    names = [
        quote(value.name or "") for value in values if isinstance(value.type, ir.TensorType) and value.shape is None
    ]
    if names:
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        yield (
            f"not even the number of axes is known of {', '.join(names[:3])}{more}: ONNX Runtime takes the model, but "
            "onnx.checker wants a shape of inputs and outputs"
        )


def _forget(node: ir.Node, graph: ir.Graph) -> None:
    """Take a node out of the graph, and let go of all that it and its subgraphs read."""
    for each in (node, *inner_nodes(node)):
        for index in range(len(each.inputs)):
            each.replace_input_with(index, None)
    graph.remove(node)


def _as_input(value: ir.Value, graph: ir.Graph) -> ir.Value:
    """Return a new value of the same name and type, which all readers read in its place."""
    if value.is_initializer():
        del graph.initializers[value.name or ""]
    new = ir.Value(name=value.name, type=value.type, shape=value.shape, doc_string=value.doc_string)
    new.metadata_props.update(value.metadata_props)
    value.replace_all_uses_with(new)
    return new


def _fresh(name: str, taken: set[str | None]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    taken.add(f"{name}_{number}")
    return f"{name}_{number}"


def _drop_functions(model: ir.Model) -> None:
    """Drop the functions that nobody calls, directly or through others."""
    called: set[ir.OperatorIdentifier] = set()
    waiting = [model.graph]
    while waiting:
        for node in all_nodes(waiting.pop()):
            identifier = node.op_identifier()
            if identifier in model.functions and identifier not in called:
                called.add(identifier)
                waiting.append(model.functions[identifier].graph)
    for identifier in [each for each in model.functions if each not in called]:
        del model.functions[identifier]


def _drop_opsets(model: ir.Model) -> None:
    """Drop the opsets of which there are no operators. That of ONNX itself stays: some tools insist on it."""
    graphs = (model.graph, *(function.graph for function in model.functions.values()))
    used = {"", *(node.domain for graph in graphs for node in all_nodes(graph))}
    for domain in [domain for domain in model.opset_imports if domain not in used]:
        del model.opset_imports[domain]
