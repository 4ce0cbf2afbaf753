"""Find the module of each node: as exporters note it, or else by the names of the weights that it reads.

In a model whose nodes tell nothing, a node that reads `encoder.fc1.weight` is in `encoder.fc1`. A node without such a
weight is in the module that the nodes with one before it and after it have in common.
"""

from __future__ import annotations

from itertools import takewhile

import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes
from onnxlift.workbench.modules import module_path

from .weights import may_hold_parameters

LONGEST_PATH = 300
DEEPEST = 24


def modules_of(graph: ir.Graph) -> dict[ir.Node, str]:
    """Return the path of the module that each node is in, at any depth of graphs; "" is the model."""
    nodes = list(all_nodes(graph))
    told = {node: _bounded(module_path(node)) for node in nodes}
    if any(told.values()):
        return told
    own = [_bounded(_by_weights(node)) for node in nodes]
    before, after = _filled(own), _filled(own[::-1])[::-1]
    return {node: mine or _common(one, other) for node, mine, one, other in zip(nodes, own, before, after, strict=True)}


def _bounded(path: str) -> str:
    """Return the path without what no module has: empty parts, and levels and letters without end."""
    if len(path) > LONGEST_PATH:
        return ""
    return ".".join([part for part in path.split(".") if part][:DEEPEST])


def _by_weights(node: ir.Node) -> str:
    for value in node.inputs:
        if value is not None and "." in (value.name or "") and value.is_initializer() and may_hold_parameters(value):
            path = (value.name or "").rpartition(".")[0]
            if "/" not in path and "::" not in path:
                return path
    return ""


def _filled(paths: list[str]) -> list[str]:
    """Return the last path that was told at each place."""
    last, found = "", []
    for path in paths:
        last = path or last
        found.append(last)
    return found


def _common(a: str, b: str) -> str:
    pairs = zip(a.split("."), b.split("."), strict=False)
    return ".".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
