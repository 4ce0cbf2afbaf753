"""Object detection."""

from __future__ import annotations

from typing import Any

from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Scalar, Tensor
from onnxlift.lifting.ops.registry import op


@op("NonMaxSuppression")
def NonMaxSuppression(
    n: Node,
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Scalar | None,
    iou_threshold: Scalar | None,
    score_threshold: Scalar | None,
    *,
    center_point_box: int,
) -> Result:
    """Without a maximum there is no output. Without a score threshold every box takes part."""
    options: dict[str, Any] = {}
    if iou_threshold is not None and iou_threshold.number != 0:
        options["iou_threshold"] = iou_threshold
    if score_threshold is not None:
        options["score_threshold"] = score_threshold
    if center_point_box:
        options["centered"] = True
    most = 0 if max_output_boxes_per_class is None else max_output_boxes_per_class
    return kernel("non_max_suppression")(boxes, scores, most, **options)
