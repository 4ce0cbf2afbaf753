"""Ensembles of decision trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import onnxlift
from lifting.ops.checking import check_official, official_cases
from lifting.ops.ml.nodes import Array, check_ml, ml_model, refuse_ml

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
GRID = np.arange(-2, 3) / 2  # few values, so that features meet thresholds exactly
FEATURES = 4


@pytest.mark.parametrize("case", official_cases("TreeEnsemble"))
def test_official(case: Any) -> None:
    check_official(case)


def samples(rng: np.random.Generator, missing: bool = False, dtype: Any = np.float32) -> Array:
    x = rng.choice(GRID, (9, FEATURES)).astype(dtype)
    if missing:
        x[rng.random(x.shape) < 0.3] = np.nan
    return x


def nodes(
    rng: np.random.Generator, trees: int, modes: tuple[str, ...] = MODES[:1], missing: bool = False
) -> dict[str, Any]:
    """Attributes of random trees, some of them a single leaf."""
    table: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }
    for tree in range(trees):
        rows: list[list[Any]] = []

        def grow(depth: int, tree: int = tree, rows: list[list[Any]] = rows) -> int:
            own = len(rows)
            rows.append([tree, own, 0, "LEAF", 0.0, 0, 0])
            if depth and rng.random() < 0.8:
                rows[own][2:5] = [int(rng.integers(FEATURES)), str(rng.choice(modes)), float(rng.choice(GRID))]
                rows[own][5] = grow(depth - 1)
                rows[own][6] = grow(depth - 1)
            return own

        grow(0 if tree == 1 else 5)
        for row in rows:
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
    attributes = {f"nodes_{name}": column for name, column in table.items()}
    if missing:
        attributes["nodes_missing_value_tracks_true"] = rng.integers(0, 2, len(table["modes"])).tolist()
    return attributes


def votes(
    rng: np.random.Generator,
    attributes: dict[str, Any],
    kind: str,
    targets: list[int],
    every: bool,
    negative: bool = True,
) -> dict[str, Any]:
    """Votes of the leaves: each for all targets, or for some of them."""
    found: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    trees, own = attributes["nodes_treeids"], attributes["nodes_nodeids"]
    for tree, node, mode in zip(trees, own, attributes["nodes_modes"], strict=True):
        if mode == "LEAF":
            chosen = targets if every else rng.choice(targets, rng.integers(1, len(targets) + 1), replace=False)
            for target in chosen:
                weight = float(rng.normal() if negative else rng.uniform(0, 0.3))
                for column, value in zip(found.values(), (tree, node, int(target), weight), strict=True):
                    column.append(value)
    return {f"{kind}_{name}": column for name, column in found.items()}


@pytest.mark.parametrize("modes", [MODES[:1], MODES[3:4], MODES])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("version", [1, 3])
def test_decisions(modes: tuple[str, ...], missing: bool, version: int) -> None:
    rng = np.random.default_rng(len(modes) + version)
    trees = nodes(rng, 6, modes, missing)
    trees |= votes(rng, trees, "target", [0], every=True)
    check_ml("TreeEnsembleRegressor", samples(rng, missing), version=version, n_targets=1, **trees)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("based", [False, True])
def test_aggregates(function: str, targets: int, every: bool, based: bool) -> None:
    rng = np.random.default_rng(targets)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "target", list(range(targets)), every)
    base = rng.normal(size=targets).tolist() if based else None
    x = samples(rng)
    options = {"aggregate_function": function, "n_targets": targets, "base_values": base}
    check_ml("TreeEnsembleRegressor", x, version=3, **options, **trees)
    check_ml("TreeEnsembleRegressor", x[:0], version=3, **options, **trees)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("targets", [1, 3])
def test_transforms(transform: str, targets: int) -> None:
    rng = np.random.default_rng(5)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "target", list(range(targets)), every=True, negative=transform != "PROBIT")
    options = {"post_transform": transform, "n_targets": targets}
    check_ml("TreeEnsembleRegressor", samples(rng), version=3, rtol=1e-4, **options, **trees)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_element_types(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    trees = nodes(rng, 4)
    trees |= votes(rng, trees, "class", [0, 1, 2], every=True)
    x = (samples(rng) * 2).astype(dtype)
    check_ml("TreeEnsembleClassifier", x, version=1, outputs=2, classlabels_int64s=[0, 1, 2], **trees)


def test_doubles() -> None:
    """Thresholds and weights that float32 does not hold."""
    rng = np.random.default_rng(2)
    trees = nodes(rng, 4)
    trees |= votes(rng, trees, "target", [0, 1], every=True)
    for name in ("nodes_values", "target_weights"):
        near = np.array(trees.pop(name))
        trees[f"{name}_as_tensor"] = numpy_helper.from_array(near + rng.normal(size=len(near)) * 1e-9)
    check_ml("TreeEnsembleRegressor", samples(rng, dtype=np.float64), version=3, n_targets=2, **trees)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [4, 0, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("every", [True, False])
def test_classes(transform: str, labels: dict[str, Any], every: bool) -> None:
    rng = np.random.default_rng(3)
    trees = nodes(rng, 7)
    trees |= votes(rng, trees, "class", [0, 1, 2], every, negative=every)
    options = {"post_transform": transform, "outputs": 2, "version": 3}
    check_ml("TreeEnsembleClassifier", samples(rng), **options, **labels, **trees)
    base = rng.normal(size=3).tolist()
    check_ml("TreeEnsembleClassifier", samples(rng), **options, **labels, **trees, base_values=base)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 3]}, {"classlabels_strings": ["no", "yes"]}])
@pytest.mark.parametrize("negative", [True, False])
def test_two_classes_by_one_score(transform: str, labels: dict[str, Any], negative: bool) -> None:
    rng = np.random.default_rng(4)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "class", [0], every=True, negative=negative)
    options = {"post_transform": transform, "outputs": 2, "version": 3}
    check_ml("TreeEnsembleClassifier", samples(rng), **options, **labels, **trees)
    check_ml("TreeEnsembleClassifier", samples(rng), **options, **labels, **trees, base_values=[0.2])
    second = trees | {"class_ids": [1] * len(trees["class_ids"])}
    check_ml("TreeEnsembleClassifier", samples(rng), **options, **labels, **second)


def test_votes_for_both_of_two_classes() -> None:
    """The higher score wins. ONNX Runtime says 1 or 0 here, which may not even be a label."""
    rng = np.random.default_rng(6)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "class", [0, 1], every=True)
    check_ml(
        "TreeEnsembleClassifier", samples(rng), outputs=2, version=3, reference=True, classlabels_int64s=[7, 3], **trees
    )


def test_boosted_classes() -> None:
    """A tree for each class in turn: every class has a vote, so negative ones are no problem."""
    rng = np.random.default_rng(8)
    trees = nodes(rng, 6)
    trees |= votes(rng, trees, "class", [0], every=True)
    trees["class_ids"] = [tree % 3 for tree in trees["class_treeids"]]
    labels = {"classlabels_int64s": [0, 1, 2], "post_transform": "SOFTMAX"}
    source = check_ml("TreeEnsembleClassifier", samples(rng), outputs=2, version=3, **labels, **trees)
    assert "return scores.argmax(-1), scores.softmax(-1)" in source


def test_a_class_that_may_have_no_vote() -> None:
    rng = np.random.default_rng(9)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "class", [0, 1], every=True)
    labels = {"classlabels_int64s": [0, 1, 2]}
    refuse_ml("whether it wins", "TreeEnsembleClassifier", samples(rng), outputs=2, version=3, **labels, **trees)


def ensemble(rng: np.random.Generator, dtype: Any, members: bool) -> dict[str, Any]:
    """Attributes of TreeEnsemble: two trees of the same shape, the second of one leaf."""
    values = np.array([0.5, -0.5, 1.0, 0.0, 0.5]).astype(dtype)
    modes = np.array([0, 6, 3, 6, 0] if members else [0, 1, 4, 5, 2], np.uint8)
    sets = np.array([-2, 1, 0, 7, 2, np.nan, 0, np.nan], dtype)
    return {
        "tree_roots": [0, 4],
        "nodes_featureids": [0, 1, 2, 3, 0],
        "nodes_splits": numpy_helper.from_array(values),
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_truenodeids": [1, 0, 1, 3, 5],
        "nodes_trueleafs": [0, 1, 1, 1, 1],
        "nodes_falsenodeids": [2, 3, 2, 4, 5],
        "nodes_falseleafs": [0, 0, 1, 1, 1],
        "leaf_targetids": [0, 1, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(rng.normal(size=6).astype(dtype)),
        "membership_values": numpy_helper.from_array(sets) if members else None,
        "n_targets": 2,
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("members", [False, True])
@pytest.mark.parametrize("function", [0, 1, 2, 3])
def test_separate_leaves(dtype: Any, members: bool, function: int) -> None:
    rng = np.random.default_rng(function)
    attributes = ensemble(rng, dtype, members)
    x = samples(rng, missing=True, dtype=dtype) * (2 if members else 1)  # ONNX Runtime wants whole numbers for sets
    check_ml("TreeEnsemble", x, version=5, aggregate_function=function, **attributes)
    attributes["nodes_missing_value_tracks_true"] = [1, 1, 0, 0, 0]
    check_ml("TreeEnsemble", x, version=5, aggregate_function=function, **attributes)


@pytest.mark.parametrize(("number", "transform"), [(1, "softmax"), (2, "sigmoid")])
def test_transforms_by_number(number: int, transform: str) -> None:
    """As the specification numbers them; ONNX Runtime has the two the other way round."""
    rng = np.random.default_rng(number)
    x, attributes = samples(rng), ensemble(rng, np.float32, members=False)
    plain = ml_model("TreeEnsemble", {"x": x}, version=5, **attributes)
    scores = onnxlift.lift(plain).module()(torch.from_numpy(x)).detach()
    expected = scores.softmax(-1) if transform == "softmax" else scores.sigmoid()
    check_ml("TreeEnsemble", x, version=5, post_transform=number, expected=[expected.numpy()], **attributes)


def test_large_set() -> None:
    """A set is searched, not gone through."""
    rng = np.random.default_rng(0)
    members = np.append(rng.choice(2000, 900, replace=False), np.nan).astype(np.float32)
    x = rng.integers(0, 2000, (300, 1)).astype(np.float32)
    attributes = {
        "tree_roots": [0],
        "nodes_featureids": [0],
        "nodes_splits": numpy_helper.from_array(np.zeros(1, np.float32)),
        "nodes_modes": numpy_helper.from_array(np.array([6], np.uint8)),
        "nodes_truenodeids": [0],
        "nodes_trueleafs": [1],
        "nodes_falsenodeids": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": numpy_helper.from_array(np.array([2.5, -1.5], np.float32)),
        "membership_values": numpy_helper.from_array(members),
        "n_targets": 1,
    }
    source = check_ml("TreeEnsemble", x, version=5, **attributes)
    assert "self.branches, 11)" in source


def test_half_precision() -> None:
    rng = np.random.default_rng(1)
    attributes = ensemble(rng, np.float16, members=False) | {"tree_roots": [0]}
    check_ml("TreeEnsemble", samples(rng, dtype=np.float16), version=5, reference=True, rtol=1e-3, **attributes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "cycle"),
        ({"nodes_truenodeids": [7, 0, 0]}, "does not exist"),
        ({"nodes_featureids": [-1, 0, 0]}, "negative"),
        ({"nodes_nodeids": [0, 1, 1]}, "same number"),
        ({"nodes_values": [0.0]}, "different length"),
        ({"nodes_modes": ["BRANCH_ON", "LEAF", "LEAF"]}, "unknown mode"),
        ({"target_ids": [0, 5]}, "not among"),
        ({"target_nodeids": [1, 9]}, "votes that does not exist"),
        ({"base_values": [1.0, 2.0]}, "base values"),
    ],
)
def test_broken_trees(change: dict[str, Any], reason: str) -> None:
    stump = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, -1.5],
        "n_targets": 1,
    }
    x = np.array([[0.2], [0.7]], np.float32)
    check_ml("TreeEnsembleRegressor", x, version=3, **stump)
    refuse_ml(reason, "TreeEnsembleRegressor", x, version=3, **(stump | change))


def test_export_and_gradient() -> None:
    rng = np.random.default_rng(11)
    trees = nodes(rng, 4)
    trees |= votes(rng, trees, "target", [0, 1], every=True)
    model = ml_model("TreeEnsembleRegressor", {"x": samples(rng)}, version=3, n_targets=2, **trees)
    module = onnxlift.lift(onnx.ModelProto.FromString(model.SerializeToString())).module()
    x = torch.from_numpy(samples(rng))
    module(x).square().sum().backward()
    assert module.leaf_weights.grad.abs().sum() > 0
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("samples")},)).module()
    more = torch.from_numpy(np.concatenate([samples(rng), samples(rng)]))
    torch.testing.assert_close(exported(more), module(more))


@pytest.mark.parametrize("function", ["MIN", "MAX", "SUM", "AVERAGE"])
@pytest.mark.parametrize("targets", [1, 2])
def test_a_leaf_without_a_vote(function: str, targets: int) -> None:
    """It takes no part in the extremes of several targets; the extremes of one target count it as 0."""
    attributes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [0, 0, 0, 1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_values": [0.0] * 6,
        "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
        "target_treeids": [0, 1, 1],
        "target_nodeids": [2, 1, 2],
        "target_ids": [0, 0, targets - 1],
        "target_weights": [5.0, 7.0, -3.0],
    }
    x = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], np.float32)
    check_ml("TreeEnsembleRegressor", x, n_targets=targets, aggregate_function=function, **attributes)
