"""Lift a model once more, and record where every constant of the source comes from.

    file  ──▶  normal form  ──▶  restored  ──▶  state dict
       traced          by its readers       traced

Between the file and the normal form, and between the restored graph and the state dict, numbers are moved: there the
arrays are traced (traced.py). What the stage restoring does is undone by the graph itself: where a node reads a
constant of the file, it reads the same from parameters afterwards, perhaps through nodes that compute it (a transpose,
`1 - x`, a joined bias). So each reader tells which constant has to be put in the file for it. A few idioms restore
parameters in this way, too: a table of which an exporter has looked up all rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnxlift import pipeline
from onnxlift.ir.editing.edit import Names, initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.marks import STORED
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.origin.tensors import mark_copied
from onnxlift.ir.reading.draft import Skeleton
from onnxlift.ir.reading.tensors import TensorStore
from onnxlift.ir.reading.weights import detach_weights, each_tensor, tensor_of
from onnxlift.lifted import Lifted
from onnxlift.lifting.modules.module import Entry, state_entries
from onnxlift.rewriting.stages import NORMAL_FORM, RESTORING, SIMPLIFYING

from .constant_values import ConstantValue, constants_read
from .traced import Array, Trace, TracedTensor, trace_of

STANDARD = ("", "ai.onnx")
COMMUTATIVE = ("Add", "Mul")
MOST_NODES = 100
"""The most nodes between a constant and the parameters from which the restored graph computes it."""


@dataclass(frozen=True)
class Formula:
    """How the restored graph computes a constant from parameters: it is one, or some nodes compute it."""

    parameters: dict[str, TracedTensor]
    """The parameters by the names that the nodes call them."""
    nodes: tuple[onnx.NodeProto, ...] = ()
    result: str = ""
    opsets: tuple[tuple[str, int], ...] = ()

    @property
    def leaves(self) -> list[TracedTensor]:
        """The parameters that it is computed from."""
        return list(self.parameters.values())

    @property
    def key(self) -> object:
        """Equal for formulas that give the same."""
        return self.result, tuple(map(id, self.parameters.values()))

    def compute(self, arrays: dict[str, Array]) -> Array:
        """Return what the formula gives for these numbers of the parameters."""
        if not self.nodes:
            (array,) = arrays.values()
            return array
        inputs = [onnx.ValueInfoProto(name=name) for name in arrays]
        graph = helper.make_graph(self.nodes, "formula", inputs, [onnx.ValueInfoProto(name=self.result)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in self.opsets])
        (found,) = ReferenceEvaluator(model).run(None, {name: np.asarray(array) for name, array in arrays.items()})
        return np.asarray(found)


@dataclass(frozen=True)
class Reader:
    """A node that reads a constant as its input at `place`.

    `stored` is the constant in normal form, None if the file has none there; `formula` is how the restored graph
    computes it."""

    node: str
    op_type: str
    place: int
    stored: ir.TensorProtocol | None
    formula: Formula


@dataclass(frozen=True)
class Lookup:
    """A constant array that a node has read, traced, and how the graph computes it since an idiom has run."""

    array: Array
    formula: Formula


@dataclass
class Recording:
    """What was recorded: the lifted model, the tensors of the file in the order of `each_tensor`, and all readers."""

    apart: Collection[str] = ()
    """The names of constants of which each reader gets a copy of its own, after restoring."""
    tensors: list[TracedTensor] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    copies: dict[TracedTensor, TracedTensor] = field(default_factory=dict)
    """Parameters that a step of simplifying has found to be copies of others, with the others."""
    entries: dict[str, Entry] = field(default_factory=dict)
    lookups: list[Lookup] = field(default_factory=list)
    lifted: Lifted | None = None
    _inputs: dict[ir.Node, tuple[ir.Value | None, ...]] = field(default_factory=dict)
    _stored: dict[ir.Value, ir.TensorProtocol] = field(default_factory=dict)
    _places: list[tuple[ir.Node, int, TracedTensor]] = field(default_factory=list)
    _reads: list[tuple[ir.Node, int, ir.Value, ConstantValue]] = field(default_factory=list)

    def watch(self, stage: str, model: ir.Model) -> None:
        """Look at the graph after a stage, or after an idiom."""
        if stage == NORMAL_FORM.name:
            self._note_inputs(model)
        elif stage == RESTORING.name:
            _split(model, self.apart)
            parameters = _trace_constants(model)
            self._note_readers(model, parameters)
        elif stage == SIMPLIFYING.name:
            self._note_copies()
            self._reads = constants_read(model)
        else:
            self._note_lookups(model)
            self._reads = constants_read(model)

    def _note_inputs(self, model: ir.Model) -> None:
        for region in regions(model):
            for node in region.graph:
                self._inputs[node] = tuple(node.inputs)
            for value in region.graph.initializers.values():
                if value.const_value is not None:
                    self._stored[value] = value.const_value

    def _note_readers(self, model: ir.Model, parameters: dict[ir.Value, TracedTensor]) -> None:
        opsets = tuple(model.opset_imports.items())
        for node, before in self._inputs.items():
            if node.graph is None:
                continue
            for place, value in enumerate(_in_order(node, before)):
                old = before[place] if place < len(before) else None
                stored = self._stored.get(old) if old is not None else None
                if value is None or (old is not None and stored is None):
                    continue
                formula = _formula(value, parameters, opsets)
                if formula is not None:
                    self.readers.append(Reader(node.name or "", node.op_type, place, stored, formula))
                if value in parameters:
                    self._places.append((node, place, parameters[value]))

    def _note_lookups(self, model: ir.Model) -> None:
        """Note where a node reads, by nodes that compute it from other constants, what was a constant before."""
        for node, place, value, before in self._reads:
            if node.graph is None or place >= len(node.inputs):
                continue
            now = node.inputs[place]
            if now is None or now is value or now.producer() is None:
                continue
            formula = _formula(now, _constants_behind(now), tuple(model.opset_imports.items()))
            array = before.array() if formula is not None else None
            if formula is not None and array is not None and _is_from_new(formula, trace_of(array)):
                self.lookups.append(Lookup(array, formula))

    def _note_copies(self) -> None:
        """Note where a node reads another parameter with the same numbers than before."""
        for node, place, parameter in self._places:
            if node.graph is None or place >= len(node.inputs):
                continue
            value = node.inputs[place]
            other = value.const_value if value is not None else None
            if isinstance(other, TracedTensor) and other is not parameter and _are_equal(other, parameter):
                self.copies[parameter] = other


def record(skeleton: Skeleton, apart: Collection[str] = (), **options: Any) -> Recording:
    """Lift the model with these options of `lift`, and return what was recorded."""
    recording = Recording(apart)
    recording.lifted = pipeline.run(
        _traced_source(skeleton, recording.tensors), name=None, watch=recording.watch, **options
    )
    assert recording.lifted.lift is not None
    recording.entries = dict(state_entries(recording.lifted.lift.root))
    recording._inputs.clear()
    recording._stored.clear()
    recording._places.clear()
    recording._reads.clear()
    return recording


def _traced_source(skeleton: Skeleton, tensors: list[TracedTensor]) -> Skeleton:
    """Return the same model with traced tensors in the place of all that hold numbers, which are put into `tensors`."""
    proto, store = onnx.ModelProto(), TensorStore()
    proto.CopyFrom(skeleton.proto)
    detach_weights(proto, skeleton.store, skeleton.folder)
    for number, tensor in enumerate(each_tensor(proto)):
        kept = onnx.TensorProto()
        kept.CopyFrom(tensor)
        traced = TracedTensor(tensor_of(kept, skeleton.store), number)
        tensors.append(traced)
        if tensor.data_type != onnx.TensorProto.STRING:
            for name in ("float_data", "double_data", "int32_data", "int64_data", "uint64_data"):
                tensor.ClearField(name)
            tensor.raw_data = store.put(traced)
    return Skeleton(proto, store, skeleton.folder)


def _split(model: ir.Model, apart: Collection[str]) -> None:
    """Give each reader of these constants a copy of its own. The first keeps the constant."""
    names = Names(model)
    for name in apart:
        value = model.graph.initializers.get(name)
        tensor = constant(value)
        for node, place in [] if value is None else [*value.uses()][1:]:
            assert value is not None and tensor is not None
            copy = initialiser(model.graph, names.like(name), tensor)
            copy.meta.update(value.meta)
            mark_copied(copy, value, "each reader has its own")
            node.replace_input_with(place, copy)


def _trace_constants(model: ir.Model) -> dict[ir.Value, TracedTensor]:
    """Trace the constants of the graph from here on. Each has a trace of its own, also where several share a tensor."""
    found: dict[ir.Value, TracedTensor] = {}
    for region in regions(model):
        for value in region.graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.dtype != ir.DataType.STRING:
                traced = TracedTensor(tensor)
                traced.meta[STORED] = tensor
                traced.name = value.name
                value.const_value = found[value] = traced
    return found


def _in_order(node: ir.Node, before: tuple[ir.Value | None, ...]) -> tuple[ir.Value | None, ...]:
    """Return the inputs of a node in the order in which it had them, if a step has exchanged the two of a sum."""
    now = tuple(node.inputs)
    if node.op_type in COMMUTATIVE and len(now) == len(before) == 2 and now[0] is not before[0]:
        return now[::-1] if now[0] is before[1] or now[1] is before[0] else now
    return now


def _is_from_new(formula: Formula, trace: Trace | None) -> bool:
    """Tell whether all floating-point constants of a formula are newer than those of the trace.

    If not, an idiom has only moved nodes, and the constants are the same."""
    latest = max((source.serial for source in trace.sources()), default=0) if trace is not None else 0
    return all(leaf.serial > latest for leaf in formula.leaves if leaf.dtype in FLOATS)


def _constants_behind(value: ir.Value) -> dict[ir.Value, TracedTensor]:
    """Return the constants that a value is computed from, each of which is traced from here on."""
    found: dict[ir.Value, TracedTensor] = {}
    waiting, seen = [value], {value}
    while waiting and len(seen) < MOST_NODES:
        each = waiting.pop()
        tensor = each.const_value
        if tensor is not None and tensor.dtype != ir.DataType.STRING:
            found[each] = tensor if isinstance(tensor, TracedTensor) else TracedTensor(tensor)
            each.const_value = found[each]
        node = each.producer()
        new = [] if node is None else [read for read in node.inputs if read is not None and read not in seen]
        waiting += new
        seen.update(new)
    return found


def _formula(
    value: ir.Value, parameters: dict[ir.Value, TracedTensor], opsets: tuple[tuple[str, int], ...]
) -> Formula | None:
    """Return how the restored graph computes a value from constants; None if it depends on an input."""
    if value in parameters:
        return Formula({value.name or "": parameters[value]})
    nodes: dict[ir.Node, None] = {}
    leaves: dict[str, TracedTensor] = {}
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if each in parameters:
            leaves[each.name or ""] = parameters[each]
            continue
        node = each.producer()
        if node is None or node.domain not in STANDARD or len(nodes) > MOST_NODES:
            return None
        nodes.pop(node, None)  # what is computed first comes last, and all of it is turned around
        nodes[node] = None
        waiting.extend(read for read in node.inputs if read is not None)
    if not all(node.version is None for node in nodes):
        return None
    protos = tuple(ir.serde.serialize_node(node) for node in reversed(nodes))
    return Formula(leaves, protos, value.name or "", opsets)


def _are_equal(tensor: TracedTensor, other: TracedTensor) -> bool:
    """Tell whether two tensors have the same numbers. The first are compared before all of both is read."""
    if tensor.dtype != other.dtype or tensor.shape != other.shape:
        return False
    mine, theirs = tensor.plain(), other.plain()
    return np.array_equal(mine[:1], theirs[:1]) and np.array_equal(mine, theirs) if mine.ndim else bool(mine == theirs)
