"""Mixtures of experts of ONNX Runtime. For each token, a router chooses a few of many small networks."""

from __future__ import annotations

from typing import Any

from onnxlift.lifting.code.expr import Expr
from onnxlift.lifting.ops.arguments import attribute_number, changed, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.rewriting.bodies.body import MICROSOFT

from .quant import PACKED_BITS

ACTIVATIONS = ("relu", "gelu", "silu", "identity", "swiglu")


@op("MoE", domain=MICROSOFT)
def MoE(
    n: Node,
    input: Tensor,
    router_probs: Tensor,
    fc1_experts_weights: Tensor,
    fc1_experts_bias: Tensor | None,
    fc2_experts_weights: Tensor,
    fc2_experts_bias: Tensor | None,
    fc3_experts_weights: Tensor | None,
    fc3_experts_bias: Tensor | None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
) -> Result:
    weights = _routed(n, router_probs, None, k, normalize_routing_weights, use_sparse_mixer)
    layers = [fc1_experts_weights, fc1_experts_bias, fc2_experts_weights, fc2_experts_bias]
    layers += [fc3_experts_weights, fc3_experts_bias]
    options = _activation(n, input, activation_type, activation_alpha, activation_beta, swiglu_fusion, swiglu_limit)
    return kernel("mixture_of_experts")(*trimmed(input, weights, *layers), **options)


@op("QMoE", domain=MICROSOFT, ignores=["accuracy_level"])
def QMoE(
    n: Node,
    input: Tensor,
    router_probs: Tensor,
    fc1_experts_weights: Tensor,
    fc1_scales: Tensor | None,
    fc1_experts_bias: Tensor | None,
    fc2_experts_weights: Tensor,
    fc2_scales: Tensor | None,
    fc2_experts_bias: Tensor | None,
    fc3_experts_weights: Tensor | None,
    fc3_scales: Tensor | None,
    fc3_experts_bias: Tensor | None,
    fc1_zero_points: Tensor | None,
    fc2_zero_points: Tensor | None,
    fc3_zero_points: Tensor | None,
    router_weights: Tensor | None,
    *,
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
) -> Result:
    """The experts' weights are packed integers, with a scale for each row or for each block of a row. Unlike for MoE,
    ONNX Runtime's CPU build always normalises the router's weights, whatever `normalize_routing_weights` is."""
    if quant_type != "int" or weights_prepacked not in (-1, 0):
        n.fail("weights of small floats, or packed for one device")
    bits = [b or expert_weight_bits for b in (fc1_expert_weight_bits, fc2_expert_weight_bits, fc3_expert_weight_bits)]
    if not set(bits) <= set(PACKED_BITS):
        n.fail(f"weights of {bits} bits")

    def unpacked(weight: Tensor | None, scales: Tensor | None, zeros: Tensor | None, width: int) -> Expr | None:
        if weight is None:
            return None
        if scales is None:
            n.fail("weights without scales")
        return kernel("dequantize_experts")(*trimmed(weight, scales, zeros), **changed({"bits": width}, bits=4))

    fc1 = unpacked(fc1_experts_weights, fc1_scales, fc1_zero_points, bits[0])
    fc2 = unpacked(fc2_experts_weights, fc2_scales, fc2_zero_points, bits[1])
    fc3 = unpacked(fc3_experts_weights, fc3_scales, fc3_zero_points, bits[2])
    normalized = normalize_routing_weights if router_weights is not None else 1
    weights = _routed(n, router_probs, router_weights, k, normalized, use_sparse_mixer)
    layers = [fc1, fc1_experts_bias, fc2, fc2_experts_bias, fc3, fc3_experts_bias]
    options = _activation(n, input, activation_type, activation_alpha, activation_beta, swiglu_fusion, swiglu_limit)
    return kernel("mixture_of_experts")(*trimmed(input, weights, *layers), **options)


def _routed(n: Node, logits: Tensor, weights: Tensor | None, k: int, normalized: int, sparse_mixer: int) -> Expr:
    if sparse_mixer:
        n.fail("a sparse mixer")
    return kernel("experts_weights")(*trimmed(logits, k, bool(normalized), weights))


def _activation(
    n: Node, x: Tensor, kind: str, alpha: float, beta: float, fusion: int, limit: float | None
) -> dict[str, Any]:
    if kind not in ACTIVATIONS:
        n.fail(f"its activation is {kind}")
    if kind != "swiglu":
        return changed({"activation": kind}, activation="relu")
    options = {
        "interleaved": None if not fusion else fusion == 1,
        "alpha": attribute_number(alpha, x),
        "beta": attribute_number(beta, x),
        "limit": None if limit is None else attribute_number(limit, x),
    }
    return {"activation": kind, **changed(options, interleaved=None, alpha=1.0, beta=0.0, limit=None)}
