"""Features: picked, joined, scaled, normalised, completed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from lifting.ops.checking import check, check_official, official_cases
from lifting.ops.ml.nodes import Array, check_ml, ml_model, refuse_ml

NAN = float("nan")


def samples(dtype: Any = np.float32, shape: tuple[int, ...] = (5, 4)) -> Array:
    return (np.random.default_rng(3).normal(size=shape) * 3).astype(dtype)


@pytest.mark.parametrize("case", official_cases("ArrayFeatureExtractor", "Binarizer"))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize(
    "x", [samples(), samples(np.int64), samples()[0], samples(shape=(2, 3, 4)), samples().astype(str)]
)
@pytest.mark.parametrize("indices", [[2], [3, 0, 3], [[1, 2]]])
def test_array_feature_extractor(x: Array, indices: Any) -> None:
    x = x.astype(object) if x.dtype.kind == "U" else x
    picked = np.array(indices, np.int64)
    check_ml("ArrayFeatureExtractor", x, picked)
    model = ml_model("ArrayFeatureExtractor", {"x": x, "x1": picked}, version=1)
    model.graph.initializer.append(numpy_helper.from_array(picked, "x1"))
    del model.graph.input[1]
    source = check(model, {"x": x})
    assert "register_buffer" not in source


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_binarizer(dtype: Any) -> None:
    x = samples(dtype)
    x[0, 0] = 2
    for threshold in (0.1, 2.0, -1.5):
        expected = (x > np.float32(threshold).astype(np.float64)).astype(dtype)
        check_ml("Binarizer", x, threshold=threshold, expected=[expected])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("sizes", [[4, 2], [3, 2], [6, 1]])
def test_feature_vectorizer(dtype: Any, sizes: list[int]) -> None:
    check_ml("FeatureVectorizer", samples(dtype), samples(dtype, (5, 2)), inputdimensions=sizes)
    check_ml("FeatureVectorizer", samples(dtype)[0], samples(dtype, (1, 2)), inputdimensions=sizes)


@pytest.mark.parametrize("replaced", [NAN, 0.0, 1.1])
@pytest.mark.parametrize("values", [[0.7], [0.1, -2.5, 3.0, 1e-3]])
def test_imputer(replaced: float, values: list[float]) -> None:
    for shape in ((5, 4), (4,)):
        x = np.random.default_rng(1).choice(np.array([NAN, 0, -0.0, 1.1, 2.5], np.float32), shape)
        check_ml("Imputer", x, imputed_value_floats=values, replaced_value_float=replaced)
    wide = x.astype(np.float64)
    missing = np.isnan(wide) if np.isnan(replaced) else wide == np.float32(replaced)
    expected = np.where(missing, np.array(values, np.float32), wide)
    check_ml("Imputer", wide, imputed_value_floats=values, replaced_value_float=replaced, expected=[expected])


@pytest.mark.parametrize("values", [[7], [4, -5, 6, 2**40]])
def test_imputer_of_integers(values: list[int]) -> None:
    x = np.random.default_rng(1).integers(0, 3, (5, 4))
    check_ml("Imputer", x, imputed_value_int64s=values, replaced_value_int64=2)
    refuse_ml("no values", "Imputer", x, imputed_value_floats=[1.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_normalizer(norm: str, dtype: Any) -> None:
    x = samples(dtype)
    x[1] = 0
    x[2] = -np.abs(x[2])
    if dtype == np.float32:
        x[3] *= 1e-15
    check_ml("Normalizer", x, norm=norm)
    check_ml("Normalizer", x[0], norm=norm)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("size", [1, 4])
def test_scaler(dtype: Any, size: int) -> None:
    rng = np.random.default_rng(7)
    check_ml("Scaler", samples(dtype), offset=rng.normal(size=size).tolist(), scale=rng.normal(size=size).tolist())
