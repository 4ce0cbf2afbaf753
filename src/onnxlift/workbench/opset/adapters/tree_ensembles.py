"""Ensembles of decision trees of ai.onnx.ml.

- TreeEnsembleClassifier, TreeEnsembleRegressor: 1, 3 (tensors of float64, which the schemas tell), 5 (given up:
  TreeEnsemble takes their place)
- TreeEnsemble: 5

TreeEnsemble has no base values and no labels, so these become operators behind it. So does the transform of the scores,
since ONNX Runtime takes the number of SOFTMAX for that of LOGISTIC. Where the specification is silent, the result is
that of ONNX Runtime: see onnxlift/lifting/ops/ml/trees.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from ..step import Result, Step, Value, adapter
from ..tree_tables import Forest, labelled_lists, numbers, read_forest, tree_ensemble

ML = "ai.onnx.ml"
D = ir.DataType
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Both as TreeEnsemble numbers them from 0."""


@adapter("TreeEnsembleRegressor", 3, 5, ML)
def regressor_becomes_a_tree_ensemble(
    s: Step, X: Value, *, n_targets: int | None, aggregate_function: str, post_transform: str
) -> Result:
    """Base values are added to the aggregate, then the transform is applied."""
    targets = n_targets or 1
    forest = read_forest(s, "target", targets)
    dtype = _working_type(s, X, forest)
    scores = _based(s, _scores(s, X, forest, targets, aggregate_function, dtype), targets, dtype)
    return _as_float(s, _transformed(s, scores, post_transform, targets, dtype), dtype)


@adapter("TreeEnsembleClassifier", 3, 5, ML)
def classifier_becomes_a_tree_ensemble(
    s: Step,
    X: Value,
    *,
    classlabels_int64s: tuple[int, ...] | None,
    classlabels_strings: tuple[str, ...] | None,
    post_transform: str,
) -> Result:
    """The class with the highest sum of votes; see `_one_score` for leaves that all vote for one of two classes."""
    labels = classlabels_strings or classlabels_int64s or ()
    if not labels or (classlabels_strings and classlabels_int64s):
        s.refuse("it has no labels of classes, or both numbers and strings")
    classes = len(labels)
    forest = read_forest(s, "class", classes)
    dtype = _working_type(s, X, forest)
    if classes <= 2 and len(np.unique(forest.target)) == 1:
        return _one_score(s, X, forest, labels, post_transform, dtype)
    if classes == 2:
        _check_votes_for_two(s, forest)
    elif not len(numbers(s, "base_values")) and s.wants(0):
        _check_silent_classes(s, forest, classes)
    scores = _based(s, _scores(s, X, forest, classes, "SUM", dtype), classes, dtype)
    label = _labelled(s, s.ArgMax(scores, axis=1, keepdims=0), labels)
    return [label, _as_float(s, _transformed(s, scores, post_transform, classes, dtype), dtype)]


@adapter("TreeEnsemble", 5, 0, ML)
def tree_ensemble_becomes_a_regressor(
    s: Step, X: Value, *, n_targets: int | None, aggregate_function: int, post_transform: int
) -> Result:
    """The regressor gives float only. Half precision is computed in float, which holds all of its numbers."""
    if s.dtype(X) == D.DOUBLE:
        s.refuse("there is no TreeEnsemble before opset 5, and TreeEnsembleRegressor gives float, but not double")
    if not 0 <= aggregate_function < len(AGGREGATES) or not 0 <= post_transform < len(TRANSFORMS):
        s.refuse(f"there is no aggregate function {aggregate_function}, or no transform {post_transform}")
    scores = s.several(
        1,
        "TreeEnsembleRegressor",
        s.cast(X, D.FLOAT),
        domain=ML,
        n_targets=n_targets or 1,
        aggregate_function=AGGREGATES[aggregate_function],
        post_transform=TRANSFORMS[post_transform],
        **labelled_lists(s),
    )[0]
    return scores if s.dtype(X) == D.FLOAT else s.Cast(scores, to=int(s.dtype(X)))


def _check_votes_for_two(s: Step, forest: Forest) -> None:
    if s.wants(0):
        s.refuse(
            "its leaves vote for both of two classes, and its label is then the top class by the specification, "
            "but 1 or 0 in ONNX Runtime, whatever the scores and labels are"
        )
    if len(numbers(s, "base_values")):
        s.refuse("it has base values, its leaves vote for both of two classes, and the sum is not defined then")
    if 1 not in forest.sure_targets(2):
        s.refuse("the second of two classes may have no vote at all, and its score is not defined then")


def _check_silent_classes(s: Step, forest: Forest, classes: int) -> None:
    """Refuse a classifier in which a class without any vote may have the top score, which is then zero."""
    positive = not (forest.weight < 0).any() and forest.is_sure_of_a_positive_vote()
    if not positive and len(forest.sure_targets(classes)) < classes:
        s.refuse("a class may have no vote while no other one has a score above zero; who wins then is not defined")


def _one_score(
    s: Step, X: Value, forest: Forest, labels: tuple[str, ...] | tuple[int, ...], post_transform: str, dtype: D
) -> list[Value]:
    """Return labels and scores of an ensemble whose leaves all vote for one class of at most two.

    The sum of the votes is the score of the second class. It wins if the score is above one half, or above zero if
    some votes are negative. The first class has the rest, if the votes are told to be for it."""
    base = numbers(s, "base_values")
    second = bool(forest.target[0] == 1)
    if len(base) > 1 or (len(base) and second):
        s.refuse(f"it has {len(base)} base values, and its leaves vote for one class only")
    if second and 1 not in forest.sure_targets(2):
        s.refuse("a sample may have no vote at all, and its scores are not defined then")
    if len(labels) == 1 and isinstance(labels[0], str):
        s.refuse("it has one label, a string, and none for samples that are not of this class")
    if second:
        scores = _scores(s, X, forest, 2, "SUM", dtype)
        score = s.Gather(scores, s.array([1]), axis=1)
    else:
        score = _based(s, _scores(s, X, forest, 1, "SUM", dtype), 1, dtype)
    signed = bool((forest.weight < 0).any())
    limit = 0.5 if len(labels) == 2 and not signed else 0.0
    won = s.Reshape(s.Cast(s.Greater(score, s.array(limit, dtype)), to=int(D.INT64)), s.array([-1]))
    if len(labels) == 1:
        return [won, _as_float(s, _transformed(s, score, post_transform, 1, dtype), dtype)]
    if second:
        scores = _transformed(s, scores, post_transform, 2, dtype)
    else:
        scores = _two_scores(s, score, post_transform, signed, dtype)
    return [_labelled(s, won, labels), _as_float(s, scores, dtype)]


def _two_scores(s: Step, score: Value, post_transform: str, signed: bool, dtype: D) -> Value:
    """Return the scores of two classes from that of the second. SOFTMAX does not change them in ONNX Runtime."""
    if post_transform == "PROBIT":
        s.refuse("it applies PROBIT to one score for two classes, which leaves one of them without a value")
    if post_transform == "LOGISTIC":
        return s.Sigmoid(s.Concat(s.Neg(score), score, axis=1))
    first = s.Neg(score) if signed else s.Sub(s.array(1, dtype), score)
    return s.Concat(first, score, axis=1)


def _labelled(s: Step, classes: Value, labels: tuple[str, ...] | tuple[int, ...]) -> Value:
    """Return the label of each class, given by its number."""
    if labels == tuple(range(len(labels))):
        return classes
    kind = "values_strings" if isinstance(labels[0], str) else "values_int64s"
    table: dict[str, Any] = {"keys_int64s": list(range(len(labels))), kind: list(labels)}
    return s.several(1, "LabelEncoder", classes, domain=ML, **table)[0]


def _working_type(s: Step, X: Value, forest: Forest) -> D:
    """Return double if the samples or the trees are double, else float: other samples are compared as floats."""
    return D.DOUBLE if s.dtype(X) == D.DOUBLE or forest.is_double else D.FLOAT


def _scores(s: Step, X: Value, forest: Forest, targets: int, function: str, dtype: D) -> Value:
    """Return the aggregated votes, a column for each target."""
    if function not in AGGREGATES or targets < 1:
        s.refuse("it has no targets, or aggregates them by a function that ONNX does not know")
    extreme = function in ("MIN", "MAX")
    table = tree_ensemble(s, forest, targets, dtype, spare=extreme)
    trees = len(forest.roots)
    divide = function == "AVERAGE" and len(table["tree_roots"]) != trees
    columns = max(targets, max(table["leaf_targetids"]) + 1)
    scores = s.several(
        1,
        "TreeEnsemble",
        s.cast(X, dtype),
        domain=ML,
        aggregate_function=AGGREGATES.index("SUM" if divide else function),
        n_targets=columns,
        post_transform=TRANSFORMS.index("NONE"),
        **table,
    )[0]
    if columns > targets:
        scores = s.Slice(scores, s.array([0]), s.array([targets]), s.array([1]), at=13)
    return s.Div(scores, s.array(trees, dtype)) if divide else scores


def _based(s: Step, scores: Value, targets: int, dtype: D) -> Value:
    base = numbers(s, "base_values")
    if not len(base):
        return scores
    if len(base) != targets:
        s.refuse(f"it has {len(base)} base values for {targets} scores")
    return s.Add(scores, s.array(base, dtype))


def _as_float(s: Step, scores: Value, dtype: D) -> Value:
    """Return the scores as float, which they are before opset 5 whatever the samples are."""
    return scores if dtype == D.FLOAT else s.Cast(scores, to=int(D.FLOAT))


def _transformed(s: Step, scores: Value, post_transform: str, count: int, dtype: D) -> Value:
    """Return the scores after the transform. Only PROBIT changes one score alone in ONNX Runtime."""
    if post_transform not in TRANSFORMS:
        s.refuse("it applies a transform to the scores that ONNX does not know")
    if post_transform == "NONE" or (count == 1 and post_transform != "PROBIT"):
        return scores
    return _SPELLED[post_transform](s, scores, dtype)


def _softmax(s: Step, scores: Value, dtype: D) -> Value:
    return s.Softmax(scores, axis=1)


def _logistic(s: Step, scores: Value, dtype: D) -> Value:
    return s.Sigmoid(scores)


def _softmax_zero(s: Step, scores: Value, dtype: D) -> Value:
    """Softmax in which zeros take no part, and stay (nearly) zero."""
    peak = s.ReduceMax(scores, axes=[1], keepdims=1, at=13)
    takes_part = s.Greater(s.Abs(scores), s.array(1e-7, dtype))
    powers = s.Exp(s.Sub(scores, peak))
    parts = s.Where(takes_part, powers, s.Mul(scores, s.Exp(s.Neg(peak))))
    total = s.ReduceSum(s.Mul(powers, s.Cast(takes_part, to=int(dtype))), s.array([1]), keepdims=1, at=13)
    return s.Div(parts, total)


def _probit(s: Step, scores: Value, dtype: D) -> Value:
    """The inverse of the normal distribution by Winitzki's formula, as ONNX Runtime and the reference have it."""
    one, two, half, a = (s.array(number, dtype) for number in (1, 2, 0.5, 0.147))
    odd = s.Sub(s.Mul(scores, two), one)
    log = s.Log(s.Mul(s.Sub(one, odd), s.Add(one, odd)))
    middle = s.Add(s.array(2 / (math.pi * 0.147), dtype), s.Mul(half, log))
    root = s.Sqrt(s.Sub(s.Sqrt(s.Sub(s.Mul(middle, middle), s.Div(log, a))), middle))
    return s.Mul(s.Mul(s.array(math.sqrt(2), dtype), s.Sign(odd)), root)


_SPELLED: dict[str, Callable[[Step, Value, D], Value]] = {
    "SOFTMAX": _softmax,
    "LOGISTIC": _logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
