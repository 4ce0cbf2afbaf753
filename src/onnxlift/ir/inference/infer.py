"""Infer types and shapes of every value, with symbolic sizes followed through shape arithmetic.

This is one forward sweep in topological order. A second one follows if the first has learnt something about sizes that
it needed earlier (`bounds`). Our own rules come first for each node (`shape_rules`, `element_rules`, `contrib_types`):
they know symbolic sizes. If they do not know the node, the operator's ONNX schema infers it from the types found so
far. So a size that is found early is not lost later. Afterwards

- `value.type` and `value.shape` are set wherever they could be found. Every size is an int or a name. Sizes of which
  nothing is known get a generated name (`is_invented_size`). A name means only that sizes of this name are equal.
- `value.meta["dims"]` holds the elements of small integer tensors that are computed from sizes, as far as known.

Declared shapes of graph inputs are believed. Those of other values are used only where inference finds no shape at all.
If a function is called with different shapes, a name in its body stands for another size in each call.

Inference never fails: a node that makes no sense has unknown outputs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnxlift.ir.graph.shapes import MAX_ELEMENTS, Elements, elements_of, shape_of
from onnxlift.ir.graph.walk import all_nodes, opset_of, regions, subgraphs

from . import contrib_types, control_flow, element_rules, shape_rules
from .asking import MAX_RANK, ask_schema, reason_of
from .bounds import Bounds
from .node_view import NodeView, Unknown

logger = logging.getLogger(__name__)

_GENERATED = "unk__"
_NAMELESS = frozenset({"", "?", "-1", "None", "unk"})
_TRACKED = {ir.DataType.INT64: 2**63, ir.DataType.INT32: 2**31, ir.DataType.BOOL: 2}

# The most visits of nodes that repeated sweeps may take, on top of one visit per node. (Loops are swept until their
# shapes settle, functions once per kind of call.) Beyond that, a sweep takes shapes as unknown, which is always right.
REVISITS = 20_000

_Size = int | ir.SymbolicDim
TypeAndShape = tuple[ir.TypeProtocol | None, ir.Shape | None]


def infer(
    model: ir.Model, *, broken: Collection[ir.Node] = (), told: Mapping[str, ir.Value] | None = None
) -> Mapping[ir.Node, str]:
    """Set the type and shape of every value of `model`, as far as they can be known before it runs.

    Return the nodes of the main graph that ONNX's own inference refuses, each with its reason. It is not asked about
    nodes that are known to be `broken`: some of its releases divide by a stride of 0, which ends the process. `told`
    are values by name that are known otherwise: those of a copy that was simplified, say. Their shapes and elements
    count where inference does not find all of them."""
    inference = Inference(model, broken, told or {})
    inference.run()
    return inference.refusals


def is_invented_size(name: str) -> bool:
    """Tell whether a size contains a name that inference has generated, and not the model."""
    return re.search(rf"\b{_GENERATED}\d+\b", name) is not None


@dataclass
class _FunctionCall:
    """The inputs and attributes of a call of a function, or what several calls of it have in common."""

    inputs: list[TypeAndShape]
    attributes: dict[str, ir.Attr]


class Inference:
    """One run of inference over one model."""

    def __init__(
        self, model: ir.Model, broken: Collection[ir.Node] = (), told: Mapping[str, ir.Value] | None = None
    ) -> None:
        self.model = model
        self.broken = broken
        self.told = told or {}
        self.declared: dict[ir.Value, TypeAndShape] = {}
        self.calls: dict[ir.OperatorIdentifier, _FunctionCall] = {}
        self.results: dict[object, list[TypeAndShape]] = {}
        self.refusals: dict[ir.Node, str] = {}
        self.visits = REVISITS
        self.bounds = Bounds()
        self._next_symbol = 0
        for region in regions(model):
            self.visits += len(region.graph)
            for values in (region.graph.inputs, *(node.outputs for node in region.graph)):
                for value in values:
                    self._remember(value)

    def run(self) -> None:
        graph = self.model.graph
        for value in graph.inputs:
            self.assign(value, *self.named(value.type, value.shape))
        self.sweep(graph, self.model.opset_imports, {})
        if self.bounds.learnt_answers():
            self.calls.clear()
            self.visits += len(graph)
            self.sweep(graph, self.model.opset_imports, {})
        # Callers come before the functions they call, so that all calls are known when a body gets its types.
        for identifier in self._callers_first():
            function = self.model.functions[identifier]
            call = self.calls.get(identifier)
            if call is None:
                call = _FunctionCall([(None, None)] * len(function.inputs), dict(function.attributes))
            self._sweep_function(function, call)

    def _remember(self, value: ir.Value) -> None:
        if value.type is not None or value.shape is not None:
            self.declared[value] = (value.type, value.shape)
        for dim in value.shape or ():
            name = None if isinstance(dim, int) else dim.value
            for number in re.findall(rf"{_GENERATED}(\d{{1,18}})", name) if name and _GENERATED in name else ():
                self._next_symbol = max(self._next_symbol, int(number) + 1)

    def fresh(self) -> str:
        """Return a name that no size of the model has."""
        name = f"{_GENERATED}{self._next_symbol}"
        self._next_symbol += 1
        return name

    def named(self, type_: ir.TypeProtocol | None, shape: ir.Shape | None) -> TypeAndShape:
        """Return the type and the shape, with a new name for every size without one."""
        if shape is None or all(isinstance(d, int) and d >= 0 for d in shape):
            return type_, shape

        def name(dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim | str:
            known = dim >= 0 if isinstance(dim, int) else dim.value is not None and dim.value not in _NAMELESS
            return dim if known else self.fresh()

        denotations = [shape.get_denotation(i) for i in range(len(shape))]
        return type_, ir.Shape([name(dim) for dim in shape], denotations)

    def assign(self, value: ir.Value, type_: ir.TypeProtocol | None, shape: ir.Shape | None) -> None:
        """Record the type and shape that were found for `value`. Where nothing was found, record the declared ones."""
        if type_ is None or shape is None:
            declared_type, declared_shape = self.declared.get(value, (None, None))
            if type_ is None or type_ == declared_type:
                shape = shape if shape is not None else self.named(None, declared_shape)[1]
            type_ = type_ if type_ is not None else declared_type
        other = self.told.get(value.name or "") if self.told else None
        if other is not None and not _is_known(shape) and _is_known(other.shape):
            shape = other.shape
        value.type, value.shape = type_, shape if shape is None or len(shape) <= MAX_RANK else None
        if "dims" in value.meta:
            del value.meta["dims"]

    def sweep(self, graph: ir.Graph, opsets: Mapping[str, int], attributes: Mapping[str, ir.Attr]) -> None:
        """Infer all nodes of one graph, whose inputs are already known.

        `attributes` are those that the caller gives, if the graph is in a function."""
        self.visits -= len(graph)
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None:
                value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
        for node in graph:
            self.visit(node, opsets, attributes)

    def visit(self, node: ir.Node, opsets: Mapping[str, int], attributes: Mapping[str, ir.Attr]) -> None:
        """Infer one node, whose inputs are already known."""
        try:
            self._infer_node(node, opsets, attributes)
        except Exception as error:  # whatever a broken model provokes, the outputs are merely unknown
            logger.debug("no inference for node %s: %r", node.name, error)
            for output in node.outputs:
                self.assign(output, None, None)
        if self.told:
            self._take_elements(node)

    def always_runs(self, node: ir.Node) -> bool:
        """Tell whether the node runs whenever the model does, and not only in a branch, a loop or a function."""
        return node.graph is self.model.graph

    def _take_elements(self, node: ir.Node) -> None:
        """Record the elements that are told of the outputs of a node, where inference has not found them all."""
        for output in node.outputs:
            other = self.told.get(output.name or "")
            known = None if other is None or output.dtype not in _TRACKED else elements_of(other)
            if known is None or any(e is None or is_invented_size(str(e)) for e in known):
                continue
            if shape_of(output) in ((), (len(known),)):
                output.meta["dims"] = known if shape_of(output) else known[0]

    def _infer_node(self, node: ir.Node, opsets: Mapping[str, int], attributes: Mapping[str, ir.Attr]) -> None:
        if node.op_identifier() in self.model.functions:
            self._infer_call(self.model.functions[node.op_identifier()], node, attributes)
            return
        if subgraphs(node):
            control_flow.infer(self, node, opsets, attributes)
            return
        standard = node.domain == ""
        opset = opset_of(node, opsets)
        # Bounds that are learnt in a subgraph hold only in runs that execute it.
        bounds = self.bounds if self.always_runs(node) else Bounds()
        view = NodeView(node, opset, attributes, self.fresh, bounds)
        if standard and self._infer_by_rule(view):
            return
        contributed = contrib_types.infer(view)
        if contributed:
            for output, known in zip_longest(node.outputs, contributed[: len(node.outputs)]):
                if known is None:
                    self.assign(output, None, None)
                else:
                    self.assign(output, ir.TensorType(known[0]), ir.Shape(known[1]))
            return
        found = {} if node in self.broken else self._infer_by_schema(node, view, opsets)
        for output in node.outputs:
            self.assign(output, *found.get(output.name or "", (None, None)))
        if standard:
            self._set_rank(view)
            self._set_elements(view)

    def _set_rank(self, view: NodeView) -> None:
        output = view.node.outputs[0]
        if output.shape is None and view.node.op_type in shape_rules.KEEPS_RANK:
            try:
                output.shape = ir.Shape(shape_rules.same_rank(view))
            except Unknown:
                return

    def _infer_by_rule(self, view: NodeView) -> bool:
        """Infer all outputs by our own rules; False if these do not know type and shape of all of them."""
        node = view.node
        if node.op_type == "Split":
            return self._infer_split(view)
        rule = shape_rules.RULES.get(node.op_type)
        if rule is None or (len(node.outputs) != 1 and node.op_type != "MaxPool"):
            return False
        try:
            dtype, shape = shape_rules.DTYPES[node.op_type](view), rule(view)
        except Unknown:
            return False
        if any(isinstance(dim, int) and dim < 0 for dim in shape):
            return False
        self.assign(node.outputs[0], ir.TensorType(dtype), ir.Shape(shape))
        for indices in node.outputs[1:]:
            self.assign(indices, ir.TensorType(ir.DataType.INT64), ir.Shape(shape))
        self._set_elements(view)
        return True

    def _infer_split(self, view: NodeView) -> bool:
        try:
            dtype, shapes = view.dtype(), shape_rules.split(view)
        except Unknown:
            return False
        for output, shape in zip(view.node.outputs, shapes, strict=True):
            self.assign(output, ir.TensorType(dtype), ir.Shape(shape))
        self._set_elements(view)
        return True

    def _set_elements(self, view: NodeView) -> None:
        """Record the elements of a node's output, if it is a small integer tensor and some are known."""
        output = view.node.outputs[0]
        limit = _TRACKED.get(output.dtype) if output.dtype is not None else None
        shape = shape_of(output)
        if limit is None or shape is None or len(shape) > 1:
            return
        for target, elements in self._elements(view):
            length = 1 if target.shape is None or not len(target.shape) else target.shape[0]
            if length != len(elements) or len(elements) > MAX_ELEMENTS or all(element is None for element in elements):
                continue
            kept = tuple(None if isinstance(e, int) and not -limit <= e < limit else e for e in elements)
            target.meta["dims"] = kept if target.shape is not None and len(target.shape) else kept[0]

    def _elements(self, view: NodeView) -> Iterable[tuple[ir.Value, Elements]]:
        rule = element_rules.RULES.get(view.node.op_type)
        try:
            if rule is not None:
                return [(view.node.outputs[0], rule(view))]
            if view.node.op_type == "Split":
                return zip(view.node.outputs, element_rules.split(view), strict=True)
        except Unknown:
            pass
        return ()

    def _infer_by_schema(self, node: ir.Node, view: NodeView, opsets: Mapping[str, int]) -> Mapping[str, TypeAndShape]:
        """Return what the operator's ONNX schema infers of the outputs, by name."""
        self.refusals.pop(node, None)
        try:
            inferred = ask_schema(node, view, opsets, self.model.ir_version)
        except onnx.shape_inference.InferenceError as error:
            # Some schemas compute with unknown sizes as if they were 0, so only what they say of known ones counts.
            if self.always_runs(node) and all(_is_static(value) for value in node.inputs if value is not None):
                self.refusals[node] = reason_of(error)
            return {}
        except Exception as error:
            logger.debug("ONNX cannot infer node %s: %r", node.name, error)
            return {}
        empty = any(dim == 0 for value in node.inputs if value is not None for dim in value.shape or ())
        return {name: self._from_proto(proto, empty) for name, proto in inferred.items()}

    def _from_proto(self, proto: onnx.TypeProto, empty: bool) -> TypeAndShape:
        type_ = ir.serde.deserialize_type_proto_for_type(proto)
        if type_ is not None and type_.dtype == ir.DataType.UNDEFINED:
            type_ = None
        shape = ir.serde.deserialize_type_proto_for_shape(proto)
        if shape is not None and not empty:
            # Some schemas (Attention) compute with unknown sizes as if they were 0, so a size of 0 tells nothing.
            shape = ir.Shape([None if dim == 0 else dim for dim in shape])
        return self.named(type_, shape)

    def _infer_call(self, function: ir.Function, node: ir.Node, outer: Mapping[str, ir.Attr]) -> None:
        """Infer the outputs of a call by a sweep over the function's body, once for each kind of call."""
        attributes = dict(function.attributes)
        for name, attribute in node.attributes.items():
            resolved = outer.get(attribute.ref_attr_name or "") if attribute.is_ref() else attribute
            if resolved is not None:
                attributes[name] = resolved
        attributes = {name: attribute for name, attribute in attributes.items() if attribute.value is not None}
        inputs: list[TypeAndShape] = [(None, None) if v is None else (v.type, v.shape) for v in node.inputs]
        inputs += [(None, None)] * (len(function.inputs) - len(inputs))
        identifier = function.identifier()
        call, former = _FunctionCall(inputs, attributes), self.calls.get(identifier)
        self.calls[identifier] = call if former is None else self._common(former, call)
        key = (identifier, repr(inputs), repr(sorted(attributes.items())))
        if key not in self.results:
            if self.visits < 0:
                inputs = [(type_, None) for type_, _ in inputs]
                key = (identifier, repr([type_ for type_, _ in inputs]), "")
            if key not in self.results:
                self.results[key] = []  # ends the recursion of a function that calls itself (loading refuses those)
                self._sweep_function(function, _FunctionCall(inputs, attributes))
                self.results[key] = [(value.type, value.shape) for value in function.outputs]
        known = {dim for _, shape in inputs for dim in shape or ()}
        renamed: dict[object, str] = {}
        for output, (type_, shape) in zip(node.outputs, self.results[key], strict=False):
            # A size that was named inside the body is another size in each call.
            dims = None if shape is None else [self._outside(dim, known, renamed) for dim in shape]
            self.assign(output, type_, None if dims is None else ir.Shape(dims))

    def _outside(self, dim: _Size, known: Collection[object], renamed: dict[object, str]) -> _Size | str:
        if isinstance(dim, int) or dim in known or not is_invented_size(dim.value or ""):
            return dim
        if dim not in renamed:
            renamed[dim] = self.fresh()
        return renamed[dim]

    def _sweep_function(self, function: ir.Function, call: _FunctionCall) -> None:
        for value, (type_, shape) in zip(function.inputs, call.inputs, strict=False):
            self.assign(value, *self.named(type_, shape))
        opsets = {**self.model.opset_imports, **function.opset_imports}
        self.sweep(function.graph, opsets, call.attributes)

    def _common(self, call: _FunctionCall, other: _FunctionCall) -> _FunctionCall:
        """Return what both calls have in common. Sizes that differ in the same way get the same name."""
        names: dict[object, str] = {}

        def name(pair: object) -> str:
            if pair not in names:
                names[pair] = self.fresh()
            return names[pair]

        joined: list[TypeAndShape] = [
            (a_type, control_flow.join_shapes(a_shape, b_shape, name))
            if a_type is not None and a_type == b_type
            else (None, None)
            for (a_type, a_shape), (b_type, b_shape) in zip(call.inputs, other.inputs, strict=True)
        ]
        same = {name: value for name, value in call.attributes.items() if other.attributes.get(name) == value}
        return _FunctionCall(joined, same)

    def _callers_first(self) -> list[ir.OperatorIdentifier]:
        functions = self.model.functions
        order: list[ir.OperatorIdentifier] = []
        entered: set[ir.OperatorIdentifier] = set()
        for root in functions:
            stack = [(root, False)]
            while stack:
                identifier, finished = stack.pop()
                if finished:
                    order.append(identifier)
                elif identifier not in entered:
                    entered.add(identifier)
                    stack.append((identifier, True))
                    called = {node.op_identifier() for node in all_nodes(functions[identifier].graph)}
                    stack.extend((other, False) for other in functions if other in called)
        return order[::-1]


def _is_static(value: ir.Value) -> bool:
    return value.shape is not None and all(isinstance(dim, int) for dim in value.shape)


def _is_known(shape: ir.Shape | None) -> bool:
    """Tell whether all sizes are numbers or names of the model."""
    return shape is not None and not any(is_invented_size(str(dim)) for dim in shape if not isinstance(dim, int))
