"""Small models whose weights lie in files in many ways."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

RANDOM = np.random.default_rng(0)
HEAD = '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1], producer_name: "somebody">'


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model(
    body: str, weights: dict[str, np.ndarray], inputs: str = "float[n, 4] x", outputs: str = "float[n, m] y"
) -> onnx.ModelProto:
    """A model of this body, whose names `a_b` stand for `a.b` where a weight is called so."""
    made = parser.parse_model(f"{HEAD} g ({inputs}) => ({outputs}) {{ {body} }}")
    names = {name.replace(".", "_"): name for name in weights}
    for node in made.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    entry = made.metadata_props.add()
    entry.key, entry.value = "author", "somebody"
    return made


def linear() -> onnx.ModelProto:
    """Two linear layers; the matrix of the first is stored as ONNX has it, that of the second as PyTorch does."""
    weights = {"fc1.weight": normal(4, 5), "fc1.bias": normal(5), "fc2.weight": normal(3, 5), "fc2.bias": normal(3)}
    return model(
        "a = MatMul(x, fc1_weight) b = Add(a, fc1_bias) c = Relu(b) y = Gemm <transB = 1> (c, fc2_weight, fc2_bias)",
        weights,
    )


def merged() -> onnx.ModelProto:
    """Two convolutions that read one vector of zeros, as tools write it that store equal tensors once."""
    weights = {"conv1.weight": normal(3, 3, 1), "conv2.weight": normal(3, 3, 1), "zeros": np.zeros(3, np.float32)}
    body = "a = Conv(x, conv1_weight, zeros) b = Relu(a) y = Conv(b, conv2_weight, zeros)"
    return model(body, weights, "float[n, 3, 7] x", "float[n, 3, 7] y")


def recurrent() -> onnx.ModelProto:
    """A bidirectional LSTM, whose gates ONNX has in another order."""
    weights = {"W": normal(2, 20, 4), "R": normal(2, 20, 5), "B": normal(2, 40)}
    body = 'a, h, c = LSTM <hidden_size = 5, direction = "bidirectional"> (x, W, R, B) y = Relu(a)'
    return model(body, weights, "float[s, n, 4] x", "float[s, 2, n, 5] y")


def constants() -> onnx.ModelProto:
    """A linear layer whose weights stand in Constant nodes, one of them as a list of numbers, as Paddle's are."""
    made = model("a = MatMul(x, fc_weight) y = Add(a, fc_bias)", {})
    bias = helper.make_tensor("fc_bias", TensorProto.FLOAT, [3], normal(3).tolist())
    for name, tensor in (("fc_bias", bias), ("fc_weight", numpy_helper.from_array(normal(4, 3)))):
        made.graph.node.insert(0, helper.make_node("Constant", [], [name], f"the_{name}", value=tensor))
    return made


def branches() -> onnx.ModelProto:
    """A branch that has a weight of its own."""
    made = model(
        "y = If (flag) <then_branch = t () => (float[n, 4] p) { p = Mul(x, scale) }, "
        "else_branch = e () => (float[n, 4] q) { q = Relu(x) }>",
        {},
        "float[n, 4] x, bool flag",
        "float[n, 4] y",
    )
    made.graph.node[0].attribute[0].g.initializer.append(numpy_helper.from_array(normal(4), "scale"))
    return made


def fused() -> onnx.ModelProto:
    """Operators of ONNX Runtime: a norm with a residual, and a product with its bias and activation."""
    weights = {
        "norm.weight": normal(4), "norm.bias": normal(4), "fc.weight": normal(4, 6), "gelu.bias": normal(6),
    }  # fmt: skip
    body = (
        "a = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, x, norm_weight, norm_bias) "
        "b = com.microsoft.FusedMatMul <alpha = 0.5> (a, fc_weight) y = com.microsoft.BiasGelu(b, gelu_bias)"
    )
    return model(body, weights, "float[n, 3, 4] x", "float[n, 3, 6] y")


def norms() -> onnx.ModelProto:
    """A batch norm behind a convolution."""
    weights = {
        "conv.weight": normal(3, 2, 3), "bn.weight": normal(3), "bn.bias": normal(3),
        "bn.running_mean": normal(3), "bn.running_var": np.abs(normal(3)) + 1,
    }  # fmt: skip
    body = "a = Conv(x, conv_weight) y = BatchNormalization(a, bn_weight, bn_bias, bn_running_mean, bn_running_var)"
    return model(body, weights, "float[n, 2, 9] x", "float[n, 3, 7] y")


def quantised() -> onnx.ModelProto:
    """A convolution whose bias is stored in integers."""
    weights = {
        "conv.weight": normal(3, 2, 3), "conv.bias_quantized": np.array([5, -7, 9], np.int32),
        "scale": np.array(0.25, np.float32),
    }  # fmt: skip
    body = "b = DequantizeLinear(conv_bias_quantized, scale) y = Conv(x, conv_weight, b)"
    return model(body, weights, "float[n, 2, 9] x", "float[n, 3, 7] y")
