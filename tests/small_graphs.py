"""Small ONNX graphs, written a node a line, lifted and compared with the ONNX reference."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from onnxlift.executing import to_torch


class Graph:
    """Collects nodes, and the weights and inputs that they read. Every method gives the name of a value."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int | str, ...]] = {}

    def input(self, name: str, *shape: int | str) -> str:
        self.inputs[name] = shape
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, (0.5 * self.random.standard_normal(shape)).astype(np.float32))

    def constant(self, name: str, value: Any) -> str:
        if all(weight.name != name for weight in self.weights):
            self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(
        self,
        op_type: str,
        *inputs: str,
        name: str = "",
        output: str = "",
        scopes: Sequence[str] = (),
        classes: Sequence[str] = (),
        **attributes: Any,
    ) -> str:
        """Add a node of one output. `scopes` and `classes` are what PyTorch's exporter writes into the metadata."""
        output = output or f"val_{len(self.nodes)}"
        node = helper.make_node(op_type, inputs, [output], name, **attributes)
        for key, texts in {"name_scopes": scopes, "class_hierarchy": classes}.items():
            if texts:
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=repr(list(texts)))
        self.nodes.append(node)
        return output

    def linear(self, x: str, path: str, rows: int = 4, columns: int = 4, *, name: str = "", output: str = "") -> str:
        """What PyTorch's exporter makes of `nn.Linear`: weights below `path`, which also is the scope of the node:
        `/layers.0/fc/Gemm`, where `layers` is an `nn.ModuleList` and so never called."""
        weight = self.weight(f"{path}.weight", columns, rows)
        bias = self.weight(f"{path}.bias", columns)
        name = name or f"/{re.sub(r'[.](?![0-9])', '/', path)}/Gemm"
        return self.node("Gemm", x, weight, bias, transB=1, name=name, output=output)

    def model(self, *outputs: str, name: str = "graph") -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in self.inputs.items()]
        results = [onnx.ValueInfoProto(name=output) for output in outputs]
        graph = helper.make_graph(self.nodes, name, infos, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    def lift(self, *outputs: str, **options: Any) -> onnxlift.Lifted:
        """The lifted model with these outputs; it computes what the reference does, for two sizes of `n`."""
        model = self.model(*outputs)
        lifted = onnxlift.lift(model, name="small", **options)
        for size in (1, 3):
            shapes = {name: [size if isinstance(d, str) else d for d in shape] for name, shape in self.inputs.items()}
            inputs = {name: self.random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
            compare(lifted, model, inputs)
        return lifted


def compare(lifted: onnxlift.Lifted, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> None:
    """The module gives what the ONNX reference gives for the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about overflow
        expected = ReferenceEvaluator(model).run(None, dict(inputs))
    with torch.no_grad():
        results = lifted.module()(*map(to_torch, inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    for result, value in zip(results, expected, strict=True):
        assert result.numpy().shape == value.shape, lifted.source
        np.testing.assert_allclose(result.numpy(), value, rtol=1e-4, atol=1e-5, err_msg=lifted.source)


def step(g: Graph, x: str, path: str) -> str:
    """A module of our own in the graph, at `path`."""
    return g.linear(g.node("Sin", g.linear(x, f"{path}.a"), name=f"/{path}/Sin"), f"{path}.b")


def code(lifted: onnxlift.Lifted) -> str:
    """The classes of the source, without what surrounds them."""
    text = lifted.source
    start = text.index("\nclass ") + 1
    end = min(i for mark in ("\nWEIGHTS", "\ndef load") if (i := text.find(mark, start)) > 0)
    return text[start:end].strip() + "\n"
