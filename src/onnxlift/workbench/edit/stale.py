"""Find the values whose types may change because others do.

By names, and rather too many than too few: a node that holds subgraphs depends on all that is read inside, and all that
is inside depends on the node. A function depends on its calls, and a call on the function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import onnx

from onnxlift.ir.graph.functions import FunctionId
from onnxlift.ir.graph.nodes import plain_domain

from .bodies import Body

if TYPE_CHECKING:
    from .edited import EditedModel

Stale = dict[Body, set[str]]
"""The names of values, by the main graph or the function that they are in."""


def downstream(model: EditedModel, body: Body, names: Iterable[str]) -> Stale:
    """Return the values named, which are in `body`, and all that are computed from them."""
    functions = {_identifier(each.proto): each for each in model.roots if isinstance(each.proto, onnx.FunctionProto)}
    trees: dict[Body, _Tree] = {}
    calls: dict[FunctionId, list[tuple[Body, onnx.NodeProto]]] = {}
    if functions:
        for root in model.roots:
            for each in root.tree():
                for node in each.proto.node:
                    calls.setdefault(_called(node), []).append((root, node))
    found: Stale = {}
    waiting = [(body.root, name) for name in names if name]
    while waiting:
        root, name = waiting.pop()
        stale = found.setdefault(root, set())
        if name in stale:
            continue
        if not stale and isinstance(root.proto, onnx.FunctionProto):
            for caller, node in calls.get(_identifier(root.proto), ()):
                waiting += [(caller, each) for each in node.output if each]
        stale.add(name)
        if root not in trees:
            trees[root] = _Tree(root)
        tree = trees[root]
        for node in tree.readers.get(name, ()):
            waiting += [(root, each) for each in tree.gives(node)]
            callee = functions.get(_called(node)) if functions else None
            if callee is not None:
                waiting += [(callee, each) for part in callee.tree() for each in part.values()]
    return found


class _Tree:
    """The readers of each value in the main graph or a function. A node reads what is read in its subgraphs, too."""

    def __init__(self, root: Body) -> None:
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        self.held: dict[int, list[Body]] = {}
        for body in root.tree():
            holders: list[onnx.NodeProto] = []
            outer: Body | None = body
            while outer is not None and outer.holder is not None:
                holders.append(outer.holder)
                outer = outer.parent
            if body.holder is not None:
                self.held.setdefault(id(body.holder), []).append(body)
            for node in body.proto.node:
                for name in node.input:
                    self.readers.setdefault(name, []).extend((node, *holders))
            for name in body.outputs if holders else ():
                self.readers.setdefault(name, []).extend(holders)

    def gives(self, node: onnx.NodeProto) -> list[str]:
        """Return the values that depend on a node: its outputs, and all inside its subgraphs."""
        inside = [name for held in self.held.get(id(node), ()) for body in held.tree() for name in body.values()]
        return [name for name in (*node.output, *inside) if name]


def _identifier(function: onnx.FunctionProto) -> FunctionId:
    return plain_domain(function.domain), function.name, function.overload


def _called(node: onnx.NodeProto) -> FunctionId:
    return plain_domain(node.domain), node.op_type, node.overload
