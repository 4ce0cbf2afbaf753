"""ONNX Runtime as the judge of random graphs: it says what a node gives, and whether it is a valid one at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Array = np.ndarray[Any, Any]

NEWEST_OPSET = 26  # of which this version of ONNX Runtime has a complete set


class RefusedError(Exception):
    """ONNX Runtime takes the model for invalid, has no kernel for a type, or fails on these inputs."""


class Session:
    """A model in ONNX Runtime, computed node by node as it is written: none of ONNX Runtime's own rewrites."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        data = model.SerializeToString()
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has a dozen types of them, without a common base
            raise RefusedError(str(error)) from error

    def run(self, feeds: Mapping[str, Array]) -> list[Any]:
        """The outputs for these inputs."""
        try:
            return list(self._session.run(None, dict(feeds)))
        except Exception as error:
            raise RefusedError(str(error)) from error


def run_model(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Any]:
    """The outputs of a model."""
    return Session(model).run(feeds)


def run_nodes(
    nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, Array], outputs: Sequence[str], opset: int
) -> list[Any]:
    """What a few nodes give for these inputs."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    graph = helper.make_graph(nodes, "part", infos, [onnx.ValueInfoProto(name=name) for name in outputs])
    return run_model(make_model(graph, opset), feeds)


def make_model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def captured_names(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """The values that nodes read, themselves or in their subgraphs, and that none of them makes."""
    known: set[str] = {""}
    found: dict[str, None] = {}
    for node in nodes:
        wanted = list(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = {v.name for v in attribute.g.input} | {t.name for t in attribute.g.initializer}
                made = {name for n in attribute.g.node for name in n.output}
                outputs = [v.name for v in attribute.g.output if v.name not in made]
                wanted += [name for name in (*captured_names(attribute.g.node), *outputs) if name not in inner]
        found |= dict.fromkeys(name for name in wanted if name not in known)
        known.update(node.output)
    return list(found)
