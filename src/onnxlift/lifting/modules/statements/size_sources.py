"""Read a size that several tensors have from one at hand, or else from the first parameter that has it.

1. y = self.conv(x); positions = torch.arange(y.shape[1])   ->   positions = torch.arange(x.shape[1])
2. y = self.conv(x); z = y.reshape(x.shape[0], -1)          ->   z = y.reshape(y.shape[0], -1)
3. forward(x, parts): self.mask.expand(x.shape[0])          ->   forward(parts): self.mask.expand(parts.shape[0] // 4)

Exporters read a size from any tensor that has it: the tracing one from the last, `torch.export` from any input. So
first every size is read from the first parameter of `forward` that has it (rule 1). This makes the code of both
exporters equal, keeps no other value alive, and may leave a parameter without use.

Later, when it is known what stands in one statement, a size is read from the first tensor that the statement uses
anyway (rule 2), unless it uses the parameter itself. The parameter's name is then free again. A parameter of a module
that is there for a size alone is removed if another parameter has the size, or a known multiple of it (rule 3).

Sizes of one name are one size, so all of these are the same number. The rules apply only to tensors of known rank, and
to values that the forward itself computes: names inside branches and loops may mean something else in each run. A
parameter of the model that is there for its sizes alone is read itself, since it would be of no use otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.ir.inference.symbolic import divide_exactly
from onnxlift.lifting.code.expr import Attribute, Expr, Literal, Ref, Subscript, bare, children, walk
from onnxlift.lifting.code.reads import parts
from onnxlift.lifting.code.statements import Assign, ForLoop, Statement, expressions, walk_statements
from onnxlift.lifting.code.substitute import substitute, substitute_in
from onnxlift.lifting.modules.module import Module

from .inline import Inlined

Size = tuple[ir.Value, int]
"""A tensor and one of its axes."""


def read_size(expr: Expr) -> Size | None:
    """Return the tensor and the axis that `expr` reads, if it is `x.shape[axis]` of a variable; otherwise None."""
    if not isinstance(expr, Subscript) or len(expr._index) != 1:
        return None
    base, index = bare(expr._base), bare(expr._index[0])
    tensor = bare(base._base) if isinstance(base, Attribute) and base._name == "shape" else None
    if not isinstance(tensor, Ref) or not isinstance(index, Literal) or type(index._value) is not int:
        return None
    return (tensor._key, index._value) if isinstance(tensor._key, ir.Value) else None


def read_from_parameters(module: Module) -> None:
    """Read sizes from parameters, by rules 1 and 3."""
    if not any(map(read_size, parts(module.body))):
        return
    steady = steady_variables(module)
    sizes = _named_sizes(value for value in module.inputs if value in steady)
    needed = _needed_for_sizes_only(module, {})

    def new(expr: Expr) -> Expr | None:
        size = read_size(expr)
        if size is None or size[0] in needed or size[0] not in steady:
            return None
        found = sizes.get(_name(size))
        return None if found is None or found == size else _reading(found)

    if sizes:
        for statement in module.body.statements:
            substitute_in(statement, new)
    if module.path:
        _read_from_multiples(module)


def _read_from_multiples(module: Module) -> None:
    """Read sizes from other parameters that have a multiple of them, by rule 3."""
    steady = steady_variables(module)
    every = list(parts(module.body))
    lonely = _only_read_for_sizes(module, every)
    others = [value for value in module.inputs if value in steady and value not in lonely]
    multiples: dict[Size, Expr | None] = {}
    for size in filter(None, map(read_size, every)):
        if size[0] in lonely and size not in multiples:
            multiples[size] = _part_of_another(_name(size), others)
    replaced = {value for value in lonely if all(multiples[size] is not None for size in multiples if size[0] is value)}

    def new(expr: Expr) -> Expr | None:
        size = read_size(expr)
        return multiples[size] if size is not None and size[0] in replaced else None

    if replaced:
        for statement in walk_statements(module.body):
            substitute_in(statement, new)


def _part_of_another(name: str, values: Iterable[ir.Value]) -> Expr | None:
    """Return `x.shape[0] // 4` for the size of that name, if there is a tensor with a known multiple of it; otherwise
    None."""
    for value in values:
        for axis, dim in enumerate(type_of(value).shape or () if type_of(value).kind == "tensor" else ()):
            factor = divide_exactly(dim, name) if isinstance(dim, str) and name else None
            if isinstance(factor, int) and factor > 0:
                return _reading((value, axis)) // factor if factor > 1 else _reading((value, axis))
    return None


def read_at_hand(module: Module, inlined: Inlined) -> int:
    """Read sizes from what a statement uses anyway, by rule 2, when it is known what is inlined; return the number of
    statements that changed."""
    changes = 0
    steady = steady_variables(module)
    parameters = module.inputs.keys() - _needed_for_sizes_only(module, inlined)
    for statement in module.body.statements:
        parts = list(_parts(statement, inlined))
        used = [part._key for part in _beside_sizes(parts) if part._key in steady and part._key not in inlined]
        sizes = _named_sizes(used)

        def new(expr: Expr, used: list[ir.Value] = used, sizes: dict[str, Size] = sizes) -> Expr | None:
            size = read_size(expr)
            if size is None or size[0] not in parameters or size[0] in used:
                return None
            found = sizes.get(_name(size))
            return None if found is None else _reading(found)

        if any(new(part) is not None for part in parts):
            substitute_in(statement, new)
            for part in parts:
                if isinstance(part, Ref) and part._key in inlined:
                    inlined[part._key] = substitute(inlined[part._key], new)
            changes += 1
    return changes


def steady_variables(module: Module) -> dict[ir.Value, int]:
    """Return the variables that the forward itself writes once, and the parameters that it does not write. Each comes
    with the place of the statement that writes it; -1 for parameters."""
    written: Counter[object] = Counter()
    for statement in walk_statements(module.body):
        if isinstance(statement, Assign | ForLoop):
            written.update(target._key for target in statement.targets if isinstance(target, Ref))
    places = {value: -1 for value in module.inputs if not written[value]}
    for place, statement in enumerate(module.body.statements):
        if isinstance(statement, Assign):
            keys = [target._key for target in statement.targets if isinstance(target, Ref)]
            places |= {key: place for key in keys if written[key] == 1}
    return places


def _named_sizes(values: Iterable[ir.Value]) -> dict[str, Size]:
    """Return for each name of a size the first tensor that has it."""
    sizes: dict[str, Size] = {}
    for value in values:
        if value.const_value is None and type_of(value).kind == "tensor":
            for axis, name in enumerate(type_of(value).shape or ()):
                if isinstance(name, str):
                    sizes.setdefault(name, (value, axis))
    return sizes


def _name(size: Size) -> str:
    """Return the name of a size; nothing if it has none."""
    tensor, axis = size
    rank = type_of(tensor).rank
    name = type_of(tensor).dim(axis) if rank is not None and -rank <= axis < rank else None
    return name if isinstance(name, str) else ""


def _reading(size: Size) -> Expr:
    tensor, axis = size
    return Subscript(Ref(tensor).shape, (Literal(axis),))


def _needed_for_sizes_only(module: Module, inlined: Inlined) -> set[ir.Value]:
    """Return the parameters of the model that are read for their sizes alone. Parameters of other modules are not
    listed, since they can be removed."""
    if module.path:
        return set()
    return _only_read_for_sizes(module, list(parts(module.body, *inlined.values())))


def _only_read_for_sizes(module: Module, parts: Sequence[Expr]) -> set[ir.Value]:
    reads = Counter(part._key for part in parts if isinstance(part, Ref))
    sizes = Counter(size[0] for part in parts if (size := read_size(part)) is not None)
    return {value for value in module.inputs if reads[value] == sizes[value]}


def _parts(statement: Statement, inlined: Inlined) -> Iterator[Expr]:
    """Yield all parts of a statement's expressions, with inlined ones, in the order in which they are written."""
    waiting = [*reversed(expressions(statement))]
    while waiting:
        part = waiting.pop()
        yield part
        inner = inlined.get(part._key) if isinstance(part, Ref) else None
        waiting += reversed(children(part) if inner is None else (inner,))


def _beside_sizes(parts: list[Expr]) -> Iterator[Ref]:
    """Yield the variables that are read for more than a size."""
    reads = Counter(part for part in parts if isinstance(part, Ref))
    for part in parts:
        if read_size(part) is not None:
            reads.subtract(inner for inner in walk(part) if isinstance(inner, Ref))
    return (part for part in parts if isinstance(part, Ref) and reads[part] > 0)
