"""Smaller operators of ONNX Runtime."""

from __future__ import annotations

import torch
from torch import Tensor


def unique_in_order(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements in the order in which they occur first, which of them each element is, and how often each
    occurs."""
    _, numbers, counts = x.detach().unique(return_inverse=True, return_counts=True)
    places = torch.arange(x.shape[0], device=x.device)
    first = torch.full_like(counts, x.shape[0]).scatter_reduce(0, numbers, places, "amin")
    order = first.argsort()
    return x[first[order]], order.argsort()[numbers], counts[order]


def crop_and_resize(
    x: Tensor, boxes: Tensor, images: Tensor, height: int, width: int, nearest: bool = False, outside: float = 0.0
) -> Tensor:
    """Boxes (y1, x1, y2, x2), in shares of the image, cut out of (batch, channels, height, width) and brought to one
    size. The corners of a box stay corners; what a box takes from beyond the image is `outside`."""
    y1, x1, y2, x2 = boxes.unbind(1)

    def places(low: Tensor, high: Tensor, size: int, count: int) -> Tensor:
        if count == 1:
            return (0.5 * (low + high) * (size - 1))[:, None]
        step = (high - low) * (size - 1) / (count - 1)
        return (low * (size - 1))[:, None] + torch.arange(count, device=x.device) * step[:, None]

    rows, columns = places(y1, y2, x.shape[2], height), places(x1, x2, x.shape[3], width)
    inside_rows = (rows >= 0) & (rows <= x.shape[2] - 1)
    inside_columns = (columns >= 0) & (columns <= x.shape[3] - 1)
    inside = inside_rows[:, :, None] & inside_columns[:, None]
    rows, columns = rows.clamp(0, x.shape[2] - 1), columns.clamp(0, x.shape[3] - 1)
    image = images.long()[:, None, None]

    def pixels(row: Tensor, column: Tensor) -> Tensor:
        return x[image, :, row.long()[:, :, None], column.long()[:, None]].permute(0, 3, 1, 2)

    if nearest:
        result = pixels((rows + 0.5).floor(), (columns + 0.5).floor())
    else:
        top, left = rows.floor(), columns.floor()
        bottom, right = rows.ceil(), columns.ceil()
        down, along = (rows - top)[:, None, :, None], (columns - left)[:, None, None]
        upper = pixels(top, left) + (pixels(top, right) - pixels(top, left)) * along
        lower = pixels(bottom, left) + (pixels(bottom, right) - pixels(bottom, left)) * along
        result = upper + (lower - upper) * down
    return torch.where(inside[:, None], result, outside)


def complex_product(a: Tensor, b: Tensor, conjugate: bool = False) -> Tensor:
    """The product of complex numbers, whose parts are the last axis; with the conjugate of `b`, if so."""
    x, y = torch.view_as_complex(a.contiguous()), torch.view_as_complex(b.contiguous())
    return torch.view_as_real(x * (y.conj() if conjugate else y))
