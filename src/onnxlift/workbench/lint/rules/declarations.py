"""Rules on what a file declares, and on the order and the leftovers of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.graph.walk import all_nodes, regions
from onnxlift.ir.reading.protos import subgraphs
from onnxlift.ir.reading.structure import DEFAULTS_SINCE
from onnxlift.rewriting.normal_form.dead_code import remove_functions
from onnxlift.sizes import format_bytes
from onnxlift.workbench.lint.rule import Found, Place, by_reading, lint_rule
from onnxlift.workbench.lint.subject import Body, File, value_place

_TRACES = ("stack_trace",)
_TRACED = ('File "', ".py(", ".py:")
_SMALLEST_TRACES = 1024


@lint_rule("OL111", "weight-as-input", "warning", "file")
def weights_among_the_inputs(file: File) -> Iterable[Found]:
    """A weight is listed among the inputs as well.

    Since IR version 4 that makes it the default value of an input, which a caller may override. So a runtime must not
    fold it, fuse it or pack it: ONNX Runtime warns, and is slower. Old exporters listed all weights so, because IR
    version 3 asked for it.

    Remove the name from the inputs of the graph (in PyTorch: export without keep_initializers_as_inputs). A single
    number, which is often meant as a default, is not reported."""
    if file.proto.ir_version < DEFAULTS_SINCE:
        return
    inputs = {value.name for value in file.proto.graph.input}
    for tensor in file.proto.graph.initializer:
        if tensor.name in inputs and prod(tensor.dims) > 1:
            yield Found(value_place("weight", tensor.name), "it is also an input, which a caller may override.")


@lint_rule("OL112", "unsorted-nodes", "warning", "file", fix=by_reading)
def nodes_before_those_they_read_from(file: File) -> Iterable[Found]:
    """A node comes before a node whose output it reads.

    ONNX wants nodes sorted. onnx's checker refuses others; ONNX Runtime sorts them itself, and smaller runtimes fail or
    compute nonsense.

    `--fix` sorts them."""
    for body in file.bodies:
        made = {name: index for index, node in enumerate(body.nodes) for name in node.output if name}
        for index, node in enumerate(body.nodes):
            late = [name for name in _read_by(node) if made.get(name, -1) > index]
            if late:
                yield Found(body.place(index), f"it reads {quote(late[0])}, which a later node makes.")


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node reads, its subgraphs included."""
    yield from node.input
    for graph in subgraphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own |= {name for inner in graph.node for name in inner.output}
        for inner in graph.node:
            yield from (name for name in _read_by(inner) if name not in own)
        yield from (value.name for value in graph.output if value.name not in own)


@lint_rule("OL113", "outer-output", "error", "file", fix=by_reading)
def subgraphs_that_return_an_outer_value(file: File) -> Iterable[Found]:
    """A subgraph returns a value of the graph around it.

    onnx's checker and ONNX Runtime refuse that ("Subgraph output is an outer scope value being returned directly").

    `--fix` puts an Identity in between."""
    for body in file.bodies:
        if body.graph is None or not body.outer:
            continue
        for value in body.graph.output:
            if value.name not in body.defined:
                text = f"its output {quote(value.name)} is a value of the graph around it."
                yield Found(Place(body.title, value=value.name), text)


def drop_unused_imports(model: ir.Model) -> None:
    """Drop imports of opsets of which there is no node."""
    used = {node.domain for region in regions(model) for node in region.graph}
    for holder in (model.graph, *(function.graph for function in model.functions.values())):
        for domain in set(holder.opset_imports) - used - {""}:
            del holder.opset_imports[domain]


@lint_rule("OL114", "unused-opset", "info", "file", fix=drop_unused_imports)
def imports_without_a_node(file: File) -> Iterable[Found]:
    """An opset is imported, and no node is of its domain.

    A runtime that does not know the domain, or not this version of it, may refuse the model for nothing.

    `--fix` drops the import."""
    used = {plain_domain(node.domain) for body in file.bodies for node in body.nodes}
    for domain in sorted(set(file.opsets) - used - {""}):
        text = f"opset {file.opsets[domain]} of domain {quote(domain)} is imported, and no node is of it."
        yield Found(Place("the model"), text)


def drop_traces(model: ir.Model) -> None:
    """Drop stack traces from the notes on nodes and values."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        for node in all_nodes(graph):
            if node.doc_string and _is_trace(node.doc_string):
                node.doc_string = None
            for key in [key for key in node.metadata_props if key.endswith(_TRACES)]:
                del node.metadata_props[key]


@lint_rule("OL116", "stack-traces", "info", "file", fix=drop_traces)
def stack_traces_in_the_file(file: File) -> Iterable[Found]:
    """The file holds stack traces of the program that exported it.

    They show paths of the machine and lines of the code, which are nobody's business once the model is shipped, and
    they take room.

    `--fix` removes them. They help while you debug an export."""
    nodes = [node for body in file.bodies for node in body.nodes]
    docs = [node.doc_string for node in nodes if _is_trace(node.doc_string)]
    docs += [entry.value for node in nodes for entry in node.metadata_props if entry.key.endswith(_TRACES)]
    size = sum(map(len, docs))
    if size >= _SMALLEST_TRACES:
        yield Found(Place("the model"), f"its nodes hold {len(docs):,} stack traces, {format_bytes(size)} in all.")


def _is_trace(text: str) -> bool:
    return any(mark in text for mark in _TRACED)


def _functions_called(file: File) -> set[tuple[str, str, str]]:
    by_name = {(plain_domain(each.domain), each.name, each.overload): each for each in file.proto.functions}
    bodies: dict[object, list[Body]] = {}
    for body in file.bodies:
        top = body.top.function
        key = None if top is None else (plain_domain(top.domain), top.name, top.overload)
        bodies.setdefault(key, []).append(body)
    called: set[tuple[str, str, str]] = set()
    waiting: list[object] = [None]
    while waiting:
        for body in bodies.get(waiting.pop(), ()):
            for node in body.nodes:
                key = (plain_domain(node.domain), node.op_type, node.overload)
                if key in by_name and key not in called:
                    called.add(key)
                    waiting.append(key)
    return called


def drop_unused_functions(model: ir.Model) -> None:
    """Drop functions that nobody calls."""
    remove_functions(model)


@lint_rule("OL115", "unused-function", "info", "file", fix=drop_unused_functions)
def functions_that_nobody_calls(file: File) -> Iterable[Found]:
    """A function of the model is never called.

    It takes room, and a runtime may refuse the model for an operator in it that it does not know.

    `--fix` removes it."""
    called = _functions_called(file)
    for body in file.bodies:
        each = body.function
        if each is not None and (plain_domain(each.domain), each.name, each.overload) not in called:
            yield Found(Place(body.title), "nobody calls it.")
