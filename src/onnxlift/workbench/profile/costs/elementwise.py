"""Operators that compute each element by itself: so many operations for an element of the output.

A function that mathematics has a name for (exp, log, tanh, erf, a root, a power) is one operation, and so is a
comparison or a choice. Others are counted as ONNX defines them.
"""

from __future__ import annotations

from ..node import CostNode
from ..registry import Work, cost

_ONE = (
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot"),
    *("BitwiseOr", "BitwiseXor", "Ceil", "Cos", "Cosh", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "Less"),
    *("GreaterOrEqual", "LessOrEqual", "IsInf", "IsNaN", "Log", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal"),
    *("Relu", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Sub", "Tan", "Tanh", "Where", "Xor", "Range"),
)

PER_ELEMENT = {
    **dict.fromkeys(_ONE, 1),
    "Clip": 2,  # the larger, the smaller
    "Celu": 7,  # max(0, x) + min(0, a * (exp(x / a) - 1))
    "Elu": 4,  # x if x > 0 else a * (exp(x) - 1)
    "HardSigmoid": 4,  # max(0, min(1, a * x + b))
    "HardSwish": 5,  # x * HardSigmoid(x)
    "LeakyRelu": 2,  # x if x > 0 else a * x
    "Mish": 4,  # x * tanh(log(1 + exp(x)))
    "PRelu": 2,  # x if x > 0 else a * x
    "Selu": 5,  # g * (x if x > 0 else a * exp(x) - a)
    "Shrink": 3,  # two comparisons and a sum
    "Sigmoid": 4,  # 1 / (1 + exp(-x))
    "Softplus": 3,  # log(exp(x) + 1)
    "Softsign": 3,  # x / (1 + |x|)
    "Swish": 6,  # x * Sigmoid(a * x)
    "ThresholdedRelu": 1,  # x if x > a else 0
}


@cost(*PER_ELEMENT)
def elementwise(n: CostNode) -> Work:
    """So many operations for an element of the output."""
    return Work(other=n.output_size() * PER_ELEMENT[n.op_type])


@cost("Gelu")
def gelu(n: CostNode) -> Work:
    """x/2 * (1 + erf(x / sqrt(2))); or with tanh(sqrt(2/pi) * (x + 0.044715 * x^3)) for erf."""
    return Work(other=n.output_size() * (8 if n.attribute("approximate", "none") == "tanh" else 5))


@cost("Max", "Min", "Sum", "Mean")
def variadic(n: CostNode) -> Work:
    """One operation less than there are inputs; a mean divides once more."""
    operations = len(n.inputs) - 1 + (n.op_type == "Mean")
    return Work(other=n.output_size() * operations)


# Operator -> operations for each weight, as ONNX defines them, and outputs for each tensor of weights.
_OPTIMISERS = {"Adagrad": (8, 2), "Adam": (15, 3), "Momentum": (7, 2)}


@cost(*_OPTIMISERS, domain="ai.onnx.preview.training")
def optimiser(n: CostNode) -> Work:
    """A step of training. The first outputs are the weights; as many follow for each kind of statistics."""
    operations, kinds = _OPTIMISERS[n.op_type]
    count = len(n.node.outputs) // kinds
    return Work(other=sum((n.output_size(index) for index in range(count)), start=0) * operations)
