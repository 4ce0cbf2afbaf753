"""Bring the nodes of a model that was built to another opset, or say which cannot go and where they were made."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes
from onnxlift.workbench.opset.convert import convert_opsets
from onnxlift.workbench.opset.errors import OpsetError

from .errors import BuildError, Line, line_text
from .state import MADE

_MOST_SHOWN = 5


def bring_to(model: ir.Model, targets: Mapping[str, int], name: str) -> None:
    """Bring all nodes to these opsets in place, computing the same; or raise a BuildError with those that cannot go."""
    lines: dict[str, Line] = {
        node.name: node.meta[MADE].line for node in all_nodes(model.graph) if node.name and MADE in node.meta
    }
    try:
        convert_opsets(model, targets, name=name)
    except OpsetError as error:
        stuck = [
            f"{node.name} ({line_text(lines[node.name])}): {node.reason}"
            if node.name in lines
            else f"{node.name}: {node.reason}"
            for node in error.nodes[:_MOST_SHOWN]
        ]
        more = f" And {len(error.nodes) - _MOST_SHOWN} more." if len(error.nodes) > _MOST_SHOWN else ""
        wanted = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in targets.items())
        raise BuildError(f"the model cannot go to opset {wanted}: {'; '.join(stuck)}.{more}") from None
