"""The table of operators, and the rules that bind a node to its operator function.

An operator function reads like the ONNX schema: the positional parameters after `n` are the inputs in the schema's
order, the keyword-only ones are attributes.

    @op("Softmax")
    def Softmax(n: Node, input: Tensor, *, axis: int) -> Result: ...

Binding rules:

1. Inputs bind by position, in the form that the parameter's annotation asks for (see `operand`). A missing optional
   input is None. `*inputs` takes all remaining inputs.
2. Attributes bind by name. If the node does not set one, it gets the default of the schema at the model's opset, or
   else the parameter's own default.
3. If older opsets have an attribute where newer ones have an input (`axes`, `min`, `ratio`, ...), the function gets the
   input: the attribute's value as a constant.
4. If the function does not name an attribute, the node may only have its default there: any other value would be
   silently lost.

An operator with weights says which of its inputs are weights, and which layer it lifts to (see `kinds.py`):

    @op("Conv", layer=CONV, weights={"W": "weight", "B": "bias"})
    def Conv(n: Node, X: Tensor, W: Tensor, B: Tensor | None, ...) -> Result: ...
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, OperatorError, quote
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.graph.schema import attributes_of, default_attributes, schema_for
from onnxlift.ir.graph.types import DataType, type_of

from .builtin import load_builtin
from .kinds import LayerKind, declare, layer_kind
from .node import Host, Node, Result, Unsupported
from .operand import Constant, Dims, Operand, Scalar, Tensor, exact_number

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Operator:
    """One entry of the table. `weights` maps the function's parameters that a layer holds to their names in PyTorch's
    function (empty if there is no such function). `layer` is the name of the layer's kind."""

    op_type: str
    domain: str
    function: Callable[..., Result]
    ignores: frozenset[str] = frozenset()
    layer: str = ""
    weights: Mapping[str, str] = field(default_factory=dict)
    inputs: list[inspect.Parameter] = field(default_factory=list)
    attributes: dict[str, inspect.Parameter] = field(default_factory=dict)
    variadic: inspect.Parameter | None = None
    any_attribute: bool = False
    takes: Callable[[ir.Node], bool] | None = None

    def __post_init__(self) -> None:
        for parameter in list(inspect.signature(self.function).parameters.values())[1:]:
            match parameter.kind:
                case inspect.Parameter.KEYWORD_ONLY:
                    self.attributes[parameter.name] = parameter
                case inspect.Parameter.VAR_POSITIONAL:
                    self.variadic = parameter
                case inspect.Parameter.VAR_KEYWORD:
                    self.any_attribute = True
                case _:
                    self.inputs.append(parameter)
        names = {parameter.name for parameter in (*self.inputs, self.variadic) if parameter is not None}
        unknown = self.weights.keys() - names
        if unknown:
            raise TypeError(f"the operator function {self.op_type} has no input {', '.join(sorted(unknown))}")

    @property
    def kind(self) -> LayerKind | None:
        """The kind of layer that it lifts to; None if it lifts to no layer."""
        return layer_kind(self.layer) if self.layer else None

    def weight_places(self, count: int) -> Mapping[int, str]:
        """Return the indices of the weights among `count` inputs, each with its name in PyTorch's function."""
        if self.variadic is None or self.variadic.name not in self.weights:
            return self._places
        rest = range(len(self.inputs), count)
        return {**self._places, **dict.fromkeys(rest, self.weights[self.variadic.name])}

    @cached_property
    def _places(self) -> Mapping[int, str]:
        return {i: self.weights[p.name] for i, p in enumerate(self.inputs) if p.name in self.weights}

    @cached_property
    def forms(self) -> dict[str, type]:
        """The operand class that each parameter's annotation asks for, by the parameter's name."""
        return {name: _form(hint) for name, hint in typing.get_type_hints(self.function).items()}


def _form(hint: Any) -> type:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    forms = {option for option in options if option in (Tensor, Scalar, Dims)}
    return forms.pop() if len(forms) == 1 else object


_TABLE: dict[tuple[str, str], Operator] = {}


def op(
    *op_types: str,
    domain: str = "",
    ignores: Sequence[str] = (),
    layer: str | LayerKind | Sequence[LayerKind] = (),
    weights: Mapping[str, str] | Sequence[str] = (),
    takes: Callable[[ir.Node], bool] | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function for the given operators. A later registration replaces an earlier one.

    `ignores` names attributes that have no effect on the result (`consumed_inputs` of the first opsets). `layer` is the
    kind of layer that the operator lifts to: declared here, or given by name if it is declared elsewhere. It may be
    several kinds that differ in rank or in a detail.

    `weights` names the inputs that the layer holds, and that name the layer. It is a mapping to their names in
    PyTorch's function (`F.conv2d(x, weight, bias)`), or a list of inputs if there is no such function. An operator
    function with a mapping must also work with weights that are not constant.

    `takes` tells of a node whether the function takes it. Other nodes of the operator are expanded to the body that
    defines it.
    """
    names = dict(weights) if isinstance(weights, Mapping) else dict.fromkeys(weights, "")
    kinds = [layer] if isinstance(layer, str | LayerKind) else [*layer]

    def register(function: Function) -> Function:
        is_own = not _is_builtin(function)
        for kind in kinds:
            if isinstance(kind, LayerKind):
                declare(kind, replaces=is_own)
        name = next((kind.name if isinstance(kind, LayerKind) else kind for kind in kinds), "")
        for op_type in op_types:
            key = plain_domain(domain), op_type
            if is_own or key not in _TABLE:
                _TABLE[key] = Operator(op_type, key[0], function, frozenset(ignores), name, names, takes=takes)
        return function

    return register


def _is_builtin(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith(f"{__package__}.")


def find(domain: str, op_type: str) -> Operator | None:
    """Return the operator for a node, the user's own first; None if there is none."""
    load_builtin()
    return _TABLE.get((plain_domain(domain), op_type))


def is_supported(domain: str, op_type: str) -> bool:
    return find(domain, op_type) is not None


def takes(node: ir.Node) -> bool:
    """Tell whether the operator of a node is registered, and its function takes this very node."""
    operator = find(node.domain, node.op_type)
    return operator is not None and (operator.takes is None or operator.takes(node))


def is_users(domain: str, op_type: str) -> bool:
    """Tell whether the user, and not onnxlift itself, registered this operator."""
    operator = find(domain, op_type)
    return operator is not None and not _is_builtin(operator.function)


def operators() -> list[Operator]:
    """Return all registered operators, sorted by domain and name."""
    load_builtin()
    return [_TABLE[key] for key in sorted(_TABLE)]


def call(operator: Operator, node: ir.Node, opset: int, host: Host) -> tuple[Node, Result]:
    """Bind `node` to its operator function and run it; return the node and the result."""
    attributes = attributes_of(node, opset)
    n = Node(node, opset, attributes, host)
    _refuse_lost_attributes(operator, n)
    positional: list[Any] = []
    for index, parameter in enumerate(operator.inputs):
        operand = _input(operator, n, parameter.name, index)
        positional.append(_convert(n, operand, operator.forms.get(parameter.name, object)))
    if operator.variadic is not None:
        form = operator.forms.get(operator.variadic.name, object)
        rest = [None if value is None else host.operand(value) for value in node.inputs[len(operator.inputs) :]]
        positional += [_convert(n, operand, form) for operand in rest]
    elif len(node.inputs) > len(operator.inputs):
        extra = [v.name for v in node.inputs[len(operator.inputs) :] if v is not None]
        if extra:
            n.fail(f"it has more inputs than {node.op_type} is known to take: {', '.join(map(str, extra))}")
    keywords = {}
    for name, parameter in operator.attributes.items():
        value = attributes.get(name)
        if value is None and parameter.default is not inspect.Parameter.empty:
            value = parameter.default
        keywords[name] = value
    if operator.any_attribute:
        keywords.update({k: v for k, v in attributes.items() if k not in keywords})
    if _is_builtin(operator.function):
        return n, operator.function(n, *positional, **keywords)
    return n, _call_users(operator, n, positional, keywords)


def _call_users(operator: Operator, n: Node, positional: list[Any], keywords: dict[str, Any]) -> Result:
    """Run an operator function of the user's. Its errors are the user's to mend, so they are told from ours."""
    try:
        return operator.function(n, *positional, **keywords)
    except (OnnxLiftError, Unsupported):
        raise
    except Exception as error:  # whatever it raises
        title = f"{operator.domain or 'ai.onnx'}::{operator.op_type}"
        what = f"{type(error).__name__}: {error}"
        raise OperatorError(f"your operator function for {title} failed at node {quote(n.name)}: {what}") from error


def _refuse_lost_attributes(operator: Operator, n: Node) -> None:
    if operator.any_attribute:
        return
    inputs = {p.name.lower() for p in operator.inputs}
    defaults = default_attributes(n.domain, n.op_type, n.opset)
    for name in n.ir.attributes:
        known = name in operator.attributes or name in operator.ignores or name.lower() in inputs
        if not known and n.attributes[name] != defaults.get(name):
            n.fail(f"its attribute {name} is not known for this operator")


def _input(operator: Operator, n: Node, name: str, index: int) -> Operand | None:
    if index < len(n.ir.inputs):
        value = n.ir.inputs[index]
        return None if value is None else n.host.operand(value)
    if name in operator.attributes:
        return None
    for attribute, value in n.attributes.items():
        if attribute.lower() == name.lower() and value is not None:
            return _attribute_operand(n, name, value)
    return None


def _attribute_operand(n: Node, name: str, value: Any) -> Operand:
    """Return an attribute's value as the input that newer opsets have instead."""
    if isinstance(value, ir.TensorProtocol):
        array = value.numpy()
    elif isinstance(value, float) or (isinstance(value, tuple) and value and isinstance(value[0], float)):
        with np.errstate(over="ignore"):  # a limit that half precision cannot hold becomes infinite: no limit
            array = np.asarray(value, _float_of(n))
    else:
        array = np.asarray(value, np.int64)
    return Constant(ir.Value(name=name, const_value=ir.tensor(array), **_type_and_shape(array)))


def _type_and_shape(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"type": ir.TensorType(DataType.from_numpy(array.dtype)), "shape": ir.Shape(array.shape)}


def _float_of(n: Node) -> Any:
    """Return the element type for an attribute that stands for an input: that of the data. Attributes themselves are
    float32."""
    dtype = type_of(n.ir.inputs[0]).dtype if n.ir.inputs else None
    return dtype.numpy() if dtype in (DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16) else np.float32


def _convert(n: Node, operand: Operand | None, form: type) -> Any:
    """Return `operand` in the form that the operator function asks for."""
    if operand is None or form is object or isinstance(operand, form):
        return operand
    if form is Tensor:
        return n.tensor(operand)
    if form is Dims:
        return _to_dims(n, operand)
    return _to_scalar(n, operand)


def _to_dims(n: Node, operand: Operand) -> Dims:
    match operand:
        case Constant():
            return Dims.of([int(v) for v in operand.const.reshape(-1)])
        case Scalar():
            return Dims([operand])
        case Dims():
            return operand
    length = operand.type.dim(0)
    whole = operand.long() if operand.type.is_float else operand
    if length == 1 or operand.type.rank == 0:
        return Dims([Scalar(whole.item())])
    return Dims(None, whole.tolist(), length if isinstance(length, int) else None)


def _to_scalar(n: Node, operand: Operand) -> Scalar:
    dtype = operand.type.dtype or DataType.INT64
    match operand:
        case Constant() if operand.type.size == 1:
            return Scalar(exact_number(operand.const.reshape(-1)[0], dtype), dtype)
        case Dims():
            return operand[0]
        case Scalar():
            return operand
    return Scalar(operand.item(), dtype)  # not `int(x)`: torch.export cannot follow that


__all__ = ["Operator", "call", "find", "load_builtin", "op", "operators", "schema_for"]
