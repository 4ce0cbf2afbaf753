"""Small models written as text: what idioms find in them, and whether the lifted module gives the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import torch
from onnx import numpy_helper

import onnxlift
from onnxlift.ir.load import load
from rewriting.running_stages import normalise, recognise, simplify

Array = np.ndarray[Any, Any]
Data = Array | tuple[int, ...] | float
SIZES = ({"batch": 2, "seq": 5, "keys": 5}, {"batch": 3, "seq": 4, "keys": 7})


def parse(text: str, opset: int = 18, **initialisers: Data) -> onnx.ModelProto:
    """A model from ONNX's text format without its header. An initialiser is an array, a number, or the shape of a
    random one."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')
    random = np.random.default_rng(7)
    for name, data in initialisers.items():
        array = random.standard_normal(data).astype(np.float32) if isinstance(data, tuple) else np.asarray(data)
        if array.dtype == np.float64 and not isinstance(data, np.ndarray):
            array = array.astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def simplified(model: onnx.ModelProto, *skip: str) -> ir.Model:
    """The graph in which idioms are recognised, and then are."""
    graph = load(model)
    normalise(graph)
    simplify(graph)
    recognise(graph, skip)
    return graph


def found(model: onnx.ModelProto, *, rtol: float = 1e-4, atol: float = 1e-5) -> list[str]:
    """The operators after recognition, ours as `onnxlift.Linear`. The lifted module must give ONNX Runtime's numbers,
    for sizes of two kinds, and have the model's outputs."""
    assert_same_numbers(model, rtol, atol)
    graph = simplified(model)
    assert [value.name for value in graph.graph.outputs] == [value.name for value in model.graph.output]
    return [f"{node.domain}.{node.op_type}".lstrip(".") for node in graph.graph]


def assert_same_numbers(model: onnx.ModelProto, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    options = onnxruntime.SessionOptions()  # as the model says: its own fusions quantise more than was asked for
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    lifted = onnxlift.lift(model)
    module = lifted.module()
    for seed, sizes in enumerate(SIZES):
        feeds = random_inputs(model, sizes, seed)
        with torch.no_grad():
            outputs = module(*(torch.from_numpy(array) for array in feeds.values()))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        for actual, expected in zip(outputs, session.run(None, feeds), strict=True):
            numbers = actual.detach().numpy()
            assert numbers.dtype == expected.dtype
            np.testing.assert_allclose(numbers, expected, rtol=rtol, atol=atol, err_msg=lifted.source)


def random_inputs(model: onnx.ModelProto, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Inputs of the declared shapes: normal floats, integers below 5, and booleans of which each row has one True."""
    random = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            feeds[value.name] = np.asarray(random.standard_normal(shape)).astype(dtype)
        elif dtype.kind == "b":
            feeds[value.name] = random.random(shape) < 0.6
            feeds[value.name][..., 0] = True
        else:
            feeds[value.name] = random.integers(0, 5, shape).astype(dtype)
    return feeds
