"""Models built with `onnx.helper`: residual, attention, recurrent, and one with control flow."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import BATCHES, Example, Inputs
from onnxlift.demo import tiny_resnet, transformer_block


def lstm_classifier() -> onnx.ModelProto:
    """An LSTM over twenty steps, time first, whose last hidden state is classified: 4 nodes."""
    random = np.random.default_rng(3)
    weights = {
        "lstm_W": random.standard_normal((1, 4 * 32, 16)) * 0.25,
        "lstm_R": random.standard_normal((1, 4 * 32, 32)) * 0.2,
        "lstm_B": random.standard_normal((1, 8 * 32)) * 0.2,
        "fc_W": random.standard_normal((32, 5)),
        "fc_b": random.standard_normal(5) * 0.2,
    }
    initializers = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    initializers.append(numpy_helper.from_array(np.array([0]), "squeeze_axes"))
    nodes = [
        helper.make_node("LSTM", ["x", "lstm_W", "lstm_R", "lstm_B"], ["Y", "Y_h", "Y_c"], "lstm_layer",
                         hidden_size=32, direction="forward"),
        helper.make_node("Squeeze", ["Y_h", "squeeze_axes"], ["h_final"], "squeeze_h"),
        helper.make_node("Gemm", ["h_final", "fc_W", "fc_b"], ["logits"], "fc_out", alpha=1.0, beta=1.0),
        helper.make_node("Softmax", ["logits"], ["probs"], "softmax", axis=-1),
    ]  # fmt: skip
    inputs, outputs = [_float("x", 20, "batch", 16)], [_float("probs", "batch", 5)]
    graph = helper.make_graph(nodes, "lstm_classifier", inputs, outputs, initializers)
    return _checked(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def beam_step() -> onnx.ModelProto:
    """An If that picks a start and a Loop that halves it until it is small: 9 nodes, and the Identity that an If needs.

    A branch may not return a value of the outer graph without a node of its own, so `start = x` costs an Identity.
    """
    constants = {"half": np.float32(0.5), "zero": np.float32(0), "threshold": np.float32(1e-3), "rows": np.array([1])}
    then_branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["kept"], "keep")], "positive", [], [_float("kept", "n", "d")]
    )
    else_branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["negated"], "negate")], "negative", [], [_float("negated", "n", "d")]
    )
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["y_in", "half"], ["y_out"], "halve"),
            helper.make_node("ReduceSum", ["y_out", "rows"], ["row_sum"], "sum_rows", keepdims=0),
            helper.make_node("ReduceMax", ["y_out"], ["largest"], "find_largest", keepdims=0),
            helper.make_node("Greater", ["largest", "threshold"], ["go_on"], "is_large"),
        ],
        "body",
        [
            helper.make_tensor_value_info("iteration", TensorProto.INT64, []),
            helper.make_tensor_value_info("going_on", TensorProto.BOOL, []),
            _float("y_in", "n", "d"),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            _float("y_out", "n", "d"),
            _float("row_sum", "n"),
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x"], ["total"], "sum_all", keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["is_positive"], "compare"),
            helper.make_node(
                "If", ["is_positive"], ["start"], "choose_start", then_branch=then_branch, else_branch=else_branch
            ),
            helper.make_node("Loop", ["steps", "", "start"], ["y", "trace"], "iterate", body=body),
        ],
        "beam_step",
        [_float("x", "n", "d"), helper.make_tensor_value_info("steps", TensorProto.INT64, [])],
        [_float("y", "n", "d"), _float("trace", "iterations", "n")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return _checked(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def _beam_step_samples() -> tuple[Inputs, ...]:
    """Both branches of the If; a loop that runs out of steps, and one that stops because all has become small."""
    random = np.random.default_rng(0)
    x = np.abs(random.standard_normal((3, 4))).astype(np.float32)
    negative = -np.abs(random.standard_normal((2, 5))).astype(np.float32)
    return {"x": x, "steps": np.array(4)}, {"x": negative, "steps": np.array(100)}


def _samples(*shape: int | str) -> tuple[Inputs, ...]:
    random = np.random.default_rng(0)
    sizes = ([batch if dim == "batch" else dim for dim in shape] for batch in BATCHES)
    return tuple({"x": random.standard_normal(size).astype(np.float32)} for size in sizes)


def _float(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _checked(model: onnx.ModelProto) -> onnx.ModelProto:
    onnx.checker.check_model(model, full_check=True)
    return model


EXAMPLES = (
    Example("tiny_resnet", tiny_resnet, lambda: _samples("batch", 3, 224, 224)),
    Example("transformer_block", transformer_block, lambda: _samples("batch", 10, 64)),
    Example("lstm_classifier", lstm_classifier, lambda: _samples(20, "batch", 16)),
    Example("beam_step", beam_step, _beam_step_samples, data_dependent=True),
)
