"""Check every tensor of a model, take external ones out of the proto, and give all of them back to the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import AttributeProto, TensorProto

from onnxlift.errors import LoadError, quote
from onnxlift.ir.graph.walk import regions

from .external import DataFolder, stored_data
from .protos import graphs_of
from .tensors import DataFile, FileTensor, StoredBytes, TensorStore, bytes_needed, size_mismatch

MAX_RANK = 32
MAX_BYTES = 1 << 62

# The field of TensorProto that holds the elements of a type when `raw_data` does not. All others use int32_data.
_FIELD: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}
_TYPED_FIELDS = frozenset(_FIELD.values()) | {"int32_data"}
_DATA_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
_COMPLEX = {TensorProto.COMPLEX64, TensorProto.COMPLEX128}


def detach_weights(model: onnx.ModelProto, store: TensorStore, folder: DataFolder | None) -> None:
    """Check every tensor. Put those in external files into the store, and leave tickets in the proto.

    Afterwards every tensor has as many bytes as its shape needs, and nothing in the proto refers to a file any more.
    Without a folder, no external file is looked for: such tensors can be asked for their types and shapes only.
    """
    for tensor in each_tensor(model):
        _check_header(tensor)
        if tensor.data_location == TensorProto.EXTERNAL:
            tensor.raw_data = store.put(_absent(tensor) if folder is None else stored_data(tensor, folder))
            tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        _check_size(tensor, store)


def _absent(tensor: TensorProto) -> StoredBytes:
    """Return what stands for bytes that nobody will read."""
    return StoredBytes(memoryview(b""), 0, bytes_needed(ir.DataType(tensor.data_type), tuple(tensor.dims)))


def attach_weights(model: ir.Model, store: TensorStore) -> None:
    """Exchange the tickets in the graph for the tensors that they stand for."""
    replace_tensors(model, lambda tensor: _claim(tensor, store))


def tensor_of(proto: onnx.TensorProto, store: TensorStore) -> ir.TensorProtocol:
    """Return a tensor of the proto, whose bytes may be in the store."""
    return _claim(ir.serde.TensorProtoTensor(proto), store)


def replace_tensors(model: ir.Model, replacement: Callable[[ir.TensorProtocol], ir.TensorProtocol]) -> None:
    """Put `replacement(tensor)` in the place of every tensor: initialisers and attributes, also in functions."""
    for region in regions(model):
        for value in region.graph.initializers.values():
            if value.const_value is not None:
                value.const_value = replacement(value.const_value)
        for node in region.graph:
            _replace_in_attributes(node.attributes, replacement)
    for function in model.functions.values():
        _replace_in_attributes(function.attributes, replacement)


def _replace_in_attributes(
    attributes: MutableMapping[str, ir.Attr], replacement: Callable[[ir.TensorProtocol], ir.TensorProtocol]
) -> None:
    for name, attribute in attributes.items():  # values change, keys do not
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            attributes[name] = ir.AttrTensor(name, replacement(attribute.as_tensor()), doc_string=attribute.doc_string)
        elif attribute.type == ir.AttributeType.TENSORS:
            tensors = [replacement(tensor) for tensor in attribute.as_tensors()]
            attributes[name] = ir.AttrTensors(name, tensors, doc_string=attribute.doc_string)


def data_files(model: ir.Model) -> set[Path]:
    """Return the files from which tensors of a model are read, with all links followed."""
    found: set[Path] = set()

    def note(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        if isinstance(tensor, FileTensor) and isinstance(tensor.raw.source, DataFile):
            found.add(tensor.raw.source.path)
        return tensor

    replace_tensors(model, note)
    return found


def each_tensor(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor: initialisers and attributes of the graph, of its subgraphs and of functions."""
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_attributes(function.attribute_proto)
        for node in function.node:
            yield from _tensors_of_attributes(node.attribute)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_attributes(node.attribute)


def _tensors_of_attributes(attributes: Iterable[AttributeProto]) -> Iterator[TensorProto]:
    for attribute in attributes:
        if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
            yield attribute.t
        elif attribute.type == AttributeProto.TENSORS:
            yield from attribute.tensors
        elif attribute.type == AttributeProto.SPARSE_TENSOR and not attribute.ref_attr_name:
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
        for graph in graphs_of(attribute):
            yield from _tensors_of_graph(graph)


def _check_header(tensor: TensorProto) -> None:
    """Check that type and shape make sense.

    This comes before all checks that compute with the shape: multiplying a million sizes would take minutes."""
    if tensor.data_type not in _DATA_TYPES:
        raise LoadError(f"{_title(tensor)} has data type {tensor.data_type}, which this onnx does not know.")
    if len(tensor.dims) > MAX_RANK:
        raise LoadError(f"{_title(tensor)} has {len(tensor.dims):,} dimensions; at most {MAX_RANK} make sense.")
    if any(size < 0 for size in tensor.dims):
        raise LoadError(f"{_title(tensor)} has a negative size in its shape {list(tensor.dims)}.")
    # Leave zeros out of the product: even for an empty array, numpy fails if the other sizes overflow.
    if prod(size for size in tensor.dims if size) * 16 > MAX_BYTES:
        raise LoadError(f"{_title(tensor)} of shape {list(tensor.dims)} is larger than any memory.")
    if tensor.HasField("segment"):
        raise LoadError(f"{_title(tensor)} is stored in segments, which no ONNX runtime reads.")
    if tensor.data_type == TensorProto.STRING and (
        tensor.HasField("raw_data") or tensor.data_location == TensorProto.EXTERNAL
    ):
        raise LoadError(f"{_title(tensor)} holds strings as raw bytes; ONNX wants them in string_data.")


def _check_size(tensor: TensorProto, store: TensorStore) -> None:
    """Check that the data has exactly the size of the shape.

    So memory is never allocated for data that the file does not hold."""
    dtype, shape = ir.DataType(tensor.data_type), tuple(tensor.dims)
    field = "raw_data" if tensor.HasField("raw_data") else _FIELD.get(tensor.data_type, "int32_data")
    if any(other != field and len(getattr(tensor, other)) for other in _TYPED_FIELDS):
        raise LoadError(f"{_title(tensor)} of type {dtype.name} holds data in other fields than {field}.")
    if field == "raw_data":
        stored = store.get(tensor.raw_data)
        if stored is None:
            length = len(tensor.raw_data)
        else:
            length = stored.length if isinstance(stored, StoredBytes) else stored.nbytes
        if length != bytes_needed(dtype, shape):
            raise LoadError(size_mismatch(_title(tensor), dtype, shape, length))
        return
    elements = prod(shape)
    if tensor.data_type in _COMPLEX:
        elements *= 2
    elif field == "int32_data" and dtype.bitwidth in (2, 4):  # packed, one byte in each int32
        elements = bytes_needed(dtype, shape)
    held = len(getattr(tensor, field))
    if held != elements:
        raise LoadError(
            f"{_title(tensor)} of type {dtype.name} and shape {list(shape)} needs {elements:,} entries in "
            f"{field}, and the model holds {held:,}. The file is damaged or was changed by hand."
        )


def _title(tensor: TensorProto) -> str:
    return f"tensor {quote(tensor.name)}" if tensor.name else "a tensor without a name"


def _claim(tensor: ir.TensorProtocol, store: TensorStore) -> ir.TensorProtocol:
    if isinstance(tensor, ir.StringTensor):
        return _string_objects(tensor)
    if not isinstance(tensor, ir.serde.TensorProtoTensor) or (stored := store.get(tensor.raw.raw_data)) is None:
        return tensor
    if not isinstance(stored, StoredBytes):
        # Wrap the caller's own tensor: renaming a value renames its tensor, and the caller's must keep its name.
        return ir.LazyTensor(
            lambda: stored,
            tensor.dtype,
            tensor.shape,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )
    return FileTensor(
        stored,
        tensor.dtype,
        tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _string_objects(tensor: ir.StringTensor) -> ir.StringTensor:
    """Return the same strings as an array of objects.

    onnx-ir would let numpy choose its own type for bytes. That type drops zero bytes at the end, and takes the room of
    the longest string for each string."""
    array = np.empty(tensor.shape.numpy(), object)
    array.reshape(-1)[:] = list(tensor.string_data())
    return ir.StringTensor(
        array,
        shape=tensor.shape,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )
