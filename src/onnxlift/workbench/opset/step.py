"""The language that adapters are written in: a function takes a node over one step between revisions of its operator.

    @adapter("Squeeze", 13, 11)
    def squeeze_axes_become_an_attribute(s: Step, data: Value, axes: Value | None) -> Result:
        return s.again(data, axes=None if axes is None else s.ints(axes, "axes"))

`13, 11` is the step down from the revision of opset 13 to that of opset 11; `11, 13` is the step up. `0` is no
revision: the operator is to be spelled out in others, since the older opset does not have it. Positional parameters
are the inputs in order (None where the node leaves one out). Keyword-only parameters are attributes, with the defaults
of the revision that the node comes from; only those that the function names are passed.

The function returns `s.again(...)`, which is the same node with other inputs or attributes, or the values that stand
for the node's outputs. `s.Add(x, y)` makes a node of the opset that the step leads to. What is not changed by the
signature alone is checked afterwards, for all steps alike: types, unknown attributes, inputs that are one too many.
A use that cannot go is refused (`s.refuse`), with the reason.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.schema import attributes_of
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor

Value = ir.Value
Array = np.ndarray[Any, Any]


class Again:
    """The result of an adapter that has changed the node itself."""


AGAIN = Again()

Result = Again | Value | Sequence[Value | None]
"""What an adapter returns: the node itself, changed, or one value for each of its outputs."""

Adapter = Callable[..., Result]

_TABLE: dict[tuple[str, str, int, int], Adapter] = {}


class Refusal(Exception):  # noqa: N818  # it never reaches a user: OpsetError gathers them
    """A node that cannot go. The text completes 'it cannot go: ...'."""


def adapter(op_types: str | Sequence[str], old: int, new: int, domain: str = "") -> Callable[[Adapter], Adapter]:
    """Register the decorated function for the step of these operators from one revision to the next, up or down."""

    def register(function: Adapter) -> Adapter:
        for op_type in [op_types] if isinstance(op_types, str) else op_types:
            key = (domain, op_type, old, new)
            assert key not in _TABLE, f"two adapters for {key}"
            _TABLE[key] = function
        return function

    return register


@cache
def adapters() -> dict[tuple[str, str, int, int], Adapter]:
    """Return all adapters by domain, operator, and the two revisions. They are found in the files of adapters/."""
    package = importlib.import_module(f"{__package__}.adapters")
    for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"{package.__name__}.{found.name}")
    return _TABLE


class Step:
    """One node on its way from one revision of its operator to the next.

    `opset` is the version of the nodes that the step makes, `old` that of the node."""

    def __init__(self, edit: Edit, node: ir.Node, old: int, opset: int, *, in_function: bool) -> None:
        self.edit = edit
        self.node = node
        self.old = old
        self.opset = opset
        self.in_function = in_function
        self.nodes: list[ir.Node] = []

    def run(self, function: Adapter) -> Result:
        """Call an adapter with the node's inputs and attributes."""
        inputs: list[Value | None] = list(self.node.inputs)
        arguments: list[Value | None] = []
        keywords: dict[str, Any] = {}
        values = attributes_of(self.node, self.old)
        for parameter in list(inspect.signature(function).parameters.values())[1:]:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                arguments += inputs[len(arguments) :]
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                attribute = self.node.attributes.get(parameter.name)
                if attribute is not None and attribute.is_ref():
                    self.refuse(f"its attribute {parameter.name} is one of the function around it")
                keywords[parameter.name] = values.get(parameter.name)
            else:
                arguments.append(inputs[len(arguments)] if len(arguments) < len(inputs) else None)
        return function(self, *arguments, **keywords)

    def __getattr__(self, op_type: str) -> Callable[..., Value]:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        return lambda *inputs, **attributes: self.several(1, op_type, *inputs, **attributes)[0]

    def several(
        self,
        count: int,
        op_type: str,
        *inputs: Value | None,
        domain: str = "",
        at: int | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """Make a node with `count` outputs, and return these. Attributes that are None are left out.

        With `at` it is one of another opset, because there is none for it yet at `self.opset`."""
        given = [_attribute(name, value) for name, value in attributes.items() if value is not None]
        base = self.node.name or self.node.op_type
        node = ir.Node(
            domain,
            op_type,
            _trimmed(inputs),
            given,
            num_outputs=count,
            version=at or (self.opset if domain == self.node.domain else None),
            name=f"{base}_{op_type}",
            metadata_props=dict(self.node.metadata_props),
        )
        for output in node.outputs:
            output.name = self.edit.names.fresh(f"{self.node.outputs[0].name or base}_{op_type}")
        self.nodes.append(node)
        return list(node.outputs)

    def same(self, *inputs: Value | None, count: int | None = None, **attributes: Any) -> list[Value]:
        """Make a new node of the same operator with these inputs and all attributes of the node, some replaced."""
        kept: dict[str, Any] = {**self.node.attributes.data, **attributes}
        count = len(self.node.outputs) if count is None else count
        return self.several(count, self.node.op_type, *inputs, domain=self.node.domain, **kept)

    def again(self, *inputs: Value | None, **attributes: Any) -> Again:
        """Let the node stay, with these inputs (as they are, if none is given) and attributes (None removes one)."""
        if inputs:
            given = _trimmed(inputs)
            self.node.resize_inputs(len(given))
            for index, value in enumerate(given):
                self.node.replace_input_with(index, value)
        for name, value in attributes.items():
            if value is None:
                self.node.attributes.pop(name, None)
            else:
                self.node.attributes[name] = _attribute(name, value)
        return AGAIN

    def refuse(self, reason: str) -> NoReturn:
        raise Refusal(reason)

    # What is known of values

    def constant(self, value: Value | None) -> Array | None:
        """Return the numbers of a constant; None for any other value."""
        found = constant_of(value)
        return None if found is None else found.numpy()

    def ints(self, value: Value | None, what: str) -> list[int]:
        """Return the integers of a constant; refuse the node if the value, which is its `what`, is computed."""
        array = self.constant(value)
        if array is None:
            self.refuse(f"its {what} must be a constant before opset {self.old}, and it is computed")
        return [int(number) for number in array.reshape(-1)]

    def rank(self, value: Value | None) -> int:
        if value is None or value.shape is None:
            self.refuse("the number of axes of its input is not known")
        return len(value.shape)

    def dtype(self, value: Value | None) -> ir.DataType:
        if value is None or value.dtype is None or value.dtype == ir.DataType.UNDEFINED:
            self.refuse("the element type of its input is not known")
        return value.dtype

    def wants(self, index: int) -> bool:
        """Tell whether anybody reads output `index` of the node."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.name) and (bool(output.uses()) or output.is_graph_output())

    # Constants and control flow

    def array(self, array: Any, dtype: Any = np.int64) -> Value:
        """Return a new constant: an initialiser, or in a function a node, since functions have no initialisers."""
        data = np.asarray(array, dtype.numpy() if isinstance(dtype, ir.DataType) else dtype)
        if self.in_function:
            return self.Constant(value=ir.tensor(data))
        value = self.edit.constant(f"{self.node.outputs[0].name or self.node.op_type}_constant", data)
        if isinstance(dtype, ir.DataType):
            value.type = ir.TensorType(dtype)
        return value

    def number(self, number: float, like: Value | None) -> Value:
        """Return a constant scalar of the element type of `like`."""
        return self.array(number, self.dtype(like))

    def cast(self, value: Value, dtype: ir.DataType) -> Value:
        """Return the value in another element type."""
        return value if value.dtype == dtype else self.Cast(value, to=int(dtype))

    def either(self, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
        """Return the result of one of two branches, of which only one is computed."""
        return self.If(condition, then_branch=self.branch(then), else_branch=self.branch(otherwise))

    def branch(self, make: Callable[[], Value]) -> ir.Graph:
        """Return a graph without inputs of the nodes that `make` makes, whose output is its result."""
        return self.graph(lambda: [make()])

    def graph(self, make: Callable[[], Sequence[Value]], inputs: Sequence[Value] = ()) -> ir.Graph:
        """Return a graph of the nodes that `make` makes, whose outputs are its results."""
        with self._nodes_of_its_own() as nodes:
            results = [self.Identity(value) if value.producer() not in nodes else value for value in make()]
        return ir.Graph(inputs, results, nodes=nodes, name=f"{self.node.name}_graph")

    @contextmanager
    def _nodes_of_its_own(self) -> Iterator[list[ir.Node]]:
        before, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = before


def constant_of(value: Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a value that is a constant: an initialiser, or what a Constant node gives."""
    found = constant(value)
    if found is not None or value is None:
        return found
    producer = value.producer()
    return constant_tensor(producer) if producer is not None and is_standard(producer, "Constant") else None


def _trimmed(inputs: Sequence[Value | None]) -> list[Value | None]:
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    return given


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, ir.Attr):
        return value if value.name == name else ir.Attr(name, value.type, value.value)
    if isinstance(value, np.ndarray):
        value = ir.tensor(value)
    if isinstance(value, tuple):
        value = list(value)
    return ir.convenience.convert_attribute(name, value)
