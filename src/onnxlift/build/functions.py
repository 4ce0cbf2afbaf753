"""Functions of the model: a Python function becomes one, and is called like an operator.

    @build.function(domain="com.myarch")
    def Gate(x, w, *, alpha: float = 1.0):
        return op.Sigmoid(x @ w) * x * alpha

Arguments are inputs, and keyword-only parameters are attributes. The Python function is called once for each kind of
call (types and sizes of the inputs). If two of them make different nodes, the second function is called `Gate_2`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import is_invented_size

from . import state
from .assembly import assemble
from .attributes import AttributeOfFunction, attribute_from
from .bodies import Body, formal, traced
from .errors import BuildError, at_the_users_line, nearest, users_line
from .nodes import make
from .operators import type_shown
from .state import MADE, Block, made_of
from .tensors import constant
from .value import Value

Kind = ir.AttributeType

_KINDS: Mapping[type, ir.AttributeType] = {bool: Kind.INT, int: Kind.INT, float: Kind.FLOAT, str: Kind.STRING}
_LISTS: Mapping[ir.AttributeType, ir.AttributeType] = {
    Kind.INT: Kind.INTS,
    Kind.FLOAT: Kind.FLOATS,
    Kind.STRING: Kind.STRINGS,
}
_WRITTEN: Mapping[str, ir.AttributeType] = {
    **{each.__name__: kind for each, kind in _KINDS.items()},
    **{f"{many}[{each.__name__}]": _LISTS[kind] for each, kind in _KINDS.items() for many in ("list", "Sequence")},
    **{f"tuple[{each.__name__}, ...]": _LISTS[kind] for each, kind in _KINDS.items()},
    "np.ndarray": Kind.TENSOR,
}


@at_the_users_line
def function(
    *,
    domain: str,
    name: str | None = None,
    version: int = 1,
    opset: int | None = None,
    domains: Mapping[str, int] | None = None,
) -> Callable[[Callable[..., Any]], Function]:
    """Make the decorated Python function one of the model, of this domain and version; `name` is its own by default.

    Its operators are those of `opset`, and of `domains` for other domains, else of the opsets in force where it is
    called first."""
    if not isinstance(domain, str) or not domain or domain in state.NEWEST or domain == "ai.onnx":
        raise BuildError(f"the domain of a function is {domain!r}, and must be one of your own, such as com.myarch.")
    if opset is not None:
        state.check_opset("", opset)
    state.check_opset(domain, version)

    @at_the_users_line
    def decorate(python: Callable[..., Any]) -> Function:
        if not callable(python) or not hasattr(python, "__name__"):
            raise BuildError(f"build.function is given {python!r}, and must be given a Python function.")
        return Function(python, domain, name or python.__name__, version, opset, domains or {})

    return decorate


class Function:
    """A function of the model, which is called like an operator."""

    def __init__(
        self,
        python: Callable[..., Any],
        domain: str,
        name: str,
        version: int,
        opset: int | None,
        domains: Mapping[str, int],
    ) -> None:
        self.domain, self.name, self.version, self.opset, self.domains = domain, name, version, opset, domains
        self.__name__, self.__doc__ = name, python.__doc__
        self._python = python
        self._inputs: dict[str, bool] = {}
        self._attributes: dict[str, ir.Attr] = {}
        for key, parameter in inspect.signature(python).parameters.items():
            self._take(key, parameter)
        self._traces: dict[object, ir.Function] = {}
        self._bodies: dict[bytes, ir.Function] = {}
        self._callees: dict[ir.Function, tuple[ir.Function, ...]] = {}

    def __repr__(self) -> str:
        return f"<function {self._called}>"

    @property
    def _called(self) -> str:
        return f"{self.domain}.{self.name}"

    def _take(self, key: str, parameter: inspect.Parameter) -> None:
        """Take a parameter of the Python function: an input, or an attribute with its type and default value."""
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BuildError(f"function {self._called} takes {parameter}: the inputs of a function must be named.")
        if parameter.kind is not parameter.KEYWORD_ONLY:
            if parameter.default is not parameter.empty and parameter.default is not None:
                raise BuildError(
                    f"the input {key} of function {self._called} is {parameter.default!r} by default, and can only be "
                    "None: make it an attribute, behind a star."
                )
            self._inputs[key] = parameter.default is parameter.empty
            return
        kind = _kind(parameter)
        if kind is None:
            raise BuildError(
                f"the attribute {key} of function {self._called} has no type: annotate it with float, int, str, a "
                "list of these, or np.ndarray, or give it a default value."
            )
        if parameter.default is parameter.empty:
            self._attributes[key] = ir.Attr(key, kind, None)
        else:
            self._attributes[key] = attribute_from(key, kind, parameter.default, lambda: f"function {self._called}")

    @at_the_users_line
    def __call__(self, *inputs: Any, **given: Any) -> Any:
        """Make a node that calls the function, and return its output or a tuple of its outputs."""

        def title() -> str:
            return f"{self._called}({', '.join(map(type_shown, inputs))})"

        values, attributes = self._bound(inputs, given, title)
        found = self._traced(values)
        count = len(found.outputs)
        made = make(
            self.domain,
            found.name,
            self.version,
            [value for value in values.values() if value is not None],
            attributes,
            [f"_{index}" if count > 1 else "" for index in range(count)],
            title,
            function=found,
            functions=(found, *self._callees[found]),
        )
        handles = tuple(map(Value, made))
        return handles if count != 1 else handles[0]

    def _bound(
        self, inputs: Sequence[Any], given: Mapping[str, Any], title: Callable[[], str]
    ) -> tuple[dict[str, ir.Value | None], list[ir.Attr]]:
        names = list(self._inputs)
        if len(inputs) > len(names):
            raise BuildError(f"{title()}: it has {len(inputs)} inputs, and takes {', '.join(names) or 'none'}.")
        operands = dict(zip(names, inputs, strict=False))
        attributes: list[ir.Attr] = []
        for key, each in given.items():
            if key in self._attributes:
                attributes.append(attribute_from(key, self._attributes[key].type, each, title))
            elif key not in self._inputs:
                known = [*names, *self._attributes]
                raise BuildError(f"{title()}: it has no attribute or input {key}{nearest(key, known)}")
            elif key in operands:
                raise BuildError(f"{title()}: its input {key} is given twice, by its place and by its name.")
            else:
                operands[key] = each
        for key, required in self._inputs.items():
            if required and operands.get(key) is None:
                raise BuildError(f"{title()}: its input {key} is missing; it takes {', '.join(names)}.")
        for key, attribute in self._attributes.items():
            if attribute.value is None and key not in given:
                raise BuildError(f"{title()}: its attribute {key} is missing, which has no default value.")
        return {key: _value(operands.get(key)) for key in names}, attributes

    def _traced(self, values: Mapping[str, ir.Value | None]) -> ir.Function:
        """Return the function for inputs of these types: the Python function is called for the first of them."""
        opsets = {**state.opsets(), **({} if self.opset is None else {"": self.opset}), **self.domains}
        key = (tuple(sorted(opsets.items())), tuple(map(_type_key, values.values())))
        if key not in self._traces:
            with state.in_opsets(opsets), state.outside_scopes():
                self._traces[key] = self._function(values)
        return self._traces[key]

    def _function(self, values: Mapping[str, ir.Value | None]) -> ir.Function:
        block = Block(f"function {self._called}", users_line(), parent=state.block(), isolated=True)
        formals = {
            key: None if value is None else formal(key, value.type, value.shape, block) for key, value in values.items()
        }
        given = [value for value in formals.values() if value is not None]
        attributes = {key: AttributeOfFunction(key, each.type) for key, each in self._attributes.items()}

        def call(*present: Value, **named: Any) -> Any:
            left = iter(present)
            return self._python(*(None if value is None else next(left) for value in formals.values()), **named)

        body = traced(call, block, given, attributes)
        return self._known(self._made(body), body.functions)

    def _made(self, body: Body) -> ir.Function:
        outputs = {f"output_{index}" if index else "output": value for index, value in enumerate(body.outputs)}
        for value in body.inputs:
            made_of(value).fixed = value.name
        graph = assemble(body.inputs, outputs, body.nodes, body.captures, in_function=True)
        graph.opset_imports.update({"": state.opsets()[""], **self.domains})
        graph.opset_imports.update({node.domain: node.version or 1 for node in all_nodes(graph)})
        return ir.Function(self.domain, self.name, graph=graph, attributes=list(self._attributes.values()))

    def _known(self, made: ir.Function, callees: tuple[ir.Function, ...]) -> ir.Function:
        """Return the function of the same nodes, if there is one; else give this one a name of its own."""
        text = function_text(made)
        if text not in self._bodies:
            if self._bodies:
                made.name = f"{self.name}_{len(self._bodies) + 1}"
            self._bodies[text] = made
            self._callees[made] = tuple({each.identifier(): each for each in callees}.values())
        return self._bodies[text]


def function_text(made: ir.Function) -> bytes:
    """Return what tells two functions apart, without their names."""
    proto = ir.to_proto(made)
    proto.ClearField("name")
    proto.ClearField("value_info")
    found: bytes = proto.SerializeToString(deterministic=True)
    return found


def _kind(parameter: inspect.Parameter) -> ir.AttributeType | None:
    """Return the type of an attribute, by the annotation or else the default value; None if neither tells."""
    written = parameter.annotation
    if written is not parameter.empty:
        text = written if isinstance(written, str) else getattr(written, "__name__", "")
        text = str(written) if not isinstance(written, str | type) else text
        return _WRITTEN.get(text) or (Kind.TENSOR if written is np.ndarray else None)
    default = parameter.default
    if isinstance(default, list | tuple) and default:
        inner = _KINDS.get(type(default[0]))
        return None if inner is None else _LISTS[inner]
    return Kind.TENSOR if isinstance(default, np.ndarray) else _KINDS.get(type(default))


def _value(given: Any) -> ir.Value | None:
    if given is None:
        return None
    return (given if isinstance(given, Value) else constant(given))._value


def _type_key(value: ir.Value | None) -> object:
    if value is None:
        return None
    shape = shape_of(value)
    sizes = shape and tuple("?" if isinstance(size, str) and is_invented_size(size) else size for size in shape)
    return repr(value.type), sizes


def collected(nodes: Sequence[ir.Node]) -> list[ir.Function]:
    """Return the functions that these nodes and those in their bodies call, or raise a BuildError if two differ."""
    found: dict[ir.OperatorIdentifier, ir.Function] = {}
    for node in nodes:
        for each in node.meta[MADE].functions:
            other = found.setdefault(each.identifier(), each)
            if other is not each and function_text(other) != function_text(each):
                raise BuildError(
                    f"the model has two functions {each.domain}.{each.name}, which make different nodes: give one of "
                    "them another name, `@build.function(name=...)`."
                )
    return list(found.values())
