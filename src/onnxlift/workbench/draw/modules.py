"""Draw the modules of a lifted model, as its source has them: classes, members, and the code between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, ValueType, shape_text, type_of
from onnxlift.lifting.code.expr import Binary, Call, Display, Expr, Literal, Local, Member, Subscript, bare, variable
from onnxlift.lifting.code.reads import variables_read
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    Branch,
    Break,
    Evaluate,
    ForLoop,
    Return,
    Statement,
    Target,
    WhileLoop,
    With,
    walk_statements,
)
from onnxlift.lifting.modules.classes.module_class import ClassOf
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.ops.operand import Dims, Scalar
from onnxlift.lifting.stages import CLASSES, LOWERING, RESTRUCTURING, Lift
from onnxlift.lifting.text.constructor import instance_call, layer_call, literal
from onnxlift.stages import Record

from .expressions import TENSOR, is_number, tensors_read, title_of
from .families import family_of
from .picture import CALL, CONTROL, INPUT, LAYER, MODULE, OUTPUT, Box, Picture, Port
from .scope import Scope


def draw_modules(lifted: Lift) -> Picture:
    """Return the picture of a lifted model: its inputs and outputs, and all its modules down to single calls.

    The code of the source is joined and rolled into loops. So the modules are made anew, up to their classes."""
    lift = Lift(lifted.model, lifted.header, structure=lifted.structure, paths=lifted.paths)
    record = Record()
    record.run(LOWERING, lift, record=record)
    for stage in (RESTRUCTURING, CLASSES):
        record.run(stage, lift)
    scope = Scope()
    for value in lift.root.inputs:
        scope.add(_interface(INPUT, value), defines={value: port_of(value)})
    results = _Drawer(lift.class_of).body(scope, lift.root, "")
    for value, expr in zip(lift.root.outputs, results, strict=False):
        scope.add(_interface(OUTPUT, value), tensors_read(expr))
    return scope.finished()


def port_of(value: object) -> Port:
    """Return the port of a variable: with its type, if it is a value of the model."""
    if not isinstance(value, ir.Value):
        return Port(value._hint if isinstance(value, Local) else "")
    return Port(value.name or "", edge_label(type_of(value)))


def edge_label(kind: ValueType) -> str:
    """Write the type of a value on an edge: the shape, and what else is not usual."""
    if kind.kind != "tensor" or (kind.dtype is not None and kind.dtype not in FLOATS):
        return str(kind)
    return "" if kind.shape is None else shape_text(kind.shape)


def _interface(kind: str, value: ir.Value) -> Box:
    return Box(kind, value.name or "", lines=(str(type_of(value)),))


class _Drawer:
    """Draws the bodies of modules, and those of the modules that they call."""

    def __init__(self, class_of: ClassOf) -> None:
        self._class_of = class_of

    def body(self, scope: Scope, module: Module, path: str) -> list[Expr]:
        """Draw the code of a module; return its results."""
        self._reads = Counter(variables_read(module.body))
        self._statements(scope, module, path, module.body)
        last = module.body.statements[-1] if module.body.statements else None
        return _items(last.expr) if isinstance(last, Return) else []

    def _statements(self, scope: Scope, module: Module, path: str, block: Block) -> None:
        for statement in block.statements:
            match statement:
                case Assign():
                    self._assign(scope, module, path, statement)
                case Evaluate():
                    self._call(scope, module, statement.expr, list(tensors_read(statement.expr))[:1])
                case Branch():
                    self._branch(scope, module, path, statement)
                case ForLoop() | WhileLoop():
                    self._loop(scope, module, path, statement)
                case With():
                    self._statements(scope, module, path, statement.body)

    def _assign(self, scope: Scope, module: Module, path: str, statement: Assign) -> None:
        expr, targets = statement.expr, [_key(target) for target in statement.targets]
        child, layer = called_module(expr), _called_layer(expr)
        source = variable(expr)
        if child is not None and isinstance(expr, Call):
            self._module(scope, module, path, child, expr, targets)
        elif layer is not None:
            self._layer(scope, module, path, layer, expr, targets)
        elif source is not None and module.stored_name(source) is None and len(targets) == 1:
            scope.alias(targets[0], source)
        elif is_number(expr, lambda key: scope.find(key) is not None):
            for target in targets:
                scope.forget(target)
        else:
            self._call(scope, module, expr, targets)

    def _call(self, scope: Scope, module: Module, expr: Expr, targets: list[object]) -> None:
        title = title_of(expr, module, partial(_variable_text, scope))
        box = Box(CALL, title, family=family_of(title))
        scope.add(box, tensors_read(expr), _ports(targets))

    def _layer(self, scope: Scope, module: Module, path: str, layer: Layer, expr: Expr, targets: list[object]) -> None:
        title = layer_call(layer, layer.constructor, {})
        name = "" if layer is module.derived else ".".join(module.names(module.name_of(layer)))
        box = Box(LAYER, title, name, _joined(path, name), family=family_of(layer.constructor))
        scope.add(box, tensors_read(expr), _ports(targets))

    def _module(
        self, scope: Scope, module: Module, path: str, child: Module, call: Call, targets: list[object]
    ) -> None:
        name = ".".join(module.names(module.name_of(child)))
        box = Box(MODULE, self._title(child), name, _joined(path, name))
        number = scope.add(box)
        inner = Scope()
        arguments = [*call._args, *call._kwargs.values()]
        for key in child.inputs:
            inner.forget(key)
        for argument, (key, operand) in zip(arguments, child.inputs.items(), strict=False):
            sources = [] if isinstance(operand, Dims | Scalar) else list(tensors_read(argument))
            if sources:
                inner.enters(key, len(box.inputs))
                box.inputs.append(port_of(key))
            for source in sources:
                scope.connect(source, number, len(box.inputs) - 1)
        drawer = _Drawer(self._class_of)
        for target, result in zip(targets, drawer.body(inner, child, box.path), strict=False):
            if target is not None:
                for read in tensors_read(result):
                    inner.leaves(read, len(box.outputs))
                scope.define(target, number, port_of(target))
        box.inside = inner.finished()

    def _title(self, module: Module) -> str:
        cls = self._class_of.get(module)
        if cls is None:
            return module.base
        arguments = {name: literal(value) for name, value in cls.arguments.get(module, {}).items()}
        return instance_call(cls, arguments).removesuffix("()")

    def _branch(self, scope: Scope, module: Module, path: str, statement: Branch) -> None:
        blocks = {"then": statement.then, "else": statement.otherwise}
        taken = _settled(statement.condition, module)
        if taken is not None:
            self._statements(scope, module, path, blocks["then" if taken else "else"])
            return
        condition = title_of(statement.condition, module, partial(_variable_text, scope))
        if all(isinstance(each, Break) for block in blocks.values() for each in block.statements):
            scope.add(Box(CALL, f"if {condition}: break"), tensors_read(statement.condition))
            return
        box = Box(CONTROL, f"if {condition}")
        number = scope.add(box, tensors_read(statement.condition))
        inner = Scope(scope, number)
        outside = self._leaving(scope, statement)
        for title, block in blocks.items():
            part = Box(CONTROL, title)
            place = inner.add(part)
            within = Scope(inner, place)
            self._statements(within, module, path, block)
            for port, key in enumerate(outside):
                within.leaves(key, port)
                inner.leaves_from(place, port_of(key), port)
            part.inside = within.finished()
        for key in outside:
            scope.define(key, number, port_of(key))
        box.inside = inner.finished()

    def _loop(self, scope: Scope, module: Module, path: str, statement: ForLoop | WhileLoop) -> None:
        head = statement.iterable if isinstance(statement, ForLoop) else statement.condition
        word = "for each of" if isinstance(statement, ForLoop) else "while"
        box = Box(CONTROL, f"{word} {title_of(head, module, partial(_variable_text, scope))}")
        number = scope.add(box, tensors_read(head))
        inner = Scope(scope, number)
        outside = self._leaving(scope, statement)
        self._statements(inner, module, path, statement.body)
        for port, key in enumerate(outside):
            inner.leaves(key, port)
            scope.define(key, number, port_of(key))
        box.inside = inner.finished()

    def _leaving(self, scope: Scope, statement: Statement) -> list[object]:
        """Return the variables that a branch or loop sets, and that are read outside it or were there before."""
        inside = Counter(variables_read(statement))
        assigned = dict.fromkeys(_assigned(statement))
        return [key for key in assigned if scope.find(key) is not None or self._reads[key] > inside[key]]


def _assigned(statement: Statement) -> Iterator[object]:
    for each in walk_statements(Block([statement])):
        match each:
            case Assign():
                yield from (key for target in each.targets if (key := _key(target)) is not None)
            case Evaluate():
                yield from list(tensors_read(each.expr))[:1]


def _settled(condition: Expr, module: Module) -> bool | None:
    """Tell whether a condition holds that asks only whether the module has a member; None if it asks something else."""
    match bare(condition):
        case Binary(_op="is" | "is not" as op, _left=Member(_target=target), _right=Literal(_value=None)):
            return (target in module.members.values()) == (op == "is not")
    return None


def _called_layer(expr: Expr) -> Layer | None:
    """Return the layer that an expression calls, perhaps for one of its results: `self.attn(x, x, x)[0]`."""
    inner = bare(expr)
    while isinstance(inner, Subscript):
        inner = bare(inner._base)
    match inner:
        case Call(_function=Member(_target=Layer() as layer)):
            return layer
    return None


def _key(target: Target) -> object:
    return None if target is None else variable(target)


def _ports(targets: list[object]) -> Mapping[object, Port]:
    return {target: port_of(target) for target in targets if target is not None}


def _items(expr: Expr) -> list[Expr]:
    inner = bare(expr)
    return list(inner._items) if isinstance(inner, Display) else [expr]


def _variable_text(scope: Scope, key: object) -> str:
    """Return the text of a variable in a title: a dot if an edge shows it."""
    if scope.find(key) is not None:
        return TENSOR
    name = key._hint if isinstance(key, Local) else getattr(key, "name", None)
    return str(name or "?").rpartition("/")[2]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
