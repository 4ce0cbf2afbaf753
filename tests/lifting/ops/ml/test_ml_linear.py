"""Linear models and support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lifting.ops.ml.nodes import Array, check_ml, refuse_ml

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
FEATURES = 3


def samples(seed: int = 0, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(seed).normal(size=(6, FEATURES)) * 2).astype(dtype)


def numbers(count: int, seed: int = 1, scale: float = 1.0) -> list[float]:
    return (np.random.default_rng(seed).normal(size=count) * scale).tolist()


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("intercepts", [False, True])
def test_linear_regressor(transform: str, targets: int, intercepts: bool) -> None:
    probit = transform == "PROBIT"  # of numbers between 0 and 1
    attributes = {
        "coefficients": numbers(targets * FEATURES, scale=0.02 if probit else 1),
        "intercepts": [0.3, 0.6][:targets] if intercepts or probit else None,
        "targets": targets,
        "post_transform": transform,
    }
    check_ml("LinearRegressor", samples(), rtol=1e-4, **attributes)
    if not probit:
        check_ml("LinearRegressor", samples()[0], rtol=1e-4, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("labels", [{"classlabels_ints": [4, 0, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_linear_classifier(transform: str, labels: dict[str, Any], dtype: Any) -> None:
    probit = transform == "PROBIT"
    attributes = {
        "coefficients": numbers(3 * FEATURES, scale=0.02 if probit else 1),
        "intercepts": [0.3, 0.45, 0.6],
        "post_transform": transform,
    }
    check_ml("LinearClassifier", samples(dtype=dtype), outputs=2, rtol=1e-3 if probit else 1e-4, **attributes, **labels)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
@pytest.mark.parametrize("labels", [{"classlabels_ints": [4, 2]}, {"classlabels_strings": ["no", "yes"]}, {}])
def test_one_score(transform: str, labels: dict[str, Any]) -> None:
    attributes = {"coefficients": numbers(FEATURES), "intercepts": [0.1], "post_transform": transform}
    check_ml("LinearClassifier", samples(), outputs=2, **attributes, **labels)


def test_the_source_of_a_classifier() -> None:
    labels = {"classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX"}
    source = check_ml(
        "LinearClassifier", samples(), outputs=2, coefficients=numbers(9), intercepts=numbers(3), **labels
    )
    assert "self.linear = nn.Linear(3, 3)" in source
    assert "return scores.argmax(-1), scores.softmax(-1)" in source


def test_broken_linear_models() -> None:
    x = samples()
    refuse_ml(
        "1 labels",
        "LinearClassifier",
        x,
        outputs=2,
        coefficients=[1.0, 2.0, 3.0],
        classlabels_ints=[5],
        intercepts=[0.0],
    )
    refuse_ml("intercepts", "LinearRegressor", x, coefficients=[1.0, 2.0, 3.0], intercepts=[0.0, 1.0])
    refuse_ml("numbers", "LinearRegressor", x, coefficients=[1.0, 2.0, 3.0], targets=2)
    refuse_ml(
        "PROBIT",
        "LinearClassifier",
        x,
        outputs=2,
        coefficients=[1.0, 2.0, 3.0],
        classlabels_ints=[5, 6],
        intercepts=[0.0],
        post_transform="PROBIT",
    )


KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.3, 0.2, 3.0],
    "RBF": [0.1, 0.0, 0.0],
    "SIGMOID": [0.2, -0.1, 0.0],
}


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kind: str, one_class: int) -> None:
    attributes = {
        "support_vectors": numbers(5 * FEATURES, 2),
        "coefficients": numbers(5, 3),
        "rho": [0.2],
        "n_supports": 5,
        "one_class": one_class,
        "kernel_type": kind,
        "kernel_params": KERNELS[kind],
    }
    check_ml("SVMRegressor", samples(), rtol=1e-4, **attributes)


def test_svm_regressor_without_vectors() -> None:
    check_ml(
        "SVMRegressor", samples(), coefficients=numbers(FEATURES), rho=[0.4], n_supports=0, kernel_params=[0.0] * 3
    )


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
@pytest.mark.parametrize("vectors", [[2, 3], [2, 0, 3], [1, 3, 2, 2]])
@pytest.mark.parametrize("probable", [False, True])
def test_svm_classifier(kind: str, transform: str, vectors: list[int], probable: bool) -> None:
    classes, total = len(vectors), sum(vectors)
    pairs = classes * (classes - 1) // 2
    attributes = {
        "support_vectors": numbers(total * FEATURES, 2),
        "coefficients": numbers(total * (classes - 1), 3),
        "vectors_per_class": vectors,
        "rho": numbers(pairs, 4),
        "prob_a": (-np.abs(numbers(pairs, 5))).tolist() if probable else None,
        "prob_b": numbers(pairs, 6) if probable else None,
        "kernel_type": kind,
        "kernel_params": KERNELS[kind],
        "post_transform": transform,
    }
    check_ml("SVMClassifier", samples(), outputs=2, classlabels_ints=[7, 3, 5, 1][:classes], rtol=1e-4, **attributes)
    words = {"classlabels_strings": ["a", "b", "c", "d"][:classes]}
    check_ml("SVMClassifier", samples(dtype=np.float64), outputs=2, rtol=1e-4, **words, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("positive", [False, True])
def test_svm_classifier_without_vectors(transform: str, classes: int, positive: bool) -> None:
    coefficients = np.array(numbers(classes * FEATURES, 7))
    attributes = {
        "coefficients": (np.abs(coefficients) if positive else coefficients).tolist(),
        "rho": [0.2],
        "kernel_params": [0.0] * 3,
        "classlabels_ints": [7, 3, 5][:classes],
        "post_transform": transform,
    }
    check_ml("SVMClassifier", samples(), outputs=2, **attributes)


def test_broken_svm() -> None:
    attributes: dict[str, Any] = {"coefficients": [1.0, 2.0], "rho": [0.1], "support_vectors": [1.0] * 6}
    for change, reason in (
        ({"vectors_per_class": [1, 1], "classlabels_ints": [1, 2, 3]}, "3 labels"),
        ({"vectors_per_class": [1, 1, 0], "classlabels_ints": [1, 2, 3]}, "too few"),
        ({"vectors_per_class": [2, 1], "classlabels_ints": [1, 2]}, "coefficients"),
    ):
        refuse_ml(reason, "SVMClassifier", samples(), outputs=2, **(attributes | change))
