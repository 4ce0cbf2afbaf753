"""The text of one class: its head, the constructor (`constructor.py`), and `forward` from the statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import (
    Attribute,
    Call,
    Device,
    Display,
    Expr,
    Literal,
    Member,
    Ref,
    Star,
    WeightType,
    variable,
    walk,
)
from onnxlift.lifting.code.identifiers import identifier, plain
from onnxlift.lifting.code.render import ATOM, MUL, UNARY, Renderer
from onnxlift.lifting.code.statements import (
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
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.member_names import kind_word
from onnxlift.lifting.modules.module import Module, Stored, indexed_containers, reach
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.modules.statements.inline import Inlined
from onnxlift.lifting.names.method_names import taken_names
from onnxlift.lifting.names.variable_roles import BIAS, RESIDUAL, Hints
from onnxlift.lifting.names.variable_rules import LETTERS
from onnxlift.lifting.names.variables import Variables
from onnxlift.lifting.names.words import NUMBER
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .annotations import parameter_type, tensor_type, written_types
from .class_docstring import listing
from .constructor import Constructor
from .methods import INDENT, Method, Piece, divide
from .narrow_cuts import LONGEST
from .source_map import Origin, Origins
from .tied_code import tie_lines
from .weight_types import input_of_type, weight_of_type

_METHODS = {"float16": "half", "bfloat16": "bfloat16"}
# Layers at the end of a module whose names say nothing about what comes out of it.
_LAST_LAYER = re.compile(r"(?i)w?o|out(put)?|(c_)?proj(ection)?|down|dense|(fc|linear|lin)_?\d*")


@dataclass
class Text:
    """Lines of source. `origins` holds, for each statement of every `forward` in the order of the text, what it comes
    from in the ONNX model."""

    lines: list[str] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    statements: list[Statement | None] = field(default_factory=list)  # None for a line that only calls or ends a method

    def add(self, line: str = "") -> None:
        self.lines.append(line)


class ClassWriter:
    """Writes one class."""

    def __init__(
        self,
        cls: ModuleClass,
        class_of: Mapping[object, ModuleClass],
        ties: Mapping[str, str],
    ) -> None:
        self.cls = cls
        self.ties = ties
        self.module = cls.example
        self.class_of = class_of
        modules = (class_of.get(member) for member in self.module.members.values())
        self.children = list(dict.fromkeys(child for child in modules if child is not None))
        self.known: object = None  # from what the variables got their names
        self.places = cls.constructor.texts
        self.places_in_text: dict[Statement, int] = {}  # which of all statements of the file it is
        self.method_of: dict[Statement, str] = {}  # where the statements are that are not in forward
        self.methods: list[Method] = []
        self.rest: Sequence[Piece] = ()  # what is left of forward, if it is divided into methods
        self.weight_types: dict[str, str | None] = {}
        if not self.module.sequential:
            self.origins = Origins(cls)  # of the statements as they are lowered, before any are joined
        self.inlined: Inlined = {}
        self.begin: Mapping[Statement, int] = {}  # where in the graph each statement begins

    def word_of(self, member: object) -> str:
        """`feed_forward`: what a variable that holds a member is called, by its class."""
        cls = self.class_of.get(member)
        if cls is not None:
            return (
                re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.name.rstrip("0123456789"))
                .lower()
                .replace("attention", "attn")
            )
        return kind_word(member) if isinstance(member, Layer) else "block"

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
        self.cls.result_names = _telling([self._result_name(result) for result in results]) if len(results) > 1 else {}
        for statement in walk_statements(self.module.body):
            for expr in expressions(statement):
                self._tell_callees(expr)

    def _result_name(self, result: Expr) -> str | None:
        """Return the name of a result, unless only the last layer that it went through has that name."""
        name = self.variables.word(result)
        return name if variable(result) in self.variables.names or not _LAST_LAYER.fullmatch(name or "") else None

    def _names_of_child(self, child: Module) -> tuple[Mapping[int, str], Mapping[int, str]]:
        cls = self.class_of.get(child)
        return ({}, {}) if cls is None else (cls.parameter_names, cls.result_names)

    def _tell_callees(self, expr: Expr) -> None:
        for call in walk(expr):
            if isinstance(call, Ref) and call._key in self.inlined:
                self._tell_callees(self.inlined[call._key])
            child = called_module(call)
            cls = self.class_of.get(child) if child is not None else None
            if cls is not None and isinstance(call, Call):
                names = without_numbers([self.variables.word(argument) for argument in call._args])
                for position, name in _telling(names).items():
                    if names.count(name) == 1:  # what is passed as two things is called by neither of them
                        cls.called_with.setdefault(position, name)

    def write(self, text: Text) -> None:
        text.add(f"class {self.cls.name}({self.module.base}):")
        self._docstring(text)
        if self.module.members or self.module.derived or self.cls.constructor.values:
            self._constructor(text)
            text.add()
        if self.ties:
            text.add("    def tie_weights(self) -> None:")
            for line in tie_lines(self.ties, self.module, self.class_of):
                text.add(f"        {line}")
            text.add()
        if not self.module.sequential:
            self._forward(text)

    def _docstring(self, text: Text) -> None:
        instances = [m.path for m in self.cls.instances if m.path]
        if len(instances) > 1:
            text.add(f'    """{plain(listing(instances), 200)}"""')
            text.add()

    def _constructor(self, text: Text) -> None:
        for line in Constructor(self.cls, self.class_of).lines():
            text.add(f"    {line}")
        if self.ties:
            text.add("        self.tie_weights()")

    # forward

    @cached_property
    def renderer(self) -> Numbers:
        return Numbers(self._leaf, self.places, self._weight_type)

    def divide(self) -> int:
        """Divide a forward that is too long into methods, and return how many they are."""
        statements = [*walk_statements(self.module.body)]
        if len(statements) <= LONGEST or any(isinstance(statement, Return) for statement in statements[:-1]):
            return 0
        taken = taken_names(self.module, self.cls.constructor.attributes)
        layers = {path[0] for path, member in self.module.members.items() if not isinstance(member, Stored)}
        self.methods, self.rest = divide([*self._pieces()], self._parameter_types(), taken, layers)
        return len(self.methods)

    def _pieces(self) -> Iterator[Piece]:
        """Write each statement of forward for itself."""
        for statement in self.module.body.statements:
            text = Text()
            inside = [*walk_statements(Block([statement]))]
            types = {name: type for each in inside for name, type in written_types(each, self.variables).items()}
            if not self._is_idle(statement):
                self._block(Block([statement]), text, INDENT)
                yield Piece(text.lines, text.origins, text.statements, types, isinstance(statement, Return))

    def _parameter_types(self) -> dict[str, str]:
        types = map(parameter_type, self.module.inputs.values())
        named = dict(zip(self.variables.parameters, types, strict=True))
        for name in [*named][len(named) - self.module.optional :]:
            named[name] += " | None"
        return named

    def _forward(self, text: Text) -> None:
        parameters = [f"{name}: {type}" for name, type in self._parameter_types().items()]
        required = len(parameters) - self.module.optional
        parameters[required:] = [f"{parameter} = None" for parameter in parameters[required:]]
        returned = self._return_type()
        first = len(text.statements)
        for method in self.methods:
            text.add(f"    {method.head(returned)}")
            _write_pieces(method.body, text)
            text.add()
        text.add(f"    def forward({', '.join(['self', *parameters])}) -> {returned}:")
        if self.methods:
            _write_pieces(self.rest, text)
        else:
            self._block(self.module.body, text, INDENT)
        places = enumerate(text.statements[first:], first)
        self.places_in_text = {statement: place for place, statement in places if statement is not None}
        self.method_of = {
            statement: method.name
            for method in self.methods
            for piece in method.pieces
            for statement in piece.written
            if statement is not None
        }

    def _return_type(self) -> str:
        types = [tensor_type(type_of(value)) for value in self.module.outputs]
        last = self.module.body.statements[-1]
        if isinstance(last, Return) and len(types) > 1 and len({*types}) == 1 and not _is_written_out(last.expr):
            return f"tuple[{types[0]}, ...]"
        return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"

    def _leaf(self, leaf: Expr) -> str | Expr:
        match leaf:
            case Member(_target=target) if target is self.module.derived:
                return "super().forward"
            case Member():
                return self._self(self.module.name_of(leaf._target))
            case Device():
                return self._device()
            case WeightType():
                return self._weight_type(leaf._element) or f"torch.{leaf._element}"
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

    def _weight_type(self, element: str) -> str | None:
        """Return `self.weight.dtype`, or None if nothing tells what has become of the type."""
        if element not in self.weight_types:
            weight = weight_of_type(self.cls, element)
            tensor = weight or input_of_type(self.cls, element, self.variables.names)
            self.weight_types[element] = tensor and f"{tensor}.dtype"
        return self.weight_types[element]

    def _self(self, path: Path) -> str:
        return reach(path, self.module, self._indexed)

    @cached_property
    def _indexed(self) -> frozenset[Path]:
        return indexed_containers(self.module)

    def _block(self, block: Block, text: Text, indent: str) -> None:
        statements = [statement for statement in block.statements if not self._is_idle(statement)]
        if not statements:
            text.add(f"{indent}pass")
        for statement in statements:
            text.statements.append(statement)
            text.origins.append(self.origins.of(statement))
            self._statement(statement, text, indent)
            if isinstance(statement, Branch) and statement.otherwise.statements and statement is not statements[-1]:
                text.add()

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


def _write_pieces(pieces: Sequence[Piece], text: Text) -> None:
    for piece in pieces:
        text.lines += piece.lines
        text.origins += piece.origins
        text.statements += piece.written
        if piece is not pieces[-1] and any(line == f"{INDENT}else:" for line in piece.lines):
            text.add()


class Numbers(Renderer):
    """Writes the constructor's argument where a number differs between the instances of a class, and `x.half()` where
    no weight tells which type is meant."""

    def __init__(
        self,
        name_of: Callable[[Expr], str | Expr],
        places: Mapping[object, str],
        weight_type: Callable[[str], str | None],
    ) -> None:
        super().__init__(name_of)
        self._places = places
        self._weight_type = weight_type

    def _render(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Call(_function=Attribute(_base=base, _name="to"), _args=(WeightType(_element=element),)):
                if self._weight_type(element) is None:
                    return f"{self._base(base)}.{_METHODS[element]}()", ATOM
        if isinstance(expr, Literal) and expr in self._places:
            text = self._places[expr]
            return text, UNARY if text.startswith("-") else MUL if " " in text else ATOM  # `2 * self.size`
        return super()._render(expr)


def without_numbers(names: Sequence[str | None]) -> list[str | None]:
    """`x, mask_1` -> x, mask: what several arguments are called where nothing else has to be told from them."""
    words = [None if name is None else identifier(NUMBER.sub("", name)) for name in names]
    return [word if words.count(word) == 1 else name for name, word in zip(names, words, strict=True)]


def _telling(names: Sequence[str | None]) -> dict[int, str]:
    """Position -> name, of the names that are words and mean the same to callers and callees."""
    silent = {*LETTERS, RESIDUAL, BIAS}
    return {i: name for i, name in enumerate(names) if name is not None and name.rstrip("_0123456789") not in silent}


def _is_tuple(expr: Expr) -> bool:
    return isinstance(expr, Display) and expr._brackets == "()" and len(expr._items) > 1


def _is_written_out(expr: Expr) -> bool:
    """Tell whether each result has its place in a tuple, here or in a module, and none comes from a list."""
    if called_module(expr) is not None:
        return True
    return isinstance(expr, Display) and not any(isinstance(item, Star) for item in expr._items)
