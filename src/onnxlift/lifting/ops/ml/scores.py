"""Share what the models of ai.onnx.ml need: attributes as tables of the module, scores, and the labels of classes.

The specification does not say what happens to a single score. We follow ONNX Runtime:

- one score for two classes becomes two scores, see `two_scores`
- one score alone (a regression with one target) stays as it is; only PROBIT changes it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.tensors import mark_made
from onnxlift.lifting.code.expr import Expr, torch
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node
from onnxlift.lifting.ops.operand import Constant, Operand, Tensor
from onnxlift.lifting.ops.standard.shape.create import constant

Array = np.ndarray[Any, Any]
Labels = tuple[int, ...] | tuple[str, ...]


def table(name: str, array: Array, trainable: bool = False) -> Constant:
    """Return numbers from a node's attributes as a buffer of the module, or as a parameter if `trainable`."""
    kept = constant(ir.tensor(np.ascontiguousarray(array)), name)
    if not trainable:
        mark_made(kept.value, "a node has it among its attributes")
    return kept


def texts(n: Node, strings: Sequence[str]) -> Operand:
    """Return an array of strings."""
    encoded = np.array([text.encode("utf-8", "surrogateescape") for text in strings], object)
    return n.host.operand(constant(ir.StringTensor(encoded, shape=ir.Shape(encoded.shape)), None).value)


def rows(x: Tensor, dtype: DataType = DataType.FLOAT) -> Expr:
    """Return the samples as floating-point numbers, one sample in each row."""
    given: Expr = x
    if x.type.dtype != dtype:
        given = x.double() if dtype == DataType.DOUBLE else x.float()
    return given.unsqueeze(0) if x.type.rank == 1 else given


def labels_of(n: Node, ints: tuple[int, ...] | None, strings: tuple[str, ...] | None) -> Labels:
    """Return the labels of the classes, which the node has as numbers or as strings."""
    if ints and strings:
        n.fail("it has labels both as numbers and as strings")
    return strings or ints or ()


def labelled(n: Node, classes: Expr, labels: Labels) -> Expr:
    """Return the label of each class, given by its number."""
    if any(isinstance(label, str) for label in labels):
        return kernel("take_strings")(texts(n, [str(label) for label in labels]), classes)
    if labels == tuple(range(len(labels))):
        return classes
    return table("classes", np.asarray(labels, np.int64))[classes]


TRANSFORMS: dict[str, Callable[[Expr], Expr]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": lambda scores: scores.sigmoid(),
    "SOFTMAX": lambda scores: scores.softmax(-1),
    "SOFTMAX_ZERO": lambda scores: kernel("softmax_zero")(scores),
    "PROBIT": lambda scores: kernel("probit")(scores),
}


def transformed(n: Node, scores: Expr, post_transform: str, count: int) -> Expr:
    """Return the scores, `count` in each row, after the transform that the node asks for."""
    return scores if count == 1 and post_transform != "PROBIT" else TRANSFORMS[post_transform](scores)


def two_scores(n: Node, score: Expr, post_transform: str, signed: bool) -> Expr:
    """Return the scores of two classes from `score` (a column), the score of the second. The first is `-score` if
    `signed`, else `1 - score`."""
    if post_transform == "PROBIT":
        n.fail("it applies PROBIT to one score for two classes, which leaves one of them without a value")
    if post_transform == "LOGISTIC":
        return torch.cat([-score, score], -1).sigmoid()
    return torch.cat([-score if signed else 1 - score, score], -1)
