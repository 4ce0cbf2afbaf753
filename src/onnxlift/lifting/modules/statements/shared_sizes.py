"""Read sizes that a forward needs several times once.

    y = a.reshape(x.shape[0], x.shape[1], 4, 8)        batch, seq = x.shape[:2]
    return y + b.expand(x.shape[0], -1, -1, 8)    ->   y = a.reshape(batch, seq, 4, 8)
                                                       return y + b.expand(batch, -1, -1, 8)

Sizes of one name are one size, whichever tensors they are read from. A size that is needed once stays where it is,
unless the sizes beside it are read anyway. Sizes are read from the first tensor that has them, before the first
statement that needs one.

They are read only from variables of the forward itself that are written once and have a known rank. Variables inside
branches and loops do not exist yet, or change. A tensor of unknown rank may lack the axis in a run that would not have
asked for it. An argument that is there for its sizes alone is read itself: it would be of no use otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.ir.inference.infer import is_invented_size
from onnxlift.lifting.code.expr import Expr, Local, Ref
from onnxlift.lifting.code.reads import parts
from onnxlift.lifting.code.statements import Assign, walk_statements
from onnxlift.lifting.code.substitute import substitute_in
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.layer_nodes import is_activation, kind_of

from .dead_code import remove_dead_code
from .size_sources import read_size, steady_variables

Size = str | tuple[ir.Value, int]
"""The name of a size, or the tensor and axis that it is read from if it has none."""

SEVERAL = 2
NAMELESS = ("n", "m", "p")
IMAGE_AXES = ("batch", "channels", "height", "width")
_KEEPING_AXES = frozenset({"Add", "Mul", "Concat"})
_MOST_LOOKS = 8
_WORD = re.compile(r"[a-z]{2}[a-z_]*[0-9]?", re.ASCII)


@dataclass
class _Uses:
    """The uses of a size: their number, the place of the first statement, and the tensors that it is read from."""

    count: int = 0
    first: int = 0
    tensors: dict[ir.Value, None] = field(default_factory=dict)


def share_sizes(module: Module) -> int:
    """Read the sizes that the module's forward needs several times into variables; return how many."""
    forward = _Forward(module)
    uses = forward.uses()
    variables: dict[Size, Local] = {}
    reading: list[tuple[int, Assign]] = []
    tensors = dict.fromkeys(tensor for use in uses.values() if use.count >= SEVERAL for tensor in use.tensors)
    for tensor in sorted(tensors, key=lambda value: forward.places[value]):
        wanted = {
            axis: size
            for axis, size in enumerate(forward.sizes(tensor))
            if size in uses and size not in variables and forward.places[tensor] < uses[size].first
        }
        for axes in _runs(wanted, uses):
            for axis in axes:
                variables[wanted[axis]] = Local(_word(tensor, axis, variables))
            place = min(uses[wanted[axis]].first for axis in axes)
            reading.append((place, _read(tensor, axes, [variables[wanted[axis]] for axis in axes])))
    if variables:
        forward.use(variables)
        for place, statement in sorted(reading, key=lambda item: item[0], reverse=True):
            module.body.statements.insert(place, statement)
        remove_dead_code(module.body)  # what was computed for its sizes only
    return len(variables)


class _Forward:
    """The forward of a module. `places` has the variables that sizes may be read from, each with the place of the
    statement that writes it (-1 for the inputs). `only_sizes` are inputs that are read for their sizes alone."""

    def __init__(self, module: Module) -> None:
        self.body = module.body
        self.places = steady_variables(module)
        reads, sizes = Counter[object](), Counter[object]()
        for _, part in self._parts():
            found = self.read_here(part)
            if isinstance(part, Ref):
                reads[part._key] += 1
            elif found is not None:
                sizes[found[0]] += 1
        self.only_sizes = {value for value in module.inputs if reads[value] == sizes[value]}

    def uses(self) -> dict[Size, _Uses]:
        """Find the uses of each size."""
        uses: dict[Size, _Uses] = {}
        for place, part in self._parts():
            found = self.read_here(part)
            if found is not None:
                use = uses.setdefault(self.size(*found), _Uses(first=place))
                use.count += 1
                use.tensors[found[0]] = None
        return uses

    def use(self, variables: Mapping[Size, Local]) -> None:
        """Replace the sizes by the variables."""

        def new(expr: Expr) -> Expr | None:
            found = self.read_here(expr)
            return None if found is None else variables.get(self.size(*found))

        for statement in walk_statements(self.body):
            substitute_in(statement, new)

    def sizes(self, tensor: ir.Value) -> list[Size]:
        """Return the sizes that `tensor` is known to have."""
        return [self.size(tensor, axis) for axis in range(type_of(tensor).rank or 0)]

    def size(self, tensor: ir.Value, axis: int) -> Size:
        name = type_of(tensor).dim(axis)
        return name if isinstance(name, str) and tensor not in self.only_sizes else (tensor, axis)

    def read_here(self, expr: Expr) -> tuple[ir.Value, int] | None:
        """Return the variable and the axis, if `expr` is `x.shape[axis]`."""
        found = read_size(expr)
        return found if found is not None and found[0] in self.places else None

    def _parts(self) -> Iterator[tuple[int, Expr]]:
        """Yield all parts of all expressions, each with the place of its statement in the forward."""
        for place, statement in enumerate(self.body.statements):
            yield from ((place, part) for part in parts(statement))


def _runs(wanted: Mapping[int, Size], uses: Mapping[Size, _Uses]) -> list[list[int]]:
    """Return the axes to read, as runs of neighbours that can be unpacked together."""
    several = [axis for axis, size in wanted.items() if uses[size].count >= SEVERAL]
    if not several:
        return []
    run = [several[0]]
    while run[-1] + 1 in wanted:
        run.append(run[-1] + 1)
    while run[0] - 1 in wanted:
        run.insert(0, run[0] - 1)
    return [run, *_runs({axis: size for axis, size in wanted.items() if axis not in run}, uses)]


def _read(tensor: ir.Value, axes: list[int], targets: list[Local]) -> Assign:
    """Return the statement that reads sizes into variables: `batch, seq = x.shape[:2]`."""
    shape = Ref(tensor).shape
    if len(axes) == 1:
        return Assign([targets[0]], shape[axes[0]])
    start, stop = axes[0] or None, axes[-1] + 1
    cut = slice(start, None if stop == type_of(tensor).rank else stop)
    return Assign(list(targets), shape if cut == slice(None) else shape[cut])


def _word(tensor: ir.Value, axis: int, others: Mapping[Size, Local]) -> str:
    """Return the model's name for the size, if that is a word, or the usual name of the axis in an image. Otherwise
    return a letter."""
    name = type_of(tensor).dim(axis)
    if isinstance(name, str) and _WORD.fullmatch(name) and not is_invented_size(name):
        return name
    if _is_image(tensor):
        return IMAGE_AXES[axis]
    nameless = sum(1 for local in others.values() if local._hint in NAMELESS)
    return NAMELESS[min(nameless, len(NAMELESS) - 1)]


def _is_image(tensor: ir.Value) -> bool:
    """Tell whether a tensor is a batch of images: a convolution or the like reads it, or has made it."""
    if type_of(tensor).rank != len(IMAGE_AXES):
        return False
    if any(_is_of_images(node) and place == 0 for node, place in islice(tensor.uses(), _MOST_LOOKS)):
        return True
    node = tensor.producer()
    for _ in range(_MOST_LOOKS):
        if node is None or not node.inputs or node.inputs[0] is None or _is_of_images(node):
            break
        keeps_axes = is_activation(node) or node.op_type in _KEEPING_AXES
        node = node.inputs[0].producer() if keeps_axes else None
    return node is not None and _is_of_images(node)


def _is_of_images(node: ir.Node) -> bool:
    """Tell whether a node works on channels of images. Activations do not count, since they work on anything."""
    kind = kind_of(node)
    return kind is not None and kind.channels and not is_activation(node)
