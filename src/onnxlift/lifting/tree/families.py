"""Find scopes in flat names: `layer1a_mid_conv`, `layer1a_bn2`, `layer1b_mid_conv`, ... are two blocks.

    layer1a_conv, layer1a_bn, layer1a_relu, layer1b_conv, ...   ->   the scopes layer1a and layer1b

This is for graphs whose names have neither dots nor slashes. A prefix up to an underscore is a scope if it is numbered,
another prefix differs from it only in the number, and its nodes stand together and hold at least two layers. With fewer
layers it is no block, but a layer that somebody named with care. Names only decide where the source is cut, never what
it computes.
"""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.lifting.ops.layer_nodes import is_weighted

from .paths import ModulePaths, Path

_NUMBERED = re.compile(r"^(?P<prefix>(?P<word>[A-Za-z]+(?:_[A-Za-z]+)?)_?\d+[a-z]?)_\w")
FEWEST_LAYERS = 2


def find_families(graph: ir.Graph, paths: ModulePaths) -> int:
    """Give the nodes of numbered blocks a path, in a graph where nothing else did; return the number of blocks."""
    if any(paths.by_node.values()):
        return 0
    members: dict[str, list[int]] = {}
    words: dict[str, str] = {}
    nodes = list(graph)
    for position, node in enumerate(nodes):
        match = _NUMBERED.match(node.name or "")
        if match:
            members.setdefault(match["prefix"], []).append(position)
            words[match["prefix"]] = match["word"]
    blocks = {p for p, positions in members.items() if _is_block(nodes, positions)}
    siblings: dict[str, int] = {}
    for prefix in blocks:
        siblings[words[prefix]] = siblings.get(words[prefix], 0) + 1
    changes = 0
    for prefix in blocks:
        if siblings[words[prefix]] >= 2:
            path: Path = (prefix,)
            changes += 1
            for position in members[prefix]:
                paths.by_node[nodes[position]] = path
    return changes


def _is_block(nodes: list[ir.Node], positions: list[int]) -> bool:
    together = positions[-1] - positions[0] < 2 * len(positions)
    layers = sum(1 for p in positions if is_weighted(nodes[p]) and _holds_constants(nodes[p]))
    return together and layers >= FEWEST_LAYERS


def _holds_constants(node: ir.Node) -> bool:
    return any(v is not None and v.const_value is not None for v in node.inputs)
