"""Describe a model without lifting it: inputs, outputs, size, operators, and which of these cannot be lifted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.types import FLOATS, type_of
from onnxlift.ir.graph.walk import Region, all_nodes, regions
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.lifting.ops import registry
from onnxlift.unforeseen import answered
from onnxlift.workbench.modules import nodes_of_module

from .metadata import metadata_of
from .module import module_info, weights_of
from .nodes import GraphInfo, graph_info, has_numbers
from .report import Inspection, OperatorUse, ValueInfo
from .weights import weight_infos


def inspect(
    source: Any, *, nodes: bool = False, weights: bool = False, metadata: bool = False, module: str | None = None
) -> Inspection:
    """Describe the model in `source`: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.

    With `nodes`, the graph is listed node by node; with `weights`, all weights with statistics of their numbers; with
    `metadata`, what the file says of itself. With a `module`, its inputs, outputs and parts are described, and `nodes`
    and `weights` list only what belongs to it. Only `weights` reads the weights, and needs external data."""
    with answered():
        model = load(source, with_data=weights)
        summary = _summary(source, model)
        if not (nodes or weights or metadata or module):
            return summary
        if not weights:
            _forget_absent(model)
        infer(model)
        own = None if module is None else nodes_of_module(model.graph, module)
        return replace(
            summary,
            graphs=tuple(_graphs(model, own)) if nodes else None,
            weights=tuple(weight_infos(model, None if own is None else weights_of(own))) if weights else None,
            metadata=metadata_of(model) if metadata else None,
            module=None if module is None or own is None else module_info(model, module, own),
        )


def _graphs(model: ir.Model, own: Sequence[ir.Node] | None) -> Iterator[GraphInfo]:
    """Describe the main graph and the functions; or only some nodes of the main graph."""
    for region in regions(model):
        function = region.function
        if region.depth or (function is not None and own is not None):
            continue
        if function is None:
            yield graph_info("graph", region, own)
        else:
            yield graph_info(f"function {function.domain}::{function.name}".replace(" ::", " "), region)


def _forget_absent(model: ir.Model) -> None:
    """Let no weight have numbers that are not there, so that inference does not ask for them."""
    for region in regions(model):
        for value in region.graph.initializers.values():
            if value.const_value is not None and not has_numbers(value.const_value):
                value.const_value = None


def _summary(source: Any, model: ir.Model) -> Inspection:
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    constants = [
        v.const_value for region in regions(model) for v in region.graph.initializers.values() if v.const_value
    ]
    producer = " ".join(filter(None, [model.producer_name, model.producer_version]))
    return Inspection(
        name=path.name if path is not None else model.graph.name or "model",
        file_bytes=path.stat().st_size if path is not None else None,
        producer=producer,
        ir_version=model.ir_version,
        opsets=dict(model.opset_imports),
        inputs=tuple(map(_value_info, model.graph.inputs)),
        outputs=tuple(map(_value_info, model.graph.outputs)),
        nodes=sum(1 for _ in all_nodes(model.graph)),
        functions=len(model.functions),
        parameters=sum(tensor.size for tensor in constants if tensor.dtype in FLOATS),
        weight_bytes=sum(tensor.nbytes for tensor in constants if tensor.dtype != ir.DataType.STRING),
        operators=tuple(_operators(model)),
    )


def _value_info(value: ir.Value) -> ValueInfo:
    kind = type_of(value)
    name = str(kind).partition(" (")[0]
    return ValueInfo(value.name or "", name, kind.shape)


def _operators(model: ir.Model) -> list[OperatorUse]:
    """List every operator that a node of the model or of its functions names, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for region in regions(model):
        counts.update((node.domain, node.op_type, _lifted_by(node, model, region)) for node in region.graph)
    uses = [OperatorUse(domain, op_type, count, how) for (domain, op_type, how), count in counts.items()]
    return sorted(uses, key=lambda use: (-use.count, use.domain, use.op_type))


def _lifted_by(node: ir.Node, model: ir.Model, region: Region) -> str:
    if node.op_identifier() in model.functions:
        return "function of the model"
    if registry.is_supported(node.domain, node.op_type):
        return "operator"
    if (node.domain, node.op_type) in (("", "Constant"), ("", "Identity")):
        return "operator"  # nodes of these two are removed before operator functions are looked up
    schema = schema_for(node.domain, node.op_type, region.opset(node))
    bodies = ("has_function", "has_context_dependent_function")
    return "function of its schema" if any(getattr(schema, body, False) for body in bodies) else ""
