"""Whole models as ONNX Runtime's tools leave them: optimised, and quantised in every way that they offer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

import onnxlift
from models import Example, Inputs, handmade, torch_models
from models.running import assert_close, run_onnxruntime, run_torch

EXAMPLES = {example.name: example for example in (*handmade.EXAMPLES, *torch_models.EXAMPLES)}
OPTIMISED = ["tiny_resnet", "transformer_block", "bert_script", "llama_script"]
ModelFile = Callable[[Example], Path]


def fused_operators(path: Path) -> set[str]:
    nodes = onnx.load(path).graph.node
    return {n.op_type for n in nodes if n.domain or n.op_type == "SimplifiedLayerNormalization"}


def optimise(source: Path, target: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return target


@pytest.mark.parametrize("name", OPTIMISED)
def test_optimised_model_lifts_to_the_same(name: str, model_file: ModelFile, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    original = model_file(example)
    optimised = optimise(original, tmp_path / f"{name}.onnx")
    assert fused_operators(optimised)
    lifted = onnxlift.lift(optimised)
    if name != "tiny_resnet":  # where batch norms have gone into the convolutions
        assert lifted.state_dict.keys() == onnxlift.lift(original).state_dict.keys()
    samples = example.samples()
    for inputs, expected in zip(samples, run_onnxruntime(original, samples), strict=True):
        assert_close(run_torch(lifted.module(), inputs), expected)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: tuple[Inputs, ...]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Inputs | None:
        return next(self._samples, None)


def test_statically_quantised(model_file: ModelFile, tmp_path: Path) -> None:
    """Convolutions and sums of integers: exact but for a rounding here and there."""
    example = EXAMPLES["tiny_resnet"]
    samples = example.samples()
    for quant_format in (QuantFormat.QOperator, QuantFormat.QDQ):
        quantised = tmp_path / f"{quant_format.name}.onnx"
        options = {"quant_format": quant_format, "activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8}
        quantize_static(model_file(example), quantised, Samples(samples), **options)
        _assert_nearly(quantised, samples, 0.03)
    assert "QLinearAdd" in fused_operators(tmp_path / "QOperator.onnx")


def test_dynamically_quantised(model_file: ModelFile, tmp_path: Path) -> None:
    """Unsigned weights: ONNX Runtime's products of unsigned and signed bytes overflow on some processors."""
    for name, operator in (("transformer_block", "DynamicQuantizeMatMul"), ("lstm_classifier", "DynamicQuantizeLSTM")):
        example = EXAMPLES[name]
        quantised = tmp_path / f"{name}.onnx"
        quantize_dynamic(model_file(example), quantised, weight_type=QuantType.QUInt8)
        _assert_nearly(quantised, example.samples(), 0.03)
        optimised = optimise(quantised, tmp_path / f"{name}_optimised.onnx")
        assert operator in fused_operators(optimised)
        _assert_nearly(optimised, example.samples(), 0.03)


@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_of_four_bits(symmetric: bool, model_file: ModelFile, tmp_path: Path) -> None:
    example = EXAMPLES["transformer_block"]
    model = onnx.load(model_file(example))
    quantizer = MatMulNBitsQuantizer(model, block_size=16, is_symmetric=symmetric)
    quantizer.process()
    quantised = tmp_path / "four_bits.onnx"
    quantizer.model.save_model_to_file(str(quantised))
    assert fused_operators(quantised) == {"MatMulNBits"}
    _assert_nearly(quantised, example.samples(), 1e-4)


def _assert_nearly(path: Path, samples: tuple[Inputs, ...], share: float) -> None:
    """The lifted model within a share of the range of what ONNX Runtime gives."""
    module = onnxlift.lift(path).module()
    for inputs, expected in zip(samples, run_onnxruntime(path, samples), strict=True):
        for actual, wanted in zip(run_torch(module, inputs), expected, strict=True):
            assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=share * np.abs(wanted).max())
