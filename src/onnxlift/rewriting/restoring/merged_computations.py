"""Let each layer compute itself what an exporter has computed once for several layers, because their parameters are
equal.

    k = Linear(memory) in layers.0; MatMul(q0, k) in layers.0; MatMul(q1, k) in layers.1
    ->   k = Linear(memory) in layers.0; MatMul(q0, k) in layers.0
         l = Linear(memory) in layers.1; MatMul(q1, l) in layers.1

    y = Linear(x) in experts.0; Mul(y, a), Mul(y, b) in the module around
    ->   y = Linear(x) in experts.0; z = Linear(x) in experts.1; Mul(y, a), Mul(z, b) in the module around

PyTorch's newer exporter stores equal parameters once (`merged_parameters.py`), and then merges equal nodes. The layers
of an untrained nn.TransformerDecoder are copies of one another, so their keys and values of the memory are one
computation. Lifted as it is, the first layer would hand them to all others, and the parameters of the others would be
lost.

A value is computed once more if

1. it is computed from parameters of a layer. Without parameters it is a mask, positions or sizes, which stay computed
   once (`common_subexpressions.py` says why);
2. a node in another layer of the same class reads it, and the node at the same place in the first layer, with the same
   operator, reads it too; or nodes in the module around read it by several names, as many as there are layers that
   could be meant;
3. the operation of that node does not name the value (`origin/exported.py`): its argument was another value, which is
   gone;
4. the model has the parameters that the other layer would compute it from, and nothing else reads them;
5. operations that would have read them can be missing. PyTorch numbers operations, so a missing one leaves a gap. A
   layer that takes over a value of another one may own such parameters without using them, but then there is no gap.

All nodes in the first layer that the value is computed from are copied, from the parameters on. Sound because the
copies read the same values. The parameters get their own names afterwards; their numbers were equal, or the exporter
would not have merged anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.building.order import sort_nodes
from onnxlift.ir.editing.edit import Names
from onnxlift.ir.origin.exported import Program, read_program
from onnxlift.ir.origin.metadata import CLASSES, FX_NODE, NAME_SCOPES, string_list
from onnxlift.stages import step

from .merged_parameters import stored_names

LARGEST = 400
"""The most nodes of one layer, and the most readers of one value, that are looked at."""

Pair = tuple[str, str]
"""Two layers: the one that computes a value, and the one that should compute it too."""

Reads = dict[ir.Value, list[tuple[ir.Node, int]]]


@step("merged-computations", after={"folded-names": "a parameter that has only lost its name is not missing"})
def run(model: ir.Model) -> int:
    """Let layers compute what is theirs; return how many nodes were copied."""
    graph = model.graph
    program = read_program(graph)
    lost = _find_lost(graph, program) if program is not None else None
    if program is None or lost is None or not lost.parameters:
        return 0
    shared = {**_reads_across(graph, program, lost), **_reads_from_around(graph, program, lost)}
    inside = _nodes_of_modules(graph, program, {module for pair in shared for module in pair})
    names, made = Names(model), 0
    for (source, target), reads in shared.items():
        layers = _Layers(program, lost, source, target)
        found = {value: readers for value, readers in reads.items() if layers.include(value, readers)}
        following = inside[target] or [node for readers in found.values() for node, _ in readers]
        copies = layers.copy(graph, names, inside[source], following)
        for value, readers in found.items():
            for node, place in readers:
                node.replace_input_with(place, copies[value])
        made += len(layers.included)
    if made:
        sort_nodes(graph)
    return made


@dataclass
class _Lost:
    """Parameters and operations that the exported program had and the graph no longer has."""

    parameters: Collection[str]
    modules: Mapping[str, list[str]]  # name inside the module -> the modules that own such a parameter
    present: Collection[str]  # the operations that are not lost
    missing: Mapping[str, int]  # kind -> how many of its operations are lost, before the last one that is known
    last: Mapping[str, int]  # kind -> the place of its last operation in the graph
    order: Mapping[ir.Node, int]


def _find_lost(graph: ir.Graph, program: Program) -> _Lost:
    read: set[str] = set()
    present: dict[str, set[str]] = {}
    highest: dict[str, int] = {}
    last: dict[str, int] = {}
    order = {node: place for place, node in enumerate(graph)}
    for node, place in order.items():
        read.update(program.parameters_of(node), _parameters(node, program))
        operation = program.operation(node)
        if operation is not None:
            present.setdefault(_counted(operation.name)[0], set()).add(operation.name)
            last[_counted(operation.name)[0]] = place
            for kind, number in map(_counted, (operation.name, *operation.reads)):
                highest[kind] = max(number, highest.get(kind, 0))
    parameters = {name: None for name in program.parameters.values() if name not in read}
    modules: dict[str, list[str]] = {}
    for name in parameters:
        for dot in re.finditer(r"\.", name):
            modules.setdefault(name[dot.end() :], []).append(name[: dot.start()])
    missing = {kind: highest[kind] + 1 - len(names) for kind, names in present.items()}
    return _Lost(parameters, modules, set().union(*present.values()), missing, last, order)


def _counted(name: str) -> tuple[str, int]:
    """Return the kind and the number of an operation: `linear_3` -> linear, 3; `linear` -> linear, 0."""
    kind, _, number = name.rpartition("_")
    return (kind, int(number)) if kind and number.isascii() and number.isdigit() and len(number) < 10 else (name, 0)


def _parameters(node: ir.Node, program: Program) -> list[str]:
    """Return the parameters that a node reads itself, under the names that its own operation has for them."""
    constants = (value for value in node.inputs if value is not None and value.const_value is not None)
    stored = ((value.name or "", stored_names(value, program)) for value in constants)
    return [own for name, names in stored for own in program.own_names(node, name, names)]


def _reads(graph: ir.Graph) -> Iterator[tuple[ir.Node, int, ir.Value, ir.Node]]:
    """Yield each read of a node's result by another node: the reader, the index of its input, the value, and the node
    that computes it."""
    for node in graph:
        for place, value in enumerate(node.inputs):
            source = None if value is None else value.producer()
            if value is not None and source is not None and source.graph is graph:
                yield node, place, value, source


def _reads_across(graph: ir.Graph, program: Program, lost: _Lost) -> dict[Pair, Reads]:
    """Return the values that layers read from other layers of their class, as far as rules 2 and 3 allow."""
    owners = {module for modules in lost.modules.values() for module in modules}
    found: dict[Pair, Reads] = {}
    for node, place, value, source in _reads(graph):
        pair = _beside(source, node, program)
        mine, theirs = program.operation(node), program.operation(source)
        if pair is None or pair[1] not in owners or (mine and theirs and theirs.name in mine.reads):
            continue
        if any(at == place and _corresponds(user, node, pair, program) for user, at in islice(value.uses(), LARGEST)):
            found.setdefault(pair, {}).setdefault(value, []).append((node, place))
    return found


def _beside(source: ir.Node, reader: ir.Node, program: Program) -> Pair | None:
    """Return the outermost modules in which the two nodes differ, if these are of one class."""
    mine, theirs = program.home(source), program.home(reader)
    for index, (module, other) in enumerate(zip(mine.modules, theirs.modules, strict=False)):
        if module != other:
            return (module, other) if mine.classes[index] == theirs.classes[index] else None
    return None


def _corresponds(node: ir.Node, other: ir.Node, pair: Pair, program: Program) -> bool:
    """Tell whether a node in the first layer of a pair has the place and operator of `other` in the second one."""
    mine, theirs = program.home(node).modules, program.home(other).modules
    return node.op_type == other.op_type and mine == tuple(_moved(module, pair[1], pair[0]) for module in theirs)


def _moved(name: str, source: str, target: str) -> str:
    """Return the name in `target` of what is `name` in `source`: `layers.0.key` -> `layers.1.key`."""
    return target + name[len(source) :] if f"{name}.".startswith(f"{source}.") else name


def _reads_from_around(graph: ir.Graph, program: Program, lost: _Lost) -> dict[Pair, Reads]:
    """Return the values that a module reads from a layer inside it by other names than the layer's own, for each pair
    of this layer and the one that is meant.

    The layers that are meant come in the order of the model, as the names come in the order of their numbers.
    """
    renamed: dict[str, dict[tuple[int, str], Reads]] = {}
    for node, place, value, source in _reads(graph):
        mine, theirs = program.home(node).modules, program.home(source).modules
        if mine and len(mine) < len(theirs) and theirs[: len(mine)] == mine:
            name = _name_of(place, node, source, program)
            if name is not None and name not in lost.present:
                reads = renamed.setdefault(theirs[len(mine)], {}).setdefault((_counted(name)[1], name), {})
                reads.setdefault(value, []).append((node, place))
    found: dict[Pair, Reads] = {}
    for layer, reads_of in renamed.items():
        values = {value for reads in reads_of.values() for value in reads}
        weights = _Layers(program, lost, layer, layer).weights_of(*values)
        inner = [weight[len(layer) + 1 :] for weight in weights]
        layers = [
            module
            for module in lost.modules.get(inner[0] if inner else "", ())
            if all(f"{module}.{name}" in lost.parameters for name in inner)
        ]
        if len(values) == 1 and len(layers) == len(reads_of):
            found.update({(layer, other): reads_of[key] for other, key in zip(layers, sorted(reads_of), strict=True)})
    return found


def _name_of(place: int, node: ir.Node, source: ir.Node, program: Program) -> str | None:
    """Return the name by which the operation of `node` reads the result of `source` at `place`. Return None if it is
    the name of `source` itself, or not one that an operation of its kind would have."""
    mine, theirs = program.operation(node), program.operation(source)
    if mine is None or theirs is None:
        return None
    places = [at for at, value in enumerate(node.inputs) if value is not None and value.const_value is None]
    names = [name for name in mine.reads if name not in program.parameters]
    name = names[places.index(place)] if len(names) == len(places) else theirs.name
    return name if name != theirs.name and _counted(name)[0] == _counted(theirs.name)[0] else None


def _nodes_of_modules(graph: ir.Graph, program: Program, modules: set[str]) -> dict[str, list[ir.Node]]:
    found: dict[str, list[ir.Node]] = {module: [] for module in modules}
    for node in graph if modules else ():
        for module in program.home(node).modules:
            if module in found:
                found[module].append(node)
    return found


@dataclass
class _Layers:
    """Two layers, and the nodes of the first one (`source`) that compute values for the second one (`target`)."""

    program: Program
    lost: _Lost
    source: str
    target: str
    included: set[ir.Node] = field(default_factory=set)
    # Node -> whether it is computed from parameters of the first layer.
    _computed: dict[ir.Node, bool] = field(default_factory=dict)

    def include(self, value: ir.Value, readers: Iterable[tuple[ir.Node, int]]) -> bool:
        """Tell whether the second layer should compute `value` too. If so, include all nodes that it is computed
        from."""
        nodes = self._computed_from(value)
        named = {name for node, _ in readers for name in self.program.parameters_of(node)}
        sharing = [user for user, _ in islice(value.uses(), LARGEST) if self.source in self.program.home(user).modules]
        partly = {operation.name for user in sharing if (operation := self.program.operation(user)) is not None}
        until = min(self.lost.order[node] for node, _ in readers)
        for node in nodes:
            own = [_moved(name, self.source, self.target) for name in self._weights(node)]
            if any(name not in self.lost.parameters and name not in named for name in own):
                return False
            operation = self.program.operation(node)
            if operation is not None and operation.name not in partly and self._holds(node):
                kind = _counted(operation.name)[0]
                if not self.lost.missing[kind] and self.lost.last[kind] > until:
                    return False
        self.included |= nodes
        return bool(nodes)

    def weights_of(self, *values: ir.Value) -> list[str]:
        """Return the parameters of the first layer that these values are computed from."""
        nodes = {node for value in values for node in self._computed_from(value)}
        return sorted({name for node in nodes for name in self._weights(node)})

    def _weights(self, node: ir.Node) -> list[str]:
        """Return the parameters of the first layer that a node or its operation reads."""
        read = {*self.program.parameters_of(node), *_parameters(node, self.program)}
        return [name for name in read if name.startswith(f"{self.source}.")]

    def _holds(self, node: ir.Node) -> bool:
        """Tell whether a node reads parameters, directly or through nodes that the exporter notes nothing about."""
        return bool(self._weights(node)) or any(
            self.program.operation(source) is None and self._computed.get(source) for source in _sources(node)
        )

    def _computed_from(self, value: ir.Value) -> set[ir.Node]:
        """Return all nodes of the first layer between its parameters and `value`; none if they are too many."""
        before: set[ir.Node] = set()
        waiting = [producer] if (producer := value.producer()) is not None else []
        while waiting:
            part = waiting.pop()
            if part not in before and self.source in self.program.home(part).modules:
                if len(before) == LARGEST:
                    return set()
                before.add(part)
                waiting += _sources(part)
        for part in sorted(before, key=self.lost.order.__getitem__):
            from_parameters = any(self._computed.get(source) for source in _sources(part))
            self._computed[part] = from_parameters or bool(self._weights(part))
        return {part for part in before if self._computed[part]} if producer in before else set()

    def copy(
        self, graph: ir.Graph, names: Names, nodes: Iterable[ir.Node], following: Iterable[ir.Node]
    ) -> dict[ir.Value, ir.Value]:
        """Copy the included nodes into the second layer; return the copy of each value.

        `nodes` are the nodes of the first layer, `following` those of the second. Each copy is inserted before the node
        of `following` that corresponds to what comes next in `nodes`.
        """
        copies: dict[ir.Value, ir.Value] = {}
        rest = iter(following)
        after = next(rest, None)
        for node in nodes if after is not None else ():
            assert after is not None
            if node in self.included:
                graph.insert_before(after, self._copy(node, copies, names))
            elif _corresponds(node, after, (self.source, self.target), self.program):
                after = next(rest, after)
        return copies

    def _copy(self, node: ir.Node, copies: dict[ir.Value, ir.Value], names: Names) -> ir.Node:
        inputs = [None if value is None else copies.get(value, value) for value in node.inputs]
        for old in node.outputs:
            copies[old] = ir.Value(name=names.like(old.name) if old.name else "", type=old.type, shape=old.shape)
            copies[old].meta.update(old.meta)
        return ir.Node(
            node.domain,
            node.op_type,
            inputs,
            node.attributes.values(),
            outputs=[copies[old] for old in node.outputs],
            version=node.version,
            name=node.name,
            metadata_props=dict(self._notes(node)),
        )

    def _notes(self, node: ir.Node) -> Iterator[tuple[str, str]]:
        """Yield the metadata that the exporter would have written for a copy."""
        home, notes = self.program.home(node), node.metadata_props
        for key, path in ((NAME_SCOPES, home.modules), (CLASSES, home.classes)):
            around = [_moved(name, self.source, self.target) if key == NAME_SCOPES else name for name in path]
            yield key, repr([*around, *(string_list(notes.get(key)) or [""])[-1:]])
        if FX_NODE in notes:
            yield FX_NODE, re.sub(r"%(\w+)", lambda match: f"%{self._own_argument(match[1])}", notes[FX_NODE])

    def _own_argument(self, name: str) -> str:
        """Return how the second layer's operation names the parameter that is `name` in the first layer's."""
        stored = self.program.parameters.get(name)
        moved = _moved(stored, self.source, self.target) if stored is not None else ""
        return self.program.known_as.get(moved, name)


def _sources(node: ir.Node) -> list[ir.Node]:
    producers = (value.producer() for value in node.inputs if value is not None)
    return [producer for producer in producers if producer is not None and producer.graph is node.graph]
