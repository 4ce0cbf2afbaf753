"""The verb from end to end: children, modes, targets, errors, and what lifts from it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from onnxlift.workbench.quantize import QuantizeReport
from workbench.running import model_of, operators, outputs_of

from .networks import convnet, normal, perceptron, samples, sqnr


def mean_sqnr(model: onnx.ModelProto, result: onnx.ModelProto, feeds: list[dict[str, Any]]) -> float:
    pairs = [(outputs_of(model, each)[0], outputs_of(result, each)[0]) for each in feeds]
    return sqnr(np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]))


@pytest.fixture(scope="module")
def static() -> QuantizeReport:
    return onnxlift.quantize(convnet(), calibrate=samples())


def test_static(static: QuantizeReport) -> None:
    model, result = convnet(), static.proto()
    onnx.checker.check_model(result, full_check=True)
    assert static.passed and static.recipe.mode == "static" and static.samples == static.measured_on == 4
    assert operators(result).count("QuantizeLinear") > 4 and "Relu" in operators(result)
    assert list(result.graph.input) == list(model.graph.input) and list(result.graph.output) == list(model.graph.output)
    assert result.producer_name == model.producer_name and not result.metadata_props
    (output,) = static.outputs
    assert output.sqnr == pytest.approx(mean_sqnr(model, result, samples()), abs=0.5)
    assert static.sqnr == output.sqnr and 20 < output.sqnr < 60
    assert static.speed is not None and static.speed.runs >= 5
    assert static.bytes_after < static.bytes_before


def test_the_noise_of_a_layer_by_itself_is_less_than_what_has_come_together(static: QuantizeReport) -> None:
    rows = {layer.op_type: layer for layer in static.layers}
    assert {"Conv", "Gemm", "Relu"} <= rows.keys() and not static.kept
    last = rows["Gemm"]
    assert last.own is not None and last.total is not None and static.outputs[0].sqnr is not None
    assert last.own.sqnr is not None and last.own.sqnr > last.total.sqnr
    first = static.layers[0]
    assert first.own is not None and first.total is not None
    assert first.own.sqnr == pytest.approx(first.total.sqnr, abs=0.1), "nothing has come together yet"


def test_the_report_is_plain_data_and_readable(static: QuantizeReport) -> None:
    data = json.loads(json.dumps(static.to_dict(), allow_nan=False))
    assert data["passed"] and data["outputs"][0]["passed"] and data["layers"][0]["own"]["sqnr"] > 0
    text = str(static)
    for line in ("static QDQ, int8 weights per channel", "ranges from    4 samples", "the noisiest", "times as fast"):
        assert line in text


def assert_lifts(report: QuantizeReport, feeds: dict[str, Any]) -> str:
    """Lift the result, run it, and hold that it computes what ONNX Runtime does. Return the source."""
    lifted = onnxlift.lift(report)
    actual = lifted.module()(*(torch.from_numpy(value) for value in feeds.values()))
    (expected,) = outputs_of(report.proto(), feeds)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-3, atol=1e-3)
    return lifted.source


def test_the_result_lifts_to_quantised_layers_that_match(static: QuantizeReport) -> None:
    source = assert_lifts(static, samples(1)[0])
    assert source.count("= QuantizedConv2d(") == 2 and "= QuantizedLinear(" in source


def test_a_report_goes_into_another_verb(static: QuantizeReport, tmp_path: Path) -> None:
    simpler = onnxlift.simplify(static, verify=False)
    assert mean_sqnr(static.proto(), simpler.proto(), samples()) > 60
    assert static.save(tmp_path / "small.onnx") == [tmp_path / "small.onnx"]


def test_a_model_without_anything_to_quantise_is_an_error() -> None:
    with pytest.raises(onnxlift.OnnxLiftError, match="there is nothing in the model that could be quantised"):
        onnxlift.quantize(model_of("(float[n] x) => (float[n] y) { y = Exp(x) }"), verify=False)


def test_small_weights_are_told_to_be_small() -> None:
    small = model_of("(float[n, 2] x) => (float[n, 1] y) <float[2, 1] w = {1, 2}> { y = MatMul(x, w) }")
    with pytest.raises(onnxlift.OnnxLiftError, match="constant weights of 1,024 numbers or more in float32"):
        onnxlift.quantize(small, mode="weights", verify=False)


def test_qoperator_is_measured_like_qdq() -> None:
    report = onnxlift.quantize(convnet(), calibrate=samples(), format="qoperator", speed=False)
    assert {"QLinearConv", "QGemm"} <= set(operators(report.proto())) and report.passed
    assert {layer.op_type for layer in report.layers} >= {"Conv", "Gemm"}
    assert report.outputs[0].sqnr == pytest.approx(mean_sqnr(convnet(), report.proto(), samples()), abs=0.5)


def test_a_target_keeps_what_is_noisy(static: QuantizeReport) -> None:
    assert static.sqnr is not None
    report = onnxlift.quantize(convnet(), calibrate=samples(), target_sqnr=static.sqnr + 1, speed=False)
    assert report.passed and report.sqnr is not None and report.sqnr >= static.sqnr + 1
    assert 0 < len(report.kept) < len(static.layers) and all(layer.kept == "for the target" for layer in report.kept)
    assert all(layer.own is not None for layer in report.kept), "the noise that they would have added"
    assert report.probes[0] == (0, pytest.approx(static.sqnr, abs=1e-3)) and len(report.probes) < 8
    assert {"Conv", "Relu"} & {layer.op_type for layer in report.kept}


def test_a_target_that_nothing_reaches_is_an_error() -> None:
    model = model_of("(float[n, 40] x) => (float[n, 40] y) { y = MatMul(x, w) }", {"w": normal(40, 40)})
    feeds = [{"x": normal(4, 40)}]
    with pytest.raises(onnxlift.OnnxLiftError, match=r"no node can be quantised if every output must have 300 dB"):
        onnxlift.quantize(model, mode="weights", calibrate=feeds, target_sqnr=300, speed=False)


@pytest.mark.parametrize(("bits", "layer"), [(8, "= QuantizedLinear("), (4, "= BlockQuantizedLinear(")])
def test_weights_only(bits: int, layer: str) -> None:
    model = perceptron()
    feeds = {"ids": np.arange(10, dtype=np.int64).reshape(2, 5)}
    report = onnxlift.quantize(model, mode="weights", bits=bits, inputs=feeds, speed=False)
    assert report.passed and not report.made_up and report.measured_on == 1
    # ONNX Runtime may compute with integers where it optimises, so that there is a little more noise.
    assert report.sqnr == pytest.approx(mean_sqnr(model, report.proto(), [feeds]), abs=2)
    assert report.bytes_before / report.bytes_after > (3 if bits == 8 else 1.5)
    assert assert_lifts(report, feeds).count(layer) == 2


def test_dynamic_measured_on_what_is_made_up() -> None:
    report = onnxlift.quantize(convnet(), dims={"batch": 2}, speed=False)
    assert report.recipe.mode == "dynamic" and report.made_up and report.passed
    assert "ConvInteger" in operators(report.proto()) and "made-up inputs, not real samples" in str(report)


@pytest.mark.parametrize("mode", ["float16", "bfloat16"])
def test_halves_are_kept_from_overflowing(mode: str) -> None:
    model = model_of(
        "(float[n, 40] x) => (float[n, 40] y) { a = MatMul(x, w) b = Mul(a, big) c = Div(b, big) y = MatMul(c, w) }",
        {"w": normal(40, 40), "big": np.array(1e4, np.float32)},
    )
    report = onnxlift.quantize(model, mode=mode, calibrate=[{"x": normal(4, 40)}], speed=False)
    kept = {layer.op_type: layer.kept for layer in report.kept}
    assert kept == (dict.fromkeys(("Mul", "Div"), "its numbers do not fit into float16") if mode == "float16" else {})
    assert report.passed and report.sqnr is not None and report.sqnr > (50 if mode == "float16" else 30)


def test_whole_numbers_of_an_output_are_counted() -> None:
    model = model_of(
        "(float[n, 40] x) => (int64[n] best, float[n, 40] y) "
        "{ y = MatMul(x, w) best = ArgMax <axis = 1, keepdims = 0> (y) }",
        {"w": normal(40, 40)},
    )
    report = onnxlift.quantize(model, mode="weights", calibrate=[{"x": normal(16, 40)}], speed=False)
    best, values = report.outputs
    assert best.whole and best.equal is not None and best.equal >= 0.9 and not values.whole and report.passed
    assert not values.reaches(90), "it has some noise"


def test_a_bias_with_an_axis_more_and_old_opsets_are_taken() -> None:
    body = "(float[n, 40] x) => (float[n, 40] y) { a = Gemm(x, w, b) y = Relu(a) }"
    model = model_of(body, {"w": normal(40, 40), "b": normal(1, 40)}, opset=11)
    feeds = [{"x": normal(4, 40)}]
    report = onnxlift.quantize(model, calibrate=feeds, verify=False)
    assert report.notes == ("the opset is 13 now, and was 11: this form of quantisation needs it",)
    assert mean_sqnr(model, report.proto(), feeds) > 25


def test_a_model_that_declares_its_weights_is_quantised() -> None:
    """PyTorch's exporter writes the shape of a weight beside it, and the quantiser turns the matrix of a Gemm."""
    model = convnet()
    for name in ("w1", "w3"):
        shape = next(tensor.dims for tensor in model.graph.initializer if tensor.name == name)
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    report = onnxlift.quantize(model, mode="dynamic", speed=False, verify=False)
    assert "MatMulInteger" in operators(report.proto())


def test_nothing_is_measured_if_nobody_asks() -> None:
    report = onnxlift.quantize(convnet(), calibrate=samples(), verify=False, keep=["*Gemm*"])
    assert report.passed and report.outputs == () and report.speed is None
    assert [layer.kept for layer in report.kept] == ["you asked for it"] and "Gemm" in operators(report.proto())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "statical"}, "'statical' is no mode: choose one of dynamic, static, weights, float16, bfloat16"),
        ({"mode": "static"}, "static quantisation needs samples to find the ranges"),
        ({"bits": 4}, "4 bits are for weights only"),
        ({"bits": 3, "mode": "weights"}, "3 is no bits: choose one of 8, 4"),
        ({"activations": "int16"}, "types of 16 bits are for the mode static"),
        ({"activations": "int8", "weights": "uint8"}, "no products of int8 activations and uint8 weights"),
        ({"percentile": 3.0}, "3 is no percentile"),
        ({"rtol": 0.1}, "judged by its SQNR, not by tolerances"),
        ({"target_sqnr": 20.0, "verify": False}, "a target needs measuring"),
        ({"keep": ["Konv"]}, "no node of the model is named 'Konv'"),
        ({"calibrate": "nowhere"}, "there are no samples at 'nowhere'"),
        ({"memory": "100MB"}, "takes about 300.0 MB of memory for a model of .* and may take 100.0 MB"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a child was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(onnxlift.OnnxLiftError, match=message):
        onnxlift.quantize(convnet(), **options)


def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text("import numpy as np\n\n\ndef samples():\n    yield {'x': np.load('/nowhere/x.npy')}\n")
    with pytest.raises(onnxlift.OnnxLiftError, match=r"own.py' failed in line 5: FileNotFoundError: .*nowhere"):
        onnxlift.quantize(convnet(), calibrate=script)


def test_samples_of_a_wrong_shape_are_told_with_their_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x=normal(2, 3, 8, 8))
    np.savez(tmp_path / "1.npz", x=normal(2, 4, 8, 8))
    with pytest.raises(onnxlift.OnnxLiftError, match=r"1.npz': input 'x' is declared as \(\?, 3, 8, 8\), which \(2, 4"):
        onnxlift.quantize(convnet(), calibrate=tmp_path)


def test_a_weight_that_is_not_finite_is_told() -> None:
    model = convnet()
    model.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.full((16, 16, 3, 3), np.nan, np.float32), "w2"))
    with pytest.raises(onnxlift.OnnxLiftError) as caught:
        onnxlift.quantize(model, mode="weights", verify=False).to_bytes()
    assert "the weight" in str(caught.value) and "not finite: keep its node (--keep NODE)" in str(caught.value)


def test_a_model_with_external_data_is_quantised_weight_by_weight(tmp_path: Path) -> None:
    onnx.save(perceptron(), tmp_path / "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    report = onnxlift.quantize(tmp_path / "big.onnx", mode="weights", verify=False)
    files = report.save(tmp_path / "small.onnx", external_data="small.data")
    assert [file.name for file in files] == ["small.onnx", "small.data"]
    feeds = {"ids": np.arange(10, dtype=np.int64).reshape(2, 5)}
    assert mean_sqnr(perceptron(), onnx.load(tmp_path / "small.onnx"), [feeds]) > 30
