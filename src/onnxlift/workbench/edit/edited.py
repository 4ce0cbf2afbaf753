"""A model while it is edited: its proto, without the large tensors, and what the operations need to change it.

Names are looked up anew after each change. Types that the file tells of values are dropped when the values change.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.errors import LoadError, OnnxLiftError, quote
from onnxlift.ir.building.spelling import name_nodes
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.reading.protos import all_nodes
from onnxlift.ir.reading.tensors import TensorStore
from onnxlift.ir.reading.weights import detach_weights
from onnxlift.ir.stages import READING
from onnxlift.stages import Record

from .arrays import Array
from .bodies import Body, value_infos
from .stale import downstream

INLINE = 1024
"""Tensors of fewer bytes stand in the proto itself."""


class EditedModel:
    """The draft of a model: `proto` and the `store` of its large tensors.

    `changed` are outputs of the main graph whose types may have changed, so that inference has to find them."""

    def __init__(self, proto: onnx.ModelProto, store: TensorStore) -> None:
        self.proto = proto
        self.store = store
        self.changed: set[str] = set()
        self._bodies: list[Body] | None = None
        self._element_types: dict[str, ir.DataType] | None = None

    @classmethod
    def read(cls, source: Any) -> EditedModel:
        """Read a model. It may be one that the gate refuses: the operations may mend it."""
        draft = Draft(source, faithful=True)
        Record().run(READING, draft)
        detach_weights(draft.proto, draft.store, draft.folder)
        proto = draft.proto
        for body in (proto.graph, *proto.functions):
            nodes = list(all_nodes(body.node))
            if any(isinstance(name, bytes) for node in nodes for name in (node.name, *node.input, *node.output)):
                raise LoadError("the model has names that are not valid UTF-8, which cannot be edited.")
            name_nodes(nodes)
        return cls(proto, draft.store)

    def snapshot(self) -> tuple[bytes, frozenset[str]]:
        """Return the state, from which `restore` makes it again."""
        return self.proto.SerializeToString(deterministic=True), frozenset(self.changed)

    def restore(self, state: tuple[bytes, frozenset[str]]) -> None:
        """Go back to a state."""
        self.proto = onnx.ModelProto()
        self.proto.ParseFromString(state[0])
        self.changed = set(state[1])
        self.refresh()

    def refresh(self) -> None:
        """Forget where things are: the proto has changed."""
        self._bodies = None
        self._element_types = None

    @property
    def roots(self) -> list[Body]:
        """The main graph, and the body of each function."""
        if self._bodies is None:
            opsets = _opsets(self.proto)
            self._bodies = [Body(self.proto.graph, opsets)]
            self._bodies += [Body(each, {**opsets, **_opsets(each)}) for each in self.proto.functions]
        return self._bodies

    @property
    def main(self) -> Body:
        return self.roots[0]

    @property
    def graph(self) -> onnx.GraphProto:
        return self.proto.graph

    def bodies(self) -> Iterator[Body]:
        """Yield every graph of the model: the main graph with its subgraphs first, then each function."""
        for root in self.roots:
            yield from root.tree()

    def taken(self, body: Body) -> set[str]:
        """Return all names of values and nodes in the main graph or function that `body` belongs to."""
        names: set[str] = set()
        for each in body.root.tree():
            names.update(each.values(), each.outputs)
            for node in each.proto.node:
                names.update((node.name, *node.input))
        return names - {""}

    def fresh(self, body: Body, name: str) -> str:
        """Return `name`, with a number if it is taken."""
        taken = self.taken(body)
        found, number = name, 0
        while found in taken:
            number += 1
            found = f"{name}_{number}"
        return found

    def check_free(self, body: Body, name: str) -> None:
        """Refuse a name for a new value that is empty, or taken."""
        if not name:
            raise OnnxLiftError("a value must have a name that is not empty.")
        for each in body.root.tree():
            if each.defines(name):
                raise OnnxLiftError(f"there is a value named {quote(name)} already, in {each.title}: choose another.")

    def add_constant(self, body: Body, name: str, array: Array) -> str:
        """Add a constant to a body, and return its name. A function has no initialisers, so it gets a Constant node."""
        tensor = self.tensor(name, array)
        if isinstance(body.proto, onnx.GraphProto):
            body.proto.initializer.append(tensor)
            body.constants[name] = body.proto.initializer[-1]
        else:
            tensor.name = ""
            attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=tensor)
            node = onnx.NodeProto(op_type="Constant", name=name, output=[name], attribute=[attribute])
            body.proto.node.insert(0, node)
            body.producers[name] = body.proto.node[0]
        return name

    def tensor(self, name: str, array: Array) -> onnx.TensorProto:
        """Return an array as a tensor of the proto; the numbers of a large one go to the store."""
        if isinstance(array.data, tuple) or len(array.data) < INLINE:
            return array.proto(name)
        held = ir.serde.TensorProtoTensor(array.proto(name))
        return onnx.TensorProto(name=name, data_type=int(array.type), dims=array.shape, raw_data=self.store.put(held))

    def touch(self, body: Body, *names: str, readers_only: bool = False) -> None:
        """Drop what is told of the types of values, and of all that is computed from them: they may have changed.

        With `readers_only`, the values themselves stay as they are."""
        stale = downstream(self, body, names)
        if readers_only:
            stale.get(body.root, set()).difference_update(names)
        for each in self.bodies():
            root = each.root
            if root not in stale:
                continue
            infos = [info for info in each.proto.value_info if info.name not in stale[root]]
            if len(infos) < len(each.proto.value_info):
                del each.proto.value_info[:]
                each.proto.value_info.extend(infos)
            for value in value_infos(each) if each.parent is not None else ():
                if value.name in stale[root] and value.type.HasField("tensor_type"):
                    value.type.tensor_type.ClearField("shape")
        self.changed |= stale.get(self.main, set()) & set(self.main.outputs)

    def rename_value(self, body: Body, old: str, new: str) -> None:
        """Give a value of a body another name, wherever it is defined, read or described."""
        for reference in list(body.references(old)):
            reference.set(new)
        for node in body.proto.node:
            for index, name in enumerate(node.output):
                if name == old:
                    node.output[index] = new
        if isinstance(body.proto, onnx.FunctionProto):
            for index, name in enumerate(body.proto.input):
                if name == old:
                    body.proto.input[index] = new
        else:
            _rename_in_graph(body.proto, old, new)
        for info in value_infos(body):
            if info.name == old:
                info.name = new
        if body.parent is None and not body.is_function and old in self.changed:
            self.changed = {new if name == old else name for name in self.changed}
        self.refresh()

    def element_types(self) -> dict[str, ir.DataType]:
        """Return the element types of the values of the main graph that inference finds; none if the draft is broken.

        This takes as long as reading the model: ask `element_type` first."""
        if self._element_types is None:
            from .building import build

            model = build(self).model
            values = () if model is None else (v for node in model.graph for v in node.outputs)
            self._element_types = {value.name or "": value.dtype for value in values if value.dtype is not None}
        return self._element_types


def _rename_in_graph(graph: onnx.GraphProto, old: str, new: str) -> None:
    for tensor in graph.initializer:
        if tensor.name == old:
            tensor.name = new
    for sparse in graph.sparse_initializer:
        if sparse.values.name == old:
            sparse.values.name = new
    for note in graph.quantization_annotation:
        if note.tensor_name == old:
            note.tensor_name = new
        for entry in note.quant_parameter_tensor_names:
            if entry.value == old:
                entry.value = new


def _opsets(holder: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    return {plain_domain(entry.domain): entry.version for entry in holder.opset_import}


def held(source: Any) -> Any:
    """Return a source that can be read again: the bytes of an open file, any other as it is."""
    return source.read() if hasattr(source, "read") and not isinstance(source, io.TextIOBase) else source
