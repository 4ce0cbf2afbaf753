"""The operators of training (ai.onnx.preview.training), as functions. Written by tools/operator_stubs.py."""

from onnxlift.build.types import Operand, Strings
from onnxlift.build.value import Value

def Adagrad(
    R: Operand,
    T: Operand,
    *inputs: Operand,
    outputs: int | None = None,
    decay_factor: float | None = None,
    epsilon: float | None = None,
    norm_coefficient: float | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Compute one iteration of ADAGRAD, a stochastic gradient based optimization algorithm."""

def Adam(
    R: Operand,
    T: Operand,
    *inputs: Operand,
    outputs: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    epsilon: float | None = None,
    norm_coefficient: float | None = None,
    norm_coefficient_post: float | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Compute one iteration of Adam, a stochastic gradient based optimization algorithm."""

def Gradient(
    *Inputs: Operand,
    outputs: int | None = None,
    xs: Strings | None = None,
    y: str | None = None,
    zs: Strings | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Gradient operator computes the partial derivatives of a specific tensor w.r.t."""

def Momentum(
    R: Operand,
    T: Operand,
    *inputs: Operand,
    outputs: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    mode: str | None = None,
    norm_coefficient: float | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Compute one iteration of stochastic gradient update with momentum."""
