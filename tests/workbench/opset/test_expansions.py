"""Operators that an older opset lacks, or lacks a use of, are spelled out there and give the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxlift.workbench.opset import OpsetError, opset

from .test_adapters import IMAGE, assert_same_at, model, outputs, types

RANDOM = np.random.default_rng(1)
GRID = (RANDOM.random((1, 3, 4, 2)) * 3 - 1.5).astype(np.float32)
VOLUME = RANDOM.standard_normal((2, 2, 3, 4, 5)).astype(np.float32)
PLACES = (RANDOM.random((2, 2, 3, 2, 3)) * 3 - 1.5).astype(np.float32)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_an_image_is_sampled_before_there_is_a_grid_sample(mode: str, align: int, padding: str) -> None:
    options = f'<mode = "{mode}", padding_mode = "{padding}", align_corners = {align}>'
    proto = model(
        16,
        f"g (float[1, 2, 5, 6] x, float[1, 3, 4, 2] grid) => (float[1, 2, 3, 4] y) "
        f"{{ y = GridSample {options} (x, grid) }}",
    )
    assert_same_at(proto, [15, 13, 11], x=IMAGE, grid=GRID)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_volume_is_sampled_before_opset_20(mode: str) -> None:
    proto = model(
        20,
        "g (float[2, 2, 3, 4, 5] x, float[2, 2, 3, 2, 3] grid) => (float[2, 2, 2, 3, 2] y) "
        f'{{ y = GridSample <mode = "{mode}"> (x, grid) }}',
    )
    assert_same_at(proto, [17, 13], x=VOLUME, grid=PLACES)


def test_a_pixel_that_is_not_read_spreads_no_nan() -> None:
    proto = model(
        16, "g (float[1, 2, 5, 6] x, float[1, 3, 4, 2] grid) => (float[1, 2, 3, 4] y) { y = GridSample (x, grid) }"
    )
    broken = IMAGE.copy()
    broken[0, 0, 4, 5] = np.nan
    assert_same_at(proto, [13], x=broken, grid=GRID * 0.4)


def test_a_place_that_is_no_number_reads_within_the_image() -> None:
    proto = model(
        16, "g (float[1, 2, 5, 6] x, float[1, 3, 4, 2] grid) => (float[1, 2, 3, 4] y) { y = GridSample (x, grid) }"
    )
    grid = GRID.copy()
    grid[0, 0, 0, 0] = np.nan
    result = opset(proto, 13, verify=False).proto()
    np.testing.assert_allclose(
        outputs(result, x=IMAGE, grid=grid)[0][:, :, 1:], outputs(proto, x=IMAGE, grid=grid)[0][:, :, 1:], rtol=1e-5
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_a_deformed_convolution_goes_down(groups: int) -> None:
    data = np.random.default_rng(2)
    inputs = {
        "x": data.standard_normal((2, 4, 6, 5)).astype(np.float32),
        "w": data.standard_normal((2, 4 // groups, 2, 3)).astype(np.float32),
        "offset": data.standard_normal((2, 12 * groups, 5, 3)).astype(np.float32),
        "b": data.standard_normal(2).astype(np.float32),
        "mask": data.random((2, 6 * groups, 5, 3)).astype(np.float32),
    }
    sizes = {name: ", ".join(map(str, value.shape)) for name, value in inputs.items()}
    declared = ", ".join(f"float[{sizes[name]}] {name}" for name in inputs)
    proto = model(
        19,
        f"g ({declared}) => (float[2, 2, 5, 3] y) "
        f"{{ y = DeformConv <group = {groups}, offset_group = {groups}> (x, w, offset, b, mask) }}",
    )
    assert_same_at(proto, [17, 13, 11], **inputs)


@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_that_are_moved_by_half_a_pixel_go_down(ratio: int) -> None:
    proto = model(
        16,
        "g (float[1, 2, 5, 6] x, float[r, 4] rois, int64[r] batch) => (float[r, 2, 2, 3] y) "
        f"{{ y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = {ratio}, spatial_scale = 0.5> "
        "(x, rois, batch) }",
    )
    rois = np.array([[0, 0, 9, 9], [1, 2, 1.5, 3], [-4, -4, 20, 20]], np.float32)
    assert_same_at(proto, [15, 13, 11], x=IMAGE, rois=rois, batch=np.zeros(3, np.int64))


@pytest.mark.parametrize(
    ("version", "options", "goal", "targets"),
    [
        (18, 'mode = "linear", antialias = 1', "scales", [17, 13, 11]),
        (18, 'mode = "cubic", antialias = 1, exclude_outside = 1', "scales", [17, 13]),
        (18, 'mode = "linear", keep_aspect_ratio_policy = "not_larger", axes = [2, 3]', "sizes", [17, 13, 11]),
        (18, 'mode = "nearest", keep_aspect_ratio_policy = "not_smaller", axes = [2, 3]', "sizes", [17, 13]),
        (19, 'mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"', "scales", [18, 13]),
        (19, 'mode = "nearest", coordinate_transformation_mode = "half_pixel_symmetric"', "scales", [18, 11]),
    ],
)
def test_a_resize_is_spelled_out_where_an_older_one_lacks_the_use(
    version: int, options: str, goal: str, targets: list[int]
) -> None:
    """The size of the result is open, and in one case computed: only the model knows it."""
    inputs = {"scales": np.array([1, 1, 0.6, 0.7], np.float32), "sizes": np.array([8, 3], np.int64)}
    kind = "float[4] scales" if goal == "scales" else "int64[2] sizes"
    arguments = "x, , scales" if goal == "scales" else "x, , , sizes"
    graph = f"g (float[1, 2, 5, 6] x, {kind}) => (float[1, 2, h, w] y) {{ y = Resize <{options}> ({arguments}) }}"
    assert_same_at(model(version, graph), targets, x=IMAGE, **{goal: inputs[goal]})


@pytest.mark.parametrize("onesided", [0, 1])
def test_a_fourier_transform_is_a_product_of_matrices_before_opset_17(onesided: int) -> None:
    x = RANDOM.standard_normal((2, 7, 1)).astype(np.float32)
    for length in ("", ", five", ", nine"):
        count = {"": 7, ", five": 5, ", nine": 9}[length]
        found = count // 2 + 1 if onesided else count
        proto = model(
            20,
            f"g (float[2, 7, 1] x) => (float[2, {found}, 2] y) <int64 five = {{5}}, int64 nine = {{9}}> "
            f"{{ y = DFT <onesided = {onesided}> (x{length}) }}",
        )
        assert_same_at(proto, [16, 13, 11], x=x)


def test_an_inverse_transform_of_complex_numbers_of_any_size_goes_down() -> None:
    x = RANDOM.standard_normal((2, 7, 3, 2)).astype(np.float32)
    proto = model(20, "g (float[2, n, 3, k] x) => (float[2, n, 3, 2] y) { y = DFT <inverse = 1> (x, , axis) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.array(1), "axis"))
    assert_same_at(proto, [16, 13], x=x)


def test_half_of_the_frequencies_go_back_to_real_numbers() -> None:
    whole = RANDOM.standard_normal(8).astype(np.float32)
    half = np.fft.rfft(whole)
    proto = model(20, "g (float[1, 5, 2] x) => (float[1, 8, 1] y) { y = DFT <inverse = 1, onesided = 1> (x) }")
    x = np.stack([half.real, half.imag], -1)[None].astype(np.float32)
    result = opset(proto, 13, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    np.testing.assert_allclose(outputs(result, x=x)[0][0, :, 0], whole, rtol=1e-4, atol=1e-5)


def test_frames_are_transformed_before_there_is_an_stft() -> None:
    proto = model(
        17,
        "g (float[2, n, 1] x, float[8] window) => (float[2, f, 5, 2] y) <int64 step = {3}> "
        "{ y = STFT (x, step, window) }",
    )
    inputs = {"x": RANDOM.standard_normal((2, 30, 1)).astype(np.float32), "window": np.hanning(8).astype(np.float32)}
    assert_same_at(proto, [16, 13], **inputs)


def test_mel_filters_go_down() -> None:
    proto = model(17, "g (int64 bins) => (float[a, b] y) { y = MelWeightMatrix (bins, size, rate, low, high) }")
    numbers = {"size": np.array(64), "rate": np.array(8192), "low": np.float32(0), "high": np.float32(4096)}
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), name) for name, v in numbers.items())
    assert_same_at(proto, [16, 13], bins=np.array(8))


def test_bits_of_64_bits_are_combined_before_opset_18() -> None:
    for kind, dtype in (("uint64", np.uint64), ("int64", np.int64)):
        a, b = (RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 4), dtype) for _ in range(2))
        for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            proto = model(18, f"g ({kind}[3, 4] a, {kind}[3, 4] b) => ({kind}[3, 4] y) {{ y = {operator} (a, b) }}")
            result = opset(proto, 13, verify=False).proto()
            expected = {"BitwiseAnd": a & b, "BitwiseOr": a | b, "BitwiseXor": a ^ b}[operator]
            np.testing.assert_array_equal(outputs(result, a=a, b=b)[0], expected)


@pytest.mark.parametrize(("bits", "kind"), [(16, "float16"), (32, "float"), (64, "double")])
def test_integers_become_the_floats_of_the_same_bits(bits: int, kind: str) -> None:
    made = {"float16": np.float16, "float": np.float32, "double": np.float64}[kind]
    number = {"float16": TensorProto.FLOAT16, "float": TensorProto.FLOAT, "double": TensorProto.DOUBLE}[kind]
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.finfo(made).tiny, np.finfo(made).max], made)
    smallest = np.nextafter(made(0), made(1))
    whole = np.dtype(f"int{bits}")
    random = np.random.default_rng(0).integers(np.iinfo(whole).min, np.iinfo(whole).max, 500, whole).view(made)
    x = np.concatenate([special, [smallest, -smallest], random]).astype(made).view(whole)
    proto = model(26, f"g (int{bits}[n] x) => ({kind}[n] y) {{ y = BitCast <to = {number}> (x) }}")
    (y,) = outputs(opset(proto, 13, verify=False).proto(), x=x)
    expected = x.view(made)
    np.testing.assert_array_equal(y, expected)
    signs = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y[signs]), np.signbit(expected[signs]))


def test_the_bits_of_a_float_are_refused_since_those_of_a_nan_cannot_be_seen() -> None:
    proto = model(26, "g (float[n] x) => (int32[n] y) { y = BitCast <to = 6> (x) }")
    with pytest.raises(OpsetError, match="the bits of a NaN cannot be told before opset 26"):
        opset(proto, 17, verify=False)


def test_what_is_as_large_as_a_tensor_of_bfloat16_is_made_in_float() -> None:
    for operator in ("EyeLike", "RandomNormalLike", "RandomUniformLike"):
        graph = f"g (bfloat16[2, 5] x) => (float[2, 5] y) {{ y = {operator} <dtype = 1> (x) }}"
        result = opset(model(22, graph), 17, verify=False).proto()
        onnx.checker.check_model(result, full_check=True)
        assert types(result) == ["Cast", operator]


def test_strings_are_compared_before_opset_19() -> None:
    proto = model(19, "g (string[2, 3] a, string[3] b) => (bool[2, 3] y) { y = Equal (a, b) }")
    a = np.array([["x", "y", ""], ["é", "y", "z"]], object)
    result = opset(proto, 13, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    b = np.array(["x", "z", "z"], object)
    np.testing.assert_array_equal(outputs(result, a=a, b=b)[0], a == b)


@pytest.mark.parametrize("reduction", ["add", "max"])
def test_whole_slices_are_reduced_onto_each_other_before_opset_16(reduction: str) -> None:
    proto = model(
        18,
        "g (float[4, 2, 3] data, int64[3, 1] at, float[3, 2, 3] updates) => (float[4, 2, 3] y) "
        f'{{ y = ScatterND <reduction = "{reduction}"> (data, at, updates) }}',
    )
    inputs = {
        "data": RANDOM.standard_normal((4, 2, 3)).astype(np.float32),
        "at": np.array([[1], [3], [1]]),
        "updates": RANDOM.standard_normal((3, 2, 3)).astype(np.float32),
    }
    assert_same_at(proto, [17, 15, 13], **inputs)


def test_a_batch_norm_that_trains_is_written_as_its_formula_before_opset_14() -> None:
    proto = model(
        15,
        "g (float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v) => "
        "(float[2, 3, 4] y, float[3] mean, float[3] var) "
        "{ y, mean, var = BatchNormalization <training_mode = 1, momentum = 0.7> (x, s, b, m, v) }",
    )
    data = np.random.default_rng(3)
    inputs = {name: data.random(3).astype(np.float32) for name in "sbmv"}
    inputs["x"] = data.standard_normal((2, 3, 4)).astype(np.float32)
    assert_same_at(proto, [13, 11], **inputs)


def test_a_sequence_is_passed_on_before_opset_14() -> None:
    proto = model(16, "g (seq(float[n]) x) => (seq(float[n]) y) { y = Identity (x) }")
    result = opset(proto, 13, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    assert types(result) == ["SequenceInsert", "SequenceErase"]
    elements = [np.arange(3, dtype=np.float32), np.zeros(0, np.float32)]
    for actual, expected in zip(outputs(result, x=elements)[0], elements, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1"])
def test_weights_of_a_type_that_is_not_known_yet_are_held_in_a_wider_one(kind: str) -> None:
    """A constant can be written in another type, since nobody but DequantizeLinear reads it."""
    proto = model(25, "g (float[1] s) => (float[2, 4] y) { y = DequantizeLinear (w, s) }")
    numbers = {"INT": [-2, -1, 0, 1], "UINT": [0, 1, 2, 3]}.get(kind.rstrip("24"), [0, 0.5, -1, 2])
    proto.graph.initializer.append(helper.make_tensor("w", getattr(TensorProto, kind), [2, 4], numbers * 2))
    scale = np.array([0.25], np.float32)
    for target in (20, 17, 13):
        result = opset(proto, target, verify=False).proto()
        onnx.checker.check_model(result, full_check=True)
        expected = np.array([numbers, numbers], np.float32) * scale
        np.testing.assert_array_equal(outputs(result, s=scale)[0], expected)


def test_a_constant_of_a_later_type_that_is_an_output_becomes_an_initialiser() -> None:
    """No operator of opset 17 gives a number of 8 bits, but a model of IR version 9 may hold one."""
    tensor = helper.make_tensor("value", TensorProto.FLOAT8E4M3FN, [2], [1.0, 2.0])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT8E4M3FN, [2])
    graph = helper.make_graph([helper.make_node("Constant", [], ["y"], value=tensor)], "g", [], [output])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    result = opset(proto, 17, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    assert (len(result.graph.node), [each.name for each in result.graph.initializer]) == (0, ["y"])


LATER = {
    19: ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"],
    21: ["int4", "uint4"],
    23: ["float4e2m1"],
    24: ["float8e8m0"],
    25: ["int2", "uint2"],
}


@pytest.mark.parametrize(("first", "kinds"), LATER.items())
def test_no_operator_of_an_older_opset_takes_or_gives_a_later_type(first: int, kinds: list[str]) -> None:
    """So no model of an older opset can read such an input, whatever is done: see docs/workbench/opset.md."""
    older = {
        (schema.name, schema.since_version): formal.types
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain or schema.since_version < first
        for formal in (*schema.inputs, *schema.outputs)
    }
    assert not [key for key, types in older.items() for kind in kinds if any(f"({kind})" in each for each in types)]


def test_a_function_of_a_newer_opset_is_no_way_round() -> None:
    """ONNX wants each operator in a function to be the same at the opset of the model."""
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)
    function = helper.make_function("new", "Read", ["x"], ["y"], [cast], [helper.make_opsetid("", 19)])
    graph = helper.make_graph(
        [helper.make_node("Read", ["x"], ["y"], domain="new")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("new", 1)]
    proto = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)
    with pytest.raises(onnx.checker.ValidationError, match="not compatible with the version imported by model"):
        onnx.checker.check_model(proto)
