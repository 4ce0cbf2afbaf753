"""Rules on what has no effect: dead nodes, unused weights and inputs, and leftovers of exporters."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import static_elements
from onnxlift.ir.graph.types import shape_text
from onnxlift.ir.graph.walk import Region, inner_nodes, regions, subgraphs
from onnxlift.rewriting.normal_form import dead_code
from onnxlift.rewriting.simplifying import cast_chains, constant_if
from onnxlift.rewriting.simplifying.cast_chains import is_lossless
from onnxlift.sizes import format_bytes
from onnxlift.workbench.lint.constants import know_constants, without_functions
from onnxlift.workbench.lint.rule import Found, lint_rule
from onnxlift.workbench.lint.subject import Graph, value_place

_RANDOM = frozenset("RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial".split())
_GROWING = frozenset("Expand Tile ConstantOfShape Range OneHot EyeLike DequantizeLinear Resize Pad".split())
"""What gives more numbers than it takes, so that the result is better computed than stored."""
_LARGEST_RESULT = 1 << 20
_LONGEST_CHAIN = 1000


@lint_rule("OL401", "dead-node", "warning", "graph", fix=dead_code.run)
def nodes_without_effect(graph: Graph) -> Iterable[Found]:
    """No output of the model depends on a node.

    It costs time in runtimes that do not remove it, and may hold weights. It is a leftover of an export, or belonged to
    an output that was taken away.

    `--fix` removes it, with the weights that only it has read."""
    dead: set[ir.Node] = set()
    found: list[tuple[Region, ir.Node]] = []
    for region in reversed(graph.regions):  # inner graphs first, as a dead node inside may be the last reader
        for node in reversed(region.graph):
            used = (user for value in node.outputs for user in value.consumers() if user not in dead)
            if any(value.is_graph_output() for value in node.outputs) or any(True for _ in used):
                continue
            dead.update((node, *inner_nodes(node)))
            found.append((region, node))
    inside = {inner for _, node in found for inner in inner_nodes(node)}
    for region, node in reversed(found):
        if node not in inside:
            yield Found(graph.place(region, node), "no output depends on it.")


def drop_unused_weights(model: ir.Model) -> None:
    """Drop initialisers that nobody reads."""
    for region in regions(model):
        for name, value in list(region.graph.initializers.items()):
            if _is_unread(value):
                del region.graph.initializers[name]


def _is_unread(value: ir.Value) -> bool:
    return not (value.uses() or value.is_graph_output() or value.is_graph_input())


@lint_rule("OL402", "unused-weight", "warning", "graph", fix=drop_unused_weights)
def weights_that_nobody_reads(graph: Graph) -> Iterable[Found]:
    """A weight is stored, and no node reads it.

    It takes room in the file and in memory.

    `--fix` removes it."""
    for region in graph.regions:
        for value in region.graph.initializers.values():
            if _is_unread(value) and value.const_value is not None:
                size = format_bytes(value.const_value.nbytes)
                yield Found(value_place("weight", value.name, region), f"no node reads it ({size}).")


@lint_rule("OL403", "unused-input", "warning", "graph")
def inputs_that_nobody_reads(graph: Graph) -> Iterable[Found]:
    """An input of the model has no effect.

    Callers have to pass it all the same. Often the exporter has baked in what the input should decide (a flag, a
    length), and then every other value is ignored without a word.

    Find out whether the model was meant to depend on it. If not, export it without the input."""
    for value in graph.model.graph.inputs:
        if not value.uses() and not value.is_graph_output():
            yield Found(value_place("input", value.name), "no node reads it.")


def _bypass_identity(edit: Edit, node: ir.Node) -> None:
    edit.bypass(node, node.inputs[0])


def drop_identities(model: ir.Model) -> None:
    """Remove Identity nodes that connect nothing that could not be connected without."""
    sweep(model, {"Identity": _bypass_identity})


@lint_rule("OL404", "identity", "info", "graph", fix=drop_identities)
def identities(graph: Graph) -> Iterable[Found]:
    """An Identity passes on what its readers could read themselves.

    It is a leftover of an export. Runtimes remove it; others copy a tensor for nothing.

    `--fix` removes it, and so does `onnxlift simplify`."""
    for region, node in graph.nodes("Identity"):
        if _can_bypass(region.graph, node):
            yield Found(graph.place(region, node), "it passes its input on, unchanged.")


def _can_bypass(graph: ir.Graph, node: ir.Node) -> bool:
    source, output = node.inputs[0], node.outputs[0]
    if source is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    producer = source.producer()
    is_own = producer is not None and producer.graph is graph and not source.is_graph_output()
    return is_own or not output.is_graph_output()


def drop_dropouts(model: ir.Model) -> None:
    """Remove Dropout nodes that do nothing in inference."""
    know_constants(model)
    opsets = {region.graph: region for region in regions(model)}

    def visit(edit: Edit, node: ir.Node) -> None:
        if _does_nothing(opsets[edit.graph], node):
            edit.bypass(node, node.inputs[0])

    sweep(model, {"Dropout": visit})


@lint_rule("OL405", "dropout", "info", "graph", fix=drop_dropouts)
def dropouts_in_inference(graph: Graph) -> Iterable[Found]:
    """A Dropout is left in a model for inference, where it does nothing.

    The export was made in training mode, or without constant folding. Not every runtime removes it.

    `--fix` removes it. In PyTorch, call model.eval() before the export."""
    for region, node in graph.nodes("Dropout"):
        if _does_nothing(region, node) and _can_bypass(region.graph, node):
            is_fixable = region.function is None or len(node.inputs) < 3
            yield Found(graph.place(region, node), "it passes its input on, unchanged.", is_fixable)


def _does_nothing(region: Region, node: ir.Node) -> bool:
    if region.opset(node) < 7:
        flag = node.attributes.get("is_test")
        return flag is not None and not flag.is_ref() and bool(flag.value)
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    return static_elements(node.inputs[2]) == (0,)


def _visit_cast(edit: Edit, node: ir.Node) -> None:
    if node.inputs[0] is not None and node.inputs[0].dtype == node.outputs[0].dtype:
        edit.bypass(node, node.inputs[0])


def drop_casts(model: ir.Model) -> None:
    """Remove casts to the type that a value has, and back."""
    cast_chains.run(model)
    sweep(model, {"Cast": _visit_cast})
    dead_code.run(model)


@lint_rule("OL406", "cast", "info", "graph", fix=drop_casts)
def casts_without_effect(graph: Graph) -> Iterable[Found]:
    """A Cast gives the type that its input has already, or takes back a Cast that has lost nothing.

    Each costs a copy of the tensor. Exporters leave them where types were uncertain.

    `--fix` removes them, and so does `onnxlift simplify`."""
    for region, node in graph.nodes("Cast"):
        source, last = node.inputs[0], node.outputs[0].dtype
        if source is None or source.dtype is None or last is None or not _can_bypass(region.graph, node):
            continue
        if source.dtype == last:
            yield Found(graph.place(region, node), f"its input is {_name(last)} already.")
        elif _type_before_cast(source) == last and is_lossless(last, source.dtype):
            yield Found(graph.place(region, node), f"{_name(last)} was cast to {_name(source.dtype)} and back.")


def _type_before_cast(value: ir.Value) -> ir.DataType | None:
    """Return the type that a value had before the Cast that makes it; None if no Cast does."""
    node = value.producer()
    if node is None or not is_standard(node, "Cast") or node.inputs[0] is None:
        return None
    return node.inputs[0].dtype


def _name(dtype: ir.DataType) -> str:
    return {"float": "float32", "double": "float64"}.get(dtype.name.lower(), dtype.name.lower())


def inline_ifs(model: ir.Model) -> None:
    """Put the branches that are taken in the place of their If. Not in functions: these cannot hold initialisers."""
    know_constants(model)
    with without_functions(model):
        constant_if.run(model)


@lint_rule("OL407", "constant-if", "warning", "graph", fix=inline_ifs)
def branches_that_are_decided(graph: Graph) -> Iterable[Found]:
    """The condition of an If is known before the model runs.

    The other branch never runs, but is loaded, checked and kept in memory, and runtimes optimise little across an If.
    Tracing a model with a flag or a fixed shape makes such nodes.

    `--fix` puts the branch that is taken in the place of the If."""
    for region, node in graph.nodes("If"):
        condition = static_elements(node.inputs[0])
        if condition is not None and len(condition) == 1:
            text = f"its condition is always {bool(condition[0])}."
            yield Found(graph.place(region, node), text, region.function is None)


@lint_rule("OL408", "constant-expression", "info", "graph")
def results_that_are_known(graph: Graph) -> Iterable[Found]:
    """Nodes compute what is known before the model runs: sizes of fixed shapes, or formulas of constants.

    ONNX Runtime computes them once, when it loads the model. Others compute them in every run, and some cannot optimise
    across them.

    `onnxlift simplify` folds them."""
    for region in graph.regions:
        known = {node for node in region.graph if _is_known(node)}
        for node in region.graph:
            if node in known and _is_last(node, known):
                count = _chain(node, known)
                before = "the node" if count == 2 else f"{count - 1} nodes"
                nodes = f"it and {before} before it compute" if count > 1 else "it computes"
                yield Found(graph.place(region, node), f"{nodes} what is known{_shown(node)}.")


def _is_last(node: ir.Node, known: set[ir.Node]) -> bool:
    return any(
        value.is_graph_output() or any(user not in known for user in value.consumers()) for value in node.outputs
    )


def _is_known(node: ir.Node) -> bool:
    """Tell whether all that a node gives is known, and small enough to be stored."""
    if node.domain != "" or subgraphs(node) or node.op_type in _RANDOM or node.op_type in ("Identity", "Cast"):
        return False
    if all(static_elements(value) is not None for value in node.outputs if value.uses()):
        return any(value.uses() for value in node.outputs)
    inputs = [value for value in node.inputs if value is not None]
    if not inputs or node.op_type in _GROWING or any(constant(value) is None for value in inputs):
        return False
    return sum(tensor.nbytes for value in inputs if (tensor := constant(value)) is not None) <= _LARGEST_RESULT


def _chain(node: ir.Node, known: set[ir.Node]) -> int:
    """Return how many nodes that are known lead to this one, itself included. (It stops to count at some point.)"""
    seen, waiting = {node}, [node]
    while waiting and len(seen) < _LONGEST_CHAIN:
        for value in waiting.pop().inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer in known and producer not in seen:
                seen.add(producer)
                waiting.append(producer)
    return len(seen)


def _shown(node: ir.Node) -> str:
    elements = static_elements(node.outputs[0]) if len(node.outputs) == 1 else None
    if elements is None or len(elements) > 8:
        return ""
    return f": {shape_text(elements)}" if node.outputs[0].shape else f": {elements[0]}"
