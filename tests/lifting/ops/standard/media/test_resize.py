"""Resize in all its modes, against ONNX Runtime where it implements ONNX and against the reference elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
ROUNDING = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
SIZES = [(4, 5), (8, 10), (3, 2), (1, 1), (7, 4), (12, 15), (6, 10), (5, 13)]
SCALES = [(2.0, 2.0), (3.0, 3.0), (0.5, 0.5), (1.5, 2.5), (0.6, 0.8), (1.0, 3.0), (2.3, 0.7), (7.0, 6.0)]


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(shape).standard_normal(shape) * 10).astype(dtype)


def resize(
    x: np.ndarray, *, sizes: Any = None, scales: Any = None, roi: Any = None, opset: int = 19, **more: Any
) -> str:
    """Check one Resize; what is not an attribute goes to `check`."""
    how = {k: more.pop(k) for k in ("constants", "dynamic", "reference", "unranked", "rtol", "atol") if k in more}
    inputs = {"x": x}
    if roi is not None:
        inputs["roi"] = np.array(roi, np.float32)
    if scales is not None:
        inputs["scales"] = np.array(scales, np.float32)
    if sizes is not None:
        inputs["sizes"] = np.array(sizes, np.int64)
    names = [name if name in inputs else "" for name in ("x", "roi", "scales", "sizes")]
    node = helper.make_node("Resize", names if sizes is not None else names[:3], ["y"], **more)
    how.setdefault("constants", [*inputs][1:])
    return check(node, inputs, opset=opset, **{"rtol": 1e-4, "atol": 1e-4} | how)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("rounding", ROUNDING)
def test_nearest(coordinates: str, rounding: str, dynamic: bool) -> None:
    modes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    for sizes in SIZES:
        resize(rand(2, 3, 4, 5), sizes=(2, 3, *sizes), dynamic=dynamic, **modes)
    for scales in SCALES:
        # ONNX Runtime rounds the output size before it aligns the corners; the reference rounds the scale to float32.
        fractional = coordinates == "align_corners" and not all(s.is_integer() for s in scales)
        if not fractional or all((4 * s).is_integer() for s in scales):
            resize(rand(2, 3, 4, 5), scales=(1, 1, *scales), dynamic=dynamic, reference=fractional, **modes)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation(mode: str, coordinates: str, dynamic: bool) -> None:
    modes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for sizes in SIZES:
        resize(rand(2, 3, 4, 5), sizes=(2, 3, *sizes), dynamic=dynamic, **modes)
    for scales in SCALES:
        fractional = coordinates == "align_corners" and not all(s.is_integer() for s in scales)
        resize(rand(2, 3, 4, 5), scales=(1, 1, *scales), dynamic=dynamic, reference=fractional, **modes)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "nearest", "scales": (1, 1, 2, 2)}, "F.interpolate(x, scale_factor=2)"),
        (
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            | {"scales": (1, 1, 2, 3)},
            "F.interpolate(x, scale_factor=(2, 3))",
        ),
        ({"mode": "linear", "scales": (1, 1, 2, 2)}, 'F.interpolate(x, scale_factor=2, mode="bilinear")'),
        ({"mode": "linear", "sizes": (2, 3, 7, 7)}, 'F.interpolate(x, size=7, mode="bilinear")'),
        ({"mode": "linear", "sizes": (2, 3, 7, 9)}, 'F.interpolate(x, size=(7, 9), mode="bilinear")'),
        (
            {"mode": "linear", "sizes": (2, 3, 7, 9), "coordinate_transformation_mode": "align_corners"},
            'F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True)',
        ),
        ({"mode": "cubic", "sizes": (7, 9), "axes": [2, 3]}, 'F.interpolate(x, size=(7, 9), mode="bicubic")'),
        (
            {"mode": "cubic", "sizes": (2, 3, 7, 9), "cubic_coeff_a": -0.5},
            'resize(x, "cubic", sizes=(7, 9), axes=(2, 3)',
        ),
    ],
)
def test_reads_as_interpolate_where_that_is_the_same(options: dict[str, Any], text: str) -> None:
    assert text in resize(rand(2, 3, 4, 5), **options)


@pytest.mark.parametrize("factor", [2, 3, 5, 7, 10, 41, 55])
def test_nearest_of_unknown_size_by_a_whole_factor(factor: int) -> None:
    for size in (1, 3, 24):
        resize(rand(1, 1, size, 2), scales=(1, 1, factor, 1), mode="nearest", dynamic=True)


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5), (2, 3, 3, 4, 5), (1, 2, 2, 2, 3, 2)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_any_number_of_axes(mode: str, shape: tuple[int, ...]) -> None:
    for factor in (2.0, 0.6, 1.7):
        scales = np.ones(len(shape))
        scales[-2:] = factor
        resize(rand(*shape), scales=scales, mode=mode, reference=True)
        resize(rand(*shape), scales=scales, mode=mode, reference=True, unranked=True)


def test_batch_and_channels_can_change_too() -> None:
    resize(rand(2, 3, 4, 5), scales=(2, 0.7, 1.5, 1), mode="linear", reference=True)
    resize(rand(2, 3, 4, 5), sizes=(3, 3, 8, 5), mode="nearest", reference=True)


@pytest.mark.parametrize("exclude_outside", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str, exclude_outside: int) -> None:
    modes = {"mode": mode, "antialias": 1, "exclude_outside": exclude_outside}
    for scales in [(0.6, 0.8), (0.5, 0.5), (0.3, 1.5), (2.0, 1.2)]:
        resize(rand(2, 3, 9, 8), scales=(1, 1, *scales), reference=True, **modes)
    resize(rand(2, 3, 9, 8), sizes=(2, 3, 4, 3), reference=True, dynamic=True, **modes)


def test_antialias_of_pytorch() -> None:
    """It leaves out what is outside, and its cubic has another coefficient than without."""
    sizes, modes = (2, 3, 4, 3), {"antialias": 1, "exclude_outside": 1, "reference": True}
    linear = resize(rand(2, 3, 9, 8), sizes=sizes, mode="linear", **modes)
    assert 'F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True)' in linear
    for scales in [(0.6, 0.8), (0.3, 1.5), (2.0, 1.2)]:
        cubic = resize(rand(2, 3, 9, 8), scales=(1, 1, *scales), mode="cubic", cubic_coeff_a=-0.5, **modes)
        assert 'mode="bicubic", antialias=True)' in cubic


@pytest.mark.parametrize("a", [-0.5, -0.75])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_cubic_coefficients(a: float, exclude_outside: int) -> None:
    for sizes in SIZES:
        resize(rand(2, 3, 4, 5), sizes=(2, 3, *sizes), mode="cubic", cubic_coeff_a=a, exclude_outside=exclude_outside)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_crop_and_resize(mode: str, constant: bool) -> None:
    modes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
    how = {} if constant else {"constants": []}
    how["reference"] = mode == "cubic"
    for roi in [(0.41, 0.23, 0.83, 0.72), (-0.31, 0.52, 0.53, 1.61), (0.93, 0.71, 0.12, 0.22)]:
        resize(rand(2, 3, 6, 7), sizes=(2, 3, 4, 5), roi=(0, 0, *roi[:2], 1, 1, *roi[2:]), **modes, **how)
        resize(rand(2, 3, 6, 7), sizes=(2, 3, 1, 9), roi=(0, 0, *roi[:2], 1, 1, *roi[2:]), **modes, **how)
    resize(rand(2, 3, 6, 7), sizes=(4, 5), roi=(0.4, 0.2, 0.8, 0.7), axes=[2, 3], **modes, **how)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller", "stretch"])
@pytest.mark.parametrize("how", [{}, {"dynamic": True}, {"constants": []}, {"constants": [], "unranked": True}])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_keep_aspect_ratio(mode: str, policy: str, how: dict[str, Any]) -> None:
    modes = {"mode": mode, "keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    for sizes in [(7, 8), (3, 9), (2, 2)]:
        resize(rand(2, 3, 4, 5), sizes=sizes, reference=True, **modes, **how)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_and_sizes_of_the_running_model(mode: str) -> None:
    resize(rand(2, 3, 4, 5), scales=(1, 1, 1.5, 0.6), mode=mode, constants=[], reference=True)
    resize(rand(2, 3, 4, 5), sizes=(2, 3, 9, 3), mode=mode, constants=[], dynamic=True, reference=True)


def test_sizes_of_another_tensor() -> None:
    """As a feature pyramid has it: the sizes of one map are those of another."""
    nodes = [
        helper.make_node("Shape", ["x"], ["outer"], end=2),
        helper.make_node("Shape", ["other"], ["inner"], start=2),
        helper.make_node("Concat", ["outer", "inner"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    source = check(nodes, {"x": rand(2, 3, 4, 5), "other": rand(2, 8, 9, 11)}, opset=19, dynamic=True, rtol=1e-4)
    assert 'F.interpolate(x, size=other.shape[2:], mode="bilinear")' in source


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_that_are_multiples(mode: str) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mul", ["shape", "factors"], ["sizes"]),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode),
    ]
    inputs = {"x": rand(2, 3, 4, 5), "factors": np.array([1, 1, 2, 2])}
    source = check(nodes, inputs, opset=19, constants=["factors"], dynamic=True, rtol=1e-4)
    assert "F.interpolate(x, scale_factor=2" in source


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_other_types(mode: str, dtype: type) -> None:
    x = (rand(2, 3, 4, 5) * 5).clip(0 if dtype == np.uint8 else -120, 120).astype(dtype)
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype == np.float16 else {}
    resize(x, scales=(1, 1, 2.5, 0.5), mode=mode, reference=True, **tolerance)
    resize(x, scales=(1, 1, 2, 2), mode=mode, reference=True, **tolerance)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 1.7, 3), (1, 1, 0.5, 0.3), (1, 1, 2.6, 0.6)])
def test_opset_10(mode: str, scales: tuple[float, ...]) -> None:
    inputs = {"x": rand(2, 3, 6, 7), "scales": np.array(scales, np.float32)}
    node = helper.make_node("Resize", ["x", "scales"], ["y"], mode=mode)
    check(node, inputs, opset=10, constants=["scales"], rtol=1e-4)
    check(node, inputs, opset=10, constants=["scales"], dynamic=True, rtol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 2.0, 2.0), (1.0, 1.0, 1.7, 3.0)])
def test_upsample(mode: str, scales: tuple[float, ...]) -> None:
    inputs = {"x": rand(2, 3, 6, 7), "scales": np.array(scales, np.float32)}
    check(helper.make_node("Upsample", ["x", "scales"], ["y"], mode=mode), inputs, opset=9, constants=["scales"])
    node = helper.make_node("Upsample", ["x"], ["y"], mode=mode, scales=scales)
    source = check(node, {"x": inputs["x"]}, opset=7)
    assert mode == "linear" or scales[3] == 3 or "F.interpolate(x, scale_factor=2)" in source


def test_upsample_of_opset_1() -> None:
    x = rand(1, 2, 3, 4)
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    check(node, {"x": x}, opset=1, expected=[x.repeat(2, 2).repeat(3, 3)])


@pytest.mark.parametrize("case", official_cases("Resize", "Upsample"))
def test_official(case: Any) -> None:
    check_official(case)


WORDS = np.array([[["a", "", "ü"]]], object)


def test_strings_are_taken_from_the_nearest_place() -> None:
    inputs = {"x": WORDS, "roi": np.array([0, 0, 0.5, 1, 1, 1.5], np.float32), "sizes": np.array([1, 1, 3])}
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    check(helper.make_node("Resize", ["x", "", "", "sizes"], ["y"]), inputs, constants=["sizes"], expected=[WORDS])
    node = helper.make_node("Resize", ["x", "roi", "", "sizes"], ["y"], **crop)
    check(node, inputs, constants=["roi", "sizes"], expected=[np.array([[["", "ü", ""]]], object)])


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "linear"},
        {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1.0},
    ],
)
def test_strings_are_not_computed_with(attributes: dict[str, Any]) -> None:
    inputs = {"x": WORDS, "roi": np.ones(6, np.float32), "scales": np.array([1, 1, 2], np.float32)}
    node = helper.make_node("Resize", list(inputs), ["y"], **attributes)
    with pytest.raises(onnxlift.UnsupportedError, match="computes with strings"):
        onnxlift.lift(model_of([node], inputs, 19, ["roi", "scales"]))


@pytest.mark.parametrize(
    ("attributes", "scales", "reason"),
    [
        ({"mode": "cubist"}, (1, 1, 2, 2), "it can be nearest, linear, cubic"),
        ({"coordinate_transformation_mode": "middle"}, (1, 1, 2, 2), "it can be half_pixel"),
        ({"nearest_mode": "any"}, (1, 1, 2, 2), "it can be round_prefer_floor"),
        ({}, (1, 1, 2), "must be same as rank of input"),
        ({"axes": [7]}, (2,), "Unexpected axis value: 7"),
        ({}, (1, 1, np.inf, 2), "a scale or size of inf"),
        ({}, (1, 1, np.nan, 2), "a scale or size of nan"),
        ({}, (1, 1, 0, 2), "a scale or size of 0"),
    ],
)
def test_refuses_what_makes_no_sense(attributes: dict[str, Any], scales: Any, reason: str) -> None:
    inputs = {"x": rand(2, 3, 4, 5), "scales": np.array(scales, np.float32)}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    with pytest.raises(onnxlift.OnnxLiftError, match=reason):
        onnxlift.lift(model_of([node], inputs, 19, ["scales"]))
