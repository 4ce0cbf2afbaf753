"""Linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from onnxlift.lifting.code.expr import Expr, Local, torch
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

from .scores import Array, Labels, labelled, labels_of, rows, table, transformed, two_scores

ML = "ai.onnx.ml"
LARGEST_TABLE = 2**27

Floats = tuple[float, ...]


@op("LinearRegressor", domain=ML)
def LinearRegressor(
    n: Node, X: Tensor, *, coefficients: Floats, intercepts: Floats | None, targets: int, post_transform: str
) -> Result:
    weight = _matrix(n, coefficients, targets)
    scores = _linear(n, rows(X), weight, _intercepts(n, intercepts, targets))
    return transformed(n, scores, post_transform, targets)


@op("LinearClassifier", domain=ML, ignores=["multi_class"])
def LinearClassifier(
    n: Node,
    X: Tensor,
    *,
    coefficients: Floats,
    intercepts: Floats | None,
    classlabels_ints: tuple[int, ...] | None,
    classlabels_strings: tuple[str, ...] | None,
    post_transform: str,
) -> Result:
    """The class with the highest score. With one score, the second of two classes wins if it is above zero."""
    labels = labels_of(n, classlabels_ints, classlabels_strings)
    count = len(intercepts) if intercepts else max(len(labels), 1)
    if len(labels) not in ((0, 2) if count == 1 else (count,)):
        n.fail(f"it has {len(labels)} labels for {count} scores")
    weight = _matrix(n, coefficients, count)
    scores = Local("scores")
    n.emit(Assign([scores], _linear(n, rows(X), weight, _intercepts(n, intercepts, count))))
    if count > 1:
        return [labelled(n, scores.argmax(-1), labels), transformed(n, scores, post_transform, count)]
    won = (scores.squeeze(-1) > 0).long()
    if not labels:
        return [won, transformed(n, scores, post_transform, 1)]
    return [labelled(n, won, labels), two_scores(n, scores, post_transform, signed=False)]


@op("SVMRegressor", domain=ML, ignores=["post_transform"])
def SVMRegressor(
    n: Node,
    X: Tensor,
    *,
    coefficients: Floats,
    kernel_params: Floats | None,
    kernel_type: str,
    n_supports: int,
    one_class: int,
    rho: Floats,
    support_vectors: Floats | None,
) -> Result:
    """One target. A transform of its score has no effect, as in ONNX Runtime."""
    x = rows(X)
    if n_supports > 0:
        x = _kernel(n, x, _matrix(n, support_vectors, n_supports), kernel_type, kernel_params)
    score = _linear(n, x, _matrix(n, coefficients, 1), _array(rho)[:1])
    return torch.where(score > 0, 1.0, -1.0) if one_class else score


@op("SVMClassifier", domain=ML)
def SVMClassifier(
    n: Node,
    X: Tensor,
    *,
    classlabels_ints: tuple[int, ...] | None,
    classlabels_strings: tuple[str, ...] | None,
    coefficients: Floats,
    kernel_params: Floats | None,
    kernel_type: str,
    post_transform: str,
    prob_a: Floats | None,
    prob_b: Floats | None,
    rho: Floats,
    support_vectors: Floats | None,
    vectors_per_class: tuple[int, ...] | None,
) -> Result:
    """With support vectors, the class that wins most duels with other classes. Without them, a linear model."""
    labels = labels_of(n, classlabels_ints, classlabels_strings)
    if not labels or not rho:
        n.fail("it has no labels or no rho")
    if not sum(vectors_per_class or ()):
        return _linear_svm(n, rows(X), labels, _array(coefficients), _array(rho), bool(prob_a), post_transform)
    assert vectors_per_class is not None
    if len(vectors_per_class) != len(labels) or min(vectors_per_class) < 0 or len(labels) < 2:
        n.fail(f"it has vectors for {len(vectors_per_class)} classes and {len(labels)} labels")
    pairs = list(combinations(range(len(labels)), 2))
    if len(rho) < len(pairs) or (prob_a and not len(pairs) <= min(len(prob_a), len(prob_b or ()))):
        n.fail(f"it has too few numbers for its {len(pairs)} pairs of classes")
    vectors = _matrix(n, support_vectors, sum(vectors_per_class))
    distances = _kernel(n, rows(X), vectors, kernel_type, kernel_params)
    duels = Local("duels")
    weight = _duel_matrix(n, _array(coefficients), vectors_per_class, pairs)
    n.emit(Assign([duels], _linear(n, distances, weight, _array(rho)[: len(pairs)])))
    if len(labels) == 2 and not prob_a:
        winner = (~(duels > 0)).squeeze(-1).long()
        scores = two_scores(n, duels, post_transform, signed=post_transform == "NONE")
        return [labelled(n, winner, labels), scores]
    sides = [
        table(name, np.array(side)) for name, side in zip(("first", "second"), zip(*pairs, strict=True), strict=True)
    ]
    winner = kernel("count_votes")(duels, *sides, len(labels)).argmax(-1)
    if not prob_a:
        return [labelled(n, winner, labels), transformed(n, duels, post_transform, len(pairs))]
    slope, offset = (
        _coefficient(name, _array(given)[: len(pairs)]) for name, given in (("prob_a", prob_a), ("prob_b", prob_b))
    )
    probabilities = kernel("pairwise_probabilities")(duels * slope + offset, *sides, len(labels))
    return [labelled(n, winner, labels), transformed(n, probabilities, post_transform, len(labels))]


def _linear_svm(
    n: Node, x: Expr, labels: Labels, coefficients: Array, rho: Array, probable: bool, post_transform: str
) -> Result:
    """Return the label and the scores: one score for each class, all with the same offset. The second of two classes
    wins as soon as either score is high enough, as in ONNX Runtime."""
    scores = Local("scores")
    weight = _matrix(n, tuple(coefficients.tolist()), len(labels))
    n.emit(Assign([scores], _linear(n, x, weight, np.repeat(rho[:1], len(labels)))))
    winner = scores.argmax(-1)
    if len(labels) == 2 and not probable:
        high = scores.amax(-1) >= 0.5 if (coefficients >= 0).all() else scores.amax(-1) > 0
        winner = torch.where(high, 1, winner)
    return [labelled(n, winner, labels), transformed(n, scores, post_transform, len(labels))]


def _duel_matrix(n: Node, coefficients: Array, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> Array:
    """Return the weights of the support vectors, one row for each pair of classes. For classes i < j, ONNX has the
    weights of the vectors of class i in row `j - 1`, and those of the vectors of class j in row `i`."""
    total = sum(counts)
    if len(coefficients) < (len(counts) - 1) * total or len(pairs) * total > LARGEST_TABLE:
        n.fail(f"it has {len(coefficients)} coefficients for {len(counts)} classes and {total} support vectors")
    given = coefficients[: (len(counts) - 1) * total].reshape(-1, total)
    ends = np.cumsum(counts)
    weight = np.zeros((len(pairs), total), np.float32)
    for row, (i, j) in enumerate(pairs):
        for own, said in ((i, given[j - 1]), (j, given[i])):
            span = slice(ends[own] - counts[own], ends[own])
            weight[row, span] = said[span]
    return weight


def _kernel(n: Node, x: Expr, vectors: Array, kind: str, params: Floats | None) -> Expr:
    """Return the kernel function of each sample and each support vector."""
    gamma, offset, degree = (float(str(np.float32(p))) for p in (params or (0.0, 0.0, 0.0))[:3])
    kept = table("support_vectors", vectors)
    if kind == "LINEAR":
        return x @ kept.T
    if kind == "RBF":
        return kernel("rbf")(x, kept, gamma)
    product = gamma * (x @ kept.T) + offset
    return product.tanh() if kind == "SIGMOID" else product ** (int(degree) if degree.is_integer() else degree)


def _linear(n: Node, x: Expr, weight: Array, bias: Array | None) -> Expr:
    """Return `nn.Linear` with the given weights, called on `x`."""
    held = {"weight": table("weight", weight, trainable=True)}
    if bias is not None:
        held["bias"] = table("bias", bias, trainable=True)
    targets, features = weight.shape
    return n.layer("Linear", held, in_features=features, out_features=targets, bias=bias is not None)(x)


def _matrix(n: Node, numbers: Floats | None, count: int) -> Array:
    """Return a matrix with a row for each of `count` targets, classes or vectors."""
    if not numbers or count < 1 or len(numbers) % count:
        n.fail(f"it has {len(numbers or ())} numbers where it needs as many for each of {count}")
    return _array(numbers).reshape(count, -1)


def _intercepts(n: Node, numbers: Floats | None, count: int) -> Array | None:
    if numbers and len(numbers) != count:
        n.fail(f"it has {len(numbers)} intercepts for {count} targets")
    return _array(numbers) if numbers else None


def _array(numbers: Floats | None) -> Array:
    return np.asarray(numbers or (), np.float32)


def _coefficient(name: str, numbers: Array) -> Any:
    return float(str(numbers[0])) if len(numbers) == 1 else table(name, numbers)
