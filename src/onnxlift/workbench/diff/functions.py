"""Compare the functions of two models: those of one name, or of one meaning."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.functions import FunctionId, function_title
from onnxlift.ir.graph.schema import plain

from .changes import Detail, NodeChange
from .comparing import Comparer
from .labels import Labels, Table
from .matching import Borders
from .view import Level, Side, value_key


def paired_functions(sides: tuple[Side, Side], table: Table) -> list[tuple[FunctionId, FunctionId]]:
    """Pair functions by name, and the others by what they compute; from then on, calls of a pair look the same."""
    pairs = [(each, each) for each in sides[0].model.functions if each in sides[1].model.functions]
    for number, (id_a, id_b) in enumerate(pairs):
        sides[0].functions[id_a] = sides[1].functions[id_b] = ("function", number)
    while True:  # a function that calls another one can be paired when that one is
        classes: dict[int, tuple[list[FunctionId], list[FunctionId]]] = {}
        for place, side in enumerate(sides):
            for each in side.model.functions:
                if each not in side.functions:
                    classes.setdefault(_label(side, each, table), ([], []))[place].append(each)
        found = [pair for a, b in classes.values() for pair in zip(a, b, strict=False)]
        for id_a, id_b in found:
            sides[0].functions[id_a] = sides[1].functions[id_b] = ("function", len(pairs))
            pairs.append((id_a, id_b))
        if not found:
            return pairs


def _label(side: Side, function: FunctionId, table: Table) -> int:
    """Return a label of what a function computes. Its items are made anew, since calls in it may look different now."""
    body = side.model.functions[function]
    opsets = {**side.model.opset_imports, **body.opset_imports}
    probe = Side(side.model, with_numbers=side.with_numbers)
    probe.functions = side.functions
    return Labels(probe, table, opsets).whole(probe.body(body.graph, opsets), Level.EXACT, {})


def compare_functions(comparer: Comparer, id_a: FunctionId, id_b: FunctionId) -> None:
    """Compare two functions: their bodies, and what they declare."""
    ids = (id_a, id_b)
    functions = [side.model.functions[each] for side, each in zip(comparer.sides, ids, strict=True)]
    opsets = [
        {**side.model.opset_imports, **each.opset_imports} for side, each in zip(comparer.sides, functions, strict=True)
    ]
    bodies = [side.body(each.graph, opset) for side, each, opset in zip(comparer.sides, functions, opsets, strict=True)]
    inputs = [(place, place) for place in range(min(len(body.inputs) for body in bodies))]
    outputs = [(place, place) for place in range(min(len(body.outputs) for body in bodies))]
    where = f"function {function_title(ids[comparer.shown])}"
    if id_a != id_b:
        comparer.found.renamed.setdefault("function", []).append((function_title(id_a), function_title(id_b)))
    details = tuple(_declared(comparer.sides, functions[0], functions[1]))
    if details:
        comparer.found.nodes.append(NodeChange("changed", where, id_a[1], id_b[1], details=details))
    comparer.compare((bodies[0], bodies[1]), (opsets[0], opsets[1]), Borders(inputs, outputs), where)


def _declared(sides: tuple[Side, Side], a: ir.Function, b: ir.Function) -> Iterator[Detail]:
    """Yield what differs in the head of a function: its attributes, the number of inputs and outputs, its opsets."""
    attributes = [{name: plain(each.value) for name, each in function.attributes.items()} for function in (a, b)]
    for name in sorted({*attributes[0], *attributes[1]}):
        shown: list[Any] = []
        keys: list[Hashable] = []
        for side, function, found in zip(sides, (a, b), attributes, strict=True):
            value = found.get(name)
            key = side.digest(value) if isinstance(value, ir.TensorProtocol) else value_key(value)
            keys.append((name in found, key))
            shown.append(("no default" if value is None else str(value)) if name in function.attributes else None)
        if keys[0] != keys[1]:
            yield Detail("attribute", name, *shown)
    for what, counts in (
        ("number of inputs", (len(a.inputs), len(b.inputs))),
        ("number of outputs", (len(a.outputs), len(b.outputs))),
    ):
        if counts[0] != counts[1]:
            yield Detail("attribute", what, *counts)
    opsets = [
        {**side.model.opset_imports, **function.opset_imports} for side, function in zip(sides, (a, b), strict=True)
    ]
    models = [dict(side.model.opset_imports) for side in sides]
    for domain in sorted({*a.opset_imports, *b.opset_imports}):
        versions = opsets[0].get(domain), opsets[1].get(domain)
        # Where the model itself has changed its opset in the same way, that is said of the model.
        if versions[0] != versions[1] and versions != (models[0].get(domain), models[1].get(domain)):
            yield Detail("attribute", f"opset {domain or 'ai.onnx'}", *versions)
