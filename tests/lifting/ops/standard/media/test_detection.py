"""Object detection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
NAMES = ["boxes", "scores", "most", "iou", "score"]


@pytest.mark.parametrize("case", official_cases("NonMaxSuppression", alone=True))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("given", [3, 4, 5])
@pytest.mark.parametrize("constants", [(), ("most", "iou", "score")])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_non_max_suppression(centered: int, given: int, constants: tuple[str, ...], count: int) -> None:
    rng = np.random.default_rng(count)
    boxes = rng.uniform(0, 1, (2, count, 4)).astype(np.float32)
    if centered:
        boxes[..., 2:] *= 0.5
    scores = rng.uniform(0, 1, (2, 3, count)).astype(np.float32).round(1)  # with ties
    if count > 4:
        boxes[0, 3] = boxes[0, 2]
        boxes[1, 4, 2:] = boxes[1, 4, :2]  # no area
    inputs = dict(zip(NAMES, (boxes, scores, np.int64(5), np.float32(0.3), np.float32(0.35)), strict=True))
    inputs = {name: inputs[name] for name in NAMES[:given]}
    node = NODE("NonMaxSuppression", list(inputs), ["y"], center_point_box=centered)
    check(node, inputs, opset=11, constants=[name for name in constants if name in inputs])


def test_no_maximum_means_nothing() -> None:
    inputs = {"boxes": np.random.rand(1, 3, 4).astype(np.float32), "scores": np.random.rand(1, 2, 3).astype(np.float32)}
    check(NODE("NonMaxSuppression", ["boxes", "scores"], ["y"]), inputs, expected=[np.empty((0, 3), np.int64)])
