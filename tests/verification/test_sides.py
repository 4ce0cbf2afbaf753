"""Each side on its own, in this process: what runs the ONNX model, and how the lifted source is watched."""

from __future__ import annotations

import ast
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxlift
from onnxlift.verification.candidate import load_candidate
from onnxlift.verification.locate import match_lines, probes_of
from onnxlift.verification.model_file import model_file
from onnxlift.verification.reference import run_reference


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def chain() -> onnx.ModelProto:
    return parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ a = Sin(x) b = Mul(a, x) c = Exp(b) y = Div(c, a) }"
    )


X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnx.reference"])
def test_values_inside_the_model(runtime: str, tmp_path: Path) -> None:
    name, values = run_reference(saved(chain(), tmp_path), tmp_path, {"x": X}, ["y"], ["a", "c"], runtime)
    assert name.replace(" ", "").lower().startswith(runtime)
    np.testing.assert_allclose(values["a"], np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(values["c"], np.exp(np.sin(X) * X), rtol=1e-5)


def test_external_data_is_found_when_values_inside_are_wanted(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { a = Mul(x, w) y = Sin(a) }'
    )
    weight = np.arange(1, 5, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    for runtime in ("onnxruntime", "onnx.reference"):
        _, values = run_reference(tmp_path / "m.onnx", tmp_path, {"x": X}, ["y"], ["a"], runtime)
        np.testing.assert_allclose(values["a"], X * weight, rtol=1e-6)


BYTES = np.random.default_rng(0).integers(200, 256, (4, 64)).astype(np.uint8)
WEIGHT = np.random.default_rng(1).integers(90, 128, (64, 5)).astype(np.int8)


def products(weight: np.ndarray = WEIGHT) -> onnx.ModelProto:
    """Products of the same weight, with and without a zero point, whose sums in pairs do not fit into 16 bits."""
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (uint8[4, 64] x) => (int32[4, 5] y, uint8[4, 5] z, int32[4, 5] v) '
        "{ y = MatMulInteger(x, w) v = MatMulInteger(x, w, , zero_w) "
        "z = QLinearMatMul(x, s, zero, w, s, zero_w, t, zero) }"
    )
    constants = {"s": np.float32(0.1), "t": np.float32(100), "zero": np.uint8(0), "zero_w": weight.dtype.type(3)}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(c), k) for k, c in {**constants, "w": weight}.items()
    )
    return model


@pytest.mark.parametrize("weight", [WEIGHT, WEIGHT.astype(np.uint8)], ids=["signed", "unsigned"])
def test_exact_products_of_bytes(weight: np.ndarray, tmp_path: Path) -> None:
    path = saved(products(weight), tmp_path)
    name, values = run_reference(path, tmp_path, {"x": BYTES}, ["y", "z", "v"], [], "onnxruntime", exact=True)
    assert "exact products" in name
    exact = BYTES.astype(np.int32) @ (weight.astype(np.int32) - 3)
    np.testing.assert_array_equal(values["y"], BYTES.astype(np.int32) @ weight.astype(np.int32))
    np.testing.assert_array_equal(values["v"], exact)
    np.testing.assert_array_equal(values["z"], np.rint(exact * 0.1 * 0.1 / 100))


def test_saturated_products_are_not_held_against_the_lifted_model() -> None:
    """On a processor that has no such products, ONNX Runtime is right at once."""
    report = onnxlift.verify(products(), inputs={"x": BYTES})
    assert report.passed, report


@pytest.mark.parametrize("runtime", ["onnxruntime", "onnx.reference"])
def test_a_cache_of_linked_files(runtime: str, tmp_path: Path) -> None:
    """As Hugging Face has it: names in one folder are links to files in another."""
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Mul(x, w) }'
    )
    weight = np.arange(1, 5, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    (tmp_path / "blobs").mkdir()
    (tmp_path / "names").mkdir()
    (tmp_path / "job").mkdir()
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="model.data", size_threshold=0)
    for name in ("model.onnx", "model.data"):
        (tmp_path / name).rename(tmp_path / "blobs" / f"hash_of_{name}")
        (tmp_path / "names" / name).symlink_to(Path("../blobs") / f"hash_of_{name}")
    path = tmp_path / "names" / "model.onnx"
    found = model_file(path, onnxlift.lift(path).data_files(), tmp_path / "job")
    _, values = run_reference(found.path, found.folder, {"x": X}, ["y"], [], runtime)
    np.testing.assert_allclose(values["y"], X * weight, rtol=1e-6)


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4"])
def test_types_that_numpy_lacks(name: str, tmp_path: Path) -> None:
    element = getattr(TensorProto, name)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", element, [4])],
        [helper.make_tensor_value_info("y", element, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.array([1, 2, -3, 4]).astype(helper.tensor_dtype_to_np_dtype(element))
    runtime, values = run_reference(saved(model, tmp_path), tmp_path, {"x": x}, ["y"], [], "")
    np.testing.assert_array_equal(values["y"], x)
    assert values["y"].dtype == x.dtype
    assert ("does not take the model" in runtime) == (name == "INT4")


def test_probes_record_what_statements_assign(tmp_path: Path) -> None:
    lifted = onnxlift.lift(chain(), name="chain")
    source = lifted.save(tmp_path)[0]
    probes = probes_of(lifted.source_map, match_lines(lifted.source, lifted.source), {"a", "b", "c"})
    values = load_candidate(source, probes).run({"x": X}, ["y"])
    _, expected = run_reference(saved(chain(), tmp_path), tmp_path, {"x": X}, ["y"], ["a", "b", "c"], "onnxruntime")
    assert set(values) > {"y"}, "nothing was recorded"
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4)


def test_strings_and_odd_types_reach_the_module(tmp_path: Path) -> None:
    source = tmp_path / "odd.py"
    source.write_text("def load():\n    return lambda text, half: (text, [half, half + 1])\n".replace(
        "return lambda", "from torch import nn\n    m = nn.Identity()\n    m.forward = lambda"
    ) + "    return m\n")  # fmt: skip
    text, half = np.array(["a"], dtype=object), np.array([1.5]).astype(ml_dtypes.bfloat16)
    values = load_candidate(source).run({"text": text, "half": half}, ["t", "s"])
    assert values["t"].tolist() == ["a"]
    assert values["s"][1].dtype == half.dtype and float(values["s"][1][0]) == 2.5


def test_lines_of_an_edited_file() -> None:
    before = "a\nb\nc\nd\ne"
    assert match_lines(before, before)[3] == 3
    edited = match_lines(before, "# note\na\nB\nc\ne")  # a line more, one changed, one less
    assert edited == {1: 2, 2: 3, 3: 4, 5: 5}


def test_instrumented_source_is_still_valid() -> None:
    from onnxlift.verification.candidate import instrument

    tree = ast.parse(
        "class M:\n    def forward(self, x):\n        a, (_, b) = f(x)\n        self.y = a\n        return a + b"
    )
    instrument(tree, {"3": {"": ["p", None, "q"]}, "4": {"": ["r"]}, "5": {"": ["s"]}})
    text = ast.unparse(tree)
    assert "_onnxlift_probe(self, '3', (a, _, b))" in text
    assert "return _onnxlift_probe(self, '5', a + b)" in text
    assert text.count("_onnxlift_probe") == 2
