"""Gradients, and steps of optimisers."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Ref, torch
from onnxlift.lifting.code.statements import Assign, With
from onnxlift.lifting.ops.arguments import attribute_number, changed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

TRAINING = "ai.onnx.preview.training"


@op("Gradient", domain=TRAINING, ignores=["y", "zs"])
def Gradient(
    n: Node, *Inputs: Tensor, xs: tuple[str, ...], body: ir.Graph | None = None, create_graph: int = 0
) -> Result:
    """The derivatives of what `body` computes, with respect to the first of its inputs. The body is computed here, for
    whatever values the node is given. If `y` has several elements, their sum is differentiated."""
    if body is None:
        n.fail("it names values that are not in the graph around it")
    variables = [Tensor(Ref(value), type_of(value)) for value in body.inputs[: len(xs)]]
    block, (y,) = n.host.lower_graph(body, [*variables, *Inputs[len(xs) :]])
    starts = [
        Assign(
            [Ref(value)],
            kernel("variable")(given) if create_graph else given.detach().requires_grad_(),
            origin=[n.name],
        )
        for value, given in zip(body.inputs[: len(xs)], Inputs, strict=False)
    ]
    block.statements[:0] = starts
    total = n.tensor(y) if y.type.rank == 0 else n.tensor(y).sum()
    unused = any(not value.uses() and value not in body.outputs for value in body.inputs[: len(xs)])
    options = changed(
        {"create_graph": bool(create_graph), "materialize_grads": unused}, create_graph=False, materialize_grads=False
    )
    derivatives = torch.autograd.grad(total, variables if len(xs) > 1 else variables[0], **options)
    targets = [Ref(value) if value.name else None for value in n.ir.outputs]
    if len(xs) == 1:
        block.append(Assign([targets[0]], derivatives[0], origin=[n.name]))
    else:
        block.append(Assign([*targets, *[None] * (len(xs) - len(targets))], derivatives, origin=[n.name]))
    n.emit(With(torch.enable_grad(), block))
    return [Tensor(Ref(value), type_of(value)) for value in n.ir.outputs]


@op("Adagrad", domain=TRAINING)
def Adagrad(
    n: Node, R: Tensor, T: Tensor, *inputs: Tensor, decay_factor: float, epsilon: float, norm_coefficient: float
) -> Result:
    """The inputs are variables, then their gradients, then their sums of squared gradients."""
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
    """The inputs are variables, then their gradients, then the running means of the gradients and of their squares."""
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
    """The inputs are variables, then their gradients, then their momenta."""
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
    """Return the results of a step for each variable. Inputs and outputs are ordered by kind: all variables, all
    gradients, and so on."""
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
