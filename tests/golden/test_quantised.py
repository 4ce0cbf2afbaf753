"""Quantised models as a whole: the source that people read, exactly ONNX Runtime's numbers, and the model of floats.

The sources are in `quantised/`; `pytest tests/golden/test_quantised.py --update-golden` rewrites them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxlift
from models import Example
from models.every import EXAMPLES
from models.running import assert_close, run_onnxruntime, run_torch

SOURCES = Path(__file__).parent / "quantised"
BY_NAME = {example.name: example for example in EXAMPLES}
CALIBRATED: dict[str, dict[str, Any]] = {
    "cnn_qdq": {"format": "qdq"},
    "cnn_qoperator": {"format": "qoperator"},
}
WEIGHTS: dict[str, dict[str, Any]] = {
    "transformer_4_bits": {"mode": "weights", "bits": 4},
    "transformer_4_bits_qdq": {"mode": "weights", "bits": 4, "format": "qdq"},
    "transformer_dynamic": {"mode": "dynamic"},
}
NAMES = (*CALIBRATED, *WEIGHTS, "transformer_home_made")
LEAST = {"transformer_4_bits": 10.0, "transformer_4_bits_qdq": 10.0, "cnn_qdq": 12.0, "cnn_qoperator": 12.0}
"""The signal to noise ratio, in decibels, that the model of floats has at least; 25 where nothing is said."""


def example_of(name: str) -> Example:
    return BY_NAME["resnet_script" if name.startswith("cnn") else "bert_script"]


def home_made(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store every matrix that a MatMul multiplies with in bytes, in front of it a Cast and a Mul."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        tensor = tensors.get(node.input[1]) if node.op_type == "MatMul" else None
        if tensor is not None:
            array = numpy_helper.to_array(tensor)
            scale = (np.abs(array).max(0, keepdims=True) / 127).astype(np.float32)
            name, numbers = tensor.name, np.round(array / scale).astype(np.int8)
            tensor.CopyFrom(numpy_helper.from_array(numbers, name))
            model.graph.initializer.append(numpy_helper.from_array(scale, f"{name}_s"))
            nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], name=f"{node.name}_cast", to=1))
            nodes.append(helper.make_node("Mul", [f"{name}_f", f"{name}_s"], [f"{name}_w"], name=f"{node.name}_mul"))
            node.input[1] = f"{name}_w"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


@pytest.fixture(scope="module", params=NAMES)
def quantised(
    request: pytest.FixtureRequest, model_file: Callable[[Example], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    name, path = request.param, tmp_path_factory.mktemp("quantised") / f"{request.param}.onnx"
    example = example_of(name)
    if name.endswith("home_made"):
        onnx.save(home_made(onnx.load(model_file(example))), path)
        return name, path
    options = {**CALIBRATED, **WEIGHTS}[name]
    samples = {"calibrate": [*example.samples()]} if name in CALIBRATED else {}
    onnxlift.quantize(model_file(example), verify=False, speed=False, **samples, **options).save(path)
    return name, path


@pytest.fixture(scope="module")
def floats(quantised: tuple[str, Path]) -> onnxlift.Lifted:
    name, path = quantised
    return onnxlift.lift(path, name=name, dequantize=True)


def assert_golden(source: str, name: str, request: pytest.FixtureRequest) -> None:
    golden = SOURCES / f"{name}.py"
    if request.config.getoption("--update-golden"):
        golden.write_text(source, encoding="utf-8")
    assert golden.exists(), f"no {golden.name} yet: run pytest with --update-golden, and read what it writes"
    assert source == golden.read_text(encoding="utf-8")


def test_source_is_the_golden_one(quantised: tuple[str, Path], request: pytest.FixtureRequest) -> None:
    name, path = quantised
    assert_golden(onnxlift.lift(path, name=name).source, name, request)


def test_source_of_floats_is_the_golden_one(
    quantised: tuple[str, Path], floats: onnxlift.Lifted, request: pytest.FixtureRequest
) -> None:
    assert_golden(floats.source, f"{quantised[0]}_dequantized", request)


def test_the_lifted_model_is_verified(quantised: tuple[str, Path]) -> None:
    assert onnxlift.verify(quantised[1], gradients=False).passed


def test_floats_are_near_the_quantised_model_and_all_of_them_are_trained(
    quantised: tuple[str, Path], floats: onnxlift.Lifted
) -> None:
    name, path = quantised
    samples = example_of(name).samples()
    module = floats.module()
    for inputs, outputs in zip(samples, run_onnxruntime(path, samples), strict=True):
        for actual, expected in zip(run_torch(module, inputs), outputs, strict=True):
            noise = np.square(actual - expected).sum() / np.square(expected).sum()
            assert -10 * np.log10(noise) > LEAST.get(name, 25.0)
    assert not any(key.endswith(("scale", "scales", "zero_point")) for key in floats.state_dict)
    assert all(tensor.dtype.kind == "f" for key, tensor in floats.state_dict.items() if key.endswith("weight"))


def test_the_report_tells_the_noise(floats: onnxlift.Lifted) -> None:
    noise = floats.report.to_dict()["dequantised"]
    assert noise["weights"] > 0 and noise["sqnr"] > 10
    assert noise["noisiest"] in floats.state_dict and noise["noisiest_sqnr"] <= noise["sqnr"] + 1e-9
    assert f"{noise['sqnr']:g} dB of signal to quantisation noise" in str(floats.report).replace("\n" + " " * 17, " ")


def test_numbers_that_were_not_quantised_are_those_of_the_original(model_file: Callable[[Example], Path]) -> None:
    """Nothing changes in a model without integers, but the report says so."""
    example = example_of("transformer")
    lifted = onnxlift.lift(model_file(example), dequantize=True)
    assert "nothing: the model is not quantised" in str(lifted.report)
    inputs = example.samples()[1]
    assert_close(run_torch(lifted.module(), inputs), run_onnxruntime(model_file(example), (inputs,))[0])
