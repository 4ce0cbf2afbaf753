"""`onnxlift convert --dequantize`: the model of floats, its noise in the report and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from cli.conftest import Run
from rewriting.idioms.recognising import parse

RANDOM = np.random.default_rng(2)


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    text = """g (float[batch, 6] x) => (float[batch, 4] y) {
        ["/act/QuantizeLinear"] q = QuantizeLinear(x, s, z) p = DequantizeLinear(q, s, z)
        d = DequantizeLinear <axis = 0> ("fc.weight_quantized", w) ["/fc/Gemm"] y = Gemm <transB = 1> (p, d)
    }"""
    weight = RANDOM.integers(-120, 120, (4, 6)).astype(np.int8)
    steps = {"s": np.float32(0.05), "z": np.uint8(128), "w": np.full(4, 0.01, np.float32)}
    path = tmp_path / "small.onnx"
    onnx.save(parse(text, 18, **{"fc.weight_quantized": weight}, **{k: np.asarray(v) for k, v in steps.items()}), path)
    return path


def test_the_source_has_layers_of_floats_and_the_report_tells_the_noise(
    quantised: Path, tmp_path: Path, run: Run
) -> None:
    code, output, _ = run("convert", str(quantised), "-o", str(tmp_path / "out"), "--dequantize")
    source = (tmp_path / "out" / "small.py").read_text()
    assert code == 0
    assert "nn.Linear(6, 4, bias=False)" in source and "quant" not in source.partition("class Small")[2]
    assert "dequantised    1 weight with " in output and "1 rounding of values dropped" in output


def test_json_has_the_noise_of_weights_and_of_outputs(quantised: Path, tmp_path: Path, run: Run) -> None:
    code, output, _ = run("convert", str(quantised), "-o", str(tmp_path / "out"), "--dequantize", "--verify", "--json")
    data = json.loads(output)["data"]
    noise = data["report"]["dequantised"]
    assert code == 0 and data["verification"] is None
    assert (noise["weights"], noise["noisiest"], noise["roundings_dropped"]) == (1, "fc.weight", 1)
    assert 30 < noise["sqnr"] < 60 and data["noise"]["y"] > 20


def test_outputs_that_are_compared_are_printed(quantised: Path, tmp_path: Path, run: Run) -> None:
    _, output, _ = run("convert", str(quantised), "-o", str(tmp_path / "out"), "--dequantize", "--verify")
    assert "noise of y: " in output and "dB of signal to noise" in output


def test_a_model_of_floats_says_that_nothing_was_quantised(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "floats.onnx"
    onnx.save(parse("g (float[batch, 6] x) => (float[batch, 6] y) { y = Tanh(x) }"), path)
    code, output, _ = run("convert", str(path), "-o", str(tmp_path / "out"), "--dequantize")
    assert code == 0 and "nothing: the model is not quantised" in output
