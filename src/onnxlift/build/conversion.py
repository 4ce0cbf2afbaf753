"""Bring the nodes of a model that was built to another opset, or say which cannot go and where they were made."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxlift.workbench.opset.convert import convert_opsets
from onnxlift.workbench.opset.errors import OpsetError

from .errors import BuildError, Line, line_text

_MOST_SHOWN = 5


def bring_to(model: ir.Model, targets: Mapping[str, int], name: str, lines: Mapping[str, Line]) -> None:
    """Bring all nodes to these opsets in place, computing the same; or raise a BuildError with those that cannot go.

    `lines` are the places where nodes were made, by name."""
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
