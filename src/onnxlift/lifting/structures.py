"""Choose what the modules of a source come from: names, repetition, or nothing.

Modules that PyTorch's exporters guarantee are always kept, and so are keys of the original's state dict: they are worth
more than a shorter text. Any other structure has to pay for itself. It is kept if its source is not longer than that of
the same graph in one class, and otherwise the next is tried:

    names   ->   repetition   ->   one class   ->   transcript

Where keys are guaranteed and modules are not, the transcript alone is the bound. It has the keys as well: its layers
lie in plain containers. Repetition fills what has no names (`tree/repetition.py`), and is not tried by itself.

The last is the text of `structure="flat"`: one class without idioms. An idiom may take lines (a scale that is trained
is a parameter, with a line of its own), so that the source of the best structure is still longer than that.

In a small graph, few lines can be saved. A class that several modules share still tells more than it costs: what it
costs is not held against the first of them. And so does an idiom: a small graph is never transcribed. In a larger graph
that holds for what repeats: two equal blocks are worth a class, as long as the source is not longer than the
transcript. It does not hold for names, whose modules may be shared by chance.

Lines are counted without blank ones, which are nothing to read, and without kernels: layers and functions that we bring
along, once, whatever the model. A layer of integers is 40 lines of them, and the same in every model; the transcript of
a small model spells out what it does at each place instead, in fewer lines that are all the model's own.

Each structure that is tried is lifted from a copy of the graph, which costs about half a conversion. So others are
tried only if the classes of the first do not clearly save more lines than they cost, and the transcript only if its
layers alone do not take more lines than the source has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, UnsupportedError
from onnxlift.lifting.code.statements import walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.layer_nodes import kind_of, weight_places
from onnxlift.lifting.stages import CLASSES, LOWERING, NAMING, RESTRUCTURING, STATEMENTS, TREE, WRITING, Lift
from onnxlift.lifting.text.dump import GraphDump
from onnxlift.lifting.tree.paths import layer_paths, no_paths
from onnxlift.lifting.tree.repetition import find_repetition
from onnxlift.lifting.tree.structure import Forced, Promise, Structure, promise_of
from onnxlift.rewriting.idioms.layers.channel_weights import mark_channel_weights
from onnxlift.stages import Record

CLASS_LINES = 4  # of a class beside its members and statements: its head, two functions, and `super().__init__()`
INSTANCE_LINES = 2  # of an instance: where it is made, and where it is called
SMALL = 64  # nodes; a larger graph is longer than a page, and its classes have to pay
FILE_LINES = 40  # of a file with weights, at least, beside its classes: its head, its imports, and `load`
CALLS_IN_A_LINE = 8  # of layers, at most: a call has at least 12 characters
CLEARLY = 1.25  # times its cost that sharing has to save, so that nothing else is tried


@dataclass
class Candidate:
    """A model that is lifted with one structure, and what was recorded on the way."""

    lift: Lift
    record: Record
    dump: GraphDump

    @property
    def structure(self) -> Structure:
        """What its modules come from in fact."""
        if self.lift.structure is Structure.TRANSCRIPT:
            return Structure.TRANSCRIPT
        if len(self.lift.classes) == 1:
            return Structure.NONE
        return Structure.REPETITION if self.lift.paths.guessed else self.lift.structure

    @property
    def has_paths(self) -> bool:
        """Tell whether any node has a place in another module than the model itself."""
        return any(self.lift.paths.by_node.values())

    @property
    def is_written(self) -> bool:
        return bool(self.lift.classes)

    @property
    def lines(self) -> int:
        """The length of its source, without blank lines and without kernels."""
        source = self.lift.source
        return _code_lines(source.text) - sum(map(_code_lines, source.kernels.values()))

    @property
    def cost(self) -> int:
        """The lines that are held against it: those of its source, but for shared classes of a small graph, or of what
        repeats in it."""
        is_forgiven = len(self.lift.model.graph) < SMALL or self.structure is Structure.REPETITION
        return self.lines - (sum(_class_lines(cls) for cls in _shared(self.lift)) if is_forgiven else 0)

    def find_modules(self) -> None:
        """Find the place of every node in the tree of modules."""
        self.record.run(TREE, self.lift)

    def write(self) -> None:
        """Go from the graph and the places of its nodes to the source."""
        self.record.run(LOWERING, self.lift, record=self.record)
        if self.lift.failures:
            header = self.lift.header
            file_name = header.file_name or f"{header.name}.onnx"
            raise UnsupportedError(file_name, self.lift.failures, header.node_count)
        for stage in (RESTRUCTURING, CLASSES, STATEMENTS, NAMING, WRITING):
            self.record.run(stage, self.lift)

    def transcribe(self) -> None:
        """Go from the graph to the source, with all nodes in one class. What is trained is trained here as well."""
        graph = self.lift.model.graph
        mark_channel_weights(self.lift.model)
        self.lift.paths = no_paths(graph) if promise_of(self.lift.model) is Promise.NOTHING else layer_paths(graph)
        find_repetition(graph, self.lift.paths, only_weights=True)
        self.write()

    def copied(self, structure: Structure) -> Candidate:
        """Return the same with a copy of the model, for another structure. Nothing may be lifted yet."""
        lift = Lift(
            self.lift.model.clone(), self.lift.header, self.lift.registered, self.lift.max_shard_size, structure
        )
        record, dump = self.record.copied(), self.dump.copied()
        record.observer = dump
        return Candidate(lift, record, dump)


@dataclass
class Choice:
    """The candidate that was chosen. If it was compared with others, `lines` has the length of each source by what its
    modules come from, the chosen one first."""

    chosen: Candidate
    lines: dict[str, int] = field(default_factory=dict)


def choose_structure(first: Candidate, transcript: Candidate | None) -> Choice:
    """Lift the model of `first` by its names, and in other ways if that does not pay; return the best. `transcript` has
    the model without idioms; it is None if the modules are guaranteed. Idioms may find more of those."""
    promise = promise_of(first.lift.model)
    if transcript is None or promise is not Promise.NOTHING:
        first.find_modules()
        first.write()
        choice = Choice(first)
    else:
        choice = _best_structure(first)
    if transcript is None or promise is Promise.MODULES:
        return choice
    chosen, model = choice.chosen, transcript.lift.model
    if len(model.graph) < SMALL or chosen.lines <= _least_lines(model):
        return choice
    try:
        transcript.transcribe()
    except UnsupportedError:  # an operator that only an idiom can write
        return choice
    if chosen.lines <= transcript.lines:
        return choice
    others = choice.lines or {chosen.structure.value: chosen.lines}
    return Choice(transcript, {Structure.TRANSCRIPT.value: transcript.lines, **others})


def given_structure(first: Candidate, structure: Literal["names", "repetition"]) -> Choice:
    """Lift the model of `first` by its names or by repetition, whatever its source costs."""
    first.lift.structure = Structure(structure)
    first.find_modules()
    first.write()
    return Choice(first)


def check_structure(structure: object) -> None:
    """Raise an error for what is none of the structures that can be asked for."""
    if structure is not None and structure not in get_args(Forced):
        names = ", ".join(get_args(Forced))
        raise OnnxLiftError(f"there is no structure {structure!r}: give one of {names}, or none to get the best.")


def _best_structure(first: Candidate) -> Choice:
    """Lift the model of `first` by its names, by repetition, or in one class; return the best."""
    flat = first.copied(Structure.NONE)
    first.find_modules()
    first.write()
    if _saves_clearly(first.lift) or not first.has_paths:
        return Choice(first)
    tried = [first]
    if first.structure is not Structure.REPETITION:
        repeated = flat.copied(Structure.REPETITION)
        repeated.find_modules()
        tried += [repeated] if repeated.has_paths else []
    flat.find_modules()
    flat.write()
    for candidate in tried[1:] if first.cost > flat.lines or first.structure is Structure.NONE else ():
        candidate.write()
    ordered = [candidate for candidate in tried if candidate.is_written]
    ordered.sort(key=lambda candidate: candidate.structure is Structure.NONE)  # names that give no module come last
    costs = [candidate.cost if candidate is first else candidate.lines for candidate in ordered]
    chosen = next((candidate for candidate, cost in zip(ordered, costs, strict=True) if cost <= flat.lines), flat)
    lines = {candidate.structure.value: candidate.lines for candidate in (chosen, *ordered, flat)}
    return Choice(chosen, lines if len(lines) > 1 else {})


def _code_lines(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def _saves_clearly(lift: Lift) -> bool:
    """Tell whether the modules of a lifted model clearly save more lines than their classes cost."""
    classes = [writer for writer in lift.writers if writer.module is not lift.root]
    cost = sum(_class_lines(writer.cls) for writer in classes)
    saved = sum((len(writer.cls.instances) - 1) * _length(writer.module) for writer in classes)
    return bool(classes) and saved >= CLEARLY * cost


def _least_lines(model: ir.Model) -> int:
    """Return how many lines the transcript of a graph has at least: each layer is made in a line of its own."""
    layers = {weights for node in model.graph if kind_of(node) is not None and (weights := _weights(node))}
    return FILE_LINES + len(layers) + len(layers) // CALLS_IN_A_LINE if layers else 0


def _weights(node: ir.Node) -> tuple[ir.Value, ...]:
    """Return the constants that a node takes as weights; nothing if some weight is computed."""
    weights = [node.inputs[place] for place in weight_places(node) if place < len(node.inputs)]
    held = tuple(value for value in weights if value is not None and value.const_value is not None)
    return held if len(held) == sum(1 for value in weights if value is not None) else ()


def _shared(lift: Lift) -> list[ModuleClass]:
    return [cls for cls in lift.classes if len(cls.instances) > 1]


def _class_lines(cls: ModuleClass) -> int:
    """Return about the number of lines that a class takes beside its members and statements."""
    return CLASS_LINES + INSTANCE_LINES * len(cls.instances)


def _length(module: Module) -> int:
    """Return about the number of lines that the members and statements of a class take."""
    members = sum(1 for member in module.members.values() if not isinstance(member, Module))
    return members + sum(1 for _ in walk_statements(module.body))
