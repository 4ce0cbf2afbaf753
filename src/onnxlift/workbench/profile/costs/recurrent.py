"""Recurrent layers: for each step and sample a product with both weights, then the gates."""

from __future__ import annotations

from ..formula import Size, product
from ..node import CostNode
from ..registry import Work, cost

# Operator -> gates, and operations of the gates and the state for each hidden number, as ONNX defines them.
_KINDS = {"RNN": (1, 1), "GRU": (3, 14), "LSTM": (4, 18)}


@cost(*_KINDS)
def recurrent(n: CostNode) -> Work:
    """W is (directions, gates * hidden, input), R is (directions, gates * hidden, hidden)."""
    return _layer(n, n.op_type, n.size(1) + n.size(2))


@cost("DynamicQuantizeLSTM", domain="com.microsoft", weights=(1, 2, 3, 6))
def quantised_lstm(n: CostNode) -> Work:
    """The weights are transposed: (directions, input, gates * hidden)."""
    return _layer(n, "LSTM", n.size(1) + n.size(2))


def _layer(n: CostNode, kind: str, weights: Size) -> Work:
    gates, operations = _KINDS[kind]
    steps = product(n.shape(0)[:2])
    hidden = n.attribute("hidden_size") or n.shape(2)[-1]
    directions = 2 if n.attribute("direction", "forward") == "bidirectional" else 1
    sums = gates * (1 + 2 * n.has(3))  # the two products, and both biases
    return Work(macs=steps * weights, other=steps * directions * hidden * (sums + operations))
