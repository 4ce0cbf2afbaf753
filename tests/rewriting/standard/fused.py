"""Small models with `--fuse-standard`: the operators that are left, and whether ONNX Runtime gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxlift.workbench.simplify import simplify
from workbench.running import assert_same, model_of, operators

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def fused(
    body: str, opset: int, *feeds: dict[str, Array], weights: dict[str, Array] | None = None, is_declared: bool = True
) -> list[str]:
    """The operators of `(inputs) => (outputs) { nodes }` after fusing."""
    model = model_of(body, weights, opset)
    result = simplify(model, fuse_standard=True, verify=False).proto()
    assert not any(node.domain for node in result.graph.node)
    assert_same(model, result, *feeds, is_declared=is_declared)
    return operators(result)
