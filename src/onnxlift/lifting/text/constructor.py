"""Write the constructor of a class: its arguments, its members, and the numbers that `forward` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxlift.ir.graph.types import TORCH_DTYPE, type_of
from onnxlift.lifting.code.identifiers import MODULE_ATTRIBUTES, identifier, is_attribute
from onnxlift.lifting.code.render import float_text, quoted
from onnxlift.lifting.code.statements import Assign
from onnxlift.lifting.modules.classes.argument_names import numbered
from onnxlift.lifting.modules.classes.descriptions import made_in_a_loop
from onnxlift.lifting.modules.classes.equal_lists import first_of
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.classes.number_groups import LayerClass, Number
from onnxlift.lifting.modules.loops.dense_blocks import PLAIN_PREFIX, NumberedLayers
from onnxlift.lifting.modules.module import DICT_METHODS, Module, Stored, container, is_list, is_table, reach
from onnxlift.lifting.ops.kinds import REQUIRED
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path
from onnxlift.rewriting.idioms.parts.computed_weight import ComputedWeight

from .listed import LINE_LENGTH, LONG_RUN, listed

MOST_BY_POSITION = 4  # arguments of a constructor; more are given by name


class Constructor:
    """The writer of one class's constructor."""

    def __init__(self, cls: ModuleClass, class_of: Mapping[object, ModuleClass]) -> None:
        self.cls = cls
        self.module = cls.example
        self.class_of = class_of
        self.places = cls.constructor.texts
        self.loop_variables: set[str] = set()  # of the generators that enclose what is being written
        self.optional = {part.member: part for part in cls.parts if part.member is not None}

    def lines(self) -> Iterator[str]:
        """Yield the lines of `__init__`, without the code that ties weights."""
        arguments = "".join(f", {self._parameter(name)}" for name in self.cls.constructor.values)
        yield f"def __init__(self{arguments}) -> None:"
        variables = [f"    {name} = {value}" for name, value in self.cls.constructor.variables.items()]
        if self.module.sequential and self.module.has_numbers:
            yield from variables
            yield f"    super().__init__({listed([*self.module.members.values()], self, starred=True)})"
            return
        members = self.module.members
        if self.module.has_numbers:
            held = {path: member for path, member in members.items() if not isinstance(member, Stored)}
            entries = self._entries(held, is_dict=self.module.base == "nn.ModuleDict") if held else ""
            yield f"    super().__init__({entries})"
            members = {path: m for path, m in members.items() if isinstance(m, Stored)}
        elif self.module.derived is not None:
            yield f"    {self._made(self.module.derived, 'super().__init__')}"
            if self.module.derived.computed is not None:
                yield f"    {_wrapped('self', self.module.derived.computed)}"
        else:
            yield "    super().__init__()"
        yield from variables
        for name, value in self.cls.constructor.attributes.items():
            yield f"    self.{name} = {value}"
        layers = made_in_a_loop(self.module, self.class_of)
        lines = self._members(members) if layers is None else self._made_in_a_loop(layers)
        for line in self._chained("self", self.module) if self.module.sequential and layers is None else lines:
            yield f"    {line}"

    def _parameter(self, name: str) -> str:
        constructor = self.cls.constructor
        text = f"{name}: {_annotation(constructor.values[name])}"
        return f"{text} = {literal(constructor.defaults[name])}" if name in constructor.defaults else text

    def _members(self, members: Mapping[Path, Layer | Stored | Module]) -> Iterator[str]:
        """Yield the assignments of members, one for each attribute. Members with longer paths are written within their
        container."""
        groups: dict[str, dict[Path, Layer | Stored | Module]] = {}
        for path, member in members.items():
            groups.setdefault(path[0], {})[path[1:]] = member
        for attribute, group in groups.items():
            length = self.places.get((self.module, f"depth of {attribute}"))
            if length is not None:
                first = self.member(first_of(group.get((), group.get(("0",)))))
                items = f"{first} for _ in range({length})"
                made = f"nn.Sequential(*({items}))" if () in group else f"nn.ModuleList({items})"
                yield self._put("self", self._name(attribute), made)
            elif () in group:
                member = group[()]
                if isinstance(member, Stored) and not member.is_parameter:
                    yield from self._buffer(attribute, member)
                elif (attribute,) in self.optional:
                    yield from self._optional(attribute, member)
                else:
                    yield from self._assigned("self", self._name(attribute), member)
            elif any(self._name(attribute, path[0]) in DICT_METHODS for path in group if len(path) == 1):
                yield self._put("self", self._name(attribute), "nn.Module()")
                for path, member in group.items():  # no `nn.ModuleDict` has members with the names of its methods
                    yield from self._assigned(reach((attribute,), self.module), self._name(attribute, *path), member)
            else:
                yield self._put("self", self._name(attribute), self._container(group, (attribute,)))

    def _name(self, *path: str) -> str:
        """Return what the original calls a member, or a container on the way to it."""
        return self.module.names(path)[-1]

    def _put(self, owner: str, name: str, text: str, member: Layer | Stored | Module | None = None) -> str:
        """Write the statement that gives a module a member. A name that no attribute can have is a literal. A module's
        own attributes can only be hidden by an assignment."""
        if is_attribute(name) or name in MODULE_ATTRIBUTES:
            return f"{owner}.{name} = {text}"
        return f"{owner}.{'register_parameter' if isinstance(member, Stored) else 'add_module'}({quoted(name)}, {text})"

    def _buffer(self, attribute: str, stored: Stored) -> Iterator[str]:
        """Yield the line that registers a buffer. If it is too long, yield a line before it that makes the tensor, as a
        variable named by the last word of the buffer's name."""
        persistent, empty = "" if stored.persistent else ", persistent=False", self._empty(stored)
        if (attribute,) in self.optional:
            empty = f"{empty} if {self.places[(self.optional[(attribute,)], 'there')]} else None"
        name = quoted(self._name(attribute))
        line, word = f"self.register_buffer({name}, {empty}{persistent})", attribute.rpartition("_")[2]
        if len(line) <= LINE_LENGTH - 8 or word in self.taken() or identifier(word) != word:
            yield line
        else:
            yield f"{word} = {empty}"
            yield f"self.register_buffer({name}, {word}{persistent})"

    def _assigned(self, owner: str, name: str, member: Layer | Stored | Module) -> Iterator[str]:
        """Yield the line that gives a module a member. If it is too long and the member is a chain with named members,
        fill it line by line."""
        line = self._put(owner, name, self.member(member), member)
        is_chain = isinstance(member, Module) and self._is_named_chain(member)
        if not is_chain or not isinstance(member, Module) or (len(line) <= LINE_LENGTH - 8 and _can_be_listed(member)):
            yield line
            return
        yield self._put(owner, name, "nn.Sequential()")
        yield from self._chained(
            f"{owner}.{name}" if is_attribute(name) else f"{owner}.get_submodule({quoted(name)})", member
        )

    def _chained(self, target: str, member: Module) -> Iterator[str]:
        """Yield the lines that fill an `nn.Sequential` with members that have names: a line for each, or a loop for
        those that are alike and numbered."""
        inner = [(member.names(path)[0], child, self.member(child)) for path, child in member.members.items()]
        for run in _numbered_runs([(own, text) for own, _, text in inner]):
            own, child, text = inner[run.start]
            if len(run) < LONG_RUN:
                for own, child, _ in inner[run.start : run.stop]:
                    yield from self._assigned(target, own, child)
            else:
                prefix, number = _number_at_end(own)
                variable = numbered("i", self.taken())
                yield f"for {variable} in range({f'{number}, ' if number else ''}{number + len(run)}):"
                yield f'    {target}.add_module(f"{prefix}{{{variable}}}", {text})'

    def _made_in_a_loop(self, layers: NumberedLayers) -> Iterator[str]:
        """Yield the loop that makes members whose numbers grow regularly: `Layer(channels + i * 4)`."""
        values: dict[str, str] = {}
        for name, value in layers.arguments.items():
            values[name] = self._number((self.module, name), value)
            if name in layers.growth:
                values[name] += f" + i * {self._number((self.module, f'growth of {name}'), layers.growth[name])}"
        number = f"i + {layers.first}" if layers.first else "i"
        cls = self.class_of[next(iter(self.module.members.values()))]
        yield f"for i in range({self._number((self.module, 'count'), layers.count)}):"
        yield f'    self.add_module(f"{layers.prefix}{{{number}}}", {instance_call(cls, values)})'

    def _optional(self, attribute: str, member: Layer | Stored | Module) -> Iterator[str]:
        """Yield the lines that make a part which some instances lack."""
        part = self.optional[(attribute,)]
        condition = self.places[(part, "there")]
        nothing = "nn.Identity()" if isinstance(part.statement, Assign) else "None"
        name = self._name(attribute)
        line = self._put("self", name, f"{self.member(member)} if {condition} else {nothing}", member)
        if len(line) <= LINE_LENGTH - 8:
            yield line
        else:
            yield self._put("self", name, nothing, member)
            yield f"if {condition}:"
            yield f"    {self._put('self', name, self.member(member), member)}"

    def _container(self, group: Mapping[Path, Layer | Stored | Module], above: Path) -> str:
        (path, member), *others = group.items()
        if is_table(path, member) and not others:
            assert isinstance(member, Stored)
            return f"nn.Embedding({self._sizes(member)})"
        names = {path[0] for path in group}
        holds_tensors = any(isinstance(member, Stored) and len(path) == 1 for path, member in group.items())
        kind = container(names) if not holds_tensors else "nn.ParameterList" if is_list(names) else "nn.ParameterDict"
        return f"{kind}({self._entries(group, above)})"

    def _entries(
        self, group: Mapping[Path, Layer | Stored | Module], above: Path = (), *, is_dict: bool = False
    ) -> str:
        """Write the argument of a container of these members: a list, a generator or a dictionary (in any case if it
        `is_dict`). `above` is the path of the container."""
        parts: dict[str, dict[Path, Layer | Stored | Module]] = {}
        for path, member in group.items():
            parts.setdefault(path[0], {})[path[1:]] = member
        if all(name.isdecimal() for name in parts):  # a list with gaps: entries without weights are not in it
            parts = {name: parts[name] for name in sorted(parts, key=int)}
        if not is_dict and is_list(set(parts)) and all(() in inner for inner in parts.values()):
            return listed([parts[str(i)][()] for i in range(len(parts))], self, starred=False)
        texts = {
            name: self.member(inner[()]) if () in inner else self._container(inner, (*above, name))
            for name, inner in parts.items()
        }
        if not is_dict and is_list(set(texts)):
            ordered = [texts[str(i)] for i in range(len(texts))]
            is_one = len(ordered) > 1 and len(set(ordered)) == 1
            return f"{ordered[0]} for _ in range({len(ordered)})" if is_one else f"[{', '.join(ordered)}]"
        entries = ", ".join(f"{quoted(self._name(*above, name))}: {text}" for name, text in texts.items())
        return f"{{{entries}}}"

    def repeated_member(self, member: Layer | Stored | Module, variable: str, numbers: Mapping[object, str]) -> str:
        """Write a member for each value of `variable`. `numbers` are the texts for some of its numbers, by their
        places."""
        places, variables = self.places, self.loop_variables
        self.places, self.loop_variables = {**places, **numbers}, {*variables, variable}
        text = self.member(member)
        self.places, self.loop_variables = places, variables
        return text

    def number(self, number: Number) -> str:
        """Write a number: as the argument or variable that holds it, or else as a literal."""
        assert isinstance(number.where, tuple)
        return self._number(number.where, number.value)

    def taken(self) -> set[str]:
        """Return the names of the constructor's variables."""
        return {*self.cls.constructor.values, *self.cls.constructor.variables, *self.loop_variables}

    def member(self, member: Layer | Stored | Module) -> str:
        """Write the call that makes a member."""
        match member:
            case Stored():
                return f"nn.Parameter({self._empty(member)})"
            case Module() if member not in self.class_of:
                if self._is_named_chain(member):
                    return f"nn.Sequential(OrderedDict({self._named_items(member)}))"
                return f"nn.Sequential({listed([*member.members.values()], self, starred=True)})"
            case Module():
                cls = self.class_of[member]
                values = cls.arguments[member]
                return instance_call(cls, {name: self._number((member, name), value) for name, value in values.items()})
        return self._layer(member)

    def _named_items(self, chain: Module) -> str:
        """Write the members of a chain with names, as arguments; as a dictionary, if one of the names cannot be that of
        an argument."""
        texts = [(chain.names(path)[0], self.member(member)) for path, member in chain.members.items()]
        if all(is_attribute(name) for name, _ in texts):
            return ", ".join(f"{name}={text}" for name, text in texts)
        entries: list[str] = []
        for run in _numbered_runs(texts):
            if len(run) < LONG_RUN:
                entries += [f"{quoted(name)}: {text}" for name, text in texts[run.start : run.stop]]
                continue
            prefix, number = _number_at_end(texts[run.start][0])
            variable = numbered("i", self.taken())
            numbers = f"range({f'{number}, ' if number else ''}{number + len(run)})"
            entries.append(f'**{{f"{prefix}{{{variable}}}": {texts[run.start][1]} for {variable} in {numbers}}}')
        return f"{{{', '.join(entries)}}}"

    def _is_named_chain(self, module: Module) -> bool:
        """Tell whether this is an `nn.Sequential` without a class of its own, whose members have names."""
        return module not in self.class_of and not module.has_numbers

    def _layer(self, layer: Layer) -> str:
        if (layer, "class") in self.places:
            return f"{self.places[(layer, 'class')]}()"
        text = self._made(layer, layer.constructor)
        return text if layer.computed is None else _wrapped(text, layer.computed)

    def _made(self, layer: Layer, constructor: str) -> str:
        """Write a call of `constructor` with the arguments of a layer."""
        return layer_call(layer, constructor, self.places)

    def _empty(self, stored: Stored) -> str:
        size = self._sizes(stored)
        element = type_of(stored.weight.value).dtype
        assert element is not None, "constants have a type"
        dtype = TORCH_DTYPE[element]
        if stored.is_parameter or dtype.startswith("float"):
            return f"torch.empty({size})"
        return f"torch.empty({size}, dtype=torch.{dtype})"

    def _sizes(self, stored: Stored) -> str:
        sizes = [self._number((stored, str(axis)), size) for axis, size in enumerate(stored.weight.shape)]
        return ", ".join(sizes) or "()"

    def _number(self, where: tuple[object, str], value: Any) -> str:
        name = self.places.get(where)
        return name if name is not None else literal(value)


@dataclass
class ConstructorCall:
    """A call such as `nn.Conv2d(3, channels, 7, stride, bias=False)`. An optional argument is given by position if its
    text is the name of its parameter, and all arguments before it are given by position."""

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


def layer_call(layer: Layer, constructor: str, places: Mapping[object, str]) -> str:
    """Write a call of `constructor` with the arguments of a layer, or with the texts that `places` has for them."""
    call = ConstructorCall(constructor)
    alone = REQUIRED not in layer.signature.values()  # `nn.Dropout(0.1)`: its first argument needs no name
    for position, (name, value) in enumerate(layer.complete_arguments().items()):
        default = layer.signature[name]
        is_needed = default is REQUIRED or (layer, name) in places or value != default
        by_position = default is REQUIRED or (alone and position == 0 and not isinstance(default, bool))
        call.add(name, places.get((layer, name)) or literal(value), is_needed, by_position)
    return call.text


def _can_be_listed(chain: Module) -> bool:
    """Tell whether a chain with names can be made at once: PyTorch then refuses names of a module's own attributes."""
    return not any(chain.names(path)[0] in MODULE_ATTRIBUTES for path in chain.members)


def _number_at_end(name: str) -> tuple[str, int]:
    """`block1-12` -> ("block1-", 12)."""
    prefix = name.rstrip("0123456789")
    return prefix, int(name.removeprefix(prefix))


def _numbered_runs(entries: Sequence[tuple[str, str]]) -> Iterator[range]:
    """Yield the places of entries, given by name and text: together if their texts are equal and their names count
    up."""
    start = 0
    for end in range(1, len(entries) + 1):
        if end == len(entries) or not _follows(entries[end - 1], entries[end]):
            yield range(start, end)
            start = end


def _follows(entry: tuple[str, str], following: tuple[str, str]) -> bool:
    (name, text), (next_name, next_text) = entry, following
    if text != next_text or not name[-1:].isdigit() or not name.isascii():
        return False
    prefix, number = _number_at_end(name)
    return PLAIN_PREFIX.fullmatch(prefix) is not None and next_name == f"{prefix}{number + 1}"


def _wrapped(text: str, computed: ComputedWeight) -> str:
    """Wrap a layer that computes its weight: `weight_norm(nn.Conv1d(...), dim=1)`."""
    options = "".join(f", {name}={literal(value)}" for name, value in computed.arguments.items())
    return f"{computed.function}({text}{options})"


def instance_call(cls: ModuleClass, values: Mapping[str, str]) -> str:
    """Write a call of the class's constructor with these arguments."""
    defaults = cls.constructor.defaults
    by_name = len(values) - len(defaults) > MOST_BY_POSITION
    call = ConstructorCall(cls.name)
    for name, text in values.items():
        is_needed = name not in defaults or text != literal(defaults[name])
        call.add(name, text, is_needed, by_position=name not in defaults and not by_name)
    return call.text


def literal(value: Any) -> str:
    """Write an argument of a layer as a literal: a number, a string, a class of layers, or a tuple of these."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, LayerClass):
        return value.name
    if isinstance(value, str):
        return quoted(value)
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
