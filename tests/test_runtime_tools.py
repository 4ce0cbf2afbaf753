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
from onnxruntime.transformers.optimizer import optimize_model

import onnxlift
from models import Example, Inputs, handmade, torch_models
from models.running import assert_close, run_onnxruntime, run_torch

EXAMPLES = {example.name: example for example in (*handmade.EXAMPLES, *torch_models.EXAMPLES)}
OPTIMISED = ["tiny_resnet", "transformer_block", "bert_script", "llama_script"]
DYNAMIC = ["DynamicQuantizeMatMul", "DynamicQuantizeLSTM", "MatMulIntegerToFloat"]
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


@pytest.mark.parametrize(
    ("name", "model_type"),
    [("bert_script", "bert"), ("gpt2_script", "gpt2"), ("vit_script", "vit"), ("t5_encoder_script", "t5")],
)
def test_model_of_the_transformer_optimiser_lifts_to_the_same(
    name: str, model_type: str, model_file: ModelFile, tmp_path: Path
) -> None:
    example, optimised = EXAMPLES[name], tmp_path / f"{name}.onnx"
    original = model_file(example)
    optimize_model(str(original), model_type, opt_level=1).save_model_to_file(str(optimised))
    assert fused_operators(optimised) & {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
    lifted = onnxlift.lift(optimised)
    assert lifted.state_dict.keys() == onnxlift.lift(original).state_dict.keys()
    samples = example.samples()
    for inputs, expected in zip(samples, run_onnxruntime(original, samples), strict=True):
        assert_close(run_torch(lifted.module(), inputs), expected)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: tuple[Inputs, ...]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Inputs | None:
        return next(self._samples, None)


WAYS: dict[str, dict[str, object]] = {
    "qdq": {"quant_format": QuantFormat.QDQ, "weight_type": QuantType.QUInt8},
    "qdq_by_channel": {"quant_format": QuantFormat.QDQ, "weight_type": QuantType.QInt8, "per_channel": True},
    "integers": {"quant_format": QuantFormat.QOperator, "weight_type": QuantType.QUInt8},
    "integers_by_channel": {"quant_format": QuantFormat.QOperator, "weight_type": QuantType.QInt8, "per_channel": True},
}


def _quantise(source: Path, target: Path, samples: tuple[Inputs, ...], way: str) -> None:
    quantize_static(source, target, Samples(samples), activation_type=QuantType.QUInt8, **WAYS[way])


EXACT = ["mlp_script", "resnet_script", "mobilenet_script", "bert_script", "gpt2_script", "llama_script", "lstm_script"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EXACT)
def test_statically_quantised(name: str, way: str, model_file: ModelFile, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    quantised = tmp_path / f"{way}.onnx"
    _quantise(model_file(example), quantised, example.samples(), way)
    _assert_nearly(quantised, example.samples(), 1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["cnn_script", "unet_script", "vit_script"])
def test_statically_quantised_where_roundings_add_up(
    name: str, way: str, model_file: ModelFile, tmp_path: Path
) -> None:
    """A sum of floats in another order falls on the other side of a half here and there, and the next layers see a
    whole step of difference: ONNX Runtime differs from itself by as much, with and without its optimiser. Each node for
    itself gives the same integers (but for Resize, which ONNX rounds and ONNX Runtime cuts off)."""
    example = EXAMPLES[name]
    quantised = tmp_path / f"{way}.onnx"
    _quantise(model_file(example), quantised, example.samples(), way)
    _assert_nearly(quantised, example.samples(), 0.08)
    _assert_equal_integers(quantised, example.samples()[0])


@pytest.mark.parametrize("weight_type", [QuantType.QUInt8, QuantType.QInt8])
@pytest.mark.parametrize(
    ("name", "operator", "share"),
    [
        ("transformer_block", "DynamicQuantizeMatMul", 1e-5),
        ("bert_script", "DynamicQuantizeMatMul", 1e-5),
        ("gpt2_script", "DynamicQuantizeMatMul", 1e-5),
        ("lstm_classifier", "DynamicQuantizeLSTM", 0.03),  # a rounding of the state is there at all later steps
    ],
)
def test_dynamically_quantised(
    name: str, operator: str, share: float, weight_type: QuantType, model_file: ModelFile, tmp_path: Path
) -> None:
    example = EXAMPLES[name]
    quantised = tmp_path / f"{name}.onnx"
    quantize_dynamic(model_file(example), quantised, weight_type=weight_type)
    _assert_nearly(quantised, example.samples(), share)
    optimised = optimise(quantised, tmp_path / f"{name}_optimised.onnx")
    assert operator in fused_operators(optimised)
    _assert_nearly(optimised, example.samples(), share)


def test_a_quantised_model_reads_like_the_model(model_file: ModelFile, tmp_path: Path) -> None:
    """The same tree, with quantised layers in the place of layers."""
    example, quantised = EXAMPLES["bert_script"], tmp_path / "bert.onnx"
    quantize_dynamic(model_file(example), quantised)
    source, plain = onnxlift.lift(quantised).source, onnxlift.lift(model_file(example)).source
    expected = plain.replace("nn.Linear(", "DynamicQuantizedLinear(").replace("nn.Embedding(", "QuantizedEmbedding(")
    for line in expected[expected.index("class Self") : expected.index("WEIGHTS")].splitlines():
        assert line in source or "class Bert" in line or "def load" in line


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_products_of_bytes_are_exact(dtype: type) -> None:
    """Also of the largest, which ONNX Runtime adds up in 16 bits on processors without VNNI."""
    random, largest = np.random.default_rng(0), np.iinfo(dtype).max
    a = random.integers(200, 256, (3, 64)).astype(np.uint8)
    b = random.integers(90, largest + 1, (64, 5)).astype(dtype)
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (uint8[3, 64] a) => (int32[3, 5] y) { y = MatMulInteger(a, b) }'
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(b, "b"))
    (actual,) = run_torch(onnxlift.lift(model).module(), {"a": a})
    np.testing.assert_array_equal(actual, a.astype(np.int64) @ b.astype(np.int64))


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


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime with products of bytes that do not overflow, which is one of its rewrites: so that models whose
    operators are on integers are optimised, and all others run as they are written."""
    multiplies = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QGemm", *DYNAMIC}
    on_integers = any(node.op_type in multiplies for node in model.graph.node)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if on_integers else levels.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _assert_nearly(path: Path, samples: tuple[Inputs, ...], share: float) -> None:
    """The lifted model within a share of the range of what ONNX Runtime gives."""
    module, session = onnxlift.lift(path).module(), _session(onnx.load(path))
    for inputs in samples:
        for actual, wanted in zip(run_torch(module, inputs), session.run(None, inputs), strict=True):
            assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=share * np.abs(wanted).max())


def _assert_equal_integers(path: Path, inputs: Inputs) -> None:
    """Each node that gives bytes, with the inputs that it has in ONNX Runtime, gives the same bytes."""
    model = onnx.load(path)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in list(model.graph.node):
        if node.op_type == "Constant":
            constants[node.output[0]] = node.attribute[0].t
            constants[node.output[0]].name = node.output[0]
            model.graph.node.remove(node)
    names = [name for node in model.graph.node for name in node.output]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.initializer.extend(
        t for n, t in constants.items() if n not in {t.name for t in model.graph.initializer}
    )
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    values = {**inputs, **dict(zip(names, _session(watched).run(None, inputs), strict=True))}
    for node in model.graph.node:
        if values[node.output[0]].dtype not in (np.uint8, np.int8) or node.op_type == "Resize":
            continue
        feeds = {name: values[name] for name in dict.fromkeys(node.input) if name in values}
        infos = [onnx.helper.make_tensor_value_info(n, element(a), a.shape) for n, a in feeds.items()]
        own = [constants[name] for name in dict.fromkeys(node.input) if name in constants]
        graph = onnx.helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=node.output[0])], own)
        alone = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        (expected,) = _session(alone).run(None, feeds)
        (actual,) = run_torch(onnxlift.lift(alone).module(), feeds)
        steps = np.abs(actual.astype(np.int32) - expected)
        assert steps.max(initial=0) <= 1 and (steps > 0).mean() < 1e-3, f"{node.op_type} {node.name}"


def element(array: np.ndarray) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
