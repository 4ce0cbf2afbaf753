"""Use a model that is there already inside the one that is being built: `y = build.inline("backbone.onnx")(x)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnxlift.errors import LoadError
from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.types import type_of
from onnxlift.ir.graph.walk import all_nodes, opset_of
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES, string_list

from . import state
from .bodies import Body, body_of, formal
from .errors import BuildError, at_the_users_line, nearest, users_line
from .nodes import make
from .operators import type_shown
from .state import HINT, Block
from .tensors import constant_value, tensor_from
from .types import dtype_text
from .value import Value

_ALIGNED = ("", state.ML)
"""The domains whose opsets can be brought to others."""


@at_the_users_line
def inline(source: Any) -> Inlined:
    """Return the model in `source` as a function of values.

    `source` is all that `lift` takes: a path, bytes, a ModelProto, an onnx_ir.Model, what a verb returned. Its weights
    are shared by all calls. Its nodes are brought to the opset that is in force, and types are inferred anew."""
    from onnxlift.ir.load import load

    try:
        return Inlined(load(source, faithful=True))
    except LoadError as error:
        raise BuildError(f"build.inline: {error}") from None


class Inlined:
    """A model that is called with values. `inputs` and `outputs` are the names that it has for them."""

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._defaults = interface_of(model).defaults
        self.inputs = tuple(value.name or "" for value in model.graph.inputs)
        self.outputs = tuple(value.name or "" for value in model.graph.outputs)
        self._aligned: dict[tuple[tuple[str, int], ...], ir.Model] = {}
        self._constants: dict[str, ir.Value] = {}

    def __repr__(self) -> str:
        return f"<inlined {self._model.graph.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    @at_the_users_line
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Make the nodes of the model, and return its output or a tuple of its outputs."""

        def title() -> str:
            return f"build.inline(...)({', '.join(map(type_shown, (*inputs, *named.values())))})"

        model = self._at_the_opsets_in_force()
        given = self._given(inputs, named, title)
        replay = _Replay(model, self._constants, title)
        for value in model.graph.inputs:
            replay.known[value] = given[value.name or ""]
        replay.graph(model.graph)
        handles = tuple(Value(replay.known[value]) for value in model.graph.outputs)
        return handles if len(handles) != 1 else handles[0]

    def _at_the_opsets_in_force(self) -> ir.Model:
        wanted = {
            domain: state.opsets()[domain]
            for domain, version in self._model.opset_imports.items()
            if domain in _ALIGNED and state.opsets()[domain] != version
        }
        key = tuple(sorted(wanted.items()))
        if key not in self._aligned:
            from onnxlift.ir.load import load

            model = load(self._model, faithful=True)
            if wanted:
                from .conversion import bring_to

                bring_to(model, wanted, "the model that is used")
            infer(model)
            self._aligned[key] = model
        return self._aligned[key]

    def _given(self, inputs: Sequence[Any], named: Mapping[str, Any], title: Callable[[], str]) -> dict[str, ir.Value]:
        if len(inputs) > len(self.inputs):
            raise BuildError(f"{title()}: it has {len(inputs)} inputs, and takes {', '.join(self.inputs) or 'none'}.")
        operands = dict(zip(self.inputs, inputs, strict=False))
        for key, each in named.items():
            if key not in self.inputs:
                raise BuildError(f"{title()}: it has no input {key}{nearest(key, self.inputs)}")
            if key in operands:
                raise BuildError(f"{title()}: its input {key} is given twice, by its place and by its name.")
            operands[key] = each
        found: dict[str, ir.Value] = {}
        for value in self._model.graph.inputs:
            name = value.name or ""
            if name not in operands and name in self._defaults:
                operands[name] = self._defaults[name]
            if name not in operands:
                raise BuildError(f"{title()}: its input {name} is missing; it takes {', '.join(self.inputs)}.")
            found[name] = _fitting(value, operands[name], title)
        return found


def _fitting(declared: ir.Value, given: Any, title: Callable[[], str]) -> ir.Value:
    """Return a value for an input of the model, or raise a BuildError if it is of another type."""
    if not isinstance(given, Value):
        tensor = tensor_from(given, declared.dtype, f"{title()}: its input {declared.name}")
        return constant_value(tensor, declared.name or "input")
    value = given._value
    if value.type is not None and declared.type is not None and value.type != declared.type:
        raise BuildError(
            f"{title()}: its input {declared.name} is {dtype_text(value.dtype)}, and must be {type_of(declared)}."
        )
    if value.shape is not None and declared.shape is not None:
        pairs = list(zip(value.shape, declared.shape, strict=False))
        differ = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if len(value.shape) != len(declared.shape) or differ:
            raise BuildError(
                f"{title()}: its input {declared.name} is {type_of(value)}, and must be {type_of(declared)}."
            )
    return value


class _Replay:
    """Makes the nodes of a model anew, in the body that is being made."""

    def __init__(self, model: ir.Model, constants: dict[str, ir.Value], title: Callable[[], str]) -> None:
        self.model = model
        self.constants = constants
        self.title = title
        self.known: dict[ir.Value, ir.Value] = {}
        self._called: dict[ir.Function, tuple[ir.Function, ...]] = {}

    def graph(self, graph: ir.Graph) -> None:
        for name, value in graph.initializers.items():
            if name not in self.constants:
                assert value.const_value is not None
                self.constants[name] = constant_value(value.const_value, _scoped(name), kind="parameter")
            self.known[value] = self.constants[name]
        for node in graph:
            self._node(node)

    def _node(self, node: ir.Node) -> None:
        attributes: list[ir.Attr] = []
        captures: dict[ir.Value, None] = {}
        functions: list[ir.Function] = []
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                body = self._body(attribute.as_graph(), node)
                captures |= dict.fromkeys(body.captures)
                functions += body.functions
                attribute = ir.AttrGraph(attribute.name, body.graph(attribute.as_graph().name or attribute.name))
            attributes.append(attribute)
        function = self.model.functions.get(node.op_identifier())
        if function is not None:
            functions += self._closure(function)
        made = make(
            node.domain,
            node.op_type,
            opset_of(node, self.model.opset_imports),
            [None if value is None else self.known[value] for value in node.inputs],
            attributes,
            [f"_{index}" if index else "" for index in range(len(node.outputs))],
            lambda: f"{self.title()}: node {node.name}",
            name=node.name,
            captures=tuple(captures),
            function=function,
            functions=tuple(dict.fromkeys(functions)),
            metadata=_metadata(node),
        )
        for old, new in zip(node.outputs, made, strict=True):
            new.meta[HINT] = _scoped(old.name or "value")
            if new.type is None:
                new.type, new.shape = old.type, _known_sizes(old.shape)
            self.known[old] = new

    def _body(self, graph: ir.Graph, node: ir.Node) -> Body:
        what = f"a body of {node.op_type} in the model that is used"
        block = Block(what, users_line(), parent=state.block(), may_never_run=True)
        formals = [
            formal(value.name or "value", value.type, _known_sizes(value.shape), block) for value in graph.inputs
        ]
        self.known.update(zip(graph.inputs, formals, strict=True))
        with state.in_block(block):
            self.graph(graph)
        return body_of(block, formals, [self.known[value] for value in graph.outputs])

    def _closure(self, function: ir.Function) -> tuple[ir.Function, ...]:
        """Return a function and all that it calls, also by way of others."""
        if function not in self._called:
            found = {function: None}
            waiting = [function]
            while waiting:
                for node in all_nodes(waiting.pop().graph):
                    other = self.model.functions.get(node.op_identifier())
                    if other is not None and other not in found:
                        found[other] = None
                        waiting.append(other)
            self._called[function] = tuple(found)
        return self._called[function]


def _scoped(name: str) -> str:
    path = state.scopes().path
    return f"{path}.{name}" if path else name


def _known_sizes(shape: ir.Shape | None) -> ir.Shape | None:
    """Return a shape in which sizes that have a name in the other model get one of their own in this."""
    if shape is None:
        return None
    return ir.Shape([size if isinstance(size, int) else state.fresh_size() for size in shape])


def _metadata(node: ir.Node) -> dict[str, str]:
    """Return the notes of a node; the modules that it lies in are below those around."""
    notes = dict(node.metadata_props)
    names, classes = string_list(notes.get(NAME_SCOPES)), string_list(notes.get(CLASSES))
    scopes = state.scopes()
    if scopes.paths and names is not None and classes is not None:
        prefix = f"{scopes.path}." if scopes.path else ""
        notes[NAME_SCOPES] = repr([*scopes.paths, *(f"{prefix}{name}" if name else scopes.path for name in names)])
        notes[CLASSES] = repr([*scopes.classes, *classes])
    return notes
