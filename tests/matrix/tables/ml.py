"""ai.onnx.ml: features, labels, linear models, support vectors, trees; and the optimisers of preview.training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import helper

from matrix.case import Array, Row, each, floats, ints, row, some

WORDS = np.array(["cat", "dog", "bird", "cat", "?"], object)
NAN = np.array([[1, np.nan, 3], [np.nan, 5, -6]], np.float32)
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def numbers(count: int, seed: int = 0) -> list[float]:
    return [float(v) for v in floats(count, low=-1, high=1, seed=seed)]


# Two trees over three features: 0 asks, 1 asks, 2 and 3 and 4 are leaves; 0 asks, 1 and 2 are leaves.
NODES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 1, 0, 0],
    "nodes_values": [0.5, -1.0, 0.0, 0.0, 0.0, 1.25, 0.0, 0.0],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
}
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
LEAVES = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2]}


def trees(first: str = "BRANCH_LEQ", second: str = "BRANCH_LEQ") -> dict[str, Any]:
    leaf = "LEAF"
    return {**NODES, "nodes_modes": [first, second, leaf, leaf, leaf, first, leaf, leaf]}


def targets(kind: str, ids: list[int]) -> dict[str, Any]:
    places = {f"{kind}_{name}": values for name, values in LEAVES.items()}
    return {**places, f"{kind}_ids": ids, f"{kind}_weights": [0.3, 0.7, 1.1, 0.4, 0.2]}


CLASSES = {**trees(), **targets("class", [0, 1, 2, 1, 0]), "classlabels_int64s": [4, 5, 6]}
TWO = {**trees(), **targets("class", [0, 0, 0, 0, 0]), "classlabels_strings": ["no", "yes"]}
REGRESSION = {**trees(), **targets("target", [0, 1, 0, 1, 0]), "n_targets": 2}
AS_TENSORS = {
    **{name: values for name, values in REGRESSION.items() if name not in ("nodes_values", "target_weights")},
    "nodes_values_as_tensor": np.array(NODES["nodes_values"], np.float64),
    "target_weights_as_tensor": np.array([0.3, -0.7, 1.1, 0.4, -0.2], np.float64),
}
X = floats(7, 3)


def ensemble(dtype: Any, **more: Any) -> dict[str, Any]:
    """A tree of two questions, and one of one, as TreeEnsemble writes them."""
    return {
        "tree_roots": [0, 2],
        "n_targets": 2,
        "nodes_featureids": [0, 2, 1],
        "nodes_modes": np.array([0, 1, 4], np.uint8),
        "nodes_splits": np.array([0.5, -1.0, 1.25], dtype),
        "nodes_truenodeids": [1, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [0, 2, 4],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": np.array([0.3, -0.7, 1.1, 0.4, -0.2], dtype),
        **more,
    }


SVM = {"coefficients": numbers(5), "support_vectors": numbers(15, seed=1), "rho": [0.2]}
KERNELS = [("LINEAR", []), ("POLY", [0.3, 0.5, 3.0]), ("RBF", [0.4, 0.0, 3.0]), ("SIGMOID", [0.2, 0.1, 3.0])]
MACHINE = {
    "classlabels_ints": [3, 5, 9],
    "coefficients": numbers(12),
    "support_vectors": numbers(18, seed=1),
    "vectors_per_class": [2, 1, 3],
    "rho": numbers(3, seed=2),
}


def linear(x: Array, coefficients: list[float], intercept: float) -> Array:
    return (x.astype(np.float64) @ np.array(coefficients)[:, None] + intercept).astype(np.float32)


def kernel(kind: str, parameters: list[float]) -> dict[str, Any]:
    return {"kernel_type": kind, **({"kernel_params": parameters} if parameters else {})}


ROWS: dict[str, list[Row]] = {
    "ArrayFeatureExtractor": [row(each(3, 5), ints(0, 4, 1)), row(some(5), ints(1, 3)), row(some(2, 3, 4), ints(3))],
    "Binarizer": [row(each(3, 5)), row(floats(3, 5), threshold=0.7), row(some(0, 3))],
    "CastMap": [
        row({3: 2.5, 1: -1.0, 7: 4.0}),
        row({3: 2.5, 1: -1.0}, cast_to="TO_INT64"),
        row({3: 2.5, 1: -1.0, 7: 4.0}, map_form="SPARSE", max_map=6),
        row({3: "2.5", 1: "-1"}, cast_to="TO_FLOAT", expected=lambda x: np.array([[-1, 2.5]], np.float32)),
    ],
    "CategoryMapper": [
        row(WORDS, cats_strings=["cat", "dog", "bird"], cats_int64s=[3, 7, 5], default_int64=-9),
        row(ints(3, 7, 8), cats_strings=["cat", "dog", "bird"], cats_int64s=[3, 7, 5], default_string="?"),
    ],
    "DictVectorizer": [
        row({"a": 2.5, "c": -1.0}, string_vocabulary=["c", "b", "a"]),
        row({3: 2.5, 1: -1.0}, int64_vocabulary=[1, 2, 3]),
        row({"a": 2, "c": -1}, string_vocabulary=["c", "b", "a"], expected=lambda x: ints([-1, 0, 2])),
    ],
    "FeatureVectorizer": [
        row(each(3, 2), each(3, 2), inputdimensions=[2, 2]),
        row(some(3, 2), some(3, 1), inputdimensions=[2, 1]),
    ],
    "Imputer": [
        row(NAN, imputed_value_floats=[9.0], replaced_value_float=float("nan")),
        row(NAN, imputed_value_floats=[9.0, 8.0, 7.0], replaced_value_float=float("nan")),
        row(ints([1, 0, 3], [0, 5, 6]), imputed_value_int64s=[9, 8, 7], replaced_value_int64=0),
    ],
    "LabelEncoder": [
        row(WORDS, classes_strings=["cat", "dog", "bird"], default_int64=-9),
        row(ints(0, 2, 5), classes_strings=["cat", "dog", "bird"], default_string="?"),
        row(WORDS, keys_strings=["cat", "dog"], values_int64s=[3, 7], default_int64=-9),
        row(WORDS, keys_strings=["cat", "dog"], values_floats=[3.5, 7.0], default_float=-9.0),
        row(ints(3, 7, 8), keys_int64s=[3, 7], values_strings=["cat", "dog"], default_string="?"),
        row(np.array([1.5, np.nan, 2], np.float32), keys_floats=[1.5, float("nan")], values_floats=[3.5, 7.0], since=4),
        row(
            ints(3, 7, 8),
            keys_tensor=ints(3, 7),
            values_tensor=np.array([1.5, 2.5], np.float64),
            default_tensor=np.array([-1.0]),
        ),
        row(
            WORDS,
            keys_tensor=WORDS[:3].copy(),
            values_tensor=np.array([4, 5, 6], np.int16),
            default_tensor=np.array([9], np.int16),
        ),
    ],
    "LinearRegressor": [
        row(each(4, 3), coefficients=numbers(3), intercepts=[0.7], expected=lambda x: linear(x, numbers(3), 0.7)),
        row(X, coefficients=numbers(6), intercepts=numbers(2, seed=1), targets=2),
        row(X, coefficients=numbers(6), targets=2),
    ],
    "LinearClassifier": [
        row(each(4, 3), outputs=2, coefficients=numbers(9), intercepts=numbers(3, seed=1), classlabels_ints=[4, 5, 6]),
        *(
            row(
                X,
                outputs=2,
                coefficients=numbers(9),
                intercepts=numbers(3, seed=1),
                classlabels_strings=["a", "b", "c"],
                post_transform=t,
            )
            for t in TRANSFORMS
        ),
        row(
            X, outputs=2, coefficients=numbers(3), intercepts=[0.3], classlabels_ints=[0, 1], post_transform="LOGISTIC"
        ),
    ],
    "Normalizer": [*(row(each(3, 4), norm=norm) for norm in ("MAX", "L1", "L2")), row(X)],
    "OneHotEncoder": [
        row(each(4, low=0, high=4, without=("string",)), cats_int64s=[1, 3, 2]),
        row(WORDS[:, None], cats_strings=["cat", "dog", "bird", "?"], zeros=0),
        row(WORDS, cats_strings=["cat", "dog"]),
    ],
    "Scaler": [row(each(4, 3), offset=numbers(3), scale=numbers(3, seed=1)), row(X, offset=[0.5], scale=[2.0])],
    "SVMRegressor": [
        *(row(X, n_supports=5, **SVM, **kernel(*k)) for k in KERNELS),
        row(X, n_supports=5, one_class=1, **SVM, **kernel(*KERNELS[2])),
        row(X, coefficients=numbers(3), rho=[0.2], n_supports=0, kernel_type="LINEAR"),
    ],
    "SVMClassifier": [
        *(row(X, outputs=2, **MACHINE, **kernel(*k)) for k in KERNELS),
        row(X, outputs=2, prob_a=numbers(3, seed=3), prob_b=numbers(3, seed=4), **MACHINE, **kernel(*KERNELS[2])),
    ],
    "TreeEnsembleRegressor": [
        *(row(X, **{**REGRESSION, **trees(first, "BRANCH_LEQ")}) for first in MODES),
        *(row(X, **REGRESSION, aggregate_function=a) for a in ("SUM", "AVERAGE", "MIN", "MAX")),
        row(X, **REGRESSION, base_values=[0.5, -1.0]),
        row(NAN, **REGRESSION, nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0]),
        row(X.astype(np.float64), **AS_TENSORS),
    ],
    "TreeEnsembleClassifier": [
        row(X, outputs=2, **CLASSES),
        *(row(X, outputs=2, **CLASSES, post_transform=t) for t in TRANSFORMS),
        row(X, outputs=2, **CLASSES, base_values=[0.5, -1.0, 0.2]),
        row(X, outputs=2, **TWO),
        row(X, outputs=2, **TWO, post_transform="LOGISTIC"),
    ],
    "TreeEnsemble": [
        row(X, **ensemble(np.float32)),
        row(X.astype(np.float64), **ensemble(np.float64)),
        *(row(X, **ensemble(np.float32, aggregate_function=a)) for a in (0, 1, 2, 3)),
    ],
    "ZipMap": [row(floats(3, 2), classlabels_strings=["a", "b"]), row(floats(3, 2), classlabels_int64s=[3, 5])],
}
for op_type in ("TreeEnsembleRegressor", "TreeEnsembleClassifier"):  # opset 5 calls them deprecated, without a change
    ROWS[op_type] = [replace(item, asked=4) for item in ROWS[op_type]]

STEP = (np.array(0.1, np.float32), ints(3).reshape(()))
STATE = [floats(4, seed=seed, low=0.1) for seed in range(8)]
TRAINING: dict[str, list[Row]] = {
    "Adagrad": [
        row(*STEP, *STATE[:3], outputs=2, norm_coefficient=0.01, decay_factor=0.1, epsilon=1e-3),
        row(*STEP, *STATE[:6], outputs=4, epsilon=1e-3),
    ],
    "Adam": [
        row(*STEP, *STATE[:4], outputs=3, norm_coefficient=0.01, alpha=0.8, beta=0.9, epsilon=1e-3),
        row(*STEP, *STATE, outputs=6, norm_coefficient_post=0.1, epsilon=1e-3),
    ],
    "Momentum": [
        row(*STEP, *STATE[:3], outputs=2, norm_coefficient=0.01, alpha=0.9, beta=0.2, mode=mode)
        for mode in ("standard", "nesterov")
    ],
    "Gradient": [
        row(
            *STATE[:2],
            before=[helper.make_node("Mul", ["x0", "x1"], ["product"]), helper.make_node("Exp", ["product"], ["loss"])],
            expected=lambda a, b: (b * np.exp(a * b), a * np.exp(a * b)),
            outputs=2,
            xs=["x0", "x1"],
            y="loss",
        ),
    ],
}
