"""The smallest part of every random graph that was once lifted wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
from onnx import numpy_helper

from fuzz.check import Kind, check
from fuzz.runtime import Array


def assert_matches(text: str, *inputs: Array, opset: int = 18, **initialisers: Array) -> None:
    """A graph in ONNX's text format gives the same numbers lifted as in ONNX Runtime, in every variant."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initialisers.items())
    feeds = {value.name: array for value, array in zip(model.graph.input, inputs, strict=True)}
    outcome = check(model, [feeds])
    assert outcome.kind == Kind.MATCHED, f"{outcome.variant}: {outcome.detail}"


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(5).standard_normal(shape)).astype(np.float32)


def test_elements_gathered_from_a_constant_have_the_shape_of_the_indices() -> None:
    """Folding broadcast the indices to the shape of the data."""
    indices = np.array([[[0]], [[-1]], [[1]]])
    assert_matches(
        """g (int64[3,1,1] x) => (y) {
            picked = GatherElements <axis = 0> (data, indices)
            y = Add (x, picked)
        }""",
        np.array([[[4]], [[1]], [[-2]]]),
        data=np.arange(9).reshape(3, 1, 3),
        indices=indices,
    )


def test_a_pooling_that_rounds_up_has_no_window_beyond_the_input() -> None:
    """ONNX's inference counts one until opset 21, and the size was taken from there."""
    for operator in ("MaxPool", "AveragePool", "LpPool"):
        assert_matches(
            f"""g (float[1,2,5,6] x) => (y, size) {{
                y = {operator} <ceil_mode = 1, kernel_shape = [2, 1], strides = [2, 2]> (x)
                size = Shape (y)
            }}""",
            floats(1, 2, 5, 6),
        )


def test_a_size_may_meet_a_limit_that_is_known_at_run_time() -> None:
    """It was written as `(4).clamp(...)`."""
    for operation in ("Clip (size, limit)", "Mod <fmod = 1> (size, limit)"):
        assert_matches(
            f"""g (float[4,5] x, int64 limit) => (y) {{
                shape = Shape (x)
                size = Gather (shape, axis)
                y = {operation}
            }}""",
            floats(4, 5),
            np.asarray(3),
            axis=np.asarray(0),
        )


def test_sizes_that_a_module_returns_are_no_tensor() -> None:
    """They took the name of the tensor whose device was asked for: `x = sizes; ... device=x.device`."""
    assert_matches(
        """g (float[n,4] x) => (t4, t5) {
            ["/block/fc/MatMul"] t1 = MatMul (x, w)
            ["/block/Relu"] t2 = Relu (t1)
            ["/block/NonZero"] t3 = NonZero (t2)
            ["/block/NonZero_1"] t4 = NonZero (t1)
            ["/block/Shape"] t6 = Shape (t3)
            ["/Add"] t5 = Add (t6, c)
        }""",
        floats(3, 4),
        c=np.asarray([5, 1]),
        w=floats(4, 2),
    )


def test_the_truth_about_a_size_stays_a_truth_in_another_module() -> None:
    """It was handed to the module as a size, and became an integer there."""
    assert_matches(
        """g (float[1,3] x, int64[1] axes) => (y) {
            size = Shape <start = 1, end = 2> (x)
            ["/Less"] is_less = Less (size, limit)
            ["/masked/Unsqueeze"] mask = Unsqueeze (is_less, axes)
            ["/masked/Where"] y = Where (mask, x, other)
        }""",
        floats(1, 3),
        np.array([0]),
        limit=np.asarray(2),
        other=floats(3),
    )


def test_a_square_matrix_is_used_as_it_is_and_transposed() -> None:
    """Both were the same nn.Linear."""
    assert_matches(
        """g (float[2,4] x) => (float[2,4] y) {
            a = MatMul (x, w)
            t = Transpose <perm = [1, 0]> (w)
            b = MatMul (a, t)
            y = Tanh (b)
        }""",
        floats(2, 4),
        w=floats(4, 4),
    )


def test_a_window_that_fits_nowhere_gives_an_empty_result() -> None:
    """PyTorch refuses it."""
    for operator in ("MaxPool", "AveragePool", "LpPool"):
        assert_matches(
            f"g (float[3,4,2] x) => (y) {{ y = {operator} <dilations = [2], kernel_shape = [2]> (x) }}",
            floats(3, 4, 2),
            opset=22,
        )


def test_a_convolution_of_nothing_but_pads() -> None:
    assert_matches(
        "g (float[2,3,0,8] x) => (y) { y = Conv <pads = [1, 1, 1, 1]> (x, w, b) }",
        floats(2, 3, 0, 8),
        w=floats(4, 3, 2, 2),
        b=floats(4),
    )


def test_a_transform_in_frames_is_one_sided_if_nothing_is_said() -> None:
    """ONNX's inference takes it for two-sided, and the pads of the convolution were those of that size."""
    assert_matches(
        """g (float[2,16,1] signal) => (y) {
            frames = STFT (signal, step, window)
            y = Conv <auto_pad = "SAME_UPPER", group = 3, strides = [2, 2]> (frames, w)
        }""",
        floats(2, 16, 1),
        opset=22,
        step=np.asarray(4),
        window=floats(8),
        w=floats(6, 1, 2, 2),
    )


def test_a_transpose_of_what_turns_out_to_be_a_single_number() -> None:
    """`x.permute(*[])` is a call without arguments."""
    assert_matches("g (float x) => (y) { shape = Shape (x) z = Reshape (x, shape) y = Transpose (z) }", floats())
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g (float x) => (y) { y = Transpose (x) }')
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert check(model, [{"x": floats()}]).kind == Kind.MATCHED


def test_a_part_of_truths_about_sizes_has_truths() -> None:
    """Once its place was known at run time only, it was a list of integers."""
    assert_matches(
        """g (float[n,m] x, int64[1] start, int64[1] end) => (y, z) {
            sizes = Shape (x)
            truths = Equal (sizes, six)
            y = Slice (truths, start, end)
            z = Slice (truths, end, end)
        }""",
        floats(6, 3),
        np.array([1]),
        np.array([2]),
        six=np.asarray(6),
    )


def test_a_sequence_mapped_twice() -> None:
    """The type of the second is known once the first is expanded; without one, onnx crashed the process."""
    body = "<body = inner (float[a,b] {0}) => (float[c,d] {1}) {{ {1} = Tanh ({0}) }}>"
    assert_matches(
        f"""g (float[n,4] x) => (y) {{
            first = SplitToSequence <axis = 1> (x)
            mapped = SequenceMap {body.format("i", "j")} (first)
            joined = ConcatFromSequence <axis = 0> (mapped)
            second = SplitToSequence <axis = 0> (joined)
            again = SequenceMap {body.format("k", "l")} (second)
            y = ConcatFromSequence <axis = 1> (again)
        }}""",
        floats(3, 4),
    )


def test_integers_of_64_bits_under_their_other_name() -> None:
    """ONNX Runtime gives `ulonglong`, which torch does not take for uint64."""
    numbers = np.arange(6, dtype=np.ulonglong)
    assert_matches("g (uint64[6] x) => (y) { y = Add (x, x) }", numbers)


def test_the_counter_of_a_loop_is_handed_to_a_module() -> None:
    """It is a variable of the code, and no value of the graph."""
    assert_matches(
        """g (float[2,4] x, int64 trips, bool go) => (last, all) {
            last, all = Loop (trips, go, x) <body = b (int64 i, bool on, float[2,4] s)
                => (bool on2, float[2,4] t, float[2,4] o) {
                on2 = Identity (on)
                ["/m/stages.2/MatMul"] p = MatMul (s, "m.stages.2.fc.weight")
                ["/m/stages.2/Tanh"] t = Tanh (p)
                ["/m/stages.2/Cast"] f = Cast <to = 1> (i)
                ["/m/stages.2/Add"] o = Add (t, f)
            }>
        }""",
        floats(2, 4),
        np.array(3),
        np.array(True),
        **{"m.stages.2.fc.weight": floats(4, 4)},
    )
