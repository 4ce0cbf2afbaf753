"""The weights of recurrent layers: how ONNX packs them, and how PyTorch keeps them.

ONNX has W (directions, gates * hidden, input), R likewise for the state, and B (directions, 2 * gates * hidden): the
biases for W and then those for R. PyTorch has a tensor for each of these and each direction, with the gates in another
order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# PyTorch's gates by their place in ONNX: LSTM has i, o, f, c -> i, f, c, o; GRU has z, r, h -> r, z, h.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}


def unpacked_matrix(kind: str, direction: int, packed: Array) -> Array:
    """One direction of W or R as PyTorch has it."""
    gates: Array = packed[direction].reshape(len(GATES[kind]), -1, packed.shape[-1])
    return gates[list(GATES[kind])].reshape(-1, packed.shape[-1])


def unpacked_bias(kind: str, direction: int, half: int, packed: Array) -> Array:
    """One direction of B as PyTorch has it: the biases for W (`half` 0) or for R."""
    gates: Array = packed[direction].reshape(2, len(GATES[kind]), -1)[half]
    return gates[list(GATES[kind])].reshape(-1)
