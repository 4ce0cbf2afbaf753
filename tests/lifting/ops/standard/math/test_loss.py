"""Losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node


@pytest.mark.parametrize("case", official_cases("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("shape", [(6,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("labels", [np.int32, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1, -5])
def test_losses(op: str, shape: tuple[int, ...], labels: Any, weighted: bool, ignored: int | None) -> None:
    rng = np.random.default_rng(len(shape))
    inputs = {
        "x": rng.normal(size=(shape[0], 5, *shape[1:])).astype(np.float32),
        "target": rng.integers(0, 5, shape).astype(labels),
    }
    if ignored == -5:
        inputs["target"].flat[1] = ignored
    if weighted:
        inputs["weight"] = rng.uniform(0.2, 3, 5).astype(np.float32)
    for reduction in ("none", "sum", "mean"):
        attributes = {"reduction": reduction} | ({} if ignored is None else {"ignore_index": ignored})
        check(NODE(op, list(inputs), ["y"], **attributes), inputs, opset=13)
        if op == "SoftmaxCrossEntropyLoss":
            check(NODE(op, list(inputs), ["y", "log_prob"], **attributes), inputs, opset=13)


def test_source() -> None:
    inputs = {"x": np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32), "target": np.array([0, 4, 2])}
    source = check(NODE("SoftmaxCrossEntropyLoss", ["x", "target"], ["y"]), inputs, opset=13)
    assert "return F.cross_entropy(x, target)" in source


def test_half() -> None:
    inputs = {"x": np.random.default_rng(0).normal(size=(3, 5)).astype(np.float16), "target": np.array([0, 4, 2])}
    check(NODE("SoftmaxCrossEntropyLoss", ["x", "target"], ["y"]), inputs, opset=13, reference=True, rtol=2e-3)
