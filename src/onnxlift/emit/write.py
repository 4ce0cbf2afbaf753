"""The text of one class: the constructor from the members, `forward` from the statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx_ir as ir

from ..code.expr import Call, Device, Display, Expr, Literal, Member, Ref, walk
from ..code.render import ATOM, UNARY, Renderer, float_text
from ..code.statements import (
    Assign,
    Block,
    Branch,
    Break,
    Evaluate,
    ForLoop,
    Return,
    Statement,
    WhileLoop,
    With,
    expressions,
    walk_statements,
)
from ..ir.types import TORCH_DTYPE, ValueType, type_of
from ..ops.layers import REQUIRED, Layer
from ..ops.operand import Dims, Operand, Scalar
from ..tree.names import plain
from ..tree.scopes import Path
from .arrange import arrange
from .class_arguments import LayerClass
from .classes import ModuleClass, made_in_a_loop
from .dense import Layers
from .inline import inline
from .loops import roll_loops
from .module import Module, Stored
from .prune import called_module
from .shared_sizes import share_sizes
from .size_sources import read_at_hand
from .source_map import Origin, Origins
from .variables import LETTERS, RESIDUAL, Hints, Variables

LINE_LENGTH = 100  # of the generated source
MOST_BY_POSITION = 4  # arguments of a constructor; more are given by name


@dataclass
class Text:
    """Lines of source. `origins` holds, for each statement of every `forward` in the order of the text, what it comes
    from in the ONNX model."""

    lines: list[str] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)

    def add(self, line: str = "") -> None:
        self.lines.append(line)


class ClassWriter:
    """Writes one class."""

    def __init__(
        self,
        cls: ModuleClass,
        class_of: Mapping[int, ModuleClass],
        ties: Mapping[str, str],
    ) -> None:
        self.cls = cls
        self.ties = ties
        self.module = cls.example
        self.class_of = class_of
        modules = (class_of.get(id(member)) for member in self.module.members.values())
        self.children = list({id(child): child for child in modules if child is not None}.values())
        self.known: object = None  # from what the variables got their names
        self.places = cls.constructor.texts
        self.optional = {part.member: self.places[(id(part), "there")] for part in cls.parts if part.member is not None}

    def prepare(self) -> None:
        """Bring the statements into their final form."""
        if not self.module.sequential:
            self.origins = Origins(self.cls)
            roll_loops(self.module)
            share_sizes(self.module)
            self.inlined, begin = inline(self.module, self.places)
            read_at_hand(self.module, self.inlined)
            arrange(self.module.body, self.inlined, begin)

    def name_variables(self) -> None:
        """Choose names with what callers and callees have chosen so far, and tell them."""
        if self.module.sequential:
            return
        known = (dict(self.cls.called_with), [(cls.parameter_names, cls.result_names) for cls in self.children])
        if known == self.known:
            return
        self.known = known
        self.variables = Variables(self.module, self.inlined, Hints(self.cls.called_with, self._names_of_child))
        self.cls.parameter_names = _telling(self.variables.parameters)
        last = self.module.body.statements[-1]
        assert isinstance(last, Return)
        results = last.expr._items if _is_tuple(last.expr) and isinstance(last.expr, Display) else (last.expr,)
        self.cls.result_names = (
            _telling([self.variables.word(result) for result in results]) if len(results) > 1 else {}
        )
        for statement in walk_statements(self.module.body):
            for expr in expressions(statement):
                self._tell_callees(expr)

    def _names_of_child(self, child: Module) -> tuple[Mapping[int, str], Mapping[int, str]]:
        cls = self.class_of.get(id(child))
        return ({}, {}) if cls is None else (cls.parameter_names, cls.result_names)

    def _tell_callees(self, expr: Expr) -> None:
        for call in walk(expr):
            if isinstance(call, Ref) and call._key in self.inlined:
                self._tell_callees(self.inlined[call._key])
            child = called_module(call)
            cls = self.class_of.get(id(child)) if child is not None else None
            if cls is not None and isinstance(call, Call):
                names = [self.variables.word(argument) for argument in call._args]
                for position, name in _telling(names).items():
                    if names.count(name) == 1:  # what is passed as two things is called by neither of them
                        cls.called_with.setdefault(position, name)

    def write(self, text: Text) -> None:
        base = "nn.Sequential" if self.module.sequential else "nn.Module"
        text.add(f"class {self.cls.name}({base}):")
        self._docstring(text)
        if self.module.members or self.cls.constructor.values:
            self._constructor(text)
            text.add()
        if self.ties:
            self._tie_weights(text)
            text.add()
        if not self.module.sequential:
            self._forward(text)

    def _docstring(self, text: Text) -> None:
        instances = [m.path for m in self.cls.instances if m.path]
        if len(instances) > 1:
            text.add(f'    """{plain(_listing(instances), 200)}"""')
            text.add()

    # The constructor

    def _constructor(self, text: Text) -> None:
        arguments = "".join(f", {self._parameter(name)}" for name in self.cls.constructor.values)
        text.add(f"    def __init__(self{arguments}) -> None:")
        variables = [f"        {name} = {value}" for name, value in self.cls.constructor.variables.items()]
        if self.module.sequential:
            items = ", ".join(self._member(m) for m in self.module.members.values())
            text.lines += [*variables, f"        super().__init__({items})"]
            return
        text.lines += ["        super().__init__()", *variables]
        for name, value in self.cls.constructor.attributes.items():
            text.add(f"        self.{name} = {value}")
        layers = made_in_a_loop(self.module, self.class_of)
        for line in self._members(self.module.members) if layers is None else self._made_in_a_loop(layers):
            text.add(f"        {line}")
        if self.ties:
            text.add("        self.tie_weights()")

    def _tie_weights(self, text: Text) -> None:
        text.add("    def tie_weights(self) -> None:")
        for key, owner in self.ties.items():
            text.add(f"        {self._reach(key)} = {self._reach(owner)}")

    def _reach(self, key: str) -> str:
        """A tensor of the state dict as an expression: `self.blocks[0].weight`."""
        module, path, text = self.module, tuple(key.split(".")), ""
        while path:
            own = next(p for p in module.members if path[: len(p)] == p)
            text += path_text(own, indexed_containers(module))
            member, path = module.members[own], path[len(own) :]
            if isinstance(member, Module):
                module = member
            elif path:
                text, path = f"{text}.{'.'.join(path)}", ()
        return f"self{text}"

    def _parameter(self, name: str) -> str:
        constructor = self.cls.constructor
        text = f"{name}: {_annotation(constructor.values[name])}"
        return f"{text} = {literal(constructor.defaults[name])}" if name in constructor.defaults else text

    def _members(self, members: Mapping[Path, Layer | Stored | Module]) -> Iterator[str]:
        """One line for each attribute; members with longer paths are gathered in their container."""
        groups: dict[str, dict[Path, Layer | Stored | Module]] = {}
        for path, member in members.items():
            groups.setdefault(path[0], {})[path[1:]] = member
        for attribute, group in groups.items():
            if () in group:
                member = group[()]
                if isinstance(member, Stored) and not member.is_parameter:
                    yield f'self.register_buffer("{attribute}", {self._empty(member)})'
                elif (attribute,) in self.optional:
                    yield from self._optional(attribute, member)
                else:
                    yield f"self.{attribute} = {self._member(member)}"
            else:
                yield f"self.{attribute} = {self._container(group)}"

    def _made_in_a_loop(self, layers: Layers) -> Iterator[str]:
        """Members whose numbers grow regularly: `Layer(channels + i * 4)`."""
        values: dict[str, str] = {}
        for name, value in layers.arguments.items():
            values[name] = self._number((self.module, name), value)
            if name in layers.growth:
                values[name] += f" + i * {self._number((self.module, f'growth of {name}'), layers.growth[name])}"
        number = f"i + {layers.first}" if layers.first else "i"
        cls = self.class_of[id(next(iter(self.module.members.values())))]
        yield f"for i in range({self._number((self.module, 'count'), layers.count)}):"
        yield f'    self.add_module(f"{layers.prefix}{{{number}}}", {_instance(cls, values)})'

    def _optional(self, attribute: str, member: Layer | Stored | Module) -> Iterator[str]:
        """A part that some instances lack."""
        condition = self.optional[(attribute,)]
        line = f"self.{attribute} = {self._member(member)} if {condition} else nn.Identity()"
        if len(line) <= LINE_LENGTH - 8:
            yield line
        else:
            yield f"self.{attribute} = nn.Identity()"
            yield f"if {condition}:"
            yield f"    self.{attribute} = {self._member(member)}"

    def _container(self, group: Mapping[Path, Layer | Stored | Module]) -> str:
        parts: dict[str, dict[Path, Layer | Stored | Module]] = {}
        for path, member in group.items():
            parts.setdefault(path[0], {})[path[1:]] = member
        texts = {
            name: self._member(inner[()]) if () in inner else self._container(inner) for name, inner in parts.items()
        }
        if is_list(set(texts)):
            ordered = [texts[str(i)] for i in range(len(texts))]
            if len(ordered) > 1 and len(set(ordered)) == 1:
                return f"nn.ModuleList({ordered[0]} for _ in range({len(ordered)}))"
            return f"nn.ModuleList([{', '.join(ordered)}])"
        entries = ", ".join(f'"{name}": {text}' for name, text in texts.items())
        return f"nn.ModuleDict({{{entries}}})"

    def _member(self, member: Layer | Stored | Module) -> str:
        match member:
            case Stored():
                return f"nn.Parameter({self._empty(member)})"
            case Module() if id(member) not in self.class_of:
                items = [self._member(m) for m in member.members.values()]
                return f"nn.Sequential({', '.join(items)})"
            case Module():
                cls = self.class_of[id(member)]
                values = cls.arguments[id(member)]
                return _instance(cls, {name: self._number((member, name), value) for name, value in values.items()})
        return self._layer(member)

    def _layer(self, layer: Layer) -> str:
        if (id(layer), "class") in self.places:
            return f"{self.places[(id(layer), 'class')]}()"
        call = ConstructorCall(layer.constructor)
        alone = REQUIRED not in layer.signature.values()  # `nn.Dropout(0.1)`: the one thing that it is about
        for position, (name, value) in enumerate(layer.complete_arguments().items()):
            default = layer.signature[name]
            is_needed = default is REQUIRED or (id(layer), name) in self.places or value != default
            by_position = default is REQUIRED or (alone and position == 0)
            call.add(name, self._number((layer, name), value), is_needed, by_position)
        return call.text

    def _empty(self, stored: Stored) -> str:
        sizes = [self._number((stored, str(axis)), size) for axis, size in enumerate(stored.weight.shape)]
        size = ", ".join(sizes) or "()"
        dtype = TORCH_DTYPE[type_of(stored.weight.value).dtype]  # type: ignore[index]  # constants have a type
        if stored.is_parameter or dtype.startswith("float"):
            return f"torch.empty({size})"
        return f"torch.empty({size}, dtype=torch.{dtype})"

    def _number(self, where: tuple[object, str], value: Any) -> str:
        name = self.places.get((id(where[0]), where[1]))
        return name if name is not None else literal(value)

    # forward

    def _forward(self, text: Text) -> None:
        self.renderer = _Numbers(self._leaf, self.places)
        parameters = [
            f"{name}: {_parameter_type(operand)}"
            for name, operand in zip(self.variables.parameters, self.module.inputs.values(), strict=True)
        ]
        required = len(parameters) - self.module.optional
        parameters[required:] = [f"{parameter} | None = None" for parameter in parameters[required:]]
        returned = self._return_type()
        text.add(f"    def forward({', '.join(['self', *parameters])}) -> {returned}:")
        self._block(self.module.body, text, "        ")

    def _return_type(self) -> str:
        types = [_tensor_type(type_of(value)) for value in self.module.outputs]
        return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"

    def _leaf(self, leaf: Expr) -> str | Expr:
        match leaf:
            case Member():
                return self._self(self.module.name_of(leaf._target))
            case Device():
                return self._device()
            case Ref():
                stored = self.module.stored_name(leaf._key)
                if stored is not None:
                    return self._self(stored)
                inner = self.inlined.get(leaf._key)
                return self.variables.names[leaf._key] if inner is None else inner
        inner = self.inlined.get(leaf)
        return self.variables.names[leaf] if inner is None else inner

    def _device(self) -> str:
        if self.variables.anchor is not None:
            return f"{self.variables.names[self.variables.anchor]}.device"
        for path, member in self.module.members.items():
            if isinstance(member, Stored):
                return f"{self._self(path)}.device"
        return "torch.get_default_device()"

    def _self(self, path: Path) -> str:
        return f"self{path_text(path, self._indexed)}"

    @cached_property
    def _indexed(self) -> frozenset[Path]:
        return indexed_containers(self.module)

    def _block(self, block: Block, text: Text, indent: str) -> None:
        statements = [statement for statement in block.statements if not self._is_idle(statement)]
        if not statements:
            text.add(f"{indent}pass")
        for statement in statements:
            text.origins.append(self.origins.of(statement))
            self._statement(statement, text, indent)

    def _is_idle(self, statement: Statement) -> bool:
        """`x = x`: two values that came to share a variable."""
        if not isinstance(statement, Assign) or len(statement.targets) != 1 or statement.targets[0] is None:
            return False
        return self.renderer.text(statement.expr) == self._leaf(statement.targets[0])

    def _bare(self, expr: Expr) -> str:
        """A tuple without its parentheses: `a, b = b, a`."""
        text = self.renderer.text(expr)
        return text[1:-1] if _is_tuple(expr) else text

    def _statement(self, statement: Statement, text: Text, indent: str) -> None:
        write = self.renderer.text
        match statement:
            case Assign():
                targets = ["_" if t is None else str(self._leaf(t)) for t in statement.targets]
                form = statement.form or ", ".join(["{}"] * len(targets))
                text.add(f"{indent}{form.format(*targets)} = {self._bare(statement.expr)}")
            case Evaluate():
                text.add(indent + write(statement.expr))
            case Return():
                text.add(f"{indent}return {self._bare(statement.expr)}")
            case Branch():
                text.add(f"{indent}if {write(statement.condition)}:")
                self._block(statement.then, text, indent + "    ")
                if statement.otherwise.statements:
                    text.add(f"{indent}else:")
                    self._block(statement.otherwise, text, indent + "    ")
                    text.add()
            case ForLoop():
                targets = ["_" if t is None else str(self._leaf(t)) for t in statement.targets]
                text.add(f"{indent}for {', '.join(targets) or '_'} in {write(statement.iterable)}:")
                self._block(statement.body, text, indent + "    ")
            case WhileLoop():
                text.add(f"{indent}while {write(statement.condition)}:")
                self._block(statement.body, text, indent + "    ")
            case With():
                text.add(f"{indent}with {write(statement.context)}:")
                self._block(statement.body, text, indent + "    ")
            case Break():
                text.add(f"{indent}break")


@dataclass
class ConstructorCall:
    """`nn.Conv2d(3, channels, 7, stride, bias=False)`: what has the name of its parameter is given by position, if all
    before it is."""

    name: str
    arguments: list[str] = field(default_factory=list)
    is_open: bool = True  # whether all arguments so far are given by position

    def add(self, name: str, text: str, is_needed: bool, by_position: bool) -> None:
        self.is_open = self.is_open and is_needed and (by_position or text == name)
        if is_needed:
            self.arguments.append(text if self.is_open else f"{name}={text}")

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


def _instance(cls: ModuleClass, values: Mapping[str, str]) -> str:
    """A call of the class's constructor with these arguments."""
    defaults = cls.constructor.defaults
    by_name = len(values) - len(defaults) > MOST_BY_POSITION
    call = ConstructorCall(cls.name)
    for name, text in values.items():
        is_needed = name not in defaults or text != literal(defaults[name])
        call.add(name, text, is_needed, by_position=name not in defaults and not by_name)
    return call.text


class _Numbers(Renderer):
    """Writes the constructor's argument where a number differs between the instances of a class."""

    def __init__(self, name_of: Callable[[Expr], str | Expr], places: Mapping[object, str]) -> None:
        super().__init__(name_of)
        self._places = places

    def _render(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Literal) and id(expr) in self._places:
            is_negative = isinstance(expr._value, int) and expr._value < 0
            return (f"-{self._places[id(expr)]}", UNARY) if is_negative else (self._places[id(expr)], ATOM)
        return super()._render(expr)


def _telling(names: Sequence[str | None]) -> dict[int, str]:
    """Position -> name, of the names that are words and mean the same to callers and callees."""
    silent = {*LETTERS, RESIDUAL}
    return {i: name for i, name in enumerate(names) if name is not None and name.rstrip("_0123456789") not in silent}


def indexed_containers(module: Module) -> frozenset[Path]:
    """The containers in a module whose members are numbered, each an `nn.ModuleList`; a Sequential is one itself."""
    if module.sequential:
        return frozenset({()})
    names: dict[Path, set[str]] = {}
    for path in module.members:
        for depth in range(1, len(path)):
            names.setdefault(path[:depth], set()).add(path[depth])
    return frozenset(path for path, inner in names.items() if is_list(inner))


def path_text(path: Path, indexed: frozenset[Path]) -> str:
    """`.layers[0]`, `.attn["query"]`: how a member is reached through its containers, of which some are indexed."""
    text = f"[{path[0]}]" if () in indexed else f".{path[0]}"
    for depth in range(1, len(path)):
        text += f"[{path[depth]}]" if path[:depth] in indexed else f'["{path[depth]}"]'
    return text


def is_list(names: set[str]) -> bool:
    """Whether the names are 0, 1, 2, ... without a gap."""
    return names == {str(i) for i in range(len(names))}


def literal(value: Any) -> str:
    """A number, or a tuple of numbers, of a layer's arguments."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, LayerClass):
        return value.name
    if isinstance(value, str):
        return Renderer(lambda leaf: leaf).text(Literal(value))
    if isinstance(value, tuple | list):
        items = ", ".join(literal(v) for v in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(int(value))


def _annotation(values: list[Any]) -> str:
    kinds = {type(v) for v in values}
    if kinds == {int}:
        return "int"
    if kinds <= {int, float}:
        return "float"
    if kinds == {bool}:
        return "bool"
    if kinds == {LayerClass}:
        return "type[nn.Module]"
    return "tuple[int, ...]" if kinds == {tuple} else "int | tuple[int, ...]"


def _parameter_type(operand: Operand) -> str:
    match operand:
        case Scalar():
            return "float" if operand.type.is_float else "bool" if operand.type.is_bool else "int"
        case Dims():
            return "tuple[int, ...]"
    return _tensor_type(operand.type)


def _tensor_type(type: ValueType) -> str:
    element = "np.ndarray" if type.dtype == ir.DataType.STRING else "Tensor"
    maps = {"map": "dict", "list of maps": "list[dict]"}
    return {"sequence": f"list[{element}]", "optional": f"{element} | None", **maps}.get(type.kind, element)


def _is_tuple(expr: Expr) -> bool:
    return isinstance(expr, Display) and expr._brackets == "()" and len(expr._items) > 1


def _listing(paths: list[Path]) -> str:
    """The instances of a class for its docstring; numbers that run are written as `*`."""
    whole = ", ".join(".".join(path) for path in paths)
    if len(whole) <= 72:
        return whole
    patterns = list(dict.fromkeys(".".join("*" if p.isdigit() else p for p in path) for path in paths))
    if len(patterns) > 3:
        patterns = [*patterns[:2], "...", patterns[-1]]
    return ", ".join(patterns)
