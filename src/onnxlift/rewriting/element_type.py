"""Give a model another precision: the element type of its weights, and of all that is computed with them, is replaced.

    Conv(x float16, weight float16)         ->   Conv(x float32, weight float32)
    Cast(x, to=float16)                     ->   Cast(x, to=float32)
    Mul(Cast(positions, float32), inv_freq) ->   stays float32, and is cast where it meets a weight in half precision

The type that is replaced is the model's own: that of most of its weights, or of its inputs if it has none. Integers and
other floating-point types stay. So a model in float32 that rounds something to float16 still does.

Of a model in half precision everything is converted. Of another only what depends on an input or on a parameter: what
is computed from integers and sizes alone (positions, masks, angles) stays as it is, and is cast where it meets the
rest. An operator whose schema does not take the new type keeps the old one. A number too large for the new type becomes
its largest one, so that a mask of -3.4e38 does not become infinite.

A model that is to be written as ONNX (`for_file`) keeps its interface: inputs are cast when they are read, and outputs
at the end. There, what the schema of the model's own opset does not allow stays as it is, and so do operators that ONNX
does not define, nodes that hold graphs, and the nodes to `keep`.

This does not keep the numbers: users ask for it. It comes after restoring, which compares those of the file.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial

import numpy as np
import onnx_ir as ir
from onnx.defs import OpSchema

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.editing.edit import Array, Edit, Names
from onnxlift.ir.graph.schema import default_attributes, schema_for
from onnxlift.ir.graph.walk import all_nodes, regions, subgraphs
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.origin.tensors import origin_of

DTYPES = {
    "float32": ir.DataType.FLOAT,
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "float64": ir.DataType.DOUBLE,
}
"""The precisions that a model can have, by torch's names."""
_DIGITS = {
    ir.DataType.BFLOAT16: 8,
    ir.DataType.FLOAT16: 11,
    ir.DataType.FLOAT: 24,
    ir.DataType.DOUBLE: 53,
}
_TYPE_NAMES = {
    ir.DataType.FLOAT: "tensor(float)",
    ir.DataType.FLOAT16: "tensor(float16)",
    ir.DataType.BFLOAT16: "tensor(bfloat16)",
    ir.DataType.DOUBLE: "tensor(double)",
}
HALVES = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_datatype", "output_dtype")
LARGEST = {
    ir.DataType.FLOAT16: 65504.0,
    ir.DataType.BFLOAT16: float.fromhex("0x1.FEp127"),
    ir.DataType.FLOAT: float.fromhex("0x1.FFFFFEp127"),
    ir.DataType.DOUBLE: sys.float_info.max,
}
MOST_ELEMENTS = 1 << 20  # of a constant that is looked at for numbers that are too large


def parse_dtype(dtype: object) -> ir.DataType | None:
    """Return the element type that `dtype` names: "float16", or `torch.float16` itself. None stays None."""
    if dtype is None:
        return None
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise OnnxLiftError(f"a model cannot have the dtype {name!r}: it is one of {', '.join(DTYPES)}.")
    return DTYPES[name]


def own_type(model: ir.Model) -> ir.DataType | None:
    """Return the precision of a model: the floating-point type of most of its weights, or else of its inputs."""
    sizes: Counter[ir.DataType] = Counter()
    for region in regions(model):
        for value in region.graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype in _DIGITS:
                sizes[value.const_value.dtype] += value.const_value.size
    if not sizes:
        sizes.update(value.dtype for value in model.graph.inputs if value.dtype in _DIGITS)
    return max(sizes, key=lambda dtype: (sizes[dtype], -_DIGITS[dtype])) if sizes else None


def change_type(model: ir.Model, *, dtype: ir.DataType | None = None) -> int:
    """Change the element type of the model's weights, and of all that is computed with them, if another is wanted."""
    own = own_type(model)
    if dtype is None or own is None or own == dtype:
        return 0
    if own in HALVES or model.functions:
        changes = Replacement(own, dtype).everywhere(model)
    else:
        changes = _Conversion(model, own, dtype).run()
    infer(model)
    return changes


def change_type_in_file(model: ir.Model, dtype: ir.DataType, keep: Collection[ir.Node] = ()) -> list[ir.Node]:
    """Let the main graph compute in another type than float32, except for the nodes to `keep`, and keep its interface.

    Returns the nodes that compute in the new type."""
    conversion = _Conversion(model, ir.DataType.FLOAT, dtype, for_file=True, keep=keep)
    conversion.run()
    return [node for node in model.graph if node in conversion.nodes]


class Replacement:
    """The replacement of one element type by another, in values, tensors and attributes."""

    def __init__(self, own: ir.DataType, new: ir.DataType) -> None:
        self.own = own
        self.new = new

    def everywhere(self, model: ir.Model) -> int:
        return sum(self.in_graph(region.graph) for region in regions(model))

    def in_graph(self, graph: ir.Graph) -> int:
        """Replace the type in one graph, but not in the graphs inside it."""
        inputs = [value for value in graph.inputs if value.const_value is None]
        changes = sum(map(self.in_value, (*inputs, *graph.initializers.values())))
        return changes + sum(self.in_node(node) for node in graph)

    def in_node(self, node: ir.Node) -> int:
        self.in_attributes(node)
        return sum(map(self.in_value, node.outputs))

    def in_value(self, value: ir.Value) -> int:
        if value.dtype != self.own:
            return 0
        value.type = _with_element(value.type, self.new)
        if value.const_value is not None:
            value.const_value = self.tensor(value.const_value)
            value.meta.pop("number", None)
        return 1

    def in_attributes(self, node: ir.Node) -> None:
        """Replace the type where an attribute names it, or holds a tensor of it."""
        defaults = default_attributes(node.domain, node.op_type, node.version or 1 << 30)
        for name in _TYPE_ATTRIBUTES:
            given = node.attributes.get(name)
            number = defaults.get(name) if given is None else None if given.is_ref() else given.value
            if number == int(self.own):
                node.attributes[name] = ir.AttrInt64(name, int(self.new))
        if node.op_type == "ConstantOfShape" and "value" not in node.attributes and self.own == ir.DataType.FLOAT:
            zero = np.zeros(1, self.new.numpy())
            node.attributes["value"] = ir.AttrTensor("value", ir.tensor(zero, dtype=self.new))
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                tensor = attribute.as_tensor()
                if tensor.dtype == self.own:
                    node.attributes[name] = ir.AttrTensor(name, self.tensor(tensor))

    def tensor(self, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        """Return the tensor in the new type. It is converted when it is read."""
        shape = ir.Shape(tensor.shape.numpy())
        return ir.LazyTensor(partial(_converted, tensor, self.new), self.new, shape, name=tensor.name)


class _Conversion:
    """The replacement of a type in that part of the main graph that depends on an input or a parameter."""

    def __init__(
        self,
        model: ir.Model,
        own: ir.DataType,
        new: ir.DataType,
        *,
        for_file: bool = False,
        keep: Collection[ir.Node] = (),
    ) -> None:
        self.model = model
        self.own = own
        self.new = new
        self.for_file = for_file
        self.keep = set(keep)
        self.replacement = Replacement(own, new)
        self.nodes: set[ir.Node] = set()  # those that compute in the new type
        self.changed: set[ir.Value] = set()  # those that get it

    def run(self) -> int:
        graph = self.model.graph
        if not self.for_file:
            self.changed.update(value for value in graph.inputs if value.dtype == self.own)
        self._find_nodes()
        constants = [value for value in graph.initializers.values() if value.dtype == self.own]
        for value in constants:
            uses = value.uses()
            if all(self._takes(node, place) for node, place in uses) and uses and not value.is_graph_output():
                self.changed.add(value)
            elif not self.for_file:
                self._limit(value)
        region = next(iter(regions(self.model)))
        edit = Edit(region, Names(self.model))
        for node in list(graph):
            self._cast_inputs(edit, node)
        for value in self.changed:
            self.replacement.in_value(value)
        if self.for_file:
            self._cast_outputs(edit)
        for node in self.nodes:
            self.replacement.in_attributes(node)
            for inner in _graphs_in(node):
                self.replacement.in_graph(inner)
        edit.finish()
        return len(self.changed)

    def _find_nodes(self) -> None:
        for node in self.model.graph:
            if self.for_file and (node in self.keep or subgraphs(node)):
                continue
            places = enumerate(node.inputs)
            if subgraphs(node) or any(self._moves(value) and self._fits(node, place) for place, value in places):
                self.nodes.add(node)
                outputs = (value for place, value in enumerate(node.outputs) if self._gives(node, place))
                self.changed.update(value for value in outputs if value.dtype == self.own)

    def _moves(self, value: ir.Value | None) -> bool:
        """Tell whether the value makes its readers compute in the new type: it depends on an input or a parameter."""
        if value is None or value.dtype != self.own:
            return False
        if value in self.changed or (self.for_file and value.is_graph_input()):
            return True
        return value.const_value is not None and origin_of(value).is_parameter

    def _takes(self, node: ir.Node, place: int) -> bool:
        """Tell whether the node reads its input in the new type."""
        if node.graph is not self.model.graph:
            return not self.for_file
        return node in self.nodes and self._fits(node, place)

    def _fits(self, node: ir.Node, place: int) -> bool:
        """Tell whether the operator's schema allows the new type for an input."""
        schema = self._schema(node)
        if schema is None or subgraphs(node):
            return not self.for_file
        return self._allows(schema, _formal(schema.inputs, place))

    def _gives(self, node: ir.Node, place: int) -> bool:
        """Tell whether the type of an output is that of an input that is changed, or named by an attribute."""
        schema = self._schema(node)
        if schema is None or subgraphs(node):
            return True
        variable = _formal(schema.outputs, place)
        if not self._allows(schema, variable):
            return False
        inputs = [_formal(schema.inputs, i) for i, value in enumerate(node.inputs) if value is not None]
        tied = [value for value, formal in zip(filter(None, node.inputs), inputs, strict=True) if formal == variable]
        return not tied or any(value.dtype == self.own for value in tied)

    def _schema(self, node: ir.Node) -> OpSchema | None:
        version = node.version or self.model.opset_imports.get(node.domain, 1)
        return schema_for(node.domain, node.op_type, version)

    def _cast_inputs(self, edit: Edit, node: ir.Node) -> None:
        """Cast what a node reads in another type than it has: into a part that is changed, or out of it."""
        for place, value in enumerate(node.inputs):
            if value is not None and value.dtype == self.own and self._takes(node, place) != (value in self.changed):
                node.replace_input_with(place, self._cast(edit, node, value))
        for graph in _graphs_in(node):
            for inner in graph:
                for place, value in enumerate(inner.inputs):
                    is_outer = value is not None and value.dtype == self.own and value.graph is self.model.graph
                    if value is not None and is_outer and (value in self.changed) == self.for_file:
                        inner.replace_input_with(place, self._cast(edit, node, value))

    def _cast(self, edit: Edit, before: ir.Node, value: ir.Value) -> ir.Value:
        target = self.own if value in self.changed else self.new
        like = ir.Value(type=ir.TensorType(target))
        to = ir.AttrInt64("to", int(target))
        name = f"{value.name}.cast"
        cast = edit.insert(before, "Cast", [value], [to], like=like, shape=(), name=name, shared=True)
        cast.shape = value.shape
        return cast

    def _cast_outputs(self, edit: Edit) -> None:
        """Cast outputs of the graph that have the new type back to the type that the interface promises."""
        graph = self.model.graph
        for place, value in enumerate(graph.outputs):
            if value not in self.changed:
                continue
            output = ir.Value(type=_with_element(value.type, self.own), shape=value.shape)
            name, value.name = value.name, edit.names.fresh(f"{value.name}.{self.new.name.lower()}")
            output.name = name
            to = ir.AttrInt64("to", int(self.own))
            graph.append(ir.Node("", "Cast", [value], [to], outputs=[output], name=edit.names.fresh(f"{name}_cast")))
            graph.outputs[place] = output

    def _allows(self, schema: OpSchema, name: str) -> bool:
        return _allows(schema, name, self.new, is_strict=self.for_file)

    def _limit(self, value: ir.Value) -> None:
        """Bring the numbers of a constant that keeps its type into the range of the new one: it is cast later."""
        tensor = value.const_value
        if tensor is None or tensor.size > MOST_ELEMENTS or origin_of(value).is_parameter:
            return
        array = tensor.numpy()
        limited = _limited(array, self.new)
        if not np.array_equal(array, limited, equal_nan=True):
            value.const_value = ir.tensor(limited, dtype=tensor.dtype, name=tensor.name)
            value.meta.pop("number", None)


def _graphs_in(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs that a node holds, at any depth."""
    for graph in subgraphs(node):
        yield graph
        for inner in all_nodes(graph):
            yield from subgraphs(inner)


def _formal(parameters: Iterable[OpSchema.FormalParameter], place: int) -> str:
    """Return the type, or the name of the type variable, of an input or output; the last one may be repeated."""
    every = list(parameters)
    return every[min(place, len(every) - 1)].type_str if every else ""


def _allows(schema: OpSchema, name: str, dtype: ir.DataType, *, is_strict: bool) -> bool:
    """Tell whether a type, or type variable, of the schema can be a tensor of the type. Older schemas do not know
    bfloat16 yet; PyTorch computes with it wherever it does with float16. If `is_strict`, that does not count."""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}.get(name, [name])
    also = dtype == ir.DataType.BFLOAT16 and not is_strict
    names = {_TYPE_NAMES[dtype]} | ({"tensor(float16)"} if also else set())
    return not names.isdisjoint(allowed)


def _with_element(kind: ir.TypeProtocol | None, element: ir.DataType) -> ir.TypeProtocol:
    """Return the same type with another element type: of a tensor, or of the tensors in a sequence or optional."""
    match kind:
        case ir.SequenceType():
            return ir.SequenceType(_with_element(kind.elem_type, element))
        case ir.OptionalType():
            return ir.OptionalType(_with_element(kind.elem_type, element))
        case ir.SparseTensorType():
            return ir.SparseTensorType(element)
    return ir.TensorType(element)


def _converted(tensor: ir.TensorProtocol, dtype: ir.DataType) -> ir.TensorProtocol:
    array = _limited(tensor.numpy(), dtype).astype(dtype.numpy())
    return ir.Tensor(array, dtype=dtype, name=tensor.name)


def _limited(array: Array, dtype: ir.DataType) -> Array:
    """Return the array with finite numbers beyond the range of the type set to its largest number."""
    if array.dtype.itemsize <= dtype.itemsize and dtype != ir.DataType.FLOAT16:
        return array
    largest = LARGEST[dtype]
    wide = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    limited: Array = np.where(np.isfinite(wide), np.clip(wide, -largest, largest), wide).astype(array.dtype)
    return limited
