"""Mixtures of experts of ONNX Runtime. For each token, a router chooses a few of many small networks.

    MoE(x, logits, ..)   ->   all experts on all tokens, times how much each counts for a token (0 for most), summed

The sum is the same, but every expert computes: with 2 of 8 experts that is four times as much as ONNX Runtime does.
"""

from __future__ import annotations

from dataclasses import dataclass

from .body import BodyBuilder, Value, body, rank, size
from .microsoft_few_bits import PackedWeight

ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


@dataclass(frozen=True)
class Activation:
    """What stands between the layers of an expert."""

    kind: str
    fusion: int
    alpha: float
    beta: float
    limit: float | None


@dataclass(frozen=True)
class Layer:
    """The weights of one layer of all experts, (experts, features, outputs), and perhaps its biases."""

    weight: Value
    bias: Value | None

    def __call__(self, b: BodyBuilder, x: Value) -> Value:
        y = b.MatMul(x, self.weight)
        return y if self.bias is None else b.Add(y, b.Unsqueeze(self.bias, b.ints(1)))


@body("MoE")
def MoE(
    b: BodyBuilder,
    input: Value,
    router_probs: Value,
    fc1_experts_weights: Value,
    fc1_experts_bias: Value | None,
    fc2_experts_weights: Value,
    fc2_experts_bias: Value | None,
    fc3_experts_weights: Value | None,
    fc3_experts_bias: Value | None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
) -> Value:
    given = (
        (fc1_experts_weights, fc1_experts_bias),
        (fc2_experts_weights, fc2_experts_bias),
        (fc3_experts_weights, fc3_experts_bias),
    )
    layers = [Layer(b.transposed(weight, [0, 2, 1]), bias) for weight, bias in given if weight is not None]
    shares = _shares(b, router_probs, None, k, bool(normalize_routing_weights), use_sparse_mixer)
    activation = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit)
    return _mixture(b, input, shares, layers, activation)


@body("QMoE")
def QMoE(
    b: BodyBuilder,
    input: Value,
    router_probs: Value,
    fc1_experts_weights: Value,
    fc1_scales: Value | None,
    fc1_experts_bias: Value | None,
    fc2_experts_weights: Value,
    fc2_scales: Value | None,
    fc2_experts_bias: Value | None,
    fc3_experts_weights: Value | None,
    fc3_scales: Value | None,
    fc3_experts_bias: Value | None,
    fc1_zero_points: Value | None,
    fc2_zero_points: Value | None,
    fc3_zero_points: Value | None,
    router_weights: Value | None,
    *,
    accuracy_level: int = 0,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int = 0,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int = 0,
    fc2_expert_weight_bits: int = 0,
    fc3_expert_weight_bits: int = 0,
    k: int = 1,
    normalize_routing_weights: int = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
    weights_prepacked: int = -1,
) -> Value:
    """The experts' weights are packed integers, with a scale for each row or for each block of a row. Unlike for MoE,
    ONNX Runtime's CPU build always normalises the router's weights, whatever `normalize_routing_weights` is."""
    if quant_type != "int" or weights_prepacked not in (-1, 0):
        b.fail("weights of small floats, or packed for one device")
    given = (
        (fc1_experts_weights, fc1_scales, fc1_zero_points, fc1_expert_weight_bits, fc1_experts_bias),
        (fc2_experts_weights, fc2_scales, fc2_zero_points, fc2_expert_weight_bits, fc2_experts_bias),
        (fc3_experts_weights, fc3_scales, fc3_zero_points, fc3_expert_weight_bits, fc3_experts_bias),
    )
    layers = []
    for weight, scales, zeros, own_bits, bias in given:
        if weight is not None:
            if scales is None:
                b.fail("weights without scales")
            layers.append(Layer(_unpacked(b, weight, scales, zeros, own_bits or expert_weight_bits, block_size), bias))
    normalised = bool(normalize_routing_weights) if router_weights is not None else True
    shares = _shares(b, router_probs, router_weights, k, normalised, use_sparse_mixer)
    activation = Activation(activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit)
    return _mixture(b, input, shares, layers, activation)


def _unpacked(
    b: BodyBuilder, weight: Value, scales: Value, zero_points: Value | None, bits: int, block_size: int
) -> Value:
    experts, rows, packed = (size(weight, axis) for axis in range(3))
    if not isinstance(experts, int) or not isinstance(rows, int) or not isinstance(packed, int):
        b.fail("the sizes of its weights are not known")
    features = packed * 8 // bits
    shape = (experts, rows, features)
    return PackedWeight(b, weight, scales, zero_points, bits, shape, block_size or features).dequantised()


def _shares(b: BodyBuilder, logits: Value, weights: Value | None, k: int, normalised: bool, sparse_mixer: int) -> Value:
    """Return how much each expert counts for each token, (tokens, experts): 0 but for the k with the largest logits."""
    if sparse_mixer:
        b.fail("a sparse mixer")
    values, indices = b.several(2, "TopK", logits, b.ints(k), axis=-1)
    if weights is not None:
        values = b.GatherElements(weights, indices, axis=-1)
        values = b.Div(values, b.ReduceSum(values, b.ints(-1), keepdims=1)) if normalised else values
    elif normalised:
        values = b.Softmax(values, axis=-1)
    else:
        values = b.GatherElements(b.Softmax(logits, axis=-1), indices, axis=-1)
    nothing = b.Expand(b.number(0, logits), b.Shape(logits))
    return b.ScatterElements(nothing, indices, values, axis=-1)


def _mixture(b: BodyBuilder, x: Value, shares: Value, layers: list[Layer], activation: Activation) -> Value:
    """Return the networks of all experts on all tokens, summed by their shares."""
    if activation.kind not in ACTIVATIONS:
        b.fail(f"its activation is {activation.kind}")
    first, second, *third = layers
    tokens = b.Reshape(x, b.Concat(b.ints(-1), b.Shape(x, start=-1), axis=0)) if rank(x) != 2 else x
    y = first(b, tokens)
    other = third[0](b, tokens) if third else None
    if activation.kind == "swiglu":
        y = _swiglu(b, *_gate(b, y, other, activation.fusion), activation, x)
    else:
        y = _activated(b, y, activation.kind)
        y = y if other is None else b.Mul(y, other)
    share = b.Unsqueeze(b.Transpose(shares, perm=[1, 0]), b.ints(2))
    total = b.ReduceSum(b.Mul(second(b, y), share), b.ints(0), keepdims=0)
    return b.Reshape(total, b.Shape(x)) if rank(x) != 2 else total


def _activated(b: BodyBuilder, x: Value, kind: str) -> Value:
    """Return the activation of this name; ONNX Runtime approximates GELU by tanh here."""
    if kind == "gelu":
        return b.Gelu(x, approximate="tanh")
    return x if kind == "identity" else b.Mul(x, b.Sigmoid(x)) if kind == "silu" else b.Relu(x)


def _gate(b: BodyBuilder, y: Value, other: Value | None, fusion: int) -> tuple[Value, Value]:
    """Return the gate and what it multiplies: from layers of their own, one after the other, or in turns."""
    if other is not None:
        return y, other
    if fusion != 1:
        gate, linear = b.several(2, "Split", y, axis=-1, num_outputs=2)
        return gate, linear
    pairs = b.Reshape(y, b.ints(0, 0, -1, 2))
    gate, linear = (b.Squeeze(half, b.ints(3)) for half in b.several(2, "Split", pairs, axis=3, num_outputs=2))
    return gate, linear


def _swiglu(b: BodyBuilder, gate: Value, linear: Value, activation: Activation, like: Value) -> Value:
    """Return `gate * sigmoid(alpha * gate) * (linear + beta)`, both within the limit."""
    if activation.limit is not None:
        limit = b.number(activation.limit, like)
        gate = b.Min(gate, limit)
        linear = b.Clip(linear, b.number(-activation.limit, like), limit)
    scaled = gate if activation.alpha == 1 else b.Mul(gate, b.number(activation.alpha, like))
    shifted = linear if activation.beta == 0 else b.Add(linear, b.number(activation.beta, like))
    return b.Mul(b.Mul(gate, b.Sigmoid(scaled)), shifted)
