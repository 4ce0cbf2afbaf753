"""Unpack the weights of recurrent layers: from ONNX's layout to PyTorch's.

ONNX has three tensors: W (directions, gates * hidden, input), R (directions, gates * hidden, hidden), and
B (directions, 2 * gates * hidden), which holds the biases for W and then those for R. PyTorch has a tensor for each of
the two matrices and the two biases in each direction, with the gates in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# The place in ONNX of each of PyTorch's gates: i, o, f, c -> i, f, c, o (LSTM), and z, r, h -> r, z, h (GRU).
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}


def unpacked_matrix(kind: str, direction: int, packed: Array) -> Array:
    """Return one direction of W or R in PyTorch's layout."""
    gates: Array = packed[direction].reshape(len(GATES[kind]), -1, packed.shape[-1])
    return gates[list(GATES[kind])].reshape(-1, packed.shape[-1])


def unpacked_bias(kind: str, direction: int, half: int, packed: Array) -> Array:
    """Return one direction of B in PyTorch's layout: the biases for W (`half` is 0) or for R (`half` is 1)."""
    gates: Array = packed[direction].reshape(2, len(GATES[kind]), -1)[half]
    return gates[list(GATES[kind])].reshape(-1)
