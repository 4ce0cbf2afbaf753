import sys

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift import build
from onnxlift.build import op


def network(make):
    x = build.input("x", "float32", ["n", 100])
    return build.model([x], {"y": op.Relu(x @ build.parameter("w", (100, 100), make=make))})


def test_weights_are_made_only_when_they_are_needed(tmp_path):
    calls = []

    def make():
        calls.append(1)
        return np.eye(100, dtype=np.float32)

    model = network(make)
    assert not calls
    files = model.save(tmp_path / "model.onnx", external_data="weights.data")
    assert [file.name for file in files] == ["model.onnx", "weights.data"]
    assert len(calls) == 1
    x = np.random.default_rng(0).standard_normal((2, 100)).astype(np.float32)
    np.testing.assert_array_equal(build.inline(tmp_path / "model.onnx").outputs, ["y"])
    assert onnxlift.run(tmp_path / "model.onnx", inputs={"x": x}).outputs["y"].shape == (2, 100)


def test_a_name_is_any_text_that_a_file_can_hold():
    x = build.input("new\nline", "float32", [2])
    proto = build.model([x], {"\u200b é\t": op.Neg(x)}).proto()
    assert (proto.graph.input[0].name, proto.graph.output[0].name) == ("new\nline", "\u200b é\t")
    for name in ("", "\udc80", 3):
        with pytest.raises(build.BuildError, match="cannot be a name"):
            build.input(name, "float32", [2])


def test_a_file_is_replaced_only_if_told(tmp_path):
    model = network(lambda: np.eye(100, dtype=np.float32))
    model.save(tmp_path / "model.onnx")
    with pytest.raises(onnxlift.OutputError):
        model.save(tmp_path / "model.onnx")
    model.save(tmp_path / "model.onnx", force=True)


def test_the_file_is_what_was_asked_for():
    x = build.input("x", "float16", [None, 3])
    model = build.model(
        [x], {"y": op.Neg(x)}, opset=17, ir_version=8, name="net", doc="What it is.", metadata={"author": "me"}
    )
    proto = model.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert (proto.ir_version, proto.graph.name, proto.graph.doc_string) == (8, "net", "What it is.")
    assert [(each.domain, each.version) for each in proto.opset_import] == [("", 17)]
    assert {each.key: each.value for each in proto.metadata_props} == {"author": "me"}
    (size, three) = proto.graph.input[0].type.tensor_type.shape.dim
    assert (size.WhichOneof("value"), three.dim_value) == (None, 3)
    assert onnx.load_from_string(model.to_bytes()) == proto


def test_values_can_be_used_for_several_models():
    x = build.input("x", "float32", ["n", 3])
    inner = op.Relu(x)
    first, second = build.model([x], {"a": inner}), build.model([x], {"b": inner, "c": op.Neg(inner)})
    assert [node.outputs[0].name for node in first.model.graph] == ["a"]
    assert [node.outputs[0].name for node in second.model.graph] == ["b", "c"]
    assert inner.name == "relu"


def test_inputs_constants_and_one_value_twice_can_be_outputs():
    x = build.input("x", "float32", [2])
    y = op.Neg(x)
    model = build.model([x], {"a": x, "b": y, "c": y, "d": build.constant([1.0])})
    found = model(np.array([1, 2], np.float32))
    assert {name: value.tolist() for name, value in found.items()} == {
        "a": [1, 2],
        "b": [-1, -2],
        "c": [-1, -2],
        "d": [1],
    }


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float8e4m3fn", "string", "bool"])
def test_it_runs_with_every_type(kind):
    x = build.input("x", kind, [3])
    model = build.model([x], {"y": op.Identity(x)})
    array = np.array(["a", "b", "c"], object) if kind == "string" else np.array([1, 0, 1]).astype(x.dtype.numpy())
    found = model(x=array)["y"]
    assert found.tolist() == array.tolist()


def test_the_reference_runs_it_where_onnxruntime_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    x = build.input("x", "float32", [2])
    assert build.model([x], {"y": op.Neg(x)})([1.0, 2.0])["y"].tolist() == [-1, -2]


def test_sequences_and_optionals_are_inputs():
    parts = build.input("parts", build.sequence("float32", ["n"]))
    maybe = build.input("maybe", build.optional("float32", ["n"]))
    joined = op.ConcatFromSequence(parts, axis=0)
    model = build.model([parts, maybe], {"y": joined, "has": op.OptionalHasElement(maybe)})
    found = model(parts=[np.ones(2, np.float32), np.zeros(1, np.float32)], maybe=np.ones(1, np.float32))
    assert (found["y"].tolist(), bool(found["has"])) == ([1, 1, 0], True)
