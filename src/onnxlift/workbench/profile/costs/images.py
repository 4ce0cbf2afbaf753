"""Images and grids: what is interpolated from neighbours."""

from __future__ import annotations

from ..formula import Size
from ..node import CostNode, NotKnownError
from ..registry import Work, cost

_NEIGHBOURS = {"linear": 2, "bilinear": 2, "trilinear": 2, "cubic": 4, "bicubic": 4}
"""Mode -> neighbours along an axis. The nearest one is only copied."""


def _interpolated(axes: int, mode: str) -> int:
    """Return the operations for one element: a product for each neighbour, and their sum."""
    neighbours = _NEIGHBOURS.get(mode, 0) ** axes if mode in _NEIGHBOURS and axes else 0
    return 2 * neighbours - 1 if neighbours else 0


@cost("Resize", "Upsample")
def resize(n: CostNode) -> Work:
    """Interpolated along the axes whose sizes change."""
    mode = str(n.attribute("mode", "nearest"))
    if mode not in _NEIGHBOURS:
        return Work()
    before, after = n.shape(), n.output_shape()
    if len(before) != len(after):
        raise NotKnownError("its sizes are not known")
    if n.attribute("antialias") and not _grows(before, after):
        raise NotKnownError("how many neighbours it takes depends on its scale (antialias)")
    axes = sum(a != b for a, b in zip(before, after, strict=True))
    return Work(other=n.output_size() * _interpolated(axes, mode))


def _grows(before: tuple[Size, ...], after: tuple[Size, ...]) -> bool:
    return all(isinstance(a, int) and isinstance(b, int) and a <= b for a, b in zip(before, after, strict=True))


@cost("GridSample")
def sample_grid(n: CostNode) -> Work:
    """Each element lies at a place of its own: two operations on each coordinate, and its neighbours."""
    axes = len(n.shape()) - 2
    places = n.size(1) * 2
    return Work(other=n.output_size() * _interpolated(axes, str(n.attribute("mode", "linear"))) + places)


@cost("RoiAlign")
def align_regions(n: CostNode) -> Work:
    """Samples of each bin are interpolated from four neighbours, then joined."""
    ratio = int(n.attribute("sampling_ratio", 0))
    if not ratio:
        raise NotKnownError("the sizes of its regions decide how many samples it takes (sampling_ratio)")
    return Work(other=n.output_size() * ratio * ratio * 8)


@cost("CropAndResize", domain="com.microsoft")
def crop_and_resize(n: CostNode) -> Work:
    """Each element of a crop is interpolated from four neighbours."""
    return Work(other=n.output_size() * (0 if n.attribute("mode", "bilinear") == "nearest" else 7))
