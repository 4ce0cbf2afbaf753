"""Turn ensembles of decision trees into tables: from the attributes of an ONNX node to the buffers of a module.

All trees share one numbering of nodes: leaves first, from 0, then the nodes that decide. `branches` says which node
follows for each outcome of comparing a node's feature with its threshold. This one table expresses every comparison of
ONNX, and where samples go whose feature is NaN. A test for membership in a set becomes a binary search.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxlift.lifting.ops.node import Node

Array = np.ndarray[Any, Any]

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)  # as TreeEnsemble numbers them
MODES = {
    "BRANCH_LEQ": LEQ,
    "BRANCH_LT": LT,
    "BRANCH_GTE": GTE,
    "BRANCH_GT": GT,
    "BRANCH_EQ": EQ,
    "BRANCH_NEQ": NEQ,
}
# For each mode: is the answer yes if the feature is below, at or above the threshold, or NaN?
_ANSWERS = np.array(
    [(1, 1, 0, 0), (1, 0, 0, 0), (0, 1, 1, 0), (0, 0, 1, 0), (0, 1, 0, 0), (1, 0, 1, 1), (0, 0, 0, 0)], bool
)
LARGEST_TABLE = 2**27


@dataclass
class Decisions:
    """The nodes that decide, one in each entry. `yes` and `no` are the numbers of the nodes that follow. `missing` says
    whether samples without the feature go to `yes`, whatever the comparison gives."""

    features: Array
    thresholds: Array
    modes: Array
    yes: Array
    no: Array
    missing: Array
    members: dict[int, Array] = field(default_factory=dict)


@dataclass
class Forest:
    """The tables that the kernels walk through.

    `branches` has two columns (no, yes) if all nodes compare by `<=` and none has a rule for missing features, else
    four (below, at, above, NaN). `tree` is the number of the tree of each node, if the format gives it.
    """

    roots: Array
    features: Array
    thresholds: Array
    branches: Array
    depth: int
    leaves: int
    tree: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def is_plain(self) -> bool:
        return bool(self.branches.shape[1] == 2)


def plant(n: Node, decisions: Decisions, leaves: int, roots: Array) -> Forest:
    """Return the forest of these leaves and decisions. Give up if a walk would not end at a leaf."""
    d = _search_sets(decisions, leaves)
    nodes = leaves + len(d.features)
    if len(d.features) and (min(d.yes.min(), d.no.min()) < 0 or max(d.yes.max(), d.no.max()) >= nodes):
        n.fail("one of its nodes is followed by a node that does not exist")
    if len(d.features) and d.features.min() < 0:
        n.fail("one of its nodes asks for a feature with a negative number")
    answers = _ANSWERS[d.modes]
    # No feature is below, at or above a threshold that is NaN.
    answers[np.isnan(d.thresholds)] = _ANSWERS[d.modes[np.isnan(d.thresholds)], 3:]
    answers[:, 3] |= d.missing
    plain = bool((d.modes == LEQ).all() and not d.missing.any())
    if plain:
        inner = np.stack([d.no, d.yes], 1)
    else:
        inner = np.where(answers, d.yes[:, None], d.no[:, None])
    own = np.repeat(np.arange(leaves)[:, None], inner.shape[1], 1)
    return Forest(
        roots=roots.astype(np.int64),
        features=np.concatenate([np.zeros(leaves, np.int64), d.features]),
        thresholds=np.concatenate([np.zeros(leaves, d.thresholds.dtype), d.thresholds]),
        branches=np.concatenate([own, inner]).astype(np.int64),
        depth=_depth(n, np.stack([d.yes, d.no], 1), leaves),
        leaves=leaves,
    )


def _depth(n: Node, following: Array, leaves: int) -> int:
    """Return the number of decisions on the longest way to a leaf. Each node is visited once, after all nodes that lead
    to it. A node that is never visited lies on a cycle."""
    inner = len(following)
    waiting = np.zeros(leaves + inner, np.int64)
    np.add.at(waiting, following.reshape(-1), 1)
    level = np.flatnonzero(waiting[leaves:] == 0)
    depth = seen = 0
    while len(level):
        depth, seen = depth + 1, seen + len(level)
        reached, times = np.unique(following[level].reshape(-1), return_counts=True)
        waiting[reached] -= times
        level = reached[(waiting[reached] == 0) & (reached >= leaves)] - leaves
    if seen < inner:
        n.fail("its nodes form a cycle, so that a sample would never reach a leaf")
    return depth


def _search_sets(d: Decisions, leaves: int) -> Decisions:
    """Return the decisions without tests for membership. Each test becomes a binary search through the members, by new
    nodes."""
    if not (d.modes == MEMBER).any():
        return d
    columns: list[list[Any]] = [c.tolist() for c in (d.features, d.thresholds, d.modes, d.yes, d.no, d.missing)]
    features, thresholds, modes, yes, no, missing = columns

    def search(members: list[float], node: int, found: int, lost: int) -> None:
        """Make `node` the root of a search for its feature among the ascending `members`."""
        middle = len(members) // 2
        if len(members) < 2:
            thresholds[node], modes[node] = (members[0] if members else np.nan), EQ
            yes[node], no[node] = found, lost
            return
        first = leaves + len(modes)
        for column in columns:
            column.extend([column[node]] * 2)
        thresholds[node], modes[node], yes[node], no[node] = members[middle - 1], LEQ, first, first + 1
        search(members[:middle], first - leaves, found, lost)
        search(members[middle:], first + 1 - leaves, found, lost)

    for node in np.flatnonzero(d.modes == MEMBER):
        members = np.unique(d.members.get(int(node), np.zeros(0)))
        search(members.tolist(), int(node), int(d.yes[node]), int(d.no[node]))
    return Decisions(
        np.array(features, np.int64),
        np.array(thresholds).astype(d.thresholds.dtype),
        np.array(modes, np.int64),
        np.array(yes, np.int64),
        np.array(no, np.int64),
        np.array(missing, bool),
    )


@dataclass
class Votes:
    """The votes of the leaves: leaf `leaf[i]` gives `weight[i]` to target `target[i]`."""

    leaf: Array
    target: Array
    weight: Array


def is_complete(votes: Votes, leaves: int, targets: int) -> bool:
    """Tell whether every leaf votes for every target, exactly once."""
    if len(votes.leaf) != leaves * targets:
        return False
    return len(np.unique(votes.leaf * targets + votes.target)) == len(votes.leaf)


def weights_by_target(votes: Votes, leaves: int, targets: int) -> Array:
    """Return the votes as a table with a row for each leaf and a column for each target. Several votes of a leaf for
    one target are added."""
    dense = np.zeros((leaves, targets), votes.weight.dtype)
    np.add.at(dense, (votes.leaf, votes.target), votes.weight)
    return dense


def silent_leaves(votes: Votes, leaves: int) -> Array:
    """Tell of each leaf whether it has no vote."""
    silent: Array = np.bincount(votes.leaf, minlength=leaves) == 0
    return silent


def padded_votes(n: Node, votes: Votes, leaves: int, repeat: bool) -> tuple[Array, Array]:
    """Return the votes as two tables, targets and weights, with a row for each leaf (or one number, if no leaf has more
    votes).

    Rows are filled up with votes of weight zero. With `repeat` they are filled with the leaf's own first vote, which
    does not change a minimum or a maximum.
    """
    counts = np.bincount(votes.leaf, minlength=leaves)
    longest = max(int(counts.max(initial=0)), 1)
    if leaves * longest > max(LARGEST_TABLE // 8, 8 * len(votes.leaf)):
        n.fail(
            f"one of its {leaves} leaves has {longest} votes while most have few; a table of them would be too large"
        )
    order = np.argsort(votes.leaf, kind="stable")
    leaf = votes.leaf[order]
    column = np.arange(len(leaf)) - np.repeat(np.cumsum(counts) - counts, counts)
    targets, weights = np.zeros((leaves, longest), np.int64), np.zeros((leaves, longest), votes.weight.dtype)
    targets[leaf, column], weights[leaf, column] = votes.target[order], votes.weight[order]
    if repeat:
        spare = np.arange(longest) >= counts[:, None]
        targets, weights = np.where(spare, targets[:, :1], targets), np.where(spare, weights[:, :1], weights)
    return (targets, weights) if longest > 1 else (targets[:, 0], weights[:, 0])
