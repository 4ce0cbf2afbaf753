"""Categories, labels and maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

import onnxlift
from lifting.ops.checking import check_official, official_cases
from lifting.ops.ml.nodes import ML, check_ml, ml_model, refuse_ml

NAN = float("nan")
WORDS = np.array([["b", "x"], ["a", "é"], ["", "a"]], object)
NUMBERS = np.array([[3, -1], [8, 3], [0, 5]])


@pytest.mark.parametrize("case", official_cases("LabelEncoder"))
def test_official(case: Any) -> None:
    check_official(case)


@pytest.mark.parametrize("x", [WORDS, NUMBERS])
def test_label_encoder_of_the_first_version(x: Any) -> None:
    check_ml("LabelEncoder", x, version=1, classes_strings=["a", "b", "é", "q"], default_string="?", default_int64=-7)


KEYS = {
    "strings": (["b", "a", "é"], WORDS),
    "int64s": ([8, 3, -1], NUMBERS),
    "floats": ([8.0, 3.0, -1.0], NUMBERS.astype(np.float32)),
}
VALUES = {"strings": ["one", "two", "three"], "int64s": [10, -20, 30], "floats": [0.5, 1.5, -2.5]}
DEFAULTS = {"default_string": "none", "default_int64": 77, "default_float": 0.25}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("values", VALUES)
def test_label_encoder(version: int, keys: str, values: str) -> None:
    given, x = KEYS[keys]
    attributes = {f"keys_{keys}": given, f"values_{values}": VALUES[values]}
    check_ml("LabelEncoder", x, version=version, **attributes, **DEFAULTS)
    check_ml("LabelEncoder", x[:, 0], version=version, **attributes)


@pytest.mark.parametrize("key", [np.float64, np.int16, np.int32, np.int64, np.float32])
@pytest.mark.parametrize("value", [np.float64, np.int16, np.int32, object])
def test_label_encoder_by_tensors(key: Any, value: Any) -> None:
    values = np.array(["p", "q", "r"], object) if value is object else np.array([5, -6, 7], value)
    default = np.array(["z"], object) if value is object else np.array([9], value)
    keys = np.array([3, -1, 8], key)
    attributes = {"keys_tensor": keys, "values_tensor": values, "default_tensor": default}
    tensors = {name: numpy_helper.from_array(array) for name, array in attributes.items()}
    found = dict(zip(keys.tolist(), values.tolist(), strict=True))
    expected = np.array([[found.get(k, default[0]) for k in row] for row in NUMBERS.tolist()], value)
    check_ml("LabelEncoder", NUMBERS.astype(key), version=4, expected=[expected], **tensors)


def test_keys_that_are_not_numbers() -> None:
    x = np.array([NAN, 1.5, 2.5, -0.0], np.float32)
    attributes = {"keys_floats": [1.5, NAN, 0.0], "values_int64s": [10, 20, 30]}
    check_ml("LabelEncoder", x, version=4, **attributes)
    # The specification has NaN found here too; ONNX Runtime does not find it.
    check_ml("LabelEncoder", x, version=2, expected=[np.array([20, 10, -1, 30])], **attributes)


def test_repeated_keys() -> None:
    attributes = {"keys_int64s": [1, 1, 2], "values_int64s": [10, 20, 30]}
    check_ml("LabelEncoder", np.array([1, 2, 3]), version=2, **attributes)
    # "The last key takes precedence"; ONNX Runtime takes the first.
    check_ml("LabelEncoder", np.array([1, 2, 3]), version=4, expected=[np.array([20, 30, -1])], **attributes)


@pytest.mark.parametrize("x", [WORDS, NUMBERS])
def test_category_mapper(x: Any) -> None:
    check_ml("CategoryMapper", x, cats_int64s=[3, 8, 5], cats_strings=["x", "a", "é"])


@pytest.mark.parametrize("x", [NUMBERS, NUMBERS[0], NUMBERS.astype(np.float32) + 0.5, NUMBERS.astype(np.float64)])
def test_one_hot_encoder(x: Any) -> None:
    check_ml("OneHotEncoder", x, cats_int64s=[8, 3, -1, 0, 4])


def test_one_hot_encoder_of_strings() -> None:
    check_ml("OneHotEncoder", WORDS, cats_strings=["é", "a", "zz"])


@pytest.mark.parametrize(("x", "cats"), [(WORDS, {"cats_strings": ["b", "a"]}), (NUMBERS, {"cats_int64s": [3, 8]})])
def test_unknown_categories_without_zeros(x: Any, cats: dict[str, Any]) -> None:
    known = np.array([next(iter(cats.values()))], x.dtype)
    check_ml("OneHotEncoder", known, zeros=0, **cats)
    module = onnxlift.lift(ml_model("OneHotEncoder", {"x": x}, version=1, zeros=0, **cats)).module()
    with pytest.raises((ValueError, RuntimeError)):
        module(x if x.dtype == object else torch.from_numpy(x))


def test_broken_encoders() -> None:
    refuse_ml("twice", "OneHotEncoder", NUMBERS, cats_int64s=[1, 1])
    refuse_ml("element type", "OneHotEncoder", NUMBERS, cats_strings=["a"])
    refuse_ml("3 keys for 1", "LabelEncoder", NUMBERS, version=2, keys_int64s=[1, 2, 3], values_int64s=[1])
    refuse_ml("0 lists of keys", "LabelEncoder", NUMBERS, version=2, values_int64s=[1])
    refuse_ml("element type", "LabelEncoder", NUMBERS, version=2, keys_strings=["a"], values_int64s=[1])


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [4, 0, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("shape", [(4, 3), (3,), (0, 3)])
def test_zip_map(labels: dict[str, Any], shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    model = ml_model("ZipMap", {"x": x}, version=1, **labels)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    assert onnxlift.lift(model).module()(torch.from_numpy(x)) == expected


def map_model(op: str, key: int, value: int, **attributes: Any) -> onnx.ModelProto:
    """A model of a node that takes a map."""
    node = helper.make_node(op, ["x"], ["y"], domain=ML, **attributes)
    info = onnx.ValueInfoProto(name="x")
    info.type.map_type.key_type = key
    info.type.map_type.value_type.tensor_type.elem_type = value
    graph = helper.make_graph([node], "map", [info], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check_map(model: onnx.ModelProto, entries: dict[Any, Any], expected: Any = None) -> None:
    """`expected` is for maps that ONNX Runtime takes, but not from Python."""
    if expected is None:
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": entries})[0]
    actual = onnxlift.lift(model).module()(entries)
    actual = actual if isinstance(actual, np.ndarray) else actual.numpy()
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    assert actual.tolist() == expected.tolist()


INT64, FLOAT, DOUBLE, STRING = (
    onnx.TensorProto.INT64,
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.STRING,
)


DENSE_AND_SPARSE = {
    "TO_FLOAT": (np.float32, [-3, 12], [0, -3, 0, 0, 12, 0]),
    "TO_INT64": (np.int64, [-3, 12], [0, -3, 0, 0, 12, 0]),
    "TO_STRING": (object, ["-3", "12"], ["0.f", "-3", "0.f", "0.f", "12", "0.f"]),
}


@pytest.mark.parametrize("to", DENSE_AND_SPARSE)
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_cast_map(to: str, form: str) -> None:
    options = {"cast_to": to, "map_form": form, "max_map": 6}
    check_map(map_model("CastMap", INT64, FLOAT, **options), {4: 2.75, 1: -3.5})
    dtype, dense, sparse = DENSE_AND_SPARSE[to]
    expected = np.array([dense if form == "DENSE" else sparse], dtype)
    check_map(map_model("CastMap", INT64, STRING, **options), {4: "12", 1: "-3"}, expected)


def test_dict_vectorizer() -> None:
    words = {"string_vocabulary": ["a", "c", "b"]}
    check_map(map_model("DictVectorizer", STRING, FLOAT, **words), {"b": 0.1, "a": -3.5})
    check_map(map_model("DictVectorizer", STRING, DOUBLE, **words), {"b": 0.1}, np.array([[0, 0, 0.1]]))
    check_map(map_model("DictVectorizer", STRING, INT64, **words), {"c": 2**40}, np.array([[0, 2**40, 0]]))
    numbers = {"int64_vocabulary": [7, 3, 5]}
    check_map(map_model("DictVectorizer", INT64, FLOAT, **numbers), {5: 0.5, 7: -2.0})
    check_map(map_model("DictVectorizer", INT64, STRING, **numbers), {5: "text"}, np.array([["", "", "text"]], object))
