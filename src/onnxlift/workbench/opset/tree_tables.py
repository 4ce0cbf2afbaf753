"""Turn ensembles of decision trees from the form that ai.onnx.ml had until opset 4 into that of TreeEnsemble, and back.

| | TreeEnsembleRegressor, TreeEnsembleClassifier | TreeEnsemble |
|---|---|---|
| nodes | told by the number of the tree and a number in it | told by their place in the lists |
| leaves | nodes of mode LEAF | in lists of their own |
| votes of a leaf | any number, each for a target or class | exactly one |
| a tree of one leaf | one node | a node both of whose branches lead to the leaf |

A tree whose leaves have up to `n` votes becomes `n` trees that decide alike: the leaves of the first have the first
votes, those of the second have the second ones. Leaves that have fewer votes are filled up with votes that do not
count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from .step import Array, Step

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
"""The comparisons, as TreeEnsemble numbers them from 0."""
MEMBER = len(MODES)
_LEAF = -1
_MOST_NODES = 2**20


@dataclass(frozen=True)
class Forest:
    """Trees whose nodes are told by their place in the lists. `tree` is the number of each node's tree, from 0, and
    `roots` has the place of the root of each tree. `mode` is a place in MODES, -1 for a leaf. `yes` and `no` are the
    places of the nodes that follow. Vote `i` gives `weight[i]` to target `target[i]`, at the leaf `leaf[i]`."""

    tree: Array
    roots: Array
    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    missing: Array
    leaf: Array
    target: Array
    weight: Array

    @property
    def is_leaf(self) -> Array:
        return np.asarray(self.mode == _LEAF)

    @property
    def is_double(self) -> bool:
        return np.dtype(np.float64) in (self.split.dtype, self.weight.dtype)

    def sure_targets(self, targets: int) -> set[int]:
        """Return the targets that have a vote whatever the sample is: all leaves of some tree vote for them."""
        pairs = np.unique(self.leaf * targets + self.target)
        ballots, counts = np.unique(self.tree[pairs // targets] * targets + pairs % targets, return_counts=True)
        leaves = np.bincount(self.tree[self.is_leaf], minlength=len(self.roots))
        return {int(target) for target in ballots[counts == leaves[ballots // targets]] % targets}

    def is_sure_of_a_positive_vote(self) -> bool:
        """Tell whether all leaves of some tree have a vote above zero."""
        voters = np.unique(self.leaf[self.weight > 0])
        counts = np.bincount(self.tree[voters], minlength=len(self.roots))
        return bool((counts == np.bincount(self.tree[self.is_leaf], minlength=len(self.roots))).any())


def read_forest(s: Step, voters: str, targets: int) -> Forest:
    """Return the trees of the node. `voters` is `target` or `class`, as in the names of its attributes."""
    _refuse_references(s)
    tree_ids, own = integers(s, "nodes_treeids"), integers(s, "nodes_nodeids")
    names = _given(s, "nodes_modes")
    if any(name not in MODES and name != "LEAF" for name in names):
        s.refuse("it has nodes of a mode that ONNX does not know")
    mode = np.array([_LEAF if name == "LEAF" else MODES.index(name) for name in names], np.int64)
    features, yes, no = (integers(s, f"nodes_{name}") for name in ("featureids", "truenodeids", "falsenodeids"))
    split = numbers(s, "nodes_values")
    lists = (tree_ids, own, features, yes, no, split)
    if not len(mode) or any(len(column) != len(mode) for column in lists):
        s.refuse("its lists about nodes are empty or of different length")
    places = {key: place for place, key in enumerate(zip(tree_ids.tolist(), own.tolist(), strict=True))}
    if len(places) != len(mode):
        s.refuse("two of its nodes have the same number in the same tree")

    def find(trees: Array, nodes: Array) -> Array:
        return np.array([places.get(key, -1) for key in zip(trees.tolist(), nodes.tolist(), strict=True)], np.int64)

    inner = mode != _LEAF
    followers = []
    for column in (yes, no):
        follower = np.full(len(mode), -1, np.int64)
        follower[inner] = find(tree_ids[inner], column[inner])
        if (follower[inner] < 0).any():
            s.refuse("one of its nodes is followed by a node that does not exist")
        followers.append(follower)
    _, first, tree = np.unique(tree_ids, return_index=True, return_inverse=True)
    flags = _flags(s, len(mode))
    leaf, target, weight = _read_votes(s, voters, targets, find)
    counts = ~inner[leaf]  # only leaves vote, whatever is said of other nodes
    if not counts.any():
        s.refuse("none of its leaves votes")
    return Forest(
        tree, first, features, split, mode, followers[0], followers[1], flags,
        leaf[counts], target[counts], weight[counts],
    )  # fmt: skip


def _read_votes(s: Step, voters: str, targets: int, find: Any) -> tuple[Array, Array, Array]:
    trees, nodes, target = (integers(s, f"{voters}_{name}") for name in ("treeids", "nodeids", "ids"))
    weight = numbers(s, f"{voters}_weights")
    if not len(trees) or not len(trees) == len(nodes) == len(target) == len(weight):
        s.refuse("its lists about votes are empty or of different length")
    leaf = find(trees, nodes)
    if (leaf < 0).any():
        s.refuse("a node votes that does not exist")
    if not 0 <= target.min() <= target.max() < targets:
        s.refuse(f"its leaves vote for others than the {targets} that it has")
    return leaf, target, weight


def tree_ensemble(s: Step, forest: Forest, targets: int, dtype: ir.DataType, *, spare: bool) -> dict[str, Any]:
    """Return the trees as attributes of TreeEnsemble.

    Votes that fill up are of weight zero, which does not change a sum. With `spare` they are the leaf's own first vote,
    which does not change a minimum or maximum; a leaf without any vote then votes for a target behind the last. If
    there is one target only, it votes zero, as in ONNX Runtime."""
    votes = np.bincount(forest.leaf, minlength=len(forest.mode))
    if targets == 1 and votes.max() > 1:
        s.refuse("a leaf has several votes for the one target, of which ONNX Runtime counts one, and others count all")
    order = np.argsort(forest.leaf, kind="stable")
    starts = np.cumsum(votes) - votes
    by_tree = np.split(np.argsort(forest.tree, kind="stable"), np.cumsum(np.bincount(forest.tree))[:-1])
    copies = [max(int(votes[places].max()), 1) for places in by_tree]
    made = sum(len(places) * count for places, count in zip(by_tree, copies, strict=True))
    if made > max(_MOST_NODES, 8 * (len(forest.mode) + len(forest.leaf))):
        s.refuse(f"TreeEnsemble has one vote for each leaf, and {made:,} nodes would be needed for all votes")
    nodes = _Columns(forest)
    for places, count in zip(by_tree, copies, strict=True):
        leaves = places[forest.is_leaf[places]]
        for copy in range(count):
            has = votes[leaves] > copy
            fill = has | (spare & (votes[leaves] > 0))
            # An index for each leaf that has a vote here; the others are overwritten below.
            index = order[np.minimum(starts[leaves] + np.where(has, copy, 0), len(order) - 1)]
            target = np.where(fill, forest.target[index], targets if spare and targets > 1 else 0)
            weight = np.where(fill, forest.weight[index], 0)
            nodes.add(places[~forest.is_leaf[places]], leaves, target, weight)
    return nodes.attributes(dtype)


class _Columns:
    """The lists of a TreeEnsemble, as tree after tree is added to them."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.roots: list[int] = []
        self.parts: list[list[Array]] = []
        self.targets: list[Array] = []
        self.weights: list[Array] = []
        self.count = self.leaves = 0
        self._place = np.zeros(len(forest.mode), np.int64)

    def add(self, inner: Array, leaves: Array, targets: Array, weights: Array) -> None:
        f = self.forest
        self._place[inner] = self.count + np.arange(len(inner))
        self._place[leaves] = self.leaves + np.arange(len(leaves))
        if len(inner) and f.is_leaf[f.roots[f.tree[inner[0]]]]:
            inner = inner[:0]  # the root is a leaf, so that no sample comes to other nodes
        if len(inner):
            self.roots.append(int(self._place[f.roots[f.tree[inner[0]]]]))
            yes, no = f.yes[inner], f.no[inner]
            part = [f.feature[inner], f.split[inner], f.mode[inner], f.missing[inner]]
            part += [self._place[yes], f.is_leaf[yes], self._place[no], f.is_leaf[no]]
        else:
            self.roots.append(self.count)
            leaf = self._place[f.roots[f.tree[leaves[:1]]]]
            none, one = np.zeros(1, np.int64), np.ones(1, np.int64)
            part = [none, none, none, none, leaf, one, leaf, one]
        self.parts.append(part)
        self.targets.append(targets)
        self.weights.append(weights)
        self.count += len(part[0])
        self.leaves += len(leaves)

    def attributes(self, dtype: ir.DataType) -> dict[str, Any]:
        columns = [np.concatenate(column) for column in zip(*self.parts, strict=True)]
        feature, split, mode, missing, yes, yes_is_leaf, no, no_is_leaf = columns
        return {
            "tree_roots": self.roots,
            "nodes_featureids": feature.tolist(),
            "nodes_splits": split.astype(dtype.numpy()),
            "nodes_modes": mode.astype(np.uint8),
            "nodes_missing_value_tracks_true": missing.tolist() if missing.any() else None,
            "nodes_truenodeids": yes.tolist(),
            "nodes_trueleafs": yes_is_leaf.astype(np.int64).tolist(),
            "nodes_falsenodeids": no.tolist(),
            "nodes_falseleafs": no_is_leaf.astype(np.int64).tolist(),
            "leaf_targetids": np.concatenate(self.targets).tolist(),
            "leaf_weights": np.concatenate(self.weights).astype(dtype.numpy()),
        }


def labelled_lists(s: Step) -> dict[str, Any]:
    """Return the trees of a TreeEnsemble as attributes of TreeEnsembleRegressor."""
    _refuse_references(s)
    feature, split, mode = integers(s, "nodes_featureids"), numbers(s, "nodes_splits"), numbers(s, "nodes_modes")
    target, weight = integers(s, "leaf_targetids"), numbers(s, "leaf_weights")
    count, leaves = len(mode), len(weight)
    if not count or len(feature) != count or len(split) != count or len(target) != leaves:
        s.refuse("its lists about nodes or leaves are empty or of different length")
    if (mode == MEMBER).any():
        s.refuse("it asks for members of sets, which no node does before opset 5 of ai.onnx.ml")
    if not (mode < MEMBER).all():
        s.refuse("it has nodes of a mode that ONNX does not know")
    followers = np.stack([_followers(s, "true", count, leaves), _followers(s, "false", count, leaves)], 1)
    tree, own, place, yes, no = _walk(s, integers(s, "tree_roots"), followers.tolist(), count, leaves)
    inner, votes = place < count, place >= count
    node, leaf = np.where(inner, place, 0), place[votes] - count
    flags = _flags(s, count)
    return {
        "nodes_treeids": tree.tolist(),
        "nodes_nodeids": own.tolist(),
        "nodes_featureids": np.where(inner, feature[node], 0).tolist(),
        "nodes_values": np.where(inner, split[node], 0).astype(np.float32).tolist(),
        "nodes_modes": [MODES[int(mode[each])] if each < count else "LEAF" for each in place],
        "nodes_missing_value_tracks_true": np.where(inner, flags[node], 0).tolist() if flags.any() else None,
        "nodes_truenodeids": yes.tolist(),
        "nodes_falsenodeids": no.tolist(),
        "target_treeids": tree[votes].tolist(),
        "target_nodeids": own[votes].tolist(),
        "target_ids": target[leaf].tolist(),
        "target_weights": weight[leaf].astype(np.float32).tolist(),
    }


def _followers(s: Step, side: str, count: int, leaves: int) -> Array:
    """Return the place of what follows each node of a TreeEnsemble on one side. Leaves have places behind all nodes."""
    end, is_leaf = integers(s, f"nodes_{side}nodeids"), integers(s, f"nodes_{side}leafs") != 0
    if len(end) != count or len(is_leaf) != count:
        s.refuse("its lists about nodes are of different length")
    if not ((end >= 0) & (end < np.where(is_leaf, leaves, count))).all():
        s.refuse("one of its nodes is followed by a node or leaf that does not exist")
    return np.where(is_leaf, end + count, end)


def _walk(s: Step, roots: Array, followers: list[list[int]], count: int, leaves: int) -> Array:
    """Return five rows with a column for each node that can be reached, tree by tree, the root first: the tree, the
    number in it, the place, and the numbers of the two nodes that follow."""
    if not len(roots) or not ((roots >= 0) & (roots < count)).all():
        s.refuse("it has no trees, or roots that do not exist")
    columns: list[tuple[int, int, int, int, int]] = []
    for tree, root in enumerate(roots.tolist()):
        yes, no = followers[root]
        waiting = [yes if yes == no and yes >= count else root]  # a tree of one leaf
        own = {waiting[0]: 0}
        while waiting:
            place = waiting.pop()
            ends = followers[place] if place < count else []
            for end in ends:
                if end not in own:
                    own[end] = len(own)
                    waiting.append(end)
            yes, no = [own[end] for end in ends] or (0, 0)
            columns.append((tree, own[place], place, yes, no))
        if len(columns) > max(_MOST_NODES, 8 * (count + leaves)):
            s.refuse(f"its trees share nodes, and more than {len(columns):,} would be needed for trees that do not")
    return np.array(columns, np.int64).T


def _flags(s: Step, count: int) -> Array:
    """Return for each node whether samples without the feature go to the true branch."""
    flags = np.zeros(count, np.int64)
    given = integers(s, "nodes_missing_value_tracks_true")[:count]
    flags[: len(given)] = given == 1
    return flags


def _refuse_references(s: Step) -> None:
    if any(attribute.is_ref() for attribute in s.node.attributes.values()):
        s.refuse("some of its attributes are those of the function around it")


def _given(s: Step, name: str) -> Any:
    attribute = s.node.attributes.get(name)
    return () if attribute is None else attribute.value


def integers(s: Step, name: str) -> Array:
    """Return an attribute that is a list of integers; an empty list if there is none."""
    return np.asarray(_given(s, name), np.int64)


def numbers(s: Step, name: str) -> Array:
    """Return a list that the node has as floats, or as a tensor; an empty one if it has neither."""
    for value in (_given(s, name), _given(s, f"{name}_as_tensor")):
        if isinstance(value, ir.TensorProtocol):
            array = np.asarray(value.numpy()).reshape(-1)
            if array.size:
                return array
        elif len(value):
            return np.asarray(value, np.float32)
    return np.zeros(0, np.float32)
