"""Make a graph of the nodes that some outputs need: copies, in the order of making, each with a name of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxlift.ir.graph.walk import subgraphs
from onnxlift.ir.inference.infer import is_invented_size

from .errors import BuildError, Line, line_text
from .state import FIXED, HINT, MADE, Made, made_of


def reached(outputs: Iterable[ir.Value]) -> tuple[list[ir.Node], list[ir.Value]]:
    """Return the nodes outside of bodies that these values need, and the values without a node, in order of making.

    What a body reads from outside counts as needed by the node that holds it."""
    nodes: set[ir.Node] = set()
    sources: set[ir.Value] = set()
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        node = value.producer()
        if node is None:
            sources.add(value)
        elif node not in nodes:
            nodes.add(node)
            waiting.extend(each for each in node.inputs if each is not None)
            waiting.extend(node.meta[MADE].captures)
    return sorted(nodes, key=_order), sorted(sources, key=lambda value: made_of(value).order)


def _order(node: ir.Node) -> int:
    made: Made = node.meta[MADE]
    return made.order


_NAMED = ': a layer outside of a class is named by `layer.named("...")`'


class Names:
    """Names that are unique. Those that the user gave stay as they are; others get a number if need be."""

    def __init__(self) -> None:
        self._lines: dict[str, Line | None] = {}
        self._numbers: dict[str, int] = {}

    def fix(self, name: str, line: Line, more: str = "") -> str:
        """Take a name that the user gave, or raise a BuildError if another value has it."""
        if name in self._lines:
            other = self._lines[name]
            first = "" if other is None else f": one is made at {line_text(other)}, the other at {line_text(line)}"
            raise BuildError(f"two values are called {name}{first}. Give one of them another name{more}.")
        self._lines[name] = line
        return name

    def free(self, hint: str) -> str:
        """Return the hint, with a number if the name is taken."""
        name = hint
        while name in self._lines:
            self._numbers[hint] = self._numbers.get(hint, 1) + 1
            name = f"{hint}_{self._numbers[hint]}"
        self._lines[name] = None
        return name


class Copier:
    """Copies values and nodes with their bodies, and names the copies."""

    def __init__(self, names: Mapping[ir.Value, str], taken: Names) -> None:
        self._names = names
        self._free = taken
        self._nodes = Names()
        self.copies: dict[ir.Value, ir.Value] = {}

    def source(self, value: ir.Value) -> ir.Value:
        """Copy a value that no node makes."""
        name = self._names.get(value) or self._free.free(value.name or "value")
        copy = ir.Value(name=name, type=value.type, shape=without_invented(value.shape), const_value=value.const_value)
        self.copies[value] = copy
        return copy

    def node(self, node: ir.Node) -> ir.Node:
        """Copy a node whose inputs have been copied."""
        made: Made = node.meta[MADE]
        name = self._nodes.free(made.hint)
        copy = ir.Node(
            node.domain,
            node.op_type,
            [None if value is None else self.copies[value] for value in node.inputs],
            [self._attribute(each) for each in node.attributes.values()],
            overload=node.overload,
            outputs=[self._output(value, made, name) for value in node.outputs],
            version=node.version,
            name=name,
            metadata_props=dict(node.metadata_props),
        )
        copy.meta[MADE] = made
        return copy

    def same(self, value: ir.Value, name: str) -> ir.Node:
        """Return a node that gives a value once more, under another name."""
        made = made_of(value)
        node = ir.Node("", "Identity", [self.copies[value]], outputs=[ir.Value(name=name)], name=self._nodes.free(name))
        node.meta[MADE] = made
        return node

    def constant(self, value: ir.Value) -> ir.Node:
        """Copy a constant as a node, for a function, which has no initialisers."""
        made = made_of(value)
        assert value.const_value is not None
        node = ir.Node(
            "",
            "Constant",
            [],
            [ir.AttrTensor("value", value.const_value)],
            outputs=[ir.Value(name=self._names.get(value) or self._free.free(value.name or "constant"))],
            name=self._nodes.free(value.name or "constant"),
        )
        node.meta[MADE] = made
        self.copies[value] = node.outputs[0]
        return node

    def _attribute(self, attribute: ir.Attr) -> ir.Attr:
        if attribute.type is not ir.AttributeType.GRAPH or attribute.is_ref():
            return attribute
        graph = attribute.as_graph()
        inputs = [self.source(value) for value in graph.inputs]
        nodes = [self.node(node) for node in graph]
        outputs = [self.copies[value] for value in graph.outputs]
        return ir.Attr(attribute.name, attribute.type, ir.Graph(inputs, outputs, nodes=nodes, name=graph.name))

    def _output(self, value: ir.Value, made: Made, node: str) -> ir.Value:
        hint = value.meta.get(HINT) or f"{node}{(value.name or '').removeprefix(made.hint)}"
        copy = ir.Value(name=self._names.get(value) or self._free.free(hint))
        if made.keeps_types:
            copy.type, copy.shape = value.type, without_invented(value.shape)
        self.copies[value] = copy
        return copy


def without_invented(shape: ir.Shape | None) -> ir.Shape | None:
    """Return the shape without the names of sizes that inference made up."""
    if shape is None:
        return None
    return ir.Shape([None if not isinstance(d, int) and is_invented_size(str(d.value)) else d for d in shape])


def assemble(
    inputs: Sequence[ir.Value],
    outputs: Mapping[str, ir.Value],
    nodes: Sequence[ir.Node],
    sources: Sequence[ir.Value],
    *,
    in_function: bool = False,
) -> ir.Graph:
    """Return a graph that computes these outputs: copies of these nodes, and of the constants among `sources`.

    Constants are initialisers, or nodes in a function."""
    direct: dict[ir.Value, str] = {}
    for name, value in outputs.items():
        if value.producer() is not None or (made_of(value).fixed == name and not in_function):
            direct.setdefault(value, name)
    names, taken = _given_names(inputs, direct, nodes, sources)
    for name, value in outputs.items():
        if direct.get(value) != name:
            taken.fix(name, made_of(value).line)
    copier = Copier(names, taken)
    entering = [copier.source(value) for value in inputs]
    constants = [value for value in sources if value.const_value is not None]
    initialisers = [] if in_function else [copier.source(value) for value in constants]
    copies = [copier.constant(value) for value in constants] if in_function else []
    copies += [copier.node(node) for node in nodes]
    leaving: list[ir.Value] = []
    for name, value in outputs.items():
        if direct.get(value) != name:
            copies.append(copier.same(value, name))
            leaving.append(copies[-1].outputs[0])
        else:
            leaving.append(copier.copies[value])
        leaving[-1].type, leaving[-1].shape = value.type, without_invented(value.shape)
    return ir.Graph(entering, leaving, nodes=copies, initializers=initialisers)


def _given_names(
    inputs: Sequence[ir.Value], outputs: Mapping[ir.Value, str], nodes: Sequence[ir.Node], sources: Sequence[ir.Value]
) -> tuple[dict[ir.Value, str], Names]:
    """Return the names that the user gave to values, which come before names that are made up."""
    taken = Names()
    names = dict(outputs)
    for value in (*inputs, *(each for each in sources if each.const_value is not None), *_made_by(nodes)):
        name = names.get(value) or value.meta.get(FIXED)
        if name is not None:
            made = made_of(value)
            names[value] = taken.fix(name, made.line, _NAMED if made.kind == "parameter" else "")
    return names, taken


def _made_by(nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield what nodes give, and what the nodes in their bodies give."""
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        yield from node.outputs
        for graph in subgraphs(node) if node.attributes else ():
            waiting.extend(graph)
