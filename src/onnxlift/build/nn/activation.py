"""Activations, named as in PyTorch."""

from __future__ import annotations

from math import sqrt

from onnxlift.build import init, op, opsets
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.types import Dtype
from onnxlift.build.value import Value

from .module import Layer, check_input, positive
from .parameter import Parameter
from .spelling import clipped, softmax, unsqueezed


class _Plain(Layer):
    """An activation that is an operator without attributes."""

    def __init__(self, inplace: bool = False) -> None:
        pass


class ReLU(_Plain):
    """max(x, 0)."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Relu(input)


class ReLU6(_Plain):
    """max(x, 0), at most 6."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return clipped(input, 0.0, 6.0)


class Sigmoid(_Plain):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Sigmoid(input)


class LogSigmoid(_Plain):
    """The logarithm of the sigmoid."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return -op.Softplus(-input)


class Tanh(_Plain):
    """The hyperbolic tangent."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Tanh(input)


class Tanhshrink(_Plain):
    """x - tanh(x)."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return input - op.Tanh(input)


class Softsign(_Plain):
    """x / (1 + abs(x))."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Softsign(input)


class SiLU(_Plain):
    """x * sigmoid(x)."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return input * op.Sigmoid(input)


class Mish(_Plain):
    """x * tanh(softplus(x))."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Mish(input) if opsets()[""] >= 18 else input * op.Tanh(op.Softplus(input))


class Hardsigmoid(_Plain):
    """x / 6 + 1/2, between 0 and 1."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.HardSigmoid(input, alpha=1 / 6, beta=0.5)


class Hardswish(_Plain):
    """x * hardsigmoid(x)."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.HardSwish(input) if opsets()[""] >= 14 else input * op.HardSigmoid(input, alpha=1 / 6, beta=0.5)


class SELU(_Plain):
    """The scaled exponential linear unit."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Selu(input)


class GELU(Layer):
    """x times the chance that a normal number is smaller; `approximate="tanh"` computes it by a tanh."""

    @at_the_users_line
    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate
        if approximate not in ("none", "tanh"):
            raise BuildError(f'GELU: approximate is {approximate!r}, and must be "none" or "tanh".')

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        if opsets()[""] >= 20:
            return op.Gelu(input, approximate=self.approximate)
        if self.approximate == "tanh":
            inner = (input + input * input * input * 0.044715) * 0.7978845608028654
            return input * 0.5 * (op.Tanh(inner) + 1.0)
        return input * 0.5 * (op.Erf(input / sqrt(2)) + 1.0)


class LeakyReLU(Layer):
    """x, or negative_slope * x if that is negative."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.LeakyRelu(input, alpha=self.negative_slope)


class ELU(Layer):
    """x, or alpha * (exp(x) - 1) if that is negative."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Elu(input, alpha=self.alpha)


class CELU(Layer):
    """x, or alpha * (exp(x / alpha) - 1) if that is negative."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Celu(input, alpha=self.alpha)


class PReLU(Layer):
    """x, or weight * x if x is negative: one weight for all, or one for each channel."""

    @at_the_users_line
    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: Dtype | None = None) -> None:
        positive("PReLU", num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = Parameter((num_parameters,), dtype=dtype, init=_constant(init))

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        if self.num_parameters == 1:
            return op.PRelu(input, self.weight)
        check_input(self, input, 1, self.num_parameters, "num_parameters")
        if input.rank is None:
            self.refuse(f"its input is {input!r}, whose number of axes must be known.")
        axes = list(range(1, input.rank - 1))
        return op.PRelu(input, unsqueezed(self.weight, axes) if axes else self.weight)


_constant = init.constant


class Softplus(Layer):
    """log(1 + exp(beta * x)) / beta, and x where that is above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        if self.beta == 1.0 and self.threshold >= 20.0:
            return op.Softplus(input)
        made = op.Softplus(input * self.beta) / self.beta
        return op.Where(input * self.beta > self.threshold, input, made)


class Hardtanh(Layer):
    """x, not below min_val nor above max_val."""

    @at_the_users_line
    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        self.min_val, self.max_val = min_val, max_val
        if not min_val < max_val:
            raise BuildError(f"Hardtanh: min_val is {min_val}, and must be smaller than max_val, {max_val}.")

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return clipped(input, self.min_val, self.max_val)


class Hardshrink(Layer):
    """x, or 0 between -lambd and lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Shrink(input, lambd=self.lambd, bias=0.0)


class Softshrink(Layer):
    """x drawn towards 0 by lambd."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Shrink(input, lambd=self.lambd, bias=self.lambd)


class Threshold(Layer):
    """x, or value where x is not above the threshold."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self.threshold, self.value = threshold, value

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return op.Where(input > self.threshold, input, self.value)


class _AlongAxis(Layer):
    def __init__(self, dim: int) -> None:
        self.dim = dim


class Softmax(_AlongAxis):
    """exp(x) by its sum along an axis."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return softmax(input, self.dim)


class Softmin(_AlongAxis):
    """The softmax of -x along an axis."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return softmax(-input, self.dim)


class LogSoftmax(_AlongAxis):
    """The logarithm of the softmax along an axis."""

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        return softmax(input, self.dim, "LogSoftmax")


class GLU(Layer):
    """The first half along an axis, times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, input: Value) -> Value:
        """Return the activation of the input."""
        first, second = op.Split(input, outputs=2, axis=self.dim)
        return first * op.Sigmoid(second)
