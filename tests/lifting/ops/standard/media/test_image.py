"""Images, grids and regions, against ONNX Runtime, the reference, and plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("how", [{}, {"dynamic": True}, {"unranked": True}])
@pytest.mark.parametrize("mode", ["DCR", "CRD", None])
def test_depth_to_space(mode: str | None, how: dict[str, bool]) -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, **({"mode": mode} if mode else {}))
    source = check(node, {"x": rand(2, 12, 3, 4)}, opset=13 if mode else 1, expected=None if mode else _dcr(), **how)
    assert ("F.pixel_shuffle(x, 2)" in source) is (mode == "CRD")
    assert "F.pixel_shuffle(x, 2)" in check(node, {"x": rand(2, 4, 3, 4)}, opset=13)


def _dcr() -> list[np.ndarray]:
    x = rand(2, 12, 3, 4)
    return [x.reshape(2, 2, 2, 3, 3, 4).transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 8)]


@pytest.mark.parametrize("how", [{}, {"dynamic": True}])
def test_space_to_depth(how: dict[str, bool]) -> None:
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=3)
    check(node, {"x": rand(2, 2, 6, 9)}, opset=13, **how)
    check(node, {"x": rand(2, 1, 6, 9)}, opset=13, **how)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode: str, padding_mode: str, align_corners: int) -> None:
    attributes = {"padding_mode": padding_mode, "align_corners": align_corners}
    inputs = {"x": rand(2, 3, 5, 6), "grid": 1.2 * rand(2, 4, 3, 2)}
    source = check(helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, **attributes), inputs, atol=1e-5)
    assert "F.grid_sample(x, grid" in source
    old = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    check(helper.make_node("GridSample", ["x", "grid"], ["y"], mode=old, **attributes), inputs, opset=16, atol=1e-5)
    # The kernel, which has a grid of any rank and type.
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, **attributes)
    check(node, inputs, unranked=True, atol=1e-5)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("spatial", [(7,), (4, 5, 3)])
def test_grid_sample_over_other_numbers_of_axes(
    spatial: tuple[int, ...], mode: str, padding_mode: str, align_corners: int
) -> None:
    inputs = {"x": rand(2, 3, *spatial), "grid": 1.2 * rand(2, *(2, 3, 4)[: len(spatial)], len(spatial))}
    attributes = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)
    check(node, inputs, reference=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding_mode", ["zeros", "reflection"])
def test_grid_sample_cubic_in_space(padding_mode: str) -> None:
    inputs = {"x": rand(1, 2, 4, 5, 3), "grid": 1.2 * rand(1, 2, 3, 2, 3)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode=padding_mode)
    check(node, inputs, reference=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("constant", [False, True])
def test_affine_grid(size: tuple[int, ...], align_corners: int, constant: bool) -> None:
    inputs = {"theta": rand(2, len(size) - 2, len(size) - 1), "size": np.array(size)}
    node = helper.make_node("AffineGrid", ["theta", "size"], ["grid"], align_corners=align_corners)
    check(node, inputs, constants=["size"] if constant else [], opset=20, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [{"constants": ["shape"]}, {"constants": ["shape"], "dynamic": True}, {}])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 7), None), ((3, 9), None), ((9, 2), None), ((4, 7), None), ((3,), [1]), ((8, 3), [-1, 0]), ((5,), [0])],
)
def test_center_crop_pad(shape: tuple[int, ...], axes: list[int] | None, how: dict[str, Any]) -> None:
    inputs = {"x": rand(6, 7), "shape": np.array(shape)}
    node = helper.make_node("CenterCropPad", ["x", "shape"], ["y"], **({} if axes is None else {"axes": axes}))
    check(node, inputs, opset=18, reference=True, **how)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((5, 6), (2, 3), {}),
        ((5, 6), (2, 3), {"strides": [1, 2], "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
        ((5, 6), (2, 3), {"pads": [0, 1, 1, 2]}),
        ((7,), (3,), {"strides": [2]}),
        ((4, 5, 6), (2, 2, 3), {"pads": [0, 1, 0, 0, 0, 1]}),
    ],
)
def test_col2im(image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any], constant: bool) -> None:
    dims = len(image)
    stride, dilation = (attributes.get(k, [1] * dims) for k in ("strides", "dilations"))
    pads = attributes.get("pads", [0] * (2 * dims))
    blocks = 1
    for i in range(dims):
        blocks *= (image[i] + pads[i] + pads[dims + i] - (block[i] - 1) * dilation[i] - 1) // stride[i] + 1
    inputs = {"x": rand(2, 3 * int(np.prod(block)), blocks), "image": np.array(image), "block": np.array(block)}
    node = helper.make_node("Col2Im", list(inputs), ["y"], **attributes)
    check(node, inputs, opset=18, constants=["image", "block"] if constant else [], rtol=1e-4, atol=1e-5)


ROIS = np.array([[0, 0, 5, 6], [1.3, 2.2, 7, 7.7], [-2, -1, 10, 12], [3, 3, 3.2, 3.1], [5, 5, 2, 2]], np.float32)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel", None])
def test_roi_align(coordinates: str | None, mode: str, sampling_ratio: int) -> None:
    inputs = {"x": rand(2, 3, 8, 9), "rois": ROIS, "batch": np.array([0, 1, 1, 0, 1])}
    sizes = {"output_height": 3, "output_width": 2, "spatial_scale": 0.7, "sampling_ratio": sampling_ratio}
    if coordinates is None:
        check(helper.make_node("RoiAlign", list(inputs), ["y"], mode=mode, **sizes), inputs, opset=10, atol=1e-5)
        return
    node = helper.make_node(
        "RoiAlign", list(inputs), ["y"], mode=mode, coordinate_transformation_mode=coordinates, **sizes
    )
    check(node, inputs, opset=16, atol=1e-5)
    check(node, inputs, opset=16, atol=1e-5, dynamic=True)


def test_roi_align_of_no_region() -> None:
    inputs = {"x": rand(2, 3, 8, 9), "rois": ROIS[:0], "batch": np.zeros(0, np.int64)}
    node = helper.make_node("RoiAlign", list(inputs), ["y"], output_height=3, output_width=2)
    check(node, inputs, opset=16, dynamic=True, expected=[np.zeros((0, 3, 3, 2), np.float32)])


@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_max_roi_pool(scale: float) -> None:
    rois = np.array([[0, 0, 0, 5, 6], [1, 1, 2, 7, 7], [1, 3, 3, 3, 3], [0, 6, 5, 20, 20]], np.float32)
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[3, 2], spatial_scale=scale)
    check(node, {"x": rand(2, 3, 8, 9), "rois": rois})


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_samples_of_integers_are_rounded(mode: str, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 2**15, (1, 2, 4, 5)).astype(dtype)  # cubic ones go beyond the ends
    inputs = {"x": x, "grid": np.random.default_rng(1).uniform(-1.2, 1.2, (1, 30, 20, 2)).astype(np.float32)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    (exact,) = ReferenceEvaluator(node).run(None, {**inputs, "x": x.astype(np.float64)})
    limits = np.iinfo(dtype)
    check(node, inputs, opset=20, expected=[np.rint(exact).clip(limits.min, limits.max).astype(dtype)])


@pytest.mark.parametrize(("mode", "reason"), [("linear", "linear interpolation"), ("nearest", None)])
def test_strings_are_sampled_but_not_interpolated(mode: str, reason: str | None) -> None:
    inputs = {"x": np.array([[["a", "", "ü"]]], object), "grid": np.array([[[-0.6], [0.7], [9]]], np.float32)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
    if reason is None:
        check(node, inputs, opset=20, expected=[np.array([[["a", "ü", ""]]], object)])
        return
    with pytest.raises(onnxlift.UnsupportedError, match=reason):
        onnxlift.lift(model_of([node], inputs, 20))


IMAGES = [
    "AffineGrid",
    "CenterCropPad",
    "Col2Im",
    "DepthToSpace",
    "GridSample",
    "MaxRoiPool",
    "RoiAlign",
    "SpaceToDepth",
]


@pytest.mark.parametrize("case", [c for c in official_cases(*IMAGES) if len(c.values[0].model.graph.node) == 1])
def test_official(case: Any) -> None:
    check_official(case)
