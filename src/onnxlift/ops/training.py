"""Training: steps of optimisers."""

from __future__ import annotations

from typing import Any

from ..code.expr import Ref
from ..code.statements import Assign
from ..ir.types import type_of
from .arguments import attribute_number, changed
from .kernel import kernel
from .node import Node, Result, Unpack
from .operand import Tensor
from .registry import op

TRAINING = "ai.onnx.preview.training"


@op("Adagrad", domain=TRAINING)
def Adagrad(
    n: Node, R: Tensor, T: Tensor, *inputs: Tensor, decay_factor: float, epsilon: float, norm_coefficient: float
) -> Result:
    """Inputs are variables, then their gradients, then their sums of squared gradients."""
    options = {"decay_factor": decay_factor, "epsilon": epsilon, "norm_coefficient": norm_coefficient}
    defaults = {"decay_factor": 0.0, "epsilon": 1e-6, "norm_coefficient": 0.0}
    return _steps(n, "adagrad_step", R, T, inputs, 3, options, defaults)


@op("Adam", domain=TRAINING)
def Adam(
    n: Node,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    alpha: float,
    beta: float,
    epsilon: float,
    norm_coefficient: float,
    norm_coefficient_post: float,
) -> Result:
    """Inputs are variables, then their gradients, then the running means of these and of their squares."""
    options = {
        "alpha": alpha,
        "beta": beta,
        "epsilon": epsilon,
        "norm_coefficient": norm_coefficient,
        "norm_coefficient_post": norm_coefficient_post,
    }
    defaults = {"alpha": 0.9, "beta": 0.999, "epsilon": 1e-6, "norm_coefficient": 0.0, "norm_coefficient_post": 0.0}
    return _steps(n, "adam_step", R, T, inputs, 4, options, defaults)


@op("Momentum", domain=TRAINING)
def Momentum(
    n: Node, R: Tensor, T: Tensor, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> Result:
    """Inputs are variables, then their gradients, then their momenta."""
    if mode not in ("standard", "nesterov"):
        n.fail(f"there is no momentum of mode {mode}")
    options: dict[str, Any] = {"alpha": alpha, "beta": beta, "norm_coefficient": norm_coefficient}
    options["nesterov"] = mode == "nesterov"
    defaults = {"alpha": None, "beta": None, "norm_coefficient": 0.0, "nesterov": False}
    return _steps(n, "momentum_step", R, T, inputs, 3, options, defaults)


def _steps(
    n: Node,
    step: str,
    rate: Tensor,
    count: Tensor,
    inputs: tuple[Tensor, ...],
    kinds: int,
    options: dict[str, Any],
    defaults: dict[str, Any],
) -> Result:
    """A step for each variable. The inputs come kind by kind: all variables, all gradients, ...; so do the outputs."""
    if not inputs or len(inputs) % kinds:
        n.fail(f"it has {len(inputs)} inputs, which is not {kinds} for each variable")
    spelled = {name: _spelled(value, inputs[0]) for name, value in options.items()}
    given = changed(spelled, **defaults)
    variables = len(inputs) // kinds
    if variables == 1:
        return Unpack(kernel(step)(rate, count, *inputs, **given), kinds - 1)
    outputs = list(n.ir.outputs)
    for i in range(variables):
        stepped = outputs[i::variables]
        n.emit(Assign([Ref(v) for v in stepped], kernel(step)(rate, count, *inputs[i::variables], **given)))
    return [Tensor(Ref(value), type_of(value)) for value in outputs]


def _spelled(value: Any, x: Tensor) -> Any:
    return attribute_number(value, x) if isinstance(value, float) else value
