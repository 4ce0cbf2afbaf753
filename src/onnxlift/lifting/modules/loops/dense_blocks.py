"""Write a block in which every layer reads all results before it as a loop.

    a = self.layer1(x)                           features = [x]
    b = self.layer2(torch.cat((x, a), 1))   ->   for layer in self.children():
    return torch.cat((x, a, b), 1)                   features.append(layer(torch.cat(features, 1)))
                                                 return torch.cat(features, 1)

Applies if that is the whole forward, the called modules are all members, each is called once and in the order of the
members, and all concatenations are along one axis. Sound because `children()` gives the members in the order in which
the constructor made them (members in a list are read from that list), and one tensor joined with none is that tensor.

Written out, such a block is as long as the square of its depth, and blocks of two depths would be two classes. So its
members are written as a loop, too, if they are numbered and of one class, and their numbers are the same or grow
regularly:

    self.layer1 = Layer(8); self.layer2 = Layer(12)   ->   for i in range(2):
                                                               self.add_module(f"layer{i + 1}", Layer(8 + i * 4))
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxlift.lifting.code.expr import Attribute, Call, Display, Expr, Literal, Local, Member, Name, Ref, bare, variable
from onnxlift.lifting.code.statements import Assign, Block, Evaluate, ForLoop, Return
from onnxlift.lifting.modules.classes.number_groups import Number
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module

from .loops import Container

FEWEST_LAYERS = 2


def roll_dense(module: Module) -> bool:
    """Roll up the forward of a block whose layers read all that came before them; tell whether it is one."""
    axis = _dense_axis(module)
    if axis is None:
        return False
    (source,), statements = module.inputs, module.body.statements
    path, first = next(module.children())
    container = Container(path[:-1] or ("children",))
    module.name(container, container.path)
    layers: Expr = Member(container) if path[:-1] else Call(Member(container), [], {})
    features, layer = Local("features"), Local("layer", first)

    def joined() -> Expr:
        return Call(Attribute(Name("torch"), "cat"), [features, Literal(axis)], {})

    *calls, last = [statement.origin for statement in statements[:-1]]
    origin = [name for names in calls for name in names]
    append = Evaluate(Call(Attribute(features, "append"), [Call(layer, [joined()], {})], {}), origin=origin)
    module.body.statements = [
        Assign([features], Display([Ref(source)], "[]")),
        ForLoop([layer], layers, Block([append]), origin=list(origin)),
        Return(joined(), origin=last),
    ]
    module.reads_children = not path[:-1]
    return True


def _dense_axis(module: Module) -> int | None:
    """Return the axis along which the layers' results are joined; None if this is no such block."""
    if len(module.inputs) != 1 or len(module.members) < FEWEST_LAYERS or len(module.outputs) != 1:
        return None
    if len({path[:-1] for path in module.members}) != 1:
        return None
    features: list[object] = [*module.inputs]
    joined: object = features[0]  # the variable that holds all features so far
    axes: set[int] = set()
    called: list[Module] = []
    *steps, last = module.body.statements
    for step in steps:
        if not isinstance(step, Assign) or len(step.targets) != 1 or not isinstance(step.targets[0], Ref):
            return None
        child = called_module(step.expr)
        if child is None:
            axis = _joins(step.expr, features)
            if axis is None:
                return None
            axes.add(axis)
            joined = step.targets[0]._key
        elif (
            isinstance(step.expr, Call) and [variable(a) for a in step.expr._args] == [joined] and not step.expr._kwargs
        ):
            called.append(child)
            features.append(step.targets[0]._key)
            joined = None
        else:
            return None
    is_whole = isinstance(last, Return) and joined is not None and variable(last.expr) is joined
    return axes.pop() if is_whole and called == list(module.members.values()) and len(axes) == 1 else None


def _joins(expr: Expr, features: Sequence[object]) -> int | None:
    """Return the axis, if `expr` is the concatenation of these variables; otherwise None."""
    function = bare(expr._function) if isinstance(expr, Call) else None
    if not isinstance(expr, Call) or not isinstance(function, Attribute) or function._name != "cat" or expr._kwargs:
        return None
    display, *rest = map(bare, expr._args)
    if not isinstance(display, Display) or [variable(item) for item in display._items] != list(features):
        return None
    axis = rest[0] if len(rest) == 1 else Literal(0)
    return axis._value if isinstance(axis, Literal) and isinstance(axis._value, int) and len(rest) < 2 else None


PLAIN_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")  # of names that an f-string can count


@dataclass(frozen=True)
class NumberedLayers:
    """The members of such a block as a loop makes them: the `prefix` and the `first` number of their names, their
    `count`, the arguments of the first one, and the growth of these from one member to the next."""

    prefix: str
    first: int
    count: int
    arguments: Mapping[str, Any]
    growth: Mapping[str, int]

    def numbers(self, module: Module) -> Iterator[Number]:
        """Yield the numbers in which such blocks may differ."""
        yield Number((module, "count"), "layers", self.count)
        for name, value in self.arguments.items():
            yield Number((module, name), name, value)
            if name in self.growth:
                yield Number((module, f"growth of {name}"), "growth", self.growth[name])


def regular_layers(module: Module, arguments: Sequence[Mapping[str, Any]]) -> NumberedLayers | None:
    """Return the loop that makes the members, which are of one class and have these arguments; None if no loop can."""
    names = [module.names(path)[0] for path in module.members]
    prefix = names[0].rstrip("0123456789")
    number = names[0].removeprefix(prefix)
    is_plain = number and PLAIN_PREFIX.fullmatch(prefix)
    if not is_plain or names != [f"{prefix}{int(number) + i}" for i in range(len(names))]:
        return None
    growth: dict[str, int] = {}
    for name, start in arguments[0].items():
        column = [values[name] for values in arguments]
        if all(value == start for value in column):
            continue
        if not all(type(value) is int for value in column):
            return None
        growth[name] = column[1] - start
        if column != [start + i * growth[name] for i in range(len(column))]:
            return None
    return NumberedLayers(prefix, int(number), len(names), arguments[0], growth)
