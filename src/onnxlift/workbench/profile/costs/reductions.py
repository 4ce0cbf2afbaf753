"""Operators that make few numbers of many: reductions, pooling, sorting, running sums."""

from __future__ import annotations

from ..formula import product
from ..node import CostNode, NotKnownError
from ..registry import Work, cost

# Operator -> operations for each element of the input, and for each of the output.
_REDUCTIONS = {
    "ReduceSum": (1, 0),
    "ReduceMax": (1, 0),
    "ReduceMin": (1, 0),
    "ReduceProd": (1, 0),
    "ReduceMean": (1, 1),
    "ReduceL1": (2, 0),
    "ReduceL2": (2, 1),
    "ReduceSumSquare": (2, 0),
    "ReduceLogSum": (1, 1),
    "ReduceLogSumExp": (4, 2),  # minus the largest, before exp
    "ArgMax": (1, 0),
    "ArgMin": (1, 0),
    "CumSum": (1, 0),
    "CumProd": (1, 0),
    "GlobalMaxPool": (1, 0),
    "GlobalAveragePool": (1, 1),
    "GlobalLpPool": (2, 1),
    "Hardmax": (2, 0),
    "NonZero": (1, 0),
    "Unique": (1, 0),
    "TopK": (1, 0),
}


@cost(*_REDUCTIONS)
def reduction(n: CostNode) -> Work:
    """So many operations for each element of the input, and of the output. Sorting counts as one look at each."""
    for_input, for_output = _REDUCTIONS[n.op_type]
    return Work(other=n.size() * for_input + (n.output_size() * for_output if for_output else 0))


@cost("Unique", domain="com.microsoft")
def unique(n: CostNode) -> Work:
    """One look at each element."""
    return Work(other=n.size())


@cost("Softmax", "LogSoftmax")
def softmax(n: CostNode) -> Work:
    """The largest, minus it, exp, the sum, divided by it; the logarithm needs no more."""
    return Work(other=n.output_size() * 5)


@cost("MaxPool", "AveragePool", "LpPool")
def pooling(n: CostNode) -> Work:
    """An operation for each element of a window; an average divides once more, a norm squares and takes roots."""
    window = product(n.attribute("kernel_shape", ()))
    each = {"MaxPool": window, "AveragePool": window + 1, "LpPool": window * 2 + 1}[n.op_type]
    return Work(other=n.output_size() * each)


@cost("MaxRoiPool", "NonMaxSuppression")
def decided_by_data(n: CostNode) -> Work:
    """The numbers of the input decide how much there is to do."""
    raise NotKnownError("the numbers in its inputs decide how much there is to do")
