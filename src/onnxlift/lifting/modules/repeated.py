"""Make one module of a module that is called several times.

    y = self.layer(x)      with the code of the first call       y = self.layer(x)
    z = self.layer_1(y)    with that of the second           ->  z = self.layer(y)

Each call is lowered by itself, since only the code shows whether two calls do the same. They do if the members are the
same layers with the same weights, and the forwards are equal in every number, up to the names of variables. If two
sizes have one name in the first call, they must also have one name in every other call: the code may read either of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Ref
from onnxlift.lifting.code.statements import Assign, walk_statements
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.classes.number_groups import Number
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .module import Module, Stored

LARGEST_COMPARED = 4096  # elements of a constant; two larger ones count as different without a comparison


class Repeated:
    """A module that is called several times, as lowered for its first call."""

    def __init__(self, module: Module, calls: int) -> None:
        self._module = module
        self._expected = calls

    @property
    def path(self) -> Path:
        return self._module.path

    @property
    def is_complete(self) -> bool:
        """Tell whether all calls were found to be the same."""
        return self._module.calls == self._expected

    def join(self, call: Module) -> Module:
        """Return the module to be called for this call: the first one if this call does the same, otherwise its own."""
        if call is self._module:
            return call
        if not _is_same(self._module, call):
            return call
        self._module.calls += 1
        _add_origins(self._module, call)
        return self._module


def _is_same(first: Module, other: Module) -> bool:
    members = zip(first.members.items(), other.members.items(), strict=False)
    if len(first.members) != len(other.members) or first.sequential != other.sequential:
        return False
    if any(path != other_path or not _is_same_member(a, b) for (path, a), (other_path, b) in members):
        return False
    return _code(first) == _code(other) and _agree_on_sizes(first, other)


def _is_same_member(first: object, other: object) -> bool:
    match first, other:
        case Module(), Module():
            return first.calls == other.calls and _is_same(first, other)
        case Layer(), Layer():
            return first.identity == other.identity
        case Stored(), Stored():
            return first.weight.value is other.weight.value or _is_equal_constant(first, other)
    return False


def _is_equal_constant(first: Stored, other: Stored) -> bool:
    if first.is_parameter or other.is_parameter or first.weight.shape != other.weight.shape:
        return False
    small = np.prod(first.weight.shape) <= LARGEST_COMPARED
    same_type = first.weight.value.dtype == other.weight.value.dtype
    return bool(small and same_type and np.array_equal(first.weight.array(), other.weight.array()))


def _code(module: Module) -> tuple[str, list[tuple[type, object]]]:
    numbers: list[Number] = []
    text = Canonical(module, numbers).describe()
    return text, [(type(number.value), number.value) for number in numbers]


def _agree_on_sizes(first: Module, other: Module) -> bool:
    known: dict[str, object] = {}
    for ours, theirs in zip(_values(first), _values(other), strict=True):
        sizes, others = type_of(ours).shape or (), type_of(theirs).shape or ()
        if len(sizes) != len(others):
            return False
        for size, another in zip(sizes, others, strict=True):
            if isinstance(size, str) and known.setdefault(size, another) != another:
                return False
    return True


def _values(module: Module) -> Iterator[ir.Value]:
    """Yield the values that a forward takes and assigns, in order."""
    assigned = (t for s in walk_statements(module.body) if isinstance(s, Assign) for t in s.targets)
    keys = chain(module.inputs, (target._key for target in assigned if isinstance(target, Ref)))
    return (key for key in keys if isinstance(key, ir.Value))


def _add_origins(first: Module, other: Module) -> None:
    """Add the nodes of another call to the origins of the first call's statements."""
    for ours, theirs in zip(walk_statements(first.body), walk_statements(other.body), strict=True):
        ours.origin.extend(theirs.origin)
    for (_, child), (_, counterpart) in zip(first.children(), other.children(), strict=True):
        _add_origins(child, counterpart)
