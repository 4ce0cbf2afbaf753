"""Losses."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Expr, F, Ref
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops.arguments import changed
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

from .cast import converted

HALF = (DataType.FLOAT16, DataType.BFLOAT16)


@op("NegativeLogLikelihoodLoss")
def NegativeLogLikelihoodLoss(
    n: Node, input: Tensor, target: Tensor, weight: Tensor | None, *, ignore_index: int | None, reduction: str
) -> Result:
    """PyTorch's loss of four axes has a derivative only for scores that lie in memory in the order of their axes."""
    scores = input.contiguous() if input.type.rank in (None, 4) else input
    return _loss(n, F.nll_loss, input, scores, target, weight, ignore_index, reduction)


@op("SoftmaxCrossEntropyLoss")
def SoftmaxCrossEntropyLoss(
    n: Node, scores: Tensor, labels: Tensor, weights: Tensor | None, *, ignore_index: int | None, reduction: str
) -> Result:
    """The second output is the logarithm of the probabilities."""
    if not n.wants(1):
        return _loss(n, F.cross_entropy, scores, scores, labels, weights, ignore_index, reduction)
    log_prob = Ref(n.ir.outputs[1])
    n.emit(Assign([log_prob], F.log_softmax(scores, 1)))
    loss = _loss(n, F.nll_loss, scores, log_prob, labels, weights, ignore_index, reduction)
    return [loss, Tensor(log_prob, n.outputs[1])]


def _loss(
    n: Node,
    function: Expr,
    scores: Tensor,
    x: Expr,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int | None,
    reduction: str,
) -> Expr:
    """Return the loss. If the node ignores no index, PyTorch's default (-100) does no harm: targets are numbers of
    classes, and never negative. PyTorch's losses have no derivative for the weights of the classes, and refuse those
    that need one."""
    needs_gradient = weight is not None and _needs_gradient(n.ir.inputs[2])
    weight = Tensor(weight.detach(), weight.type) if weight is not None and needs_gradient else weight
    options: dict[str, Any] = {
        "weight": weight,
        "ignore_index": -100 if ignore_index is None else ignore_index,
        "reduction": reduction,
    }
    given = changed(options, weight=None, ignore_index=-100, reduction="mean")
    labels = target if target.type.dtype == DataType.INT64 else target.long()
    if scores.type.dtype not in HALF:
        return function(x, labels, **given)
    if weight is not None:
        given["weight"] = weight.float()
    return converted(function(x.float(), labels, **given), scores.type.dtype)


def _needs_gradient(value: ir.Value | None) -> bool:
    """Tell whether a gradient may be wanted for a value: it is a parameter, or computed from what may be one."""
    if value is None or value.const_value is None:
        return value is not None and value.producer() is not None
    return origin_of(value).is_parameter
