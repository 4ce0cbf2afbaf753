"""Turn a module whose forward is a plain chain into an `nn.Sequential`.

    x = self.0(x); x = F.relu(x); return self.2(x)   ->   nn.Sequential(nn.Linear(...), nn.ReLU(), nn.Linear(...))

Applies when every statement calls one member, or one function that `torch.nn` has as a layer, on the result of the one
before, and nothing else is read.

1. If the members are numbered, the module can be nothing else. Numbers that are missing were layers without effect in
   inference (dropout): they become `nn.Identity()`, so that the state dict keeps its keys.
2. If they have names, it becomes one if the exporter says so. It also becomes one if the chain is so long that a
   forward would only repeat what the constructor says, and every function in it was a layer with a name of its own. A
   module with another function keeps its forward, and so does one with a layer that is called twice. `classes.py`
   decides, once it is known that no relative of the module does more: a block without a residual can share the class
   of those with one.
3. A mean over all axes but batch and channels was a pool, `nn.AdaptiveAvgPool2d(1)`, and so was a maximum. If it also
   drops these axes, an `nn.Flatten()` came after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxlift.lifting.code.expr import Attribute, Call, Display, Expr, Literal, Member, Name, Ref, bare, variable
from onnxlift.lifting.code.identifiers import attribute, is_attribute
from onnxlift.lifting.code.statements import Assign, Return
from onnxlift.lifting.ops.kinds import kind_by_function, layer_kind
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import ModulePaths

from .member_names import kind_word
from .module import Module, Stored

_POOLS = {"mean": "AdaptiveAvgPool", "amax": "AdaptiveMaxPool"}
MAX_GAP = 4
FEWEST_NAMED = 4  # layers of a chain with names: three (conv, norm, activation) read well as a forward of one line
_METHODS = frozenset({"append", "extend", "insert", "pop"})  # of `nn.Sequential`: no member can have these names


def make_sequential(module: Module, paths: ModulePaths) -> bool:
    """Turn `module` into an `nn.Sequential` by rule 1, if it can be one. Its members then are all its layers,
    numbered."""
    if not module.members or not all(len(path) == 1 and path[0].isdigit() for path in module.members):
        return False
    chain: list[tuple[int | None, Layer | Module]] = []
    for step, found in _chain(module):
        number = int(module.name_of(found)[0]) if found in module._names else _number(step, module, paths)
        chain.append((number, found))
    numbered = _fill(chain)
    if not numbered:
        return False
    _become(module, {str(number): member for number, member in sorted(numbered.items())})
    return True


def is_layer(module: Module) -> bool:
    """Tell whether `module` does no more than one function that `torch.nn` has as a layer, or as two."""
    return sum(step is not None for step, _ in _chain(module)) == 1


def find_named_chain(module: Module, paths: ModulePaths) -> None:
    """Set `module.chain` to all its layers by name, if it could be an `nn.Sequential` by rule 2."""
    is_sequential = module.class_hint == "Sequential"
    if not all(len(path) == 1 and path[0] not in _METHODS for path in module.members):
        return
    steps = list(_chain(module))
    if len(steps) < (1 if is_sequential or any(_needs_quotes(found, paths) for _, found in steps) else FEWEST_NAMED):
        return
    chain: dict[str, Layer | Module] = {}
    for step, found in steps:
        name = module.name_of(found)[0] if found in module._names else _scope(step, module, paths)
        if name is None and is_sequential:
            (name,) = module.free((kind_word(found),))
        if name is None or name in chain or name in _METHODS or name[0].isdigit():
            return
        chain[name] = found
    module.chain = chain


def _needs_quotes(member: Layer | Module, paths: ModulePaths) -> bool:
    """Tell whether the file calls a member by a name that no attribute can have, like `block1-0`. A chain need not say
    it when it is called."""
    path = member.path if isinstance(member, Module) else paths.by_node.get(member.node, ()) if member.node else ()
    return bool(path) and not path[-1].isdigit() and not is_attribute(path[-1])


def become_chain(module: Module) -> None:
    """Make `module` the `nn.Sequential` that `find_named_chain` has found."""
    assert module.chain is not None
    _become(module, module.chain)


def _become(module: Module, chain: Mapping[str, Layer | Module]) -> None:
    module.members = {}
    for name, member in chain.items():
        module.add((name,), member)
    module.sequential = True


def _chain(module: Module) -> Iterator[tuple[Assign | None, Layer | Module]]:
    """Yield each statement with the layer that it calls; nothing if `forward` is no plain chain. If a statement stands
    for two layers, the second one comes with None."""
    *steps, last = module.body.statements
    assert isinstance(last, Return)
    if len(module.inputs) != 1 or len(module.outputs) != 1 or variable(last.expr) is not module.outputs[0]:
        return
    (current,) = module.inputs
    chain: list[tuple[Assign | None, Layer | Module]] = []
    for step in steps:
        if not isinstance(step, Assign) or len(step.targets) != 1 or not isinstance(step.targets[0], Ref):
            return
        first, *more = _as_layers(step.expr, current) or (None,)
        if first is None:
            return
        chain += [(step, first), *((None, layer) for layer in more)]
        current = step.targets[0]._key
    if current is module.outputs[0]:
        yield from chain


def _scope(step: Assign | None, module: Module, paths: ModulePaths) -> str | None:
    """Return the name that a function has in the module, if it was a layer there."""
    for name in step.origin if step is not None else ():
        path, depth = paths.by_name.get(name, ()), len(module.path)
        if path[:depth] == module.path and len(path) > depth:
            return attribute(path[depth])
    return None


def _number(step: Assign | None, module: Module, paths: ModulePaths) -> int | None:
    name = _scope(step, module, paths)
    return int(name) if name is not None and name.isdigit() else None


def _fill(chain: list[tuple[int | None, Layer | Module]]) -> dict[int, Layer | Module] | None:
    """Return the members of a chain by number, with identities in the gaps; None if the numbers don't rise, or leave
    too large a gap."""
    numbered: dict[int, Layer | Module] = {}
    for number, member in chain:
        free = len(numbered)
        if number is None:
            number = free
        if not free <= number <= free + MAX_GAP:
            return None
        for gap in range(free, number):
            numbered[gap] = Layer(layer_kind("Identity"), {})
        numbered[number] = member
    return numbered


def _as_layers(expr: Expr, current: ir.Value) -> Sequence[Layer | Module]:
    """Return the layers that `expr` applies to the value `current`; none if it does anything else."""
    layer = _as_layer(expr, current)
    return [layer] if layer is not None else _as_global_pool(expr, current)


def _rises(limits: Iterable[object]) -> bool:
    numbers = [limit for limit in limits if isinstance(limit, int | float)]
    return len(numbers) == 2 and numbers[0] < numbers[1]


def _as_global_pool(expr: Expr, current: ir.Value) -> list[Layer]:
    """Return the pool that `current.mean((2, 3), keepdim=True)` stands for. Without `keepdim`, return also the layer
    that drops the axes."""
    function = bare(expr._function) if isinstance(expr, Call) else None
    rank = 0 if current.shape is None else len(current.shape)
    if not isinstance(expr, Call) or not isinstance(function, Attribute) or function._name not in _POOLS:
        return []
    if variable(function._base) is not current or len(expr._args) != 1 or rank not in (3, 4, 5):
        return []
    axes, options = bare(expr._args[0]), {name: bare(value) for name, value in expr._kwargs.items()}
    items = [bare(item) for item in axes._items] if isinstance(axes, Display) else [axes]
    numbers = [item._value % rank for item in items if isinstance(item, Literal) and isinstance(item._value, int)]
    keepdim = options.pop("keepdim", Literal(False))
    if options or not isinstance(keepdim, Literal) or len(numbers) != len(items) or numbers != list(range(2, rank)):
        return []
    pool = Layer(layer_kind(f"{_POOLS[function._name]}{rank - 2}d"), {"output_size": 1})
    return [pool] if keepdim._value else [pool, Layer(layer_kind("Flatten"), {})]


def _as_layer(expr: Expr, current: ir.Value) -> Layer | Module | None:
    """Return the layer that `expr` applies to the value `current`; None if it does anything else."""
    if not isinstance(expr, Call):
        return None
    function, args = bare(expr._function), [*expr._args]
    if isinstance(function, Member):
        target = function._target
        fits = len(args) == 1 and not expr._kwargs and variable(args[0]) is current and not isinstance(target, Stored)
        return target if fits else None
    kind = kind_by_function(function._name) if isinstance(function, Attribute) else None
    if not isinstance(function, Attribute) or kind is None:
        return None
    base = bare(function._base)
    if isinstance(base, Name) and base._name == "F":
        subject, rest = (variable(args[0]) if args else None), args[1:]
    else:
        subject, rest = variable(base), args
    _, *names = kind.function
    values = dict(zip(names, rest, strict=False)) | expr._kwargs
    literal = {k: v._value for k, v in values.items() if isinstance(v, Literal) and k in names}
    if subject is not current or len(rest) > len(names) or len(literal) != len(values):
        return None
    if kind.name == "Hardtanh" and not _rises(literal.values()):
        return None  # the layer does not take limits that cross
    if kind.name == "Flatten":
        literal.setdefault("start_dim", 0)  # the default of `x.flatten()`; that of the layer is 1
    return Layer(kind, literal)
