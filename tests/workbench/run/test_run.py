"""`run` gives what ONNX Runtime, or the lifted module, computes on inputs that are given, from files, or made up."""

from __future__ import annotations

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import onnxlift
from models.handmade import tiny_resnet
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.workbench.runtime.placement import ProviderError

CUSTOM = """<ir_version: 10, opset_import: ["" : 20, "com.acme" : 1]>
custom (float[n, 4] x, bool c) => (float[n, 4] y, float[n, 4] z) {
  a = Exp(x)
  b = com.acme.Times <factor: int = 3> (a)
  y = Sin(b)
  z = If (c) <
    then_branch = yes () => (float[n, 4] t) { t = com.acme.Times(a) },
    else_branch = no () => (float[n, 4] e) { e = Identity(a) }
  >
}"""
OPERATOR = """
from onnx.reference.op_run import OpRun


class Times(OpRun):
    op_domain = "com.acme"

    def _run(self, x, factor=2):
        return (x * factor,)
"""


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((3, 10, 64)).astype(np.float32)


def test_outputs_are_those_of_onnxruntime(x: np.ndarray, tmp_path: Path) -> None:
    report = onnxlift.run(transformer_block(), inputs={"x": x}, outputs=["attn_weights", "output"])
    session = onnxruntime.InferenceSession(transformer_block().SerializeToString())
    np.testing.assert_allclose(report["output"], session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert list(report.outputs) == ["attn_weights", "output"] and report["attn_weights"].shape == (3, 4, 10, 10)
    assert report.passed and report.made_up == ()
    (path,) = report.save(tmp_path / "out.npz")
    with np.load(path) as saved:
        np.testing.assert_array_equal(saved["output"], report["output"])
    with pytest.raises(OutputError, match="already holds"):
        report.save(path)
    assert report.save(path, force=True) == [path]
    assert report.to_bytes() == path.read_bytes()
    json.dumps(report.to_dict())


def test_the_lifted_module_gives_the_same(x: np.ndarray) -> None:
    lifted = onnxlift.run(transformer_block(), inputs=[x], lifted=True, profile=True, runs=2, threads=1)
    report = onnxlift.run(transformer_block(), inputs=[x])
    np.testing.assert_allclose(lifted["output"], report["output"], rtol=1e-3, atol=1e-4)
    assert "PyTorch" in lifted.runtime and lifted.timings is not None
    modules = {name for name, _, _ in lifted.timings.by_module()}
    assert {"Q", "ff1", "ln2"} <= modules
    assert any("addmm" in name for name, _, _ in lifted.timings.by_operator())


def test_inputs_that_are_missing_are_made_up_as_verify_makes_them_up() -> None:
    report = onnxlift.run(transformer_block(), seed=3, dims={"batch": 5})
    assert report.made_up == ("x",) and report.inputs["x"].shape == (5, 10, 64)
    assert "made up (seed 3)" in str(report)


def test_a_profile_has_nodes_operators_and_modules_and_a_trace(tmp_path: Path) -> None:
    shapes = {"x": (1, 3, 224, 224)}
    report = onnxlift.run(tiny_resnet(), shapes=shapes, profile=tmp_path / "trace.json", runs=2, threads=1)
    timings = report.timings
    assert timings is not None and report.written == (tmp_path / "trace.json",)
    assert sum(row.seconds for row in timings.rows) <= timings.total
    assert {"Conv", "MaxPool", "Gemm"} <= {name for name, _, _ in timings.by_operator()}
    assert {row.node for row in timings.rows if row.fused} >= {"stem_out_conv", "layer1a_conv2"}
    assert {name for name, _, _ in timings.by_module()} >= {"layer1a", "layer2b"}  # as lifting finds them
    events = json.loads((tmp_path / "trace.json").read_text())
    assert {"name", "ts", "dur", "ph"} <= events[0].keys()


def test_the_optimised_graph_can_be_had(tmp_path: Path) -> None:
    options = {"graph_optimization_level": "extended", "session.intra_op.allow_spinning": "0"}
    report = onnxlift.run(tiny_resnet(), shapes={"x": (1, 3, 224, 224)}, optimized=tmp_path / "o.onnx", options=options)
    optimised = onnx.load(tmp_path / "o.onnx")
    assert len(optimised.graph.node) < len(tiny_resnet().graph.node)
    assert report.written == (tmp_path / "o.onnx",)
    with pytest.raises(OutputError, match="is there already"):
        onnxlift.run(tiny_resnet(), optimized=tmp_path / "o.onnx")


def test_nodes_that_fall_back_to_the_cpu_are_an_error_that_lists_them() -> None:
    with pytest.raises(ProviderError) as caught:
        onnxlift.run(transformer_block(), providers=["azure"], strict_provider=True)
    assert {node.name for node in caught.value.nodes} >= {"matmul_Q", "layernorm1", "ff2_bias"}
    assert "nodes fell back to the CPU instead of AzureExecutionProvider" in str(caught.value)
    onnxlift.run(transformer_block(), providers=["azure", "cpu"], strict_provider=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"providers": "cuda"}, "has no provider 'cuda'; it has .*cpu"),
        ({"strict_provider": True}, "needs a provider"),
        ({"options": {"enable_profiling": 1}}, "use --profile"),
        ({"options": {"intra_op_num_thread": 1}}, "did you mean intra_op_num_threads"),
        ({"options": {"graph_optimization_level": "most"}}, "one of disable, basic"),
        ({"lifted": True, "providers": "cpu"}, "is for ONNX Runtime"),
        ({"lifted": True, "outputs": "attn_weights"}, "gives the model's outputs"),
        ({"outputs": "attn_weight"}, "did you mean 'attn_weights'"),
        ({"custom_ops": "missing.so"}, "no file 'missing.so'"),
        ({"inputs": {"y": np.zeros(1)}}, "no input named 'y'"),
        ({"inputs": {"x": np.zeros((2, 3), np.float32)}}, "has 3 dimensions"),
        ({"inputs": [__file__]}, "are read from .npy, .npz and .pb files"),
        ({"inputs": ["missing.npz"]}, "cannot read inputs from 'missing.npz'"),
    ],
)
def test_a_wrong_wish_is_one_paragraph(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message):
        onnxlift.run(transformer_block(), **options)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_file_of_inputs_that_is_none_is_not_taken_for_a_pickle(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"junk" * 9)
    with pytest.raises(OnnxLiftError, match=rf"x{suffix}': it is no {suffix} file, or a damaged one\.$"):
        onnxlift.run(transformer_block(), inputs=[path])


def test_operators_in_python_run_in_the_main_graph_and_in_branches(tmp_path: Path) -> None:
    model = parser.parse_model(CUSTOM)
    with pytest.raises(OnnxLiftError, match=r"--custom-op"):
        onnxlift.run(model)
    (tmp_path / "ops.py").write_text(OPERATOR)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    report = onnxlift.run(model, inputs={"x": x, "c": np.array(True)}, custom_ops=tmp_path / "ops.py")
    np.testing.assert_allclose(report["y"], np.sin(3 * np.exp(x)), rtol=1e-5)
    np.testing.assert_allclose(report["z"], 2 * np.exp(x), rtol=1e-5)
    assert "ran 2 nodes" in str(report)


def extensions_library() -> Path:
    """The library of onnxruntime_extensions. To import the package would make protobuf slow in all children of the
    tests after this one: it sets a variable of the environment."""
    spec = find_spec("onnxruntime_extensions")
    assert spec is not None and spec.submodule_search_locations is not None
    (library,) = Path(spec.submodule_search_locations[0]).glob("_extensions_pydll*.so")
    return library


def test_a_library_of_operators_and_operators_that_it_registers_from_python(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.contrib" : 1]>
    g (string[n] x) => (string[n] y) { y = ai.onnx.contrib.StringUpper(x) }"""
    words, library = tmp_path / "words.txt", extensions_library()
    words.write_text("lift\nonnx\n")
    report = onnxlift.run(parser.parse_model(text), inputs=words, custom_ops=library)
    assert report["y"].tolist() == ["LIFT", "ONNX"]
    (tmp_path / "ops.py").write_text(
        "from onnxruntime_extensions import onnx_op, PyCustomOpDef as P\n"
        "@onnx_op(op_type='Thrice', inputs=[P.dt_float], outputs=[P.dt_float])\n"
        "def thrice(x):\n    return x * 3\n"
    )
    text = text.replace("string", "float").replace("StringUpper", "Thrice")
    report = onnxlift.run(parser.parse_model(text), inputs=[np.arange(3.0)], custom_ops=[tmp_path / "ops.py"])
    assert report["y"].tolist() == [0, 3, 6]


def test_external_data_and_nodes_without_names(tmp_path: Path) -> None:
    model = transformer_block()
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=256, location="m.bin")
    report = onnxlift.run(tmp_path / "m.onnx", profile=True, runs=1)
    expected = onnxlift.run(transformer_block())
    np.testing.assert_allclose(report["output"], expected["output"], rtol=1e-5, atol=1e-6)
    assert report.timings is not None and {row.node for row in report.timings.rows} >= {"attn_weights", "attn_out"}


def test_types_that_numpy_lacks_are_saved_as_wider_ones() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[n] x) => (bfloat16[n] y, seq(float[n]) s) {
      y = Cast <to: int = 16> (x) f = Cast <to: int = 1> (y) s = SequenceConstruct(f, f) }"""
    report = onnxlift.run(parser.parse_model(text), dims={"n": 3})
    with np.load(io.BytesIO(report.to_bytes())) as saved:
        assert saved["y"].dtype == np.float32 and set(saved.files) == {"y", "s.0", "s.1"}
        np.testing.assert_array_equal(saved["y"], saved["s.0"])
    assert set(json.loads(report.to_bytes(".json"))) == {"y", "s"}
    with pytest.raises(OutputError, match="holds one array"):
        report.to_bytes(".npy")


def test_a_model_that_takes_too_long_is_stopped() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]> g (int64 n, float[4] x) => (float[4] y) {
      yes = Constant <value = bool {1}> ()
      y = Loop (n, yes, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
        d = Identity(c) w = Sin(v) }> }"""
    with pytest.raises(OnnxLiftError, match=r"did not finish within 2 seconds: raise the limit \(--timeout\)"):
        onnxlift.run(parser.parse_model(text), inputs={"n": np.array(10**12)}, timeout=2)
