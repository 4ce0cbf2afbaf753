"""The stages from a graph to a file: tree, lowering, restructuring, classes, statements, naming, writing.

Their steps work on a `Lift`, each of them filling in or changing a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.errors import UnsupportedNode
from onnxlift.lifting.modules.classes.classes import find_classes
from onnxlift.lifting.modules.classes.module_class import ClassOf, ModuleClass
from onnxlift.lifting.modules.finish import FINISHING
from onnxlift.lifting.modules.loops.dense_blocks import roll_dense
from onnxlift.lifting.modules.loops.group_loops import roll_groups
from onnxlift.lifting.modules.loops.loops import roll_loops
from onnxlift.lifting.modules.lower import Lowering
from onnxlift.lifting.modules.members.constants import mark_constants
from onnxlift.lifting.modules.members.member_order import Registered, order_as_registered
from onnxlift.lifting.modules.members.original_keys import restore_keys
from onnxlift.lifting.modules.members.shared_tables import add_shared_tables
from onnxlift.lifting.modules.members.ties import find_ties
from onnxlift.lifting.modules.module import Entry, Module, state_entries
from onnxlift.lifting.modules.signatures.passed_through import pass_through_blocks
from onnxlift.lifting.modules.signatures.prune import prune
from onnxlift.lifting.modules.signatures.signatures import share_signatures
from onnxlift.lifting.modules.statements.arrange import arrange
from onnxlift.lifting.modules.statements.inline import inline
from onnxlift.lifting.modules.statements.shared_sizes import share_sizes
from onnxlift.lifting.modules.statements.size_sources import read_at_hand
from onnxlift.lifting.names.class_names import name_classes
from onnxlift.lifting.names.detection_roles import mark_detections
from onnxlift.lifting.text.built_weights import check_weights
from onnxlift.lifting.text.file import Header, SavedWeights, Source, assemble, format_source
from onnxlift.lifting.text.gate import check_source
from onnxlift.lifting.text.write import ClassWriter, Text
from onnxlift.lifting.tree.build import build_tree
from onnxlift.lifting.tree.families import find_families
from onnxlift.lifting.tree.local_activations import activate_locally
from onnxlift.lifting.tree.local_positions import count_locally
from onnxlift.lifting.tree.paths import ModulePaths, find_inner_paths, find_paths, no_paths
from onnxlift.lifting.tree.repetition import find_repetition
from onnxlift.lifting.tree.roles import name_projections
from onnxlift.lifting.tree.structure import Structure
from onnxlift.stages import Record, Stage, step

MOST_ATTEMPTS = 4


@dataclass
class Lift:
    """A model on its way from a graph to a file. `paths` is what the tree stage finds out, `root` the lowered model,
    `writers` hold the classes from which `source` is written. `structure` says what the modules are to come from."""

    model: ir.Model
    header: Header
    registered: Registered = field(default_factory=dict)
    max_shard_size: int = 0
    structure: Structure = Structure.NAMES
    paths: ModulePaths = field(default_factory=ModulePaths)
    root: Module = field(default_factory=lambda: Module(()))
    failures: Sequence[UnsupportedNode] = ()
    warnings: Sequence[str] = ()
    classes: list[ModuleClass] = field(default_factory=list)
    class_of: ClassOf = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    ties: dict[str, str] = field(default_factory=dict)
    writers: list[ClassWriter] = field(default_factory=list)
    source: Source = field(default_factory=Source)

    def forwards(self) -> Iterator[ClassWriter]:
        """Go through the classes that have a `forward` of their own."""
        return (writer for writer in self.writers if not writer.module.sequential)


# Tree


@step("module-paths", optional=False)
def module_paths(lift: Lift) -> int:
    """Every node gets a path of modules, from the exporter's metadata, the names of weights, or its own name."""
    by_name = lift.structure is Structure.NAMES
    lift.paths = find_paths(lift.model.graph) if by_name else no_paths(lift.model.graph)
    return len(set(lift.paths.by_node.values()) - {()})


@step("numbered-blocks", after={"module-paths": "it is for graphs in which no path was found"})
def numbered_blocks(lift: Lift) -> int:
    """Nodes whose flat names begin with the same numbered word (`layer1a_conv`, `layer1a_bn`) are one module."""
    return find_families(lift.model.graph, lift.paths) if lift.structure is Structure.NAMES else 0


@step("repetition", after={"numbered-blocks": "names that say something are worth more than what repeats"})
def repetition(lift: Lift) -> int:
    """In a graph without names that say anything, runs of equal nodes become modules."""
    return find_repetition(lift.model.graph, lift.paths, only_weights=lift.structure is Structure.NONE)


@step("projections", after={"repetition": "modules that it found have their projections named"})
def projections(lift: Lift) -> int:
    """Nameless layers that make queries, keys and values in a module are called so."""
    return 0 if lift.paths.guessed else name_projections(lift.model.graph, lift.paths)


@step(
    "inner-paths",
    after={"projections": "a node in a branch goes where the nodes outside are that use it"},
    optional=False,
)
def inner_paths(lift: Lift) -> int:
    """Nodes in branches and loops get a path of modules as well."""
    by_name = lift.structure is Structure.NAMES and not lift.paths.guessed
    return find_inner_paths(lift.model.graph, lift.paths) if by_name else 0


@step("local-positions", after={"inner-paths": "it has to know the modules of all who read a position"})
def local_positions(lift: Lift) -> int:
    """Positions (`torch.arange`) are counted in every module that needs them."""
    return count_locally(lift.model.graph, lift.paths)


@step("local-activations", after={"local-positions": "both copy nodes, and the copies are written in that order"})
def local_activations(lift: Lift) -> int:
    """Activations are computed by every module that begins with one."""
    return activate_locally(lift.model.graph, lift.paths)


# Lowering


@step("lowering", optional=False)
def lowering(lift: Lift, *, record: Record) -> int:
    """Every node is written by its operator function, into the module that it belongs to.

    Modules whose calls turn out to differ are not divided into calls the next time. Only their code tells whether calls
    are the same: equal nodes may be written differently, and other nodes alike. If calls are not told apart, their
    nodes are divided anew among all modules around them, so the whole model is lowered again. That is rare, and happens
    `MOST_ATTEMPTS` times at most."""
    paths = lift.paths
    for attempt in range(MOST_ATTEMPTS + 1):
        found = Lowering(lift.model, paths, record)
        lift.root = found.lower(build_tree(lift.model.graph, paths))
        lift.failures, lift.warnings = found.failures, tuple(found.warnings)
        if not found.differing:
            break
        paths.undivided |= found.differing if attempt + 1 < MOST_ATTEMPTS else set(paths.population)
    return sum(1 for _ in lift.root.walk())


# Restructuring


@step("pruning", optional=False)
def pruning(lift: Lift) -> int:
    """Results that no caller uses, and arguments that are not needed then, go."""
    return prune(lift.root)


@step("shared-tables", after={"pruning": "a table is only held if nobody is left who calls it"})
def shared_tables(lift: Lift) -> int:
    """An embedding that several modules use, and whose owner never calls it, is a member of its owner again."""
    return add_shared_tables(lift.root, lift.model)


@step("original-keys", optional=False, after={"shared-tables": "a table that is held by its owner has a key, too"})
def original_keys(lift: Lift) -> int:
    """Members have the names of the original's state dict, also where these are no identifiers."""
    return restore_keys(lift.root, lift.model, lift.paths.by_node)


@step(
    "constants",
    optional=False,
    after={
        "shared-tables": "whether there are named parameters decides it",
        "original-keys": "what the exporter lists as persistent has the original's keys",
    },
)
def constants(lift: Lift) -> int:
    """Buffers that the original did not keep in its state dict are not persistent."""
    return mark_constants(lift.root, lift.model.graph)


@step("passed-through", after={"pruning": "a value that nobody reads is not passed on"})
def passed_through(lift: Lift) -> int:
    """A value that the first of several blocks computes goes through all of them."""
    return pass_through_blocks(lift.root)


@step("signatures", after={"passed-through": "it changes what blocks take"})
def signatures(lift: Lift) -> int:
    """Attentions that differ only in what they are called with get one signature."""
    return share_signatures(lift.root)


@step("dense-blocks", after={"signatures": "it leaves no calls of which the arguments could change"})
def dense_blocks(lift: Lift) -> int:
    """A block in which every layer reads all that came before it becomes a loop."""
    return sum(map(roll_dense, lift.root.walk()))


# Classes


@step("shared-classes", optional=False)
def shared_classes(lift: Lift) -> int:
    """Modules that are equal up to sizes, numbers and optional parts share one class."""
    lift.classes, lift.class_of = find_classes(lift.root)
    return sum(len(cls.instances) - 1 for cls in lift.classes)


@step("class-names", optional=False, after={"shared-classes": "it names the classes"})
def class_names(lift: Lift) -> int:
    """Classes are called as the exporter says, else by what they are, else by where they stand."""
    name_classes(lift.classes, lift.root, lift.model, lift.header.name, lift.paths.guessed_classes)
    return len(lift.classes)


@step("registration-order", after={"class-names": "names are given by the order of use"})
def registration_order(lift: Lift) -> int:
    """Members are made in the order of the original constructor, where the file tells it."""
    return sum(order_as_registered(cls, lift.registered) for cls in lift.classes)


@step("tied-weights", optional=False, after={"registration-order": "the first member keeps a weight that is shared"})
def tied_weights(lift: Lift) -> int:
    """Weights that are one in the model are tied: an embedding and the output head."""
    lift.entries = dict(state_entries(lift.root))
    lift.ties = find_ties(lift.entries)
    root = lift.root
    lift.writers = [ClassWriter(cls, lift.class_of, lift.ties if cls.example is root else {}) for cls in lift.classes]
    return len(lift.ties)


# Statements


@step("loops")
def loops(lift: Lift) -> int:
    """Calls of numbered modules, or of one module, in a row become a loop."""
    return sum(roll_loops(writer.module) for writer in lift.forwards())


@step("group-loops", after={"loops": "a plain loop over one list reads better"})
def group_loops(lift: Lift) -> int:
    """Code that does the same with one entry of a list after the other becomes a loop."""
    return sum(roll_groups(writer.module, writer.word_of, writer.places) for writer in lift.forwards())


@step("shared-sizes", after={"group-loops": "a size that each iteration reads is counted once"})
def shared_sizes(lift: Lift) -> int:
    """Sizes that a forward needs several times are read once."""
    return sum(share_sizes(writer.module) for writer in lift.forwards())


@step("inlining", optional=False, after={"shared-sizes": "a size in a variable is shorter than one that is read"})
def inlining(lift: Lift) -> int:
    """A value is written where it is used, where a person would."""
    for writer in lift.forwards():
        writer.inlined, writer.begin = inline(writer.module, writer.places)
    return sum(len(writer.inlined) for writer in lift.forwards())


@step("sizes-at-hand", after={"inlining": "what a statement reads is known then"})
def sizes_at_hand(lift: Lift) -> int:
    """Sizes are read from a tensor that the statement uses anyway."""
    return sum(read_at_hand(writer.module, writer.inlined) for writer in lift.forwards())


@step("arranging", after={"sizes-at-hand": "which statement waits for which depends on what it reads"})
def arranging(lift: Lift) -> int:
    """Statements come in the order in which their computations begin."""
    return sum(arrange(writer.module.body, writer.inlined, writer.begin) for writer in lift.forwards())


# Naming


@step("variables", optional=False)
def variables(lift: Lift) -> int:
    """Variables are called by the graph's names, by what callers and callees call them, or by their role."""
    mark_detections(lift.model)
    for writer in (*lift.writers, *reversed(lift.writers), *lift.writers):  # names travel up, down, and up again
        writer.name_variables()
    return sum(len(writer.variables.names) for writer in lift.forwards())


# Writing


@step("methods")
def methods(lift: Lift) -> int:
    """A forward that is too long is divided into methods of its class, where few variables cross."""
    return sum(writer.divide() for writer in lift.forwards())


@step("text", optional=False, after={"methods": "it writes them in front of their forward"})
def text(lift: Lift) -> int:
    """The classes, the kernels that they call, the imports, and `load` are put together."""
    body = Text()
    for writer in lift.writers:
        body.add()
        body.add()
        writer.write(body)
    weights = SavedWeights.of(lift.entries, lift.ties, lift.max_shard_size)
    lift.source = assemble(lift.header, lift.model, lift.root, lift.class_of[lift.root].name, weights, body)
    lift.source.classes, lift.source.writers = len(lift.classes), lift.writers
    return 0


@step("format", optional=False, after={"text": "it formats the text"})
def format_text(lift: Lift) -> int:
    """The source is formatted as ruff formats it."""
    lift.source.text = format_source(lift.source.text)
    return 0


@step("gate", optional=False, after={"format": "it judges the text that is saved and run"})
def gate(lift: Lift) -> int:
    """The finished source must be nothing but the kind of code that we write."""
    check_source(lift.source.text)
    return 0


@step("fitting-weights", optional=False, after={"gate": "it follows constructors, which must be what we write"})
def fitting_weights(lift: Lift) -> int:
    """The constructors must make exactly the weights that are there, with their shapes."""
    check_weights(lift.source.text, lift.source.class_name, lift.entries)
    return 0


TREE = Stage(
    "tree",
    "every node gets its place in a tree of modules",
    (
        module_paths,
        numbered_blocks,
        repetition,
        projections,
        inner_paths,
        local_positions,
        local_activations,
    ),
)
LOWERING = Stage("lowering", "nodes become statements of modules", (lowering,))
RESTRUCTURING = Stage(
    "restructuring",
    "what modules take, give and hold becomes what a person would have written",
    (pruning, shared_tables, original_keys, constants, passed_through, signatures, dense_blocks),
)
CLASSES = Stage(
    "classes",
    "equal modules share a class, whose constructor takes what differs",
    (shared_classes, class_names, registration_order, tied_weights),
)
STATEMENTS = Stage(
    "statements",
    "the code of each forward takes its final form",
    (loops, group_loops, shared_sizes, inlining, sizes_at_hand, arranging),
)
NAMING = Stage("naming", "variables get names, each with a reason", (variables,))
WRITING = Stage(
    "writing", "the text of the file, formatted and checked", (methods, text, format_text, gate, fitting_weights)
)
STAGES = (TREE, LOWERING, FINISHING, RESTRUCTURING, CLASSES, STATEMENTS, NAMING, WRITING)
