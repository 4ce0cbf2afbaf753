"""Choose what the modules of a source come from: names, repetition, or nothing.

Names that PyTorch's exporters guarantee are always kept: a key of the original's state dict is worth more than a
shorter text. Any other structure has to pay for itself. It is kept if its source is not longer than that of the same
graph in one class, and otherwise the next is tried:

    names   ->   repetition   ->   one class

In a small graph, few lines can be saved, and a class that several modules share still tells more than it costs: what
it costs is not held against the first of them.

Each structure that is tried is lifted from a copy of the graph, which costs about half a conversion. So others are
tried only if the classes of the first do not clearly save more lines than they cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from onnxlift.errors import UnsupportedError
from onnxlift.lifting.code.statements import walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.stages import CLASSES, LOWERING, NAMING, RESTRUCTURING, STATEMENTS, TREE, WRITING, Lift
from onnxlift.lifting.text.dump import GraphDump
from onnxlift.lifting.tree.structure import Structure, are_names_guaranteed
from onnxlift.stages import Record

CLASS_LINES = 9  # of a class beside its members and statements: its head, two functions, and empty lines
INSTANCE_LINES = 2  # of an instance: where it is made, and where it is called
SMALL = 64  # nodes; a larger graph is longer than a page, and its classes have to pay
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
        """The length of its source."""
        return self.lift.source.text.count("\n")

    @property
    def cost(self) -> int:
        """The lines that are held against it: those of its source, but for shared classes of a small graph."""
        is_small = len(self.lift.model.graph) < SMALL
        return self.lines - (sum(_class_lines(cls) for cls in _shared(self.lift)) if is_small else 0)

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


def choose_structure(first: Candidate) -> Choice:
    """Lift the model of `first` by its names, and in other ways if that does not pay; return the best."""
    if are_names_guaranteed(first.lift.model):
        first.find_modules()
        first.write()
        return Choice(first)
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


def _saves_clearly(lift: Lift) -> bool:
    """Tell whether the modules of a lifted model clearly save more lines than their classes cost."""
    classes = [writer for writer in lift.writers if writer.module is not lift.root]
    cost = sum(_class_lines(writer.cls) for writer in classes)
    saved = sum((len(writer.cls.instances) - 1) * _length(writer.module) for writer in classes)
    return bool(classes) and saved >= CLEARLY * cost


def _shared(lift: Lift) -> list[ModuleClass]:
    return [cls for cls in lift.classes if len(cls.instances) > 1]


def _class_lines(cls: ModuleClass) -> int:
    """Return about the number of lines that a class takes beside its members and statements."""
    return CLASS_LINES + INSTANCE_LINES * len(cls.instances)


def _length(module: Module) -> int:
    """Return about the number of lines that the members and statements of a class take."""
    members = sum(1 for member in module.members.values() if not isinstance(member, Module))
    return members + sum(1 for _ in walk_statements(module.body))
