"""Check how large the model would be if every call of a function were replaced by its body.

This comes before anything is really expanded. A small file can hold functions that call each other so often that the
whole would never fit into memory.
"""

from __future__ import annotations

import graphlib

from onnxlift.errors import LoadError
from onnxlift.ir.graph.functions import FunctionId, function_title
from onnxlift.ir.reading.draft import Draft
from onnxlift.stages import step

from .form import MAX_NESTING

MAX_NODES = 2_000_000
"""The largest number of nodes, counted with every call of a model-local function replaced by its body."""


@step("expansion", optional=False, after={"form": "it counts the nodes and calls"})
def run(draft: Draft) -> int:
    """Refuse a model whose functions call themselves, are nested too deeply, or expand to too many nodes."""
    functions = draft.functions
    size: dict[FunctionId, int] = {}
    depth: dict[FunctionId, int] = {}
    for name in _callees_first(draft):
        body = functions[name]
        size[name] = body.own_nodes + sum(size[callee] * count for callee, count in body.calls.items())
        depth[name] = 1 + max((depth[callee] for callee in body.calls), default=0)
        if depth[name] > MAX_NESTING:
            raise LoadError(f"calls of functions are nested more than {MAX_NESTING} deep in {body.title}.")
    total = draft.contents.own_nodes + sum(size[callee] * count for callee, count in draft.contents.calls.items())
    # Functions that are never called count as well: later stages look at each of them.
    largest = max((total, *size.values()))
    if largest > MAX_NODES:
        raise LoadError(f"the model has {largest:,} nodes once its functions are expanded; the limit is {MAX_NODES:,}.")
    return 0


def _callees_first(draft: Draft) -> list[FunctionId]:
    calls = {name: body.calls for name, body in draft.functions.items()}
    try:
        return list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        cycle = " -> ".join(function_title(name) for name in error.args[1][:10])
        raise LoadError(f"the model's functions call each other in a circle, which ONNX forbids: {cycle}.") from error
