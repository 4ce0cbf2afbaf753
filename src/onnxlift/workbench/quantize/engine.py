"""Quantise with onnxruntime.quantization. Called in a child process only: it writes files, prints, and takes memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .calibrating import Ranges
from .recipe import Recipe

LARGEST_RANGE = 1e30
"""Values beyond it are no activations, but stand for infinity, as masks do."""


def op_types_of(recipe: Recipe) -> list[str]:
    """Return the operators to quantise: those that were asked for, or all that ONNX Runtime can quantise."""
    from onnxruntime.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry

    if recipe.op_types:
        return list(recipe.op_types)
    if recipe.mode == "dynamic":
        return sorted(IntegerOpsRegistry)
    return sorted({*QLinearOpsRegistry, *QDQRegistry})


def quantize_file(
    model: Path, result: Path, recipe: Recipe, ranges: Ranges, keep: Collection[str], is_large: bool
) -> None:
    """Quantise the model of one file into another, except for the nodes to `keep`."""
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorData, TensorsData
    from onnxruntime.quantization.onnx_quantizer import ONNXQuantizer
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import QuantizationMode, QuantType, load_model_with_shape_infer

    proto = load_model_with_shape_infer(model)
    _forget_types_of_weights(proto.graph)
    op_types = op_types_of(recipe)
    weights = QuantType.from_string(_engine_type(recipe.weights))
    common = (recipe.per_channel, bool(recipe.reduce_range))
    chosen: tuple[list[str], list[str], list[str]] = ([], sorted(keep), op_types)
    quantizer: Any
    if recipe.mode == "dynamic":
        options = {"MatMulConstBOnly": True}
        mode = QuantizationMode.IntegerOps
        quantizer = ONNXQuantizer(proto, *common, mode, False, weights, QuantType.QUInt8, None, *chosen, options)
    else:
        activations = QuantType.from_string(_engine_type(recipe.activations))
        entries = {
            name: TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))
            for name, (low, high) in ranges.items()
        }
        data = TensorsData(CalibrationMethod.MinMax, entries)
        if recipe.format == "qoperator":
            mode = QuantizationMode.QLinearOps
            quantizer = ONNXQuantizer(proto, *common, mode, True, weights, activations, data, *chosen, {})
        else:
            # ONNX Runtime drops a Relu itself where the range says the same. In the file it stays, to be read.
            options = {"QDQKeepRemovableActivations": True}
            quantizer = QDQQuantizer(proto, *common, weights, activations, data, *chosen, options)
    quantizer.quantize_model()
    quantizer.model.save_model_to_file(str(result), is_large)


def _forget_types_of_weights(graph: onnx.GraphProto) -> None:
    """Remove what is declared of weights: ONNX Runtime's quantiser (1.31) turns matrices round, and keeps that."""
    weights = {tensor.name for tensor in graph.initializer}
    infos = [info for info in graph.value_info if info.name not in weights]
    del graph.value_info[:]
    graph.value_info.extend(infos)


def _engine_type(name: str) -> str:
    """Return ONNX Runtime's name of a type: uint8 is QUInt8."""
    return f"Q{'U' if name.startswith('u') else ''}Int{name.removeprefix('u').removeprefix('int')}"


def out_of_range(model: onnx.ModelProto, ranges: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the nodes that read or write a value which no steps can cover: infinite, or as good as that."""
    wide = {
        name
        for name, bounds in ranges.items()
        if not all(math.isfinite(bound) and abs(bound) <= LARGEST_RANGE for bound in bounds)
    }
    return [node.name for node in model.graph.node if wide.intersection([*node.input, *node.output])]


def saturates() -> bool:
    """Tell whether this processor cuts off sums of products of bytes, by trying it with ONNX Runtime.

    It does if it adds pairs of products in 16 bits: x86 with AVX2 and without VNNI. Weights of 7 bits avoid that."""
    import onnxruntime

    size = 64
    weight = numpy_helper.from_array(np.full((size, size), 127, np.int8), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "products",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [size, size])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [size, size])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"x": np.full((size, size), 255, np.uint8)})
    return not bool((product == 255 * 127 * size).all())
