"""Ensembles of decision trees give the same at ai.onnx.ml 5 as before, and TreeEnsemble the same before opset 5."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from lifting.ops.ml.nodes import Array, ml_model
from lifting.ops.ml.test_ml_trees import MODES, ensemble, nodes, samples, votes
from onnxlift.workbench.opset import OpsetError, opset

onnxruntime = pytest.importorskip("onnxruntime")
ML = "ai.onnx.ml"
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def stump(kind: str = "target", **changes: Any) -> dict[str, Any]:
    """Attributes of one tree of one decision, whose leaves vote 1.0 and -1.5."""
    of_leaves = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 0], "weights": [1.0, -1.5]}
    return STUMP | {f"{kind}_{name}": values for name, values in of_leaves.items()} | changes


def model(op: str, x: Array, *, version: int, **attributes: Any) -> onnx.ModelProto:
    """A model of the node, with typed outputs."""
    scores = x.dtype if op == "TreeEnsemble" else np.float32
    labels = np.object_ if "classlabels_strings" in attributes else np.int64
    types = [labels, scores] if op == "TreeEnsembleClassifier" else [scores]
    proto = ml_model(op, {"x": x}, version=version, outputs=len(types), **attributes)
    for rank, (value, dtype) in enumerate(zip(reversed(proto.graph.output), reversed(types), strict=True)):
        shape = ["samples", None] if rank == 0 else ["samples"]
        made = helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        value.CopyFrom(made)
    return proto


def run(proto: onnx.ModelProto, x: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


def convert(proto: onnx.ModelProto, version: int, standard: int = 18) -> onnx.ModelProto:
    result = opset(proto, standard, domains={ML: version}, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    assert {each.domain: each.version for each in result.opset_import} == {"": standard, ML: version}
    return result


def assert_same(op: str, x: Array, *, version: int = 3, target: int = 5, rtol: float = 1e-5, **options: Any) -> Any:
    """Convert, compare all outputs with those of the original in ONNX Runtime, and give the result."""
    proto = model(op, x, version=version, **options)
    result = convert(proto, target)
    for actual, expected in zip(run(result, x), run(proto, x), strict=True):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-6)
        else:
            assert actual.tolist() == expected.tolist()
    return result


def refuse(reason: str, op: str, x: Array, *, version: int = 3, target: int = 5, **options: Any) -> None:
    proto = model(op, x, version=version, **options)
    with pytest.raises(OpsetError, match=reason):
        convert(proto, target)


@pytest.mark.parametrize("modes", [MODES[:1], MODES])
@pytest.mark.parametrize("missing", [False, True])
def test_decisions_and_missing_features(modes: tuple[str, ...], missing: bool) -> None:
    rng = np.random.default_rng(len(modes))
    trees = nodes(rng, 6, modes, missing)
    trees |= votes(rng, trees, "target", [0], every=True)
    for version in (1, 3):
        x = samples(rng, missing=True)
        result = assert_same("TreeEnsembleRegressor", x, version=version, n_targets=1, **trees)
        assert [node.op_type for node in result.graph.node] == ["TreeEnsemble"]


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("every", [True, False])
def test_aggregates_of_several_votes(function: str, targets: int, every: bool) -> None:
    rng = np.random.default_rng(targets)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "target", list(range(targets)), every)
    options = {"aggregate_function": function, "n_targets": targets}
    for base in (None, rng.normal(size=targets).tolist()):
        assert_same("TreeEnsembleRegressor", samples(rng), **options, base_values=base, **trees)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_leaves_without_a_vote(function: str) -> None:
    """They take no part if there are several targets: a minimum is not that of zero and the others."""
    rng = np.random.default_rng(1)
    trees = nodes(rng, 4)
    for sign, targets in ((1, 1), (-1, 1), (1, 2), (-1, 2)):
        voting = votes(rng, trees, "target", list(range(targets)), every=False, negative=False)
        kept = rng.random(len(voting["target_ids"])) < 0.5
        voting = {name: np.asarray(column)[kept].tolist() for name, column in voting.items()}
        voting["target_weights"] = [sign * weight for weight in voting["target_weights"]]
        base = [0.5] if targets == 1 else None
        options = {"aggregate_function": function, "n_targets": 2 * targets - 1, "base_values": base}
        assert_same("TreeEnsembleRegressor", samples(rng), **options, **trees, **voting)


def test_a_target_without_a_vote_has_its_base_value() -> None:
    """As the specification says. ONNX Runtime leaves the base value out if there are several targets."""
    x = np.array([[0.2], [0.7]], np.float32)
    options = stump(target_ids=[0, 1], n_targets=2, base_values=[0.5, 2.0])
    proto = model("TreeEnsembleRegressor", x, version=3, **options)
    expected = [[1.5, 2.0], [0.5, 0.5]]
    np.testing.assert_allclose(ReferenceEvaluator(proto).run(None, {"x": x})[0], expected)
    np.testing.assert_allclose(run(convert(proto, 5), x)[0], expected)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("double", [False, True])
def test_transforms_of_scores(transform: str, targets: int, double: bool) -> None:
    rng = np.random.default_rng(5)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "target", list(range(targets)), every=False, negative=transform != "PROBIT")
    x = samples(rng, dtype=np.float64 if double else np.float32)
    if double:
        trees = as_tensors(rng, trees, "nodes_values", "target_weights")
    base = [0.1, 0.0, 0.05][:targets]
    base_values = numpy_helper.from_array(np.array(base)) if double else base
    for more in ({}, {"base_values_as_tensor" if double else "base_values": base_values}):
        options = {"post_transform": transform, "n_targets": targets, **more}
        assert_same("TreeEnsembleRegressor", x, rtol=1e-4, **options, **trees)


def as_tensors(rng: np.random.Generator, trees: dict[str, Any], *names: str) -> dict[str, Any]:
    """The attributes with numbers that float32 does not hold."""
    near = {name: np.array(trees[name]) + rng.normal(size=len(trees[name])) * 1e-9 for name in names}
    kept = {name: value for name, value in trees.items() if name not in names}
    return kept | {f"{name}_as_tensor": numpy_helper.from_array(array) for name, array in near.items()}


def test_doubles_are_compared_as_doubles() -> None:
    x = np.array([[0.5], [0.5 + 1e-12], [np.nan]])
    trees = as_tensors(np.random.default_rng(0), stump(), "target_weights")
    del trees["nodes_values"]
    trees["nodes_values_as_tensor"] = numpy_helper.from_array(np.array([0.5, 0, 0]))
    result = assert_same("TreeEnsembleRegressor", x, n_targets=1, **trees)
    assert [node.op_type for node in result.graph.node] == ["TreeEnsemble", "Cast"]
    assert_same("TreeEnsembleRegressor", x, n_targets=1, **stump())


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize(
    ("labels", "every"),
    [({"classlabels_int64s": [4, 0, 9]}, True), ({"classlabels_strings": ["a", "b", "c"]}, False)],
)
def test_classes(transform: str, labels: dict[str, Any], every: bool) -> None:
    rng = np.random.default_rng(3)
    trees = nodes(rng, 7)
    trees |= votes(rng, trees, "class", [0, 1, 2], every, negative=every)
    for base in (None, rng.normal(size=3).tolist()):
        options = {"post_transform": transform, "base_values": base}
        assert_same("TreeEnsembleClassifier", samples(rng), **options, **labels, **trees)


@pytest.mark.parametrize("transform", TRANSFORMS[:4])
@pytest.mark.parametrize(
    ("labels", "negative"),
    [({"classlabels_int64s": [7, 3]}, True), ({"classlabels_strings": ["no", "yes"]}, False)],
)
def test_two_classes_by_one_score(transform: str, labels: dict[str, Any], negative: bool) -> None:
    rng = np.random.default_rng(4)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "class", [0], every=True, negative=negative)
    second = trees | {"class_ids": [1] * len(trees["class_ids"])}
    options = {"post_transform": transform, **labels}
    assert_same("TreeEnsembleClassifier", samples(rng), **options, **trees)
    assert_same("TreeEnsembleClassifier", samples(rng), **options, **trees, base_values=[0.2])
    assert_same("TreeEnsembleClassifier", samples(rng), **options, **second)


@pytest.mark.parametrize(("transform", "negative"), [("NONE", True), ("LOGISTIC", False), ("PROBIT", False)])
def test_one_class(transform: str, negative: bool) -> None:
    rng = np.random.default_rng(4)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "class", [0], every=True, negative=negative)
    options = {"post_transform": transform, "classlabels_int64s": [7]}
    assert_same("TreeEnsembleClassifier", samples(rng), rtol=1e-4, **options, **trees)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_samples_of_other_types(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    trees = nodes(rng, 4)
    trees |= votes(rng, trees, "class", [0, 1, 2], every=True)
    x = (samples(rng) * 2).astype(dtype)
    assert_same("TreeEnsembleClassifier", x, version=1, classlabels_int64s=[0, 1, 2], **trees)


def test_scores_of_two_classes_go_without_the_label() -> None:
    """ONNX Runtime answers 1 or 0 for the label, which the specification does not say."""
    rng = np.random.default_rng(6)
    trees = nodes(rng, 5)
    trees |= votes(rng, trees, "class", [0, 1], every=True)
    labels = {"classlabels_int64s": [0, 1]}
    refuse("both of two classes", "TreeEnsembleClassifier", samples(rng), **labels, **trees)
    proto = model("TreeEnsembleClassifier", samples(rng), version=3, **labels, **trees)
    del proto.graph.output[0]
    x = samples(rng)
    np.testing.assert_allclose(run(convert(proto, 5), x)[0], run(proto, x)[0], rtol=1e-5)


def test_a_class_that_may_have_no_vote_is_refused() -> None:
    rng = np.random.default_rng(9)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "class", [0, 1], every=True)
    labels = {"classlabels_int64s": [0, 1, 2]}
    refuse("a class may have no vote", "TreeEnsembleClassifier", samples(rng), **labels, **trees)
    trees["class_weights"] = [abs(weight) for weight in trees["class_weights"]]
    assert_same("TreeEnsembleClassifier", samples(rng), **labels, **trees)


@pytest.mark.parametrize("standard", [9, 25])
@pytest.mark.parametrize("transform", ["SOFTMAX", "SOFTMAX_ZERO"])
def test_the_operators_behind_are_of_the_opset_of_the_model(standard: int, transform: str) -> None:
    rng = np.random.default_rng(5)
    trees = nodes(rng, 3)
    trees |= votes(rng, trees, "target", [0, 1, 2], every=True)
    options = {"post_transform": transform, "n_targets": 3, "aggregate_function": "MIN", "base_values": [1.0, 2.0, 0.0]}
    x = samples(rng)
    proto = model("TreeEnsembleRegressor", x, version=3, **options, **trees)
    np.testing.assert_allclose(run(convert(proto, 5, standard), x)[0], run(proto, x)[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes_truenodeids": [7, 0, 0]}, "followed by a node that does not exist"),
        ({"nodes_nodeids": [0, 1, 1]}, "same number"),
        ({"nodes_values": [0.0]}, "different length"),
        ({"nodes_modes": ["BRANCH_ON", "LEAF", "LEAF"]}, "a mode that ONNX does not know"),
        ({"target_ids": [0, 5]}, "others than the 1"),
        ({"target_ids": [0, -1]}, "others than the 1"),
        ({"target_nodeids": [1, 9]}, "votes that does not exist"),
        ({"target_nodeids": [0, 0]}, "none of its leaves votes"),
        ({"target_nodeids": [1, 1]}, "several votes for the one target"),
        ({"base_values": [1.0, 2.0]}, "2 base values for 1 scores"),
    ],
)
def test_broken_trees_are_refused(change: dict[str, Any], reason: str) -> None:
    x = np.array([[0.2], [0.7]], np.float32)
    assert_same("TreeEnsembleRegressor", x, n_targets=1, **stump())
    refuse(reason, "TreeEnsembleRegressor", x, n_targets=1, **stump(**change))


def test_many_votes_of_one_leaf_do_not_exhaust_the_memory() -> None:
    """A tree for each vote, each as large as the one of the model."""
    leaves, count = 3000, 3000
    table = {
        "nodes_treeids": [0] * (2 * leaves + 1),
        "nodes_nodeids": list(range(2 * leaves + 1)),
        "nodes_featureids": [0] * (2 * leaves + 1),
        "nodes_modes": [*(["BRANCH_LEQ"] * leaves), *(["LEAF"] * (leaves + 1))],
        "nodes_values": [0.0] * (2 * leaves + 1),
        "nodes_truenodeids": [*range(leaves, 2 * leaves), *([0] * (leaves + 1))],
        "nodes_falsenodeids": [*range(1, leaves), 2 * leaves, *([0] * (leaves + 1))],
        "target_treeids": [0] * count,
        "target_nodeids": [leaves] * count,
        "target_ids": list(range(count)),
        "target_weights": [1.0] * count,
    }
    x = np.zeros((1, 1), np.float32)
    refuse("18,003,000 nodes would be needed", "TreeEnsembleRegressor", x, n_targets=count, **table)


def test_trees_in_a_function() -> None:
    trees = stump(aggregate_function="SUM", n_targets=1, base_values=[0.5])
    node = helper.make_node("TreeEnsembleRegressor", ["a"], ["b"], domain=ML, **trees)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    function = helper.make_function("own", "forest", ["a"], ["b"], [node], imports)
    x = np.array([[0.2], [0.7]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("forest", ["x"], ["y"], domain="own")],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 1])],
        [helper.make_tensor_value_info("y", 1, ["n", 1])],
    )
    opsets = [*imports, helper.make_opsetid("own", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=[function])
    result = opset(proto, 18, domains={ML: 5}, verify=False).proto()
    assert "TreeEnsemble" in {each.op_type for made in result.functions for each in made.node}
    np.testing.assert_allclose(run(result, x)[0], run(proto, x)[0])


@pytest.mark.parametrize("function", [0, 1, 2, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_a_tree_ensemble_goes_down(function: int, missing: bool) -> None:
    rng = np.random.default_rng(function)
    attributes = ensemble(rng, np.float32, members=False) | {"aggregate_function": function}
    if missing:
        attributes["nodes_missing_value_tracks_true"] = [1, 1, 0, 0, 1]
    x = samples(rng, missing=True)
    for target in (4, 1):
        result = assert_same("TreeEnsemble", x, version=5, target=target, **attributes)
        assert [node.op_type for node in result.graph.node] == ["TreeEnsembleRegressor"]


def test_down_and_up_again_is_the_same() -> None:
    rng = np.random.default_rng(3)
    trees = nodes(rng, 6, MODES, missing=True)
    trees |= votes(rng, trees, "target", [0, 1], every=True)
    x = samples(rng, missing=True)
    proto = model("TreeEnsembleRegressor", x, version=3, n_targets=2, **trees)
    back = convert(convert(proto, 5), 3)
    assert [node.op_type for node in back.graph.node] == ["TreeEnsembleRegressor"]
    np.testing.assert_allclose(run(back, x)[0], run(proto, x)[0], rtol=1e-5)


def test_what_cannot_go_down_says_why() -> None:
    rng = np.random.default_rng(0)
    members = ensemble(rng, np.float32, members=True)
    refuse("members of sets", "TreeEnsemble", samples(rng), version=5, target=4, **members)
    doubles = ensemble(rng, np.float64, members=False)
    refuse("not double", "TreeEnsemble", samples(rng, dtype=np.float64), version=5, target=4, **doubles)
    plain = ensemble(rng, np.float32, members=False)
    for change, reason in (
        ({"tree_roots": [0, 9]}, "roots that do not exist"),
        ({"nodes_truenodeids": [1, 0, 1, 3, 6]}, "node or leaf that does not exist"),
        ({"leaf_targetids": [0]}, "different length"),
    ):
        refuse(reason, "TreeEnsemble", samples(rng), version=5, target=4, **(plain | change))
