"""Ensembles of decision trees.

    leaves = tree_leaves(x, self.roots, self.features, self.thresholds, self.branches, 6)
    scores = F.embedding_bag(leaves, self.leaf_weights, mode="sum")

Where ONNX's specification is silent, we follow ONNX Runtime: a feature that is NaN is unequal to every threshold; and
only leaves vote, whatever the attributes say of other nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F, Local
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted

from .forest import (
    MEMBER,
    MODES,
    Array,
    Decisions,
    Forest,
    Votes,
    is_complete,
    padded_votes,
    plant,
    silent_leaves,
    weights_by_target,
)
from .scores import labelled, labels_of, rows, table, transformed, two_scores

ML = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_BAG_MODES = {"SUM": "sum", "AVERAGE": "mean", "MAX": "max"}


@op("TreeEnsemble", domain=ML)
def TreeEnsemble(
    n: Node, X: Tensor, *, aggregate_function: int, post_transform: int, n_targets: int | None, **_: Any
) -> Result:
    """From ai.onnx.ml 5 on. Leaves and nodes that decide are numbered separately."""
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(_TRANSFORMS):
        n.fail(f"there is no aggregate function {aggregate_function} or no transform {post_transform}")
    forest, votes = _separate_leaves(n)
    targets = n_targets or 1
    scores = _aggregate(n, X, forest, votes, targets, _AGGREGATES[aggregate_function])
    return _as_output(n, X, votes, transformed(n, scores, _TRANSFORMS[post_transform], targets))


@op("TreeEnsembleRegressor", domain=ML)
def TreeEnsembleRegressor(n: Node, X: Tensor, *, aggregate_function: str, post_transform: str, **_: Any) -> Result:
    """The leaves of each tree vote for one or more targets. Base values are added to the aggregate."""
    targets = n.attributes.get("n_targets") or 1
    forest, votes = _labelled_leaves(n, "target")
    scores = _aggregate(n, X, forest, votes, targets, aggregate_function)
    base = _numbers(n, "base_values")
    if base is not None:
        scores = _based(n, scores, base, targets)
    return _as_output(n, X, votes, transformed(n, scores, post_transform, targets))


@op("TreeEnsembleClassifier", domain=ML)
def TreeEnsembleClassifier(
    n: Node,
    X: Tensor,
    *,
    classlabels_int64s: tuple[int, ...] | None,
    classlabels_strings: tuple[str, ...] | None,
    post_transform: str,
    **_: Any,
) -> Result:
    """The class with the highest sum of votes.

    If leaves vote only for the first of two classes, their sum is the one score of the *second* class. That class wins
    if the score is above one half, or above zero if there are negative votes. With votes for both of two classes the
    higher sum wins (ONNX Runtime answers 1 or 0 then, whatever the labels are).
    """
    labels = labels_of(n, classlabels_int64s, classlabels_strings)
    classes = len(labels)
    forest, votes = _labelled_leaves(n, "class")
    base = _numbers(n, "base_values")
    signed = bool((votes.weight < 0).any())
    voted = set(np.unique(votes.target).tolist())
    scores = Local("scores")
    if classes == 0 or (classes == 1 and classlabels_strings):
        n.fail(f"it has {classes} labels of classes")
    if classes > 2 or voted == {0, 1}:
        total = _aggregate(n, X, forest, votes, classes, "SUM")
        n.emit(Assign([scores], total if base is None else _based(n, total, base, classes)))
        if base is None and classes > 2:
            _refuse_silence(n, forest, votes, classes)
        result = transformed(n, scores, post_transform, classes)
        return [labelled(n, scores.argmax(-1), labels), _as_output(n, X, votes, result)]
    if base is not None and (len(base) > 1 or voted != {0}):
        n.fail(f"it has {len(base)} base values, but its leaves vote for one class only")
    only = Votes(votes.leaf, np.zeros_like(votes.target), votes.weight)
    total = _aggregate(n, X, forest, only, 1, "SUM")
    n.emit(Assign([scores], total if base is None else total + float(base[0])))
    if classes == 1:
        won = (scores.squeeze(-1) > 0).long()
        return [won, _as_output(n, X, votes, transformed(n, scores, post_transform, 1))]
    won = (scores.squeeze(-1) > (0 if signed else 0.5)).long()
    if voted == {0}:
        both = two_scores(n, scores, post_transform, signed)
    else:
        both = transformed(n, F.pad(scores, (1, 0)), post_transform, 2)
    return [labelled(n, won, labels), _as_output(n, X, votes, both)]


def _refuse_silence(n: Node, forest: Forest, votes: Votes, classes: int) -> None:
    """Give up if a class may get no vote while all others get negative ones: it is not defined whether it wins then."""
    if not (votes.weight < 0).any() or is_complete(votes, forest.leaves, classes):
        return
    voters = np.unique(votes.leaf * classes + votes.target)
    ballots, counts = np.unique(forest.tree[voters // classes] * classes + voters % classes, return_counts=True)
    leaves = np.bincount(forest.tree[: forest.leaves])
    certain = np.unique(ballots[counts == leaves[ballots // classes]] % classes)
    if len(certain) < classes:
        n.fail("some votes are negative, and a class may have none at all; whether it wins then is not defined")


def _aggregate(n: Node, x: Tensor, forest: Forest, votes: Votes, targets: int, function: str) -> Expr:
    """Return the aggregated votes of the trees, a column for each target."""
    if targets < 1 or (len(votes.target) and not 0 <= votes.target.min() <= votes.target.max() < targets):
        n.fail(f"its leaves vote for targets that are not among the {targets} it has")
    dtype = _working_type(x, votes)
    samples = rows(x, dtype)
    walk = kernel("tree_leaves" if forest.is_plain else "mixed_tree_leaves")
    tables = [table(name, getattr(forest, name)) for name in ("roots", "features", "thresholds", "branches")]
    leaves = Local("leaves")
    n.emit(Assign([leaves], walk(samples, *tables, forest.depth)))
    votes = Votes(votes.leaf, votes.target, votes.weight.astype(dtype.numpy()))
    if is_complete(votes, forest.leaves, targets) or (targets == 1 and function in ("SUM", "AVERAGE")):
        dense = table("leaf_weights", weights_by_target(votes, forest.leaves, targets), trainable=True)
        if function == "MIN":
            return dense[leaves].amin(1)
        return F.embedding_bag(leaves, dense, mode=_BAG_MODES[function])
    is_extreme = function in ("MIN", "MAX")
    numbers, amounts = padded_votes(n, votes, forest.leaves, repeat=is_extreme)
    silent = silent_leaves(votes, forest.leaves)
    columns = targets
    if is_extreme and targets > 1 and silent.any():  # with one target, ONNX Runtime lets such a leaf vote 0
        columns = targets + 1  # a column for what takes no part, which is cut off
        numbers[silent] = targets
    places = table("leaf_targets", numbers)[leaves]
    weights = table("leaf_weights", amounts, trainable=True)[leaves]
    flat = [places.flatten(1), weights.flatten(1)] if numbers.ndim > 1 else [places, weights]
    cast = Local("votes")
    n.emit(Assign([cast], flat[1]))
    nothing = cast.new_zeros(cast.shape[0], columns)
    if is_extreme:
        way = "amin" if function == "MIN" else "amax"
        found = nothing.scatter_reduce(1, flat[0], cast, way, include_self=False)
        return found if columns == targets else found[:, :targets]
    total = nothing.scatter_add(1, flat[0], cast)
    return total / len(forest.roots) if function == "AVERAGE" else total


def _based(n: Node, scores: Expr, base: Array, targets: int) -> Expr:
    if len(base) != targets:
        n.fail(f"it has {len(base)} base values for {targets} targets")
    return scores + (float(base[0]) if targets == 1 else table("base_values", base))


def _working_type(x: Tensor, votes: Votes) -> DataType:
    """Return double if the samples or the votes are double, else float32. Float16 and integers are compared and summed
    as float32."""
    return DataType.DOUBLE if x.type.dtype == DataType.DOUBLE or votes.weight.dtype == np.float64 else DataType.FLOAT


def _as_output(n: Node, x: Tensor, votes: Votes, scores: Expr) -> Expr:
    """Return the scores in the operator's element type: float32, or for TreeEnsemble that of the samples."""
    wanted = x.type.dtype if n.op_type == "TreeEnsemble" else DataType.FLOAT
    if wanted == _working_type(x, votes) or wanted is None:
        return scores
    return converted(scores, wanted)


def _labelled_leaves(n: Node, voters: str) -> tuple[Forest, Votes]:
    """Return the forest and the votes of the first format. A node is identified by the number of its tree and its own
    number in it. The first node of a tree is its root. `class_*` or `target_*` name the leaves that vote."""
    trees, own = _integers(n, "nodes_treeids"), _integers(n, "nodes_nodeids")
    modes = n.attributes.get("nodes_modes") or ()
    if any(mode not in MODES and mode != "LEAF" for mode in modes):
        n.fail("it has nodes of unknown mode")
    is_leaf = np.array([mode == "LEAF" for mode in modes], bool)
    columns = [_integers(n, f"nodes_{name}") for name in ("featureids", "truenodeids", "falsenodeids")]
    thresholds = _numbers(n, "nodes_values")
    if thresholds is None or any(len(column) != len(modes) for column in (trees, own, thresholds, *columns)):
        n.fail("its lists about nodes are empty or of different length")
    # Number the leaves first.
    number = np.empty(len(modes), np.int64)
    order = np.argsort(~is_leaf, kind="stable")
    number[order] = np.arange(len(modes))
    known = dict(zip(zip(trees.tolist(), own.tolist(), strict=True), number.tolist(), strict=True))
    if len(known) != len(modes):
        n.fail("two of its nodes have the same number in the same tree")
    inner = ~is_leaf
    features, yes, no = (column[inner] for column in columns)
    missing = _flags(n, len(modes))[inner]
    ends = [
        np.array([known.get(key, -1) for key in zip(trees[inner].tolist(), column.tolist(), strict=True)], np.int64)
        for column in (yes, no)
    ]
    codes = np.array([MODES[mode] for mode in modes if mode != "LEAF"], np.int64)
    decisions = Decisions(features, thresholds[inner], codes, ends[0], ends[1], missing)
    _, first = np.unique(trees, return_index=True)
    forest = plant(n, decisions, int(is_leaf.sum()), number[np.sort(first)])
    forest.tree = np.unique(trees, return_inverse=True)[1][order]
    return forest, _read_votes(n, voters, known, forest.leaves)


def _read_votes(n: Node, voters: str, known: dict[tuple[int, int], int], leaves: int) -> Votes:
    trees, own, target = (_integers(n, f"{voters}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = _numbers(n, f"{voters}_weights")
    if weight is None or not len(trees) == len(own) == len(target) == len(weight):
        n.fail("its lists about votes are empty or of different length")
    leaf = np.array([known.get(key, -1) for key in zip(trees.tolist(), own.tolist(), strict=True)], np.int64)
    if (leaf < 0).any():
        n.fail("a node votes that does not exist")
    by_leaf = leaf < leaves
    return Votes(leaf[by_leaf], target[by_leaf], weight[by_leaf])


def _separate_leaves(n: Node) -> tuple[Forest, Votes]:
    """Return the forest and the votes of TreeEnsemble."""
    weight, targets = _numbers(n, "leaf_weights"), _integers(n, "leaf_targetids")
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    features, yes, no, yes_is_leaf, no_is_leaf = (_integers(n, f"nodes_{name}") for name in names)
    thresholds, modes = _numbers(n, "nodes_splits"), _numbers(n, "nodes_modes")
    roots = _integers(n, "tree_roots")
    if weight is None or thresholds is None or modes is None or len(weight) != len(targets):
        n.fail("it lacks leaves, splits or modes")
    if any(len(column) != len(modes) for column in (thresholds, features, yes, no, yes_is_leaf, no_is_leaf)):
        n.fail("its lists about nodes are of different length")
    if (modes > MEMBER).any() or not ((roots >= 0) & (roots < len(modes))).all():
        n.fail("it has nodes of unknown mode, or roots that do not exist")
    leaves = len(weight)
    ends = []
    for end, is_leaf in ((yes, yes_is_leaf != 0), (no, no_is_leaf != 0)):
        if not ((end >= 0) & (end < np.where(is_leaf, leaves, len(modes)))).all():
            n.fail("one of its nodes is followed by a node or leaf that does not exist")
        ends.append(np.where(is_leaf, end, end + leaves))
    codes = modes.astype(np.int64)
    decisions = Decisions(features, thresholds, codes, ends[0], ends[1], _flags(n, len(modes)), _sets(n, codes))
    forest = plant(n, decisions, leaves, roots + leaves)
    return forest, Votes(np.arange(leaves), targets, weight)


def _sets(n: Node, modes: Array) -> dict[int, Array]:
    """Return the members of each node that tests for membership. The sets come in the order of the nodes, each ended by
    NaN."""
    nodes = np.flatnonzero(modes == MEMBER)
    values = _numbers(n, "membership_values")
    if values is None:
        values = np.zeros(0)
    parts = np.split(values, np.flatnonzero(np.isnan(values)))
    if len(parts) < len(nodes):
        n.fail(f"it has members for {len(parts)} sets, but {len(nodes)} nodes that ask for them")
    return {int(node): part[~np.isnan(part)] for node, part in zip(nodes, parts, strict=False)}


def _flags(n: Node, count: int) -> Array:
    """Return for each node whether samples without the feature go to the true branch."""
    given = _integers(n, "nodes_missing_value_tracks_true")
    flags = np.zeros(count, bool)
    flags[: len(given)] = given[:count] == 1
    return flags


def _integers(n: Node, name: str) -> Array:
    return np.asarray(n.attributes.get(name) or (), np.int64)


def _numbers(n: Node, name: str) -> Array | None:
    """Return a list of numbers that the node has as floats or, for doubles, as a tensor; None if it has none."""
    for given in (n.attributes.get(name), n.attributes.get(f"{name}_as_tensor")):
        if isinstance(given, ir.TensorProtocol):
            return given.numpy().reshape(-1) if given.size else None
        if given:
            return np.asarray(given, np.float32)
    return None
