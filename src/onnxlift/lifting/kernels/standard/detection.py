"""Choosing among boxes."""

import torch
from torch import Tensor


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: int,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    centered: bool = False,
) -> Tensor:
    """(batch, class, box) of the boxes that are kept: for each class the best ones first, at most `most`, without those
    that overlap a better one by more than `iou_threshold` or score no more than `score_threshold`.

    A box is two opposite corners, or its centre and size if `centered`."""
    first, second = boxes.chunk(2, -1)
    if centered:
        first, second = first - second / 2, first + second / 2
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    area = (high - low).prod(-1)
    kept: list[tuple[int, int, int]] = []
    for batch in range(scores.shape[0]):
        for number in range(scores.shape[1]):
            own = scores[batch, number]
            rest = own.argsort(descending=True, stable=True)
            if score_threshold is not None:
                rest = rest[own[rest] > score_threshold]
            count = 0
            while count < most and rest.numel():
                best, rest = int(rest[0]), rest[1:]
                kept.append((batch, number, best))
                count += 1
                left = torch.maximum(low[batch, best], low[batch, rest])
                right = torch.minimum(high[batch, best], high[batch, rest])
                common = (right - left).clamp(min=0).prod(-1)
                iou = common / (area[batch, best] + area[batch, rest] - common)
                rest = rest[~(iou > iou_threshold)]  # boxes without area have 0 / 0 in common, which is not above
    return torch.tensor(kept, dtype=torch.int64, device=boxes.device).reshape(-1, 3)
