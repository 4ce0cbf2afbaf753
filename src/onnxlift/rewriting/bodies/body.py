"""The language that bodies of operators are written in: a function gets the node's inputs and attributes and calls
operators.

    @body("BiasGelu")
    def BiasGelu(b: Body, A: Value, B: Value) -> Value:
        return b.Gelu(b.Add(A, B))

Positional parameters are the inputs in order (None where the node leaves one out). Keyword-only parameters are the
attributes with their defaults; the node may not set other attributes. The function returns one value for each output,
None for those that it does not compute.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant, contiguous
from onnxlift.ir.graph.schema import attributes_of
from onnxlift.ir.graph.shapes import shape_of

Value = ir.Value
MICROSOFT = "com.microsoft"

OPSET = 23
"""The version of ONNX's operators that the bodies are written with: the first with Attention and RMSNormalization."""


class NoBody(Exception):  # noqa: N818  # it never reaches a user: UnsupportedError gathers them
    """A use of the operator that ONNX's own operators cannot express. The text completes 'not supported: ...'."""


class BodyBuilder:
    """The body that is being written. `b.Add(x, y)` appends a node and returns its output."""

    def __init__(self, node: ir.Node, opset: int = OPSET) -> None:
        self.node = node
        self.opset = opset
        """The opset of the model. The body is brought there; it may choose a form that stays small on the way."""
        self.nodes: list[ir.Node] = []
        self.inputs = [None if value is None else _input(value) for value in node.inputs]

    def __getattr__(self, op_type: str) -> Callable[..., Value]:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.several(1, op_type, *inputs, **attributes)[0]

    def several(self, count: int, op_type: str, *inputs: Value | None, **attributes: Any) -> list[Value]:
        """Append a node with `count` outputs and return them. Attributes that are None are left out."""
        given = {name: value for name, value in attributes.items() if value is not None}
        node = ir.node(op_type, list(inputs), given, num_outputs=count, name=op_type)
        for index, output in enumerate(node.outputs):
            output.name = f"{op_type}_output_{index}"  # a name that says it is generated
        self.nodes.append(node)
        return list(node.outputs)

    def number(self, number: float, like: Value) -> Value:
        """Return a constant of the element type of `like`, which is an input."""
        if like.dtype is None:
            self.fail("the element type of its input is not known")
        return self.constant(np.asarray(number, like.dtype.numpy()))

    def ints(self, *numbers: int) -> Value:
        """Return a constant list of axes or sizes."""
        return self.constant(np.asarray(numbers, np.int64))

    def constant(self, array: np.ndarray[Any, Any]) -> Value:
        return self.Constant(value=ir.tensor(array))

    def transposed(self, x: Value, order: Sequence[int]) -> Value:
        """Return `x` with its axes in another order. If `x` is a constant input, the result is a constant too, computed
        when it is needed."""
        tensor = self.known(x)
        if tensor is None:
            return self.Transpose(x, perm=list(order))
        sizes = tensor.shape.numpy()
        return self.computed(lambda: tensor.numpy().transpose(order), tensor.dtype, [sizes[axis] for axis in order])

    def known(self, x: Value | None) -> ir.TensorProtocol | None:
        """Return the numbers of an input that is a constant; None if it is none."""
        return constant(self.node.inputs[self.inputs.index(x)]) if x in self.inputs else None

    def computed(self, array: Callable[[], Any], dtype: ir.DataType, shape: Sequence[int]) -> Value:
        """Return a constant that is computed when it is needed."""
        lazy = ir.LazyTensor(partial(_tensor, array, dtype), dtype, ir.Shape(shape))
        return self.Constant(value=lazy)

    def inside(self, inputs: Sequence[str]) -> GraphBuilder:
        """Return a builder of a graph inside this body, with inputs of these names; it may read all values so far."""
        return GraphBuilder(self, inputs)

    def wants(self, index: int) -> bool:
        """Tell whether anybody reads output `index` of the node."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    def fail(self, reason: str) -> NoReturn:
        raise NoBody(reason)


class GraphBuilder(BodyBuilder):
    """A graph that a node of the body runs, like the body of a Scan."""

    def __init__(self, around: BodyBuilder, inputs: Sequence[str]) -> None:
        super().__init__(around.node, around.opset)
        self.inputs = around.inputs
        self.own = [ir.Value(name=name) for name in inputs]

    def graph(self, *outputs: Value) -> ir.Graph:
        """Return the finished graph."""
        return ir.Graph(self.own, list(outputs), nodes=self.nodes, name=self.node.op_type)


def _tensor(array: Callable[[], Any], dtype: ir.DataType) -> ir.TensorProtocol:
    return ir.tensor(contiguous(array()), dtype=dtype)


Function = TypeVar("Function", bound=Callable[..., Any])
_TABLE: dict[tuple[str, str], Callable[..., Any]] = {}


def body(*op_types: str, domain: str = MICROSOFT) -> Callable[[Function], Function]:
    """Register the decorated function as the body of the given operators."""

    def register(function: Function) -> Function:
        for op_type in op_types:
            _TABLE[domain, op_type] = function
        return function

    return register


def operators() -> list[tuple[str, str]]:
    """Return domain and type of every operator that has a body here."""
    return sorted(_TABLE)


def has_body(node: ir.Node) -> bool:
    """Tell whether the operator has a body here."""
    return (node.domain, node.op_type) in _TABLE


def body_of(node: ir.Node, opset: int = OPSET) -> ir.Function:
    """Return the body of `node`, written for its types and attributes, in a model of this opset. Raise `NoBody` for a
    use that has none."""
    function = _TABLE[node.domain, node.op_type]
    b = BodyBuilder(node, opset)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = _arguments(b, parameters, b.inputs)
    keywords = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    for name, value in attributes_of(node, 1).items():
        if name not in keywords:
            b.fail(f"its attribute {name} is not known for this operator")
        keywords[name] = value
    missing = [name for name, value in keywords.items() if value is inspect.Parameter.empty]
    if missing:
        b.fail(f"its attribute {missing[0]} is missing")
    try:
        results = function(b, *positional, **keywords)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # In an untrusted model an attribute may be of any type, and sizes may not divide.
        b.fail(f"its inputs and attributes do not go together ({error})")
    outputs = results if isinstance(results, Sequence) else [results]
    return _function(b, outputs)


def _input(value: Value) -> Value:
    return ir.Value(name=value.name, type=value.type, shape=value.shape)


def _arguments(b: BodyBuilder, parameters: list[inspect.Parameter], inputs: list[Value | None]) -> list[Value | None]:
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return inputs
    names = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    given = [*inputs, *[None] * (len(names) - len(inputs))]
    if any(value is not None for value in given[len(names) :]):
        b.fail(f"it has more inputs than {b.node.op_type} is known to take")
    for parameter, value in zip(names, given, strict=False):
        if value is None and "None" not in str(parameter.annotation):
            b.fail(f"its input {parameter.name} is missing")
    return given[: len(names)]


def _function(b: BodyBuilder, outputs: Sequence[Value | None]) -> ir.Function:
    """Return the body as a function. It has the inputs of the node, and one more that no node passes: this stands for
    outputs that are not computed."""
    nothing = ir.Value(name="nothing")
    for index in range(len(b.node.outputs)):
        if b.wants(index) and (index >= len(outputs) or outputs[index] is None):
            b.fail(f"its output {index} is not computed")
    made = [nothing if output is None else output for output in outputs]
    made += [nothing] * (len(b.node.outputs) - len(made))
    taken = [ir.Value(name=f"left_out_{i}") if value is None else value for i, value in enumerate(b.inputs)]
    graph = ir.Graph([*taken, nothing], made, nodes=b.nodes, opset_imports={"": OPSET})
    return ir.Function(b.node.domain, b.node.op_type, graph=graph, attributes=[])


# The prefix that ONNX Runtime's optimisers give to the name of a node that they have fused.
_FUSED = re.compile(r"(fused |\w+_\d+-)(?=/)")
_LAYERS = frozenset({"Conv", "Gemm", "MatMul", "LayerNormalization", "RMSNormalization", "GroupNormalization"})


def name_of(call: ir.Node, node: ir.Node) -> str:
    """Return the name for a node of the body of `call`. The layer in the body gets the name of the fused node, which
    had it from the layer."""
    name = call.name or ""
    prefix = _FUSED.match(name)  # at the start only: to look for it everywhere takes quadratic time
    name = name[prefix.end() :] if prefix else name or call.op_type
    return name if node.op_type in _LAYERS else f"{name}_{node.op_type}"


# Questions that several bodies ask about their inputs


def rank(value: Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def size(value: Value | None, axis: int) -> int | str | None:
    """Return the size of one axis: a number, a name, or None if unknown."""
    shape = shape_of(value)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None


def is_scalar(value: Value | None) -> bool:
    """Tell whether a tensor is known to have one element."""
    shape = shape_of(value)
    return shape is not None and all(dim == 1 for dim in shape)
