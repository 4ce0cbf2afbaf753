"""Choose one spelling wherever ONNX lets a model say the same thing in several ways. The proto is checked by then.

1. `ai.onnx` is written as the empty domain.
2. A name that is an initialiser and an input of the model is made an initialiser only. In a subgraph it is made an
   input only: the node that runs a subgraph feeds all of its inputs, so the initialiser would never be read. (If the
   model is to be written as ONNX again, such an input of the model stays, since IR version 4 with a default value.)
3. A sparse initialiser, and the sparse value of a Constant, is made dense.
4. A branch of an If has no inputs: what it declares as one is a value of the graph around it, of the same name.
5. A subgraph that returns a value of an outer graph returns it through an Identity.
6. Every node has a name. It is unique in the main graph with its subgraphs, or in its function.
7. The declared types of intermediate values are dropped: they may be wrong, and inference finds them again. They stay
   for the outputs of operators that have no schema and are no function of the model: nothing else is known of these.
   (If the model is to be written as ONNX again, the exporter's notes on all values stay.)
8. A negative size in a declared shape becomes an unknown size, which is what exporters mean by it.
9. Types that onnx-ir cannot hold (maps) are taken out, and kept beside the graph.
10. Attributes whose names begin with `__`, which ONNX leaves to runtimes for notes of their own, are dropped.
11. An output that is an input, which no node computes, is declared as that input is: onnx-ir keeps one type of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import onnx
import onnx_ir as ir
from onnx import AttributeProto, numpy_helper

from onnxlift.errors import LoadError, quote
from onnxlift.ir.graph.functions import FunctionId
from onnxlift.ir.graph.interface import Interface
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.origin.metadata import FOLDED_FROM, SIGNATURE_KIND
from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.reading.protos import all_nodes, subgraphs
from onnxlift.ir.reading.structure import DEFAULTS_SINCE
from onnxlift.ir.reading.tensors import TensorStore, bytes_needed
from onnxlift.ir.reading.weights import MAX_RANK, tensor_of
from onnxlift.stages import step

MAX_DENSE = 64 << 20
MAX_DENSE_TOTAL = 256 << 20


@step("spelling", optional=False)
def run(draft: Draft) -> int:
    """Apply the rules above to the proto."""
    model = draft.proto
    _plain_domains(model)
    _declare_passed_inputs(model.graph)
    draft.unheld_types = {
        value.name: _copy_type(value.type)
        for value in (*model.graph.input, *model.graph.output)
        if not _is_held(value.type)
    }
    preparer = _Preparer(model, draft.store, keep_notes=draft.faithful)
    if draft.faithful:
        declared = {value.name: _copy_type(value.type) for value in (*model.graph.input, *model.graph.output)}
        told = {info.name: _copy_type(info.type) for info in _described(model)}
        draft.interface = Interface(declared, described=frozenset(told), told=told)
    if not draft.faithful or model.ir_version < DEFAULTS_SINCE:
        _inputs_are_not_initializers(model.graph)
    preparer.graph(model.graph)
    name_nodes(all_nodes(model.graph.node))
    for function in model.functions:
        preparer.value_info(function.node, function.value_info)
        preparer.nodes(function.node)
        name_nodes(all_nodes(function.node))
    # This says on which devices nodes run. Lifting does not need it, and onnx-ir takes quadratic time to read it.
    model.ClearField("configuration")
    return 0


def _described(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    """Yield what the file tells of the types of values inside the model."""
    for body in (model.graph, *model.functions):
        yield from (info for info in body.value_info if info.HasField("type"))
        for node in all_nodes(body.node):
            for graph in subgraphs(node):
                yield from (info for info in graph.value_info if info.HasField("type"))


def _plain_domains(model: onnx.ModelProto) -> None:
    for function in model.functions:
        function.domain = plain_domain(function.domain)
    for holder in (model, *model.functions):
        for entry in holder.opset_import:
            entry.domain = plain_domain(entry.domain)


def _declare_passed_inputs(graph: onnx.GraphProto) -> None:
    inputs = {value.name: value for value in graph.input}
    for output in graph.output:
        if output.name in inputs:
            output.type.CopyFrom(inputs[output.name].type)


def _inputs_are_not_initializers(graph: onnx.GraphProto) -> None:
    constants = {tensor.name for tensor in graph.initializer}
    constants.update(tensor.values.name for tensor in graph.sparse_initializer)
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) < len(graph.input):
        del graph.input[:]
        graph.input.extend(inputs)


class _Preparer:
    """The rules 2 to 5 and 7 to 11, applied to a graph or function and to the subgraphs inside it."""

    def __init__(self, model: onnx.ModelProto, store: TensorStore, *, keep_notes: bool) -> None:
        self.model = model
        self.store = store
        self.keep_notes = keep_notes
        self.functions: set[FunctionId] = {(each.domain, each.name, each.overload) for each in model.functions}
        self.dense_bytes = 0

    @cached_property
    def value_names(self) -> _FreeNames:
        """The names of all values that nodes and subgraphs define, read or return; collected when first needed."""
        names: set[str] = set()
        for body in (self.model.graph.node, *(function.node for function in self.model.functions)):
            for node in all_nodes(body):
                names.update(node.input, node.output)
                for graph in subgraphs(node):
                    names.update(each.name for each in (*graph.input, *graph.initializer, *graph.output))
        return _FreeNames(names)

    def graph(self, graph: onnx.GraphProto) -> None:
        for sparse in graph.sparse_initializer:
            graph.initializer.append(self.dense(sparse))
        graph.ClearField("sparse_initializer")
        constants = {tensor.name for tensor in graph.initializer}
        told = [info for info in graph.value_info if info.name in constants and _tells(info)]
        self.value_info(graph.node, graph.value_info)
        for info in told if not self.keep_notes else ():
            graph.value_info.add(name=info.name).metadata_props.extend(info.metadata_props)
        for value in (*graph.input, *graph.output):
            _hold(value)
        self.nodes(graph.node)

    def subgraph(self, graph: onnx.GraphProto) -> None:
        _declare_passed_inputs(graph)
        inputs = {value.name for value in graph.input}
        for kind in (graph.initializer, graph.sparse_initializer):
            if any(_tensor_name(tensor) in inputs for tensor in kind):
                kept = [tensor for tensor in kind if _tensor_name(tensor) not in inputs]
                del kind[:]
                kind.extend(kept)
        self.graph(graph)
        self.return_outer_values(graph, inputs)

    def nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            node.ClearField("device_configurations")
            notes = [attribute for attribute in node.attribute if attribute.name.startswith("__")]
            for attribute in notes:
                node.attribute.remove(attribute)
            for graph in subgraphs(node):
                if node.op_type == "If" and plain_domain(node.domain) == "":
                    del graph.input[:]
                self.subgraph(graph)
            for attribute in node.attribute:
                is_sparse = attribute.type == AttributeProto.SPARSE_TENSOR and not attribute.ref_attr_name
                if is_sparse and node.op_type == "Constant":
                    dense = self.dense(attribute.sparse_tensor)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", dense))

    def value_info(self, nodes: Iterable[onnx.NodeProto], infos: list[onnx.ValueInfoProto]) -> None:
        if not infos:
            return
        unknown = {name for node in nodes if not self.is_known(node) for name in node.output}
        kept = [info for info in infos if info.name in unknown or (self.keep_notes and info.metadata_props)]
        for info in kept:
            if info.name in unknown:
                _hold(info)
            else:
                info.ClearField("type")
        del infos[:]
        infos.extend(kept)

    def is_known(self, node: onnx.NodeProto) -> bool:
        domain = plain_domain(node.domain)
        return onnx.defs.has(node.op_type, domain) or (domain, node.op_type, node.overload) in self.functions

    def return_outer_values(self, graph: onnx.GraphProto, defined: set[str]) -> None:
        defined = defined | {tensor.name for tensor in graph.initializer}
        defined.update(name for node in graph.node for name in node.output)
        for output in graph.output:
            if output.name not in defined:
                fresh = self.value_names.fresh(output.name)
                graph.node.add(op_type="Identity", input=[output.name], output=[fresh])
                output.name = fresh

    def dense(self, sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
        """Return the same tensor with its zeros written out.

        Raises LoadError if that is too large, or if the sparse tensor is broken, such as by an index out of range."""
        name, dims = sparse.values.name, list(sparse.dims)
        if len(dims) > MAX_RANK or any(size < 0 for size in dims) or sparse.values.data_type == onnx.TensorProto.STRING:
            raise LoadError(f"sparse tensor {quote(name)} has shape {dims[:33]} or holds strings, which cannot be.")
        # Even for an empty array, numpy fails if the sizes other than 0 overflow.
        needed = bytes_needed(ir.DataType(sparse.values.data_type), tuple(size for size in dims if size))
        self.dense_bytes += needed
        if needed > MAX_DENSE or self.dense_bytes > MAX_DENSE_TOTAL:
            raise LoadError(
                f"sparse tensor {quote(name)} takes {needed:,} bytes when it is made dense; onnxlift goes up to "
                f"{MAX_DENSE:,} bytes each and {MAX_DENSE_TOTAL:,} for all together. Store it dense."
            )
        values = tensor_of(sparse.values, self.store).numpy().reshape(-1)
        indices = tensor_of(sparse.indices, self.store).numpy()
        dense = np.zeros(dims, values.dtype)
        limits = dense.size if indices.ndim == 1 else np.array(dims)
        if indices.shape not in {(values.size,), (values.size, len(dims))} or indices.dtype != np.int64:
            raise LoadError(
                f"sparse tensor {quote(name)}: {values.size} values do not go with indices {indices.shape}."
            )
        if np.any(indices < 0) or np.any(indices >= limits):
            raise LoadError(f"sparse tensor {quote(name)} has an index outside its shape {dims}.")
        if indices.ndim == 1:
            dense.reshape(-1)[indices] = values
        else:
            dense[tuple(indices.T)] = values
        return numpy_helper.from_array(dense, name)


def name_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Name nodes without a name by operator and position (`Conv_3`), and add numbers to repeated names."""
    nodes = list(nodes)
    names = _FreeNames(node.name for node in nodes)
    seen: set[str] = set()
    for position, node in enumerate(nodes):
        if not node.name:
            node.name = names.fresh(node.op_type, f"{node.op_type}_{position}")
        elif node.name in seen:
            node.name = names.fresh(node.name)
        seen.add(node.name)


class _FreeNames:
    """A set of names in use, from which `fresh` makes new ones."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)
        self.repeats: Counter[str] = Counter()  # so that a thousand equal names take a thousand steps, not a million

    def fresh(self, base: str, first_choice: str | None = None) -> str:
        name = first_choice or base
        while name in self.taken:
            self.repeats[base] += 1
            name = f"{base}_{self.repeats[base]}"
        self.taken.add(name)
        return name


def _tensor_name(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> str:
    return tensor.values.name if isinstance(tensor, onnx.SparseTensorProto) else tensor.name


def _hold(value: onnx.ValueInfoProto) -> None:
    if not _is_held(value.type):
        value.ClearField("type")
        return
    type_ = value.type
    while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        type_ = getattr(type_, kind).elem_type
    if kind in {"tensor_type", "sparse_tensor_type"}:
        for size in getattr(type_, kind).shape.dim:
            if size.dim_value < 0:
                size.ClearField("dim_value")


def _is_held(type_: onnx.TypeProto, inside: bool = False) -> bool:
    kind = type_.WhichOneof("value")
    if kind in {"sequence_type", "optional_type"}:
        return _is_held(getattr(type_, kind).elem_type, inside=True)
    if inside:
        return kind in {"tensor_type", "sparse_tensor_type"} and bool(getattr(type_, kind).HasField("elem_type"))
    return bool(kind != "map_type")


def _copy_type(type_: onnx.TypeProto) -> onnx.TypeProto:
    copy = onnx.TypeProto()
    copy.CopyFrom(type_)
    return copy


def _tells(info: onnx.ValueInfoProto) -> bool:
    """Tell whether the entry of an initialiser has a note of PyTorch's exporter that must be kept.

    The note says that the initialiser was computed from others, that it was a buffer, or what it was although its name
    has no module path (no dot). Everything else in the entry can be seen from the initialiser itself."""
    return any(
        entry.key == FOLDED_FROM or (entry.key == SIGNATURE_KIND and (entry.value == "BUFFER" or "." not in info.name))
        for entry in info.metadata_props
    )
