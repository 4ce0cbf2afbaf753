"""Small models written as text, run before and after passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from onnxlift.rewriting.normal_form import dead_code
from rewriting.running_stages import normalise

Array = np.ndarray[Any, Any]


def parse(text: str, opset: int = 18) -> onnx.ModelProto:
    """A model from ONNX's text format, without its header."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]>\n{text}')


def with_tensors(text: str, **tensors: Array) -> onnx.ModelProto:
    """The same with weights."""
    model = parse(text)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in tensors.items())
    return model


def random(*shape: int) -> Array:
    """The same numbers every time."""
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def normal_form(proto: onnx.ModelProto) -> ir.Model:
    """The model in normal form, but with its functions."""
    model = ir.from_proto(proto)
    normalise(model, keep=lambda domain, name: True)
    return model


def operators(model: ir.Model) -> list[str]:
    """The operators of the main graph, in order."""
    return [node.op_type for node in model.graph]


def proto_of(model: ir.Model) -> onnx.ModelProto:
    """A file that others can run: tensors under the names of their values, constants of functions as nodes."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            value.const_value = _named(value)
    for function in model.functions.values():
        for value in list(function.graph.initializers.values()):
            assert value.name is not None
            node = ir.Node("", "Constant", [], [ir.AttrTensor("value", _named(value))])
            del function.graph.initializers[value.name]
            node.outputs[0].name, value.name = value.name, None
            for user, index in value.uses():
                user.replace_input_with(index, node.outputs[0])
            function.graph.insert_before(function.graph[0], node)
    return ir.to_proto(model)


def _named(value: ir.Value) -> ir.TensorProtocol:
    tensor = value.const_value
    assert tensor is not None
    return ir.Tensor(np.array(tensor.numpy()), dtype=tensor.dtype, name=value.name)


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Any]:
    return ReferenceEvaluator(proto).run(None, dict(feeds))


def feeds_for(proto: onnx.ModelProto, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Random inputs for the declared shapes."""
    random = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in proto.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            feeds[value.name] = np.asarray(random.standard_normal(shape) * 3).astype(dtype)
        else:
            feeds[value.name] = np.asarray(random.integers(0, 2 if dtype.kind == "b" else 5, shape)).astype(dtype)
    return feeds


def apply(
    text: str,
    passes: Callable[[ir.Model], int] | Sequence[Callable[[ir.Model], int]],
    sizes: Sequence[Mapping[str, int]] = (
        {"n": 2, "m": 3, "batch": 2, "seq": 5},
        {"n": 4, "m": 1, "batch": 3, "seq": 2},
    ),
    opset: int = 18,
) -> tuple[ir.Model, int]:
    """The model after normalisation, the passes and the removal of dead code, and the number of rewrites.

    Fails if the model computes anything else than before, or has other inputs or outputs.
    """
    proto = parse(text, opset)
    model = normal_form(proto)
    count = sum(one(model) for one in ([passes] if callable(passes) else passes))
    dead_code.run(model)
    assert_same(proto, model, sizes)
    return model, count


def assert_same(proto: onnx.ModelProto, model: ir.Model, sizes: Sequence[Mapping[str, int]]) -> None:
    """`model` computes what `proto` computes, bit by bit, with the same inputs and outputs."""
    after = proto_of(model)
    onnx.checker.check_model(after)
    assert [value.name for value in after.graph.input] == [value.name for value in proto.graph.input]
    assert [value.name for value in after.graph.output] == [value.name for value in proto.graph.output]
    for binding in sizes:
        feeds = feeds_for(proto, binding)
        for expected, actual in zip(run(proto, feeds), run(after, feeds), strict=True):
            assert np.asarray(expected).dtype == np.asarray(actual).dtype
            np.testing.assert_array_equal(actual, expected)
            if np.asarray(expected).dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))
