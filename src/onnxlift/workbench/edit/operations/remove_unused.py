"""`remove_unused`: drop what nobody reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx

from ..bodies import Body
from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class RemoveUnused(Operation):
    """Drop the nodes and initialisers that no output depends on. Inputs stay, and so do functions."""

    def apply(self, model: EditedModel) -> None:
        for root in model.roots:
            _clean(root)


def _clean(body: Body) -> set[str]:
    """Clean a body; return the values of the graphs around it that it still reads."""
    needed = set(body.outputs)
    inner: dict[int, list[Body]] = {}
    for each in body.inner:
        inner.setdefault(id(each.holder), []).append(each)
    kept: set[int] = set()
    waiting = [name for name in needed if name in body.producers]
    while waiting:
        node = body.producers[waiting.pop()]
        if id(node) in kept:
            continue
        kept.add(id(node))
        reads = {name for name in node.input if name}
        for each in inner.get(id(node), ()):
            reads |= _clean(each)
        new = reads - needed
        needed |= reads
        waiting += [name for name in (*new, *reads) if name in body.producers]
    _keep(body.proto.node, [node for node in body.proto.node if id(node) in kept])
    if isinstance(body.proto, onnx.GraphProto):
        inputs = set() if body.is_branch else body.inputs
        graph = body.proto
        _keep(graph.initializer, [each for each in graph.initializer if each.name in needed | inputs])
        _keep(graph.sparse_initializer, [each for each in graph.sparse_initializer if each.values.name in needed])
        defined = {name for node in graph.node for name in node.output} | {each.name for each in graph.initializer}
        _keep(graph.value_info, [each for each in graph.value_info if each.name in defined])
        if body.is_branch:
            _keep(graph.input, [each for each in graph.input if each.name in needed])
    return {name for name in needed if not body.defines(name)}


def _keep(items: Any, kept: list[Any]) -> None:
    """Leave only some of the items of a repeated field."""
    if len(kept) < len(items):
        copies = [type(each).FromString(each.SerializeToString()) for each in kept]
        del items[:]
        items.extend(copies)
