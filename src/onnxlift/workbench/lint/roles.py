"""Which layer a weight belongs to, and what it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxlift.errors import quote

if TYPE_CHECKING:
    from .weights import Weight

_NORM = {1: "scale", 2: "bias"}
_RECURRENT = {1: "input weight", 2: "recurrent weight", 3: "bias"}
_KERNEL = {1: "kernel", 2: "bias"}
_MATRIX = {0: "matrix", 1: "matrix"}

ROLES: dict[str, dict[int, str]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger"), _KERNEL),
    "QLinearConv": {3: "kernel", 8: "bias"},
    "MatMul": _MATRIX,
    "MatMulInteger": _MATRIX,
    "QLinearMatMul": {0: "matrix", 3: "matrix"},
    "Gemm": {0: "matrix", 1: "matrix", 2: "bias"},
    "BatchNormalization": {**_NORM, 3: "mean", 4: "variance"},
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "GroupNormalization"), _NORM),
    "RMSNormalization": {1: "scale"},
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    "PRelu": {1: "slope"},
    "Gather": {0: "table"},
}
"""Operator -> input -> what a constant is there."""

MULTIPLIED = frozenset({"kernel", "matrix", "input weight", "recurrent weight", "table", "scale"})
"""What the data is multiplied by, so that it decides what a layer computes."""


def roles_of(weight: Weight) -> list[tuple[str, str, str]]:
    """Return what the weight is for each node that reads it: operator, role, and the name of the node."""
    found = []
    for use in weight.uses:
        role = ROLES.get(use.node.op_type, {}).get(use.index) if use.node.domain == "" else None
        if role is not None:
            found.append((use.node.op_type, role, use.node.name or ""))
    return found


def told(role: tuple[str, str, str]) -> str:
    """Return a role for a message: `the kernel of Conv 'c1'`."""
    operator, what, name = role
    return f"the {what} of {operator} {quote(name)}"
