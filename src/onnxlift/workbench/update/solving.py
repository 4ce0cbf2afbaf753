"""Find the numbers that the tensors of a file must have, so that it lifts to the given weights.

    state dict ─▶ parameters of the restored graph ─▶ constants that nodes read ─▶ tensors of the file

1. A weight is put back where it was taken from, number by number (`assembled`). Every number that two weights take from
   one place must be the same in both.
2. Each reader of a constant tells what it has to be: a parameter, or what the restored graph computes from parameters.
3. That is put back into the tensor of the file. If readers of one tensor want different numbers, because an exporter
   had stored equal weights once, the first keeps the tensor, and each of the others gets one of its own.

What a weight without a place needs is a problem: all of them are told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx_ir as ir

from onnxlift.lifting.modules.module import Entry

from .recording import Formula, Lookup, Reader, Recording
from .traced import NOWHERE, Array, NotMovedError, Trace, TracedTensor, same_bits, trace_of


class ConflictError(Exception):
    """Two parts want different numbers at one place."""


@dataclass(frozen=True)
class Part:
    """An array that is made of tensors, as it was and as it is to be."""

    trace: Trace
    new: Callable[[], Array]

    @property
    def is_whole(self) -> bool:
        """Tell whether it is one tensor, unchanged."""
        return self.trace.source is not None


@dataclass(frozen=True)
class Problem:
    """A weight that the file has no place for, and why.

    `shared` is the constant that it shares with other weights, if they differ now and that is the reason."""

    key: str
    reason: str
    shared: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


@dataclass(frozen=True)
class NewTensor:
    """A tensor that nodes of the file are to read instead of what they read: each node with the place of the input."""

    readers: tuple[tuple[str, str, int], ...]
    """Each reader as the name of a node, its operator, and the place among its inputs."""
    array: Callable[[], Array]
    dtype: ir.DataType
    name: str = ""
    """What the restored graph calls it."""
    keys: tuple[str, ...] = ()
    """The weights that need it."""


@dataclass
class Solution:
    """The new numbers of the file's tensors, by their place in the file; tensors to add; and what is left over."""

    changed: dict[int, Callable[[], Array]] = field(default_factory=dict)
    added: list[NewTensor] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def assembled(target: TracedTensor, parts: Iterable[Part]) -> Array:
    """Return the numbers of a tensor after the parts that were taken from it have changed. Raises ConflictError."""
    parts = list(parts)
    if len(parts) == 1 and parts[0].is_whole:
        return parts[0].new()
    if len(parts) == 1 and parts[0].trace.is_turned:
        return parts[0].new().T
    array = np.array(target.plain()).reshape(-1)
    is_set = np.zeros(array.size, bool)
    for part in parts:
        numbers = np.asarray(part.new()).reshape(-1)
        places: Array | slice = slice(None)
        if not part.is_whole:
            positions = part.trace.positions(_starts(part.trace, target)).reshape(-1)
            is_here = (positions >= 0) & (positions < array.size)
            places, numbers = positions[is_here], numbers[is_here]
        again = is_set[places]
        if not _are_same(array[places][again], numbers[again]):
            raise ConflictError
        array[places] = numbers
        is_set[places] = True
        if not _are_same(array[places], numbers):  # one part has a number of the file at several places
            raise ConflictError
    return array.reshape(target.shape.numpy())


def _starts(trace: Trace, target: TracedTensor | None) -> dict[TracedTensor, int]:
    """Return a range of positions for each source; the target's begins at 0."""
    starts, end = {}, 0
    for source in sorted(trace.sources(), key=lambda each: each is not target):
        starts[source] = end
        end += source.size
    return starts


def _are_same(one: Array, other: Array) -> bool:
    """Tell whether two arrays have the same bits, or at least equal numbers."""
    return same_bits(one, other) or bool(np.array_equal(one, other))


def solve(recording: Recording, given: Mapping[str, Array], ties: Mapping[str, str]) -> Solution:
    """Find the new numbers of the file's tensors. `given` has the changed weights by key.

    `ties` has the keys that share a tensor with another key, each with that key."""
    solver = _Solver(recording, given, ties)
    solver.find_parameters()
    if not solver.solution.problems:
        solver.find_tensors()
    return solver.solution


class _Solver:
    def __init__(self, recording: Recording, given: Mapping[str, Array], ties: Mapping[str, str]) -> None:
        self.recording = recording
        self.given = given
        self.ties = ties
        self.solution = Solution()
        self.parts: dict[TracedTensor, dict[str, Part]] = {}
        """The entries of the state dict that were taken from each parameter of the restored graph."""
        self.changed: set[TracedTensor] = set()

    # ------------------------------------------------------------------------------ from the state dict to parameters

    def find_parameters(self) -> None:
        """Find out which parameters change, and check that each can."""
        wanted: dict[TracedTensor, list[str]] = {}
        for key, entry in self.recording.entries.items():
            is_changed = self.ties.get(key, key) in self.given
            trace = trace_of(_array(entry))
            if is_changed and (reason := self._obstacle(key, entry, trace)):
                self._fail(key, reason)
                continue
            for source in () if trace is None else trace.sources():
                assert trace is not None
                self.parts.setdefault(source, {})[key] = Part(trace, self._new(key, entry))
                if is_changed:
                    wanted.setdefault(source, []).append(key)
        for number, lookup in reversed([*enumerate(self.recording.lookups)]):  # an idiom may build on an earlier one
            self._put_back(f"lookup {number}", lookup, wanted)
        self.changed = set(wanted)
        formulas = [reader.formula for reader in self.recording.readers]
        formulas += [lookup.formula for lookup in self.recording.lookups]
        read = {id(leaf) for formula in formulas for leaf in formula.leaves}
        for parameter, keys in wanted.items():
            if id(parameter) not in read:
                self._fail(keys[0], "no node of the file reads it: the exporter has merged what it computes")
                continue
            try:
                assembled(parameter, self.parts[parameter].values())
            except ConflictError:
                others = ", ".join(self._keys(parameter))
                reason = f"the file stores numbers of {others} once, and now they differ"
                self.solution.problems.append(Problem(keys[0], reason, parameter.name or ""))
            except NotMovedError as error:
                self._fail(keys[0], f"it shares numbers with what {error} computes from them")
        for copy, other in self.recording.copies.items():
            if other in self.changed and copy not in self.parts:
                self.changed.add(copy)

    def _put_back(self, title: str, lookup: Lookup, wanted: dict[TracedTensor, list[str]]) -> None:
        """Let the constant that an idiom has found to be looked up in a table follow the table."""
        keys = [key for each in lookup.formula.leaves for key in wanted.get(each, ())]
        trace = trace_of(lookup.array)
        if trace is None:
            for key in keys:
                self._fail(key, "the file has no tensor for what is looked up in it")
            return
        for source in trace.sources():
            self.parts.setdefault(source, {})[title] = Part(trace, self._wanted(lookup.formula, source.dtype))
            if keys:
                wanted.setdefault(source, []).extend(keys)

    def _obstacle(self, key: str, entry: Entry, trace: Trace | None) -> str:
        """Return why a weight that has changed cannot be put back; nothing if it can."""
        name = entry.weight.value.name
        if trace is None:
            return f"the file has no tensor for it (it was made up as {name!r})"
        try:
            is_plain = trace.source is not None or trace.is_turned
            positions = None if is_plain else trace.positions(_starts(trace, None)).reshape(-1)
        except NotMovedError as error:
            sources = ", ".join(repr(source.name) for source in trace.sources())
            return f"it is computed from {sources} by {error}, which cannot be undone"
        if positions is None:
            return ""
        old, new = np.asarray(_array(entry)).reshape(-1), np.asarray(self._new(key, entry)()).reshape(-1)
        stored = np.concatenate([source.plain().reshape(-1) for source in _starts(trace, None)])
        is_stored = positions != NOWHERE
        if not _are_same(stored[positions[is_stored]].astype(old.dtype), old[is_stored]):
            return "its numbers are not those of the file"
        if not _are_same(old[~is_stored], new[~is_stored]):
            return "some of its numbers are not in the file: the model computes with zeros, or the like, in their place"
        return ""

    def _new(self, key: str, entry: Entry) -> Callable[[], Array]:
        owner = self.ties.get(key, key)
        if owner in self.given:
            return lambda: self.given[owner]
        return lambda: np.asarray(_array(entry))

    def _parameter(self, parameter: TracedTensor) -> Array:
        """Return the new numbers of a parameter."""
        if parameter not in self.changed:
            return parameter.plain()
        if parameter not in self.parts:
            return self._parameter(self.recording.copies[parameter])
        return assembled(parameter, self.parts[parameter].values())

    # --------------------------------------------------------------------------- from parameters to tensors of the file

    def find_tensors(self) -> None:
        """Find the new numbers of all tensors that readers of changed parameters read."""
        demands: dict[TracedTensor, dict[object, list[Reader]]] = {}
        traces: dict[int, Trace | None] = {}
        affected: dict[TracedTensor, None] = {}
        for reader in self.recording.readers:
            is_changed = self._is_changed(reader.formula)
            if reader.stored is None:
                if is_changed:
                    self._add([reader], only_if_not_zero=True)
                continue
            if id(reader.stored) not in traces:
                traces[id(reader.stored)] = trace_of(reader.stored.numpy())
            trace = traces[id(reader.stored)]
            if trace is None or not _moves(trace):
                if is_changed:
                    self._add([reader])
                continue
            key = (id(reader.stored), reader.formula.key)
            for tensor in trace.sources():
                demands.setdefault(tensor, {}).setdefault(key, []).append(reader)
                if is_changed:
                    affected[tensor] = None
        for tensor in affected:
            self._share(tensor, list(demands[tensor].values()), traces)

    def _share(self, tensor: TracedTensor, demands: Sequence[list[Reader]], traces: Mapping[int, Trace | None]) -> None:
        """Give a tensor the numbers that its first readers want, and the other readers tensors of their own."""
        accepted: list[Part] = []
        for readers in demands:
            stored = readers[0].stored
            trace = traces[id(stored)]
            assert stored is not None and trace is not None
            part = Part(trace, self._wanted(readers[0].formula, stored.dtype))
            try:
                assembled(tensor, [*accepted, part])
            except ConflictError:
                self._add(readers)
            else:
                accepted.append(part)
        array = partial(assembled, tensor, accepted)
        if not _are_same(array(), tensor.plain()):
            self.solution.changed[tensor.number] = array

    def _is_changed(self, formula: Formula) -> bool:
        return any(parameter in self.changed for parameter in formula.leaves)

    def _wanted(self, formula: Formula, dtype: ir.DataType) -> Callable[[], Array]:
        """Return a function that computes what readers with this formula want to read."""

        def compute() -> Array:
            array = formula.compute({name: self._parameter(each) for name, each in formula.parameters.items()})
            return array.astype(dtype.numpy(), copy=False)

        return compute

    def _add(self, readers: Sequence[Reader], only_if_not_zero: bool = False) -> None:
        """Give readers a tensor of their own."""
        first = readers[0]
        dtype = first.formula.leaves[0].dtype if first.stored is None else first.stored.dtype
        array = self._wanted(first.formula, dtype)
        if not only_if_not_zero or array().any():
            places = tuple((reader.node, reader.op_type, reader.place) for reader in readers)
            leaves = [each for each in first.formula.leaves if each in self.changed]
            keys = dict.fromkeys(key for leaf in leaves for key in self._keys(leaf))
            name = str(leaves[0].name or "") if leaves else ""
            self.solution.added.append(NewTensor(places, array, dtype, name, tuple(keys)))

    def _keys(self, parameter: TracedTensor) -> list[str]:
        """Return the weights that are taken from a parameter."""
        return [key for key in self.parts.get(parameter, ()) if key in self.recording.entries]

    def _fail(self, key: str, reason: str) -> None:
        self.solution.problems.append(Problem(key, reason))


def _moves(trace: Trace) -> bool:
    """Tell whether the numbers were only moved on the way from the file."""
    try:
        if trace.source is None:
            trace.positions(_starts(trace, None))
    except NotMovedError:
        return False
    return True


def _array(entry: Entry) -> Array:
    """Return the numbers of an entry, traced."""
    weight = entry.weight
    assert weight.value.const_value is not None
    array = weight.value.const_value.numpy()
    return array if weight.transform is None else weight.transform(array)
