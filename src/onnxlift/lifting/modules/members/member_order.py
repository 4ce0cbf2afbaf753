"""Sort the members of a module: as the original constructor made them, if the file tells it, and otherwise by use.

    self.up = ...; self.gate = ...; self.down = ...   ->   self.gate = ...; self.up = ...; self.down = ...
    return self.down(F.silu(self.gate(x)) * self.up(x))

1. PyTorch's exporters list parameters in the order in which the constructors made them. In this order, optimisers and
   checkpoints count them as in the original. The place of a member is known if a parameter has the member's path in its
   name.
2. The others are in the order in which Python would evaluate them if `forward` were one expression. That depends only
   on what is computed, and not on the order of the graph. If some members are known, each of the others follows the
   one that is used before it.

Parameters and buffers of the module itself come first, as in a state dict, those without a known place in the order of
use. The order of a file does not count if it can't be that of constructors (all names sorted, or in the order of a hash
table): every layer makes its weight before its bias. The values are the same in any order, since they are loaded by
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.origin.exported import parameters_in_order
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Call, Display, Expr, Local, Member, Ref, bare, children, variable
from onnxlift.lifting.code.reads import variables_read
from onnxlift.lifting.code.statements import Assign, Block, Return, Statement, blocks, expressions, walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.tree.paths import Path, owner_of, owner_of_weight

Registered = Mapping[Path, int]
"""The place of each module or tensor among those of the original, by path."""


def registration_order(graph: ir.Graph) -> Registered:
    """Return the order in which the constructors of the original made its parameters, and the modules that hold these.
    Return nothing if the file does not keep it.

    The newer exporter has a list of all parameters, but stores equal ones only once. It stores buffers apart, so their
    places say nothing.
    """
    places: dict[Path, int] = {}
    for place, name in enumerate(parameters_in_order(graph) or graph.initializers):
        value = graph.initializers.get(name)
        owner = () if "." not in name else owner_of(name, is_key=True) if value is None else owner_of_weight(value)
        if owner is not None and not _is_buffer(value):
            path = (*owner, name.rpartition(".")[2])
            for length in range(1, len(path) + 1):
                places.setdefault(path[:length], place)
    biases = ((path[:-1], place) for path, place in places.items() if path[-1] == "bias")
    return {} if any(places.get((*layer, "weight"), -1) > place for layer, place in biases) else places


def _is_buffer(value: ir.Value | None) -> bool:
    return value is not None and origin_of(value).is_buffer


def order_by_use(module: Module) -> None:
    """Sort all members by rule 2. Layers and modules that `forward` does not use are left out."""
    used: dict[object, int] = {}
    for target in _in_order_of_use(module.body):
        used.setdefault(module.constants.get(target, target), len(used))
    members = [(path, m) for path, m in module.members.items() if isinstance(m, Stored) or m in used]
    members.sort(key=lambda item: (not isinstance(item[1], Stored), used.get(item[1], len(used))))
    module.members = dict(members)


def order_as_registered(cls: ModuleClass, registered: Registered) -> bool:
    """Sort the members by rule 1, for all instances of a class alike, unless `forward` goes through them in their
    order. The instance of which most is known tells the order: exporters store equal tensors once, so that another one
    may have lost its names. Tell whether the order is another now."""
    if cls.example.sequential or cls.example.reads_children:
        return False
    known = [
        {path: place for path in m.members if (place := registered.get((*m.path, *m.names(path)))) is not None}
        for m in cls.instances
    ]
    places = max(known, key=len)
    last, order = -1, {}
    for index, (path, member) in enumerate(cls.example.members.items()):
        last = places.get(path, last)
        is_own = isinstance(member, Stored) and len(path) == 1
        order[path] = (not is_own, last, -1 if path in places else index)
    ends = {path[0]: order[path] for path in order}  # of lists that are longer than that of the example
    before = list(cls.example.members)
    for instance in cls.instances:
        in_order = sorted(instance.members.items(), key=lambda item: order.get(item[0], ends[item[0][0]]))
        instance.members = dict(in_order)
    return before != list(cls.example.members)


def _in_order_of_use(block: Block) -> Iterator[object]:
    """Yield the members that a `forward` uses, and the variables of its constants, in the order of evaluation if each
    value were written where it is used. The evaluation does not begin with a result that other values are computed from
    (a mask that is passed on)."""
    written, read = _variables(block)
    results = [r for s in block.statements if isinstance(s, Return) for r in _items(s.expr) if variable(r) not in read]
    done: set[Statement] = set()
    waiting: list[object] = [*reversed(block.statements), *reversed(results)]
    while waiting:
        item = waiting.pop()
        match item:
            case Statement():
                if item not in done:
                    done.add(item)
                    waiting += [s for inner in reversed(blocks(item)) for s in reversed(inner.statements)]
                    waiting += reversed(expressions(item))
            case Call() if isinstance(bare(item._function), Member):  # a member runs after its arguments
                waiting += reversed((*children(item)[1:], item._function))
            case Member():
                yield item._target
            case Ref() | Local():
                if variable(item) not in written:
                    yield variable(item)
                waiting += reversed(written.get(variable(item), ()))
            case Expr():
                waiting += reversed(children(item))


def _variables(block: Block) -> tuple[dict[object, list[Statement]], set[object]]:
    """Return the statements that write each variable, and the variables that are read for something else than a
    result."""
    written: dict[object, list[Statement]] = {}
    read: set[object] = set()
    for statement in walk_statements(block):
        if isinstance(statement, Assign):
            for target in statement.targets:
                written.setdefault(variable(target), []).append(statement)
        if not isinstance(statement, Return):
            read.update(variables_read(*expressions(statement)))
    return written, read


def _items(expr: Expr) -> tuple[Expr, ...]:
    return expr._items if isinstance(expr, Display) else (expr,)
