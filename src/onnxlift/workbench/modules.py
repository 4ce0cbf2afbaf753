"""Find the nodes of a module by its path, as exporters note it in the metadata or the names of nodes."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.walk import inner_nodes
from onnxlift.ir.origin.module_paths import LONGEST_NAME, told_module

from .values import reads, suggestion


def module_path(node: ir.Node) -> str:
    """Return the path of the module that a node is in, such as `encoder.layer.0`; "" if it is not told.

    Names without a leading slash are read as TensorFlow writes them: `encoder/layer_0/MatMul`."""
    told = told_module(node)
    if told is not None:
        return told
    name = node.name or ""
    return ".".join(name.split("/")[:-1]) if len(name) <= LONGEST_NAME else ""


def nodes_of_module(graph: ir.Graph, module: str, otherwise: str = "") -> list[ir.Node]:
    """Return the nodes at or below the module. Raises an error that suggests others if there are none.

    `otherwise` says what to do with a model whose nodes tell no modules."""
    wanted = ".".join(module.replace("/", ".").strip(".").split())
    paths = {node: module_path(node) for node in graph}
    found = [node for node, path in paths.items() if _is_below(path, wanted)]
    if found:
        return found
    for node in graph:
        if any(_is_below(module_path(inner), wanted) for inner in inner_nodes(node)):
            raise OnnxLiftError(
                f"the module {quote(wanted)} is inside node {quote(node.name or '')} ({node.op_type}), whose graph may "
                "run never, once or many times, so it cannot be taken out."
            )
    known: dict[str, None] = {}
    for path in paths.values():
        parts = path.split(".") if path else []
        known.update(dict.fromkeys(".".join(parts[:end]) for end in range(1, len(parts) + 1)))
    if not known:
        raise OnnxLiftError(
            f"no module {quote(wanted)} was found: the nodes of this model do not tell which modules they are in. "
            f"{otherwise}".rstrip()
        )
    by_depth = sorted(known, key=lambda path: path.count("."))
    raise OnnxLiftError(f"no node is in a module {quote(wanted)}{suggestion(wanted, by_depth)}.")


def nodes_in_gaps(graph: ir.Graph, own: Iterable[ir.Node]) -> list[ir.Node]:
    """Return the nodes that tell no module, and lie on a path from one of the `own` nodes to another.

    Optimisers write such nodes: what they made of a module's nodes is still a part of it."""
    inside = set(own)
    untold = [node for node in graph if node not in inside and not _tells_module(node)]
    after = {value for node in inside for value in node.outputs}
    for node in untold:  # in the order of the graph
        if any(value in after for value in reads(node)):
            after.update(node.outputs)
    before = {value for node in inside for value in reads(node)}
    found: list[ir.Node] = []
    for node in reversed(untold):
        if any(value in before for value in node.outputs):
            before.update(reads(node))
            found += [node] if any(value in after for value in node.outputs) else []
    return found[::-1]


def _tells_module(node: ir.Node) -> bool:
    return told_module(node) is not None or "/" in (node.name or "")


def _is_below(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")
