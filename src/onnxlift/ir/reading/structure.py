"""Write an onnx_ir.Model as a proto whose tensors stay where they are, and that says again what the file said.

1. Inputs and outputs have the types that the file declares, and the names of sizes there; an output that is declared
   wrongly has the type that inference finds, and one without a shape its rank. Inputs that had default values have
   them again.
2. Of the values inside, those have types that had them in the file; a size that inference invented a name for has none.
3. Before IR version 4 every initialiser is also listed as an input, as that version demands.

A model that was not read from a file (that the user has built with onnx-ir) is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from onnxlift.errors import LoadError
from onnxlift.ir.graph.interface import INTERFACE, Interface, contradict, interface_of
from onnxlift.ir.inference.infer import is_invented_size

from .external import DataFolder
from .protos import all_nodes, subgraphs
from .tensors import TensorStore
from .weights import replace_tensors

DEFAULTS_SINCE = 4
"""The IR version since which an initialiser need not be an input. One that is an input all the same is its default."""


def structure_of(model: ir.Model, store: TensorStore) -> tuple[onnx.ModelProto, DataFolder]:
    """Return the proto of an onnx_ir.Model, which is not changed, and the folders for its external files.

    Tensors go to the store as they are, except strings and external ones, which stay in the proto."""
    try:
        copy = model.clone()
    except RuntimeError as error:
        raise LoadError(f"the onnx_ir.Model cannot be copied; is it sorted? {root_cause(error)}") from error
    folders: list[Path] = []

    def ticket(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if isinstance(tensor, ir.ExternalTensor):
            folders.extend([Path(tensor.base_dir)] if tensor.base_dir else [])
            return tensor
        if tensor.dtype == ir.DataType.STRING:
            return tensor
        written = ir.tensor(np.frombuffer(store.put(tensor), np.uint8))
        return ir.LazyTensor(lambda: written, tensor.dtype, ir.Shape(tensor.shape.numpy()), name=tensor.name)

    replace_tensors(copy, ticket)
    try:
        proto = ir.to_proto(copy)
    except Exception as error:
        raise LoadError(f"the onnx_ir.Model cannot be serialised: {root_cause(error)}") from error
    if INTERFACE in model.meta:
        _declare(proto, interface_of(model), store)
    return proto, DataFolder(*folders)


def _declare(proto: onnx.ModelProto, interface: Interface, store: TensorStore) -> None:
    """Let the proto say of its interface what the file said."""
    for body in _bodies(proto):
        _keep_types(body, interface)
    for graph in _graphs(proto):
        for value in (*graph.input, *graph.output):
            _forget_invented_sizes(value.type)
    graph = proto.graph
    for value in (*graph.input, *graph.output):
        declared = interface.types.get(value.name)
        if declared is not None and value.name in interface.exact:
            value.type.CopyFrom(declared)
            continue
        if declared is None or contradict(value.type, declared):
            continue
        axes = len(value.type.tensor_type.shape.dim) if _lacks_shape(declared, value.type) else 0
        value.type.CopyFrom(declared)
        if axes:
            value.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(axes))
    inputs = {value.name for value in graph.input}
    for name, tensor in interface.defaults.items():
        if name in inputs:
            dims, ticket = list(tensor.shape.numpy()), store.put(tensor)
            graph.initializer.add(name=name, dims=dims, data_type=int(tensor.dtype), raw_data=ticket)
    if proto.ir_version < DEFAULTS_SINCE:
        missing = [tensor for tensor in graph.initializer if tensor.name not in inputs]
        graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in missing)


def _lacks_shape(declared: onnx.TypeProto, inferred: onnx.TypeProto) -> bool:
    """Tell whether a declared tensor has no shape, which ONNX's checker demands, and inference has found one."""
    is_tensor = declared.HasField("tensor_type") and inferred.HasField("tensor_type")
    return is_tensor and inferred.tensor_type.HasField("shape") and not declared.tensor_type.HasField("shape")


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the main graph and all subgraphs, those of functions included."""
    yield proto.graph
    for body in (proto.graph, *proto.functions):
        for node in all_nodes(body.node):
            yield from subgraphs(node)


def _bodies(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    yield from _graphs(proto)
    yield from proto.functions


def _keep_types(body: onnx.GraphProto | onnx.FunctionProto, interface: Interface) -> None:
    """Keep the types of the values that the file described, in its words, and all notes. Drop types that are wrong."""
    kept: list[onnx.ValueInfoProto] = []
    for info in body.value_info:
        if info.name in interface.described:
            _forget_invented_sizes(info.type)
            told = interface.told.get(info.name)
            if told is not None and contradict(info.type, told):
                info.ClearField("type")
            elif told is not None:
                info.type.CopyFrom(told)
        else:
            info.ClearField("type")
        if info.HasField("type") or info.metadata_props or info.doc_string:
            kept.append(info)
    known = {info.name for info in body.value_info}
    defined = (name for node in body.node for name in node.output if name in interface.told and name not in known)
    kept += [onnx.ValueInfoProto(name=name, type=interface.told[name]) for name in defined]
    del body.value_info[:]
    body.value_info.extend(kept)


def _forget_invented_sizes(type_: onnx.TypeProto) -> None:
    while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        type_ = getattr(type_, kind).elem_type
    if kind in {"tensor_type", "sparse_tensor_type"}:
        for size in getattr(type_, kind).shape.dim:
            if is_invented_size(size.dim_param):
                size.ClearField("dim_param")


def root_cause(error: BaseException) -> str:
    """Return the message of the first error in a chain of errors, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300]
