"""`python -m onnxlift.demo`: two ONNX models built node by node, lifted, verified against ONNX Runtime, and shown.

The models are written with `onnx.helper` alone, so the demo needs no exporter and no download. Their weights are random
but never trivial: with biases of zero and norms of one, a bias that got lost or a norm that was skipped would still
give the right numbers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console
from rich.syntax import Syntax

import onnxlift

OPSET = 17
IR_VERSION = 8


class GraphBuilder:
    """The nodes and random initialisers of a graph that is being built; `model` makes a checked model of them."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def node(self, op_type: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> str:
        """Add a node with one output, and return the name of that output."""
        self._nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def constant(self, name: str, array: np.ndarray) -> str:
        self._initializers.append(numpy_helper.from_array(array, name=name))
        return name

    def normal(self, name: str, *shape: int, scale: float) -> str:
        return self.constant(name, (self._random.standard_normal(shape) * scale).astype(np.float32))

    def positive(self, name: str, *shape: int) -> str:
        return self.constant(name, self._random.uniform(0.5, 1.5, shape).astype(np.float32))

    def model(self, name: str, input: onnx.ValueInfoProto, output: onnx.ValueInfoProto) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, name, [input], [output], initializer=self._initializers)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="onnxlift.demo")
        onnx.checker.check_model(model)
        return model


def tiny_resnet() -> onnx.ModelProto:
    """Build a ResNet of four residual blocks for 224 x 224 images and ten classes, in 37 nodes."""
    graph = GraphBuilder(seed=1)
    x = _conv_bn_relu(graph, "x", "stem_out", 3, 64, kernel=7, stride=2)
    x = graph.node("MaxPool", [x], "pool_out", "stem_pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = _residual_block(graph, x, "layer1a", 64, 64)
    x = _residual_block(graph, x, "layer1b", 64, 64)
    x = _residual_block(graph, x, "layer2a", 64, 128, stride=2)
    x = _residual_block(graph, x, "layer2b", 128, 128)
    x = graph.node("GlobalAveragePool", [x], "gap_out", "global_avg_pool")
    x = graph.node("Flatten", [x], "flat_out", "flatten", axis=1)
    weight = graph.normal("fc_W", 128, 10, scale=0.02)
    bias = graph.normal("fc_b", 10, scale=0.1)
    x = graph.node("Gemm", [x, weight, bias], "logits", "classifier", alpha=1.0, beta=1.0)
    graph.node("Softmax", [x], "probs", "softmax", axis=-1)
    return graph.model("tiny_resnet", _float("x", "batch", 3, 224, 224), _float("probs", "batch", 10))


def _residual_block(graph: GraphBuilder, x: str, out: str, in_channels: int, channels: int, stride: int = 1) -> str:
    mid = _conv_bn_relu(graph, x, f"{out}_mid", in_channels, channels, kernel=3, stride=stride)
    conv = _conv(graph, mid, f"{out}_c2", channels, channels, kernel=3, stride=1, name=f"{out}_conv2")
    norm = _batch_norm(graph, conv, f"{out}_bn2", channels)
    shortcut = x
    if in_channels != channels or stride != 1:
        name = f"{out}_shortcut_conv"
        shortcut = _conv(graph, x, f"{out}_s", in_channels, channels, 1, stride, name=name, output=f"{out}_shortcut")
    total = graph.node("Add", [norm, shortcut], f"{out}_sum", f"{out}_add")
    return graph.node("Relu", [total], out, f"{out}_relu_final")


def _conv_bn_relu(
    graph: GraphBuilder, x: str, out: str, in_channels: int, channels: int, kernel: int, stride: int
) -> str:
    x = _conv(graph, x, f"{out}_c", in_channels, channels, kernel, stride, name=f"{out}_conv")
    x = _batch_norm(graph, x, f"{out}_bn", channels)
    return graph.node("Relu", [x], out, f"{out}_relu")


def _conv(
    graph: GraphBuilder,
    x: str,
    prefix: str,
    in_channels: int,
    channels: int,
    kernel: int,
    stride: int,
    *,
    name: str,
    output: str = "",
) -> str:
    """Add a convolution that keeps the size of the image, or divides it by the stride.

    Its weights are named after `prefix`, and so is its output, unless `output` names that."""
    fan_in = in_channels * kernel * kernel
    weight = graph.normal(f"{prefix}W", channels, in_channels, kernel, kernel, scale=(2 / fan_in) ** 0.5)
    bias = graph.normal(f"{prefix}b", channels, scale=0.1)
    sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
    return graph.node("Conv", [x, weight, bias], output or prefix, name, **sizes)


def _batch_norm(graph: GraphBuilder, x: str, prefix: str, channels: int) -> str:
    scale = graph.positive(f"{prefix}s", channels)
    bias = graph.normal(f"{prefix}b", channels, scale=0.1)
    mean = graph.normal(f"{prefix}m", channels, scale=0.1)
    variance = graph.positive(f"{prefix}v", channels)
    inputs = [x, scale, bias, mean, variance]
    return graph.node("BatchNormalization", inputs, prefix, prefix, epsilon=1e-5, momentum=0.9)


def transformer_block() -> onnx.ModelProto:
    """Build one encoder block in 30 nodes: self-attention (four heads, ten tokens), then a feed-forward network."""
    width, heads, tokens, hidden = 64, 4, 10, 256
    graph = GraphBuilder(seed=2)
    for letter in "QKVO":
        graph.normal(f"W_{letter}", width, width, scale=width**-0.5)
    for letter in "QKVO":
        graph.normal(f"b_{letter}", width, scale=0.1)
    graph.normal("W_ff1", width, hidden, scale=width**-0.5)
    graph.normal("b_ff1", hidden, scale=0.1)
    graph.normal("W_ff2", hidden, width, scale=hidden**-0.5)
    graph.normal("b_ff2", width, scale=0.1)
    for norm in ("ln1", "ln2"):
        graph.positive(f"{norm}_scale", width)
        graph.normal(f"{norm}_bias", width, scale=0.1)
    graph.constant("attn_scale", np.array((width // heads) ** -0.5, np.float32))
    graph.constant("shape_heads", np.array([-1, tokens, heads, width // heads]))
    graph.constant("shape_restore", np.array([-1, tokens, width]))

    node = graph.node
    for letter in "QKV":
        node("MatMul", ["x", f"W_{letter}"], f"{letter}_proj", f"matmul_{letter}")
        node("Add", [f"{letter}_proj", f"b_{letter}"], letter, f"add_bias_{letter}")
    for letter in "QKV":
        node("Reshape", [letter, "shape_heads"], f"{letter}_h", f"reshape_{letter}")
    for letter in "QKV":
        node("Transpose", [f"{letter}_h"], f"{letter}_t", f"transpose_{letter}", perm=[0, 2, 1, 3])
    node("Transpose", ["K_t"], "K_t_T", "transpose_K_for_attn", perm=[0, 1, 3, 2])
    node("MatMul", ["Q_t", "K_t_T"], "raw_scores", "attn_scores")
    node("Mul", ["raw_scores", "attn_scale"], "scaled_scores", "scale_scores")
    node("Softmax", ["scaled_scores"], "attn_weights", "attn_softmax", axis=-1)
    node("MatMul", ["attn_weights", "V_t"], "context_t", "attn_context")
    node("Transpose", ["context_t"], "context_h", "transpose_context", perm=[0, 2, 1, 3])
    node("Reshape", ["context_h", "shape_restore"], "context", "reshape_context")
    node("MatMul", ["context", "W_O"], "attn_out_proj", "output_proj")
    node("Add", ["attn_out_proj", "b_O"], "attn_out", "add_output_bias")
    node("Add", ["x", "attn_out"], "residual1", "residual1")
    norm_attributes = {"axis": -1, "epsilon": 1e-6}
    node("LayerNormalization", ["residual1", "ln1_scale", "ln1_bias"], "ln1_out", "layernorm1", **norm_attributes)

    node("MatMul", ["ln1_out", "W_ff1"], "ff1_proj", "ff1_proj")
    node("Add", ["ff1_proj", "b_ff1"], "ff1", "ff1_bias")
    node("Relu", ["ff1"], "ff1_relu", "ff1_relu")
    node("MatMul", ["ff1_relu", "W_ff2"], "ff2_proj", "ff2_proj")
    node("Add", ["ff2_proj", "b_ff2"], "ff2", "ff2_bias")
    node("Add", ["ln1_out", "ff2"], "residual2", "residual2")
    node("LayerNormalization", ["residual2", "ln2_scale", "ln2_bias"], "output", "layernorm2", **norm_attributes)
    shape = ("batch", tokens, width)
    return graph.model("transformer_encoder_block", _float("x", *shape), _float("output", *shape))


def _float(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tiny_resnet": tiny_resnet,
    "transformer_block": transformer_block,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, lift, verify and show every model. Return the exit status: 0 if all of them match ONNX Runtime, else 1."""
    parser = argparse.ArgumentParser(prog="python -m onnxlift.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("demo_out"), help="folder to write to")
    folder = parser.parse_args(arguments).output
    folder.mkdir(parents=True, exist_ok=True)
    matches = [_demonstrate(name, build(), folder) for name, build in MODELS.items()]
    return 0 if all(matches) else 1


def _demonstrate(name: str, model: onnx.ModelProto, folder: Path) -> bool:
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    lifted = onnxlift.lift(path)
    lifted.save(folder, force=True)
    report = onnxlift.verify(path)

    console = Console()
    console.rule(f"{name}: {len(model.graph.node)} nodes, {len(lifted.source.splitlines())} lines")
    if console.is_terminal:
        console.print(Syntax(lifted.source, "python", word_wrap=True))
    else:
        print(lifted.source)
    print(report)
    return report.passed


if __name__ == "__main__":
    sys.exit(main())
