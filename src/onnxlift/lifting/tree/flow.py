"""Lay out the layers of a graph, and the code between them, in one line that is cut where a single value crosses.

    embedding | norm, q, k, v, attention, out, add | norm, up, gelu, down, add | norm, up, ...

repetition.py looks for repetition in this line. It depends on the graph alone, not on its names or on the order of its
nodes in the file:
1. Only nodes that work on the result of a layer stand in the line. Masks, positions and sizes do not.
2. Values that many blocks read (the bias of all attentions, the encoder's result in a decoder; see shared.py) are made
   beforehand. They do not count as crossing a cut.
3. The other nodes stand in the order in which a depth-first walk from the results meets them, operands from left to
   right.
4. There is no cut where two values cross. But see `split`: it cuts a piece that no other is equal to, and there the
   values that live longest don't count (the skips of a U-Net).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.graph.marks import DOMAIN, ROUNDING
from onnxlift.ir.graph.types import NUMBERS
from onnxlift.lifting.ops.layer_nodes import family_of, is_activation, kind_of, weight_places

from .reads import outer_reads
from .shared import find_shared

Piece = tuple[int, int]  # the nodes from the first of these positions up to the second

SIZES = {"Shape", "Size"}
# Attributes in which layers of one kind may differ. They become arguments of the class.
SIZE_ATTRIBUTES = {
    *("kernel_shape", "strides", "pads", "dilations", "group", "output_padding", "output_shape"),
    *("epsilon", "momentum", "alpha", "scale", "num_groups"),
}


@dataclass(eq=False)
class RepeatedBlock:
    """A module to be: consecutive nodes of the line, with the blocks inside it. A `branch` is the part whose result a
    residual sum adds to its input."""

    start: int
    end: int
    children: list[RepeatedBlock] = field(default_factory=list)
    branch: bool = False

    def moved(self, distance: int) -> RepeatedBlock:
        """Return the same block at another place in the line."""
        children = [child.moved(distance) for child in self.children]
        return RepeatedBlock(self.start + distance, self.end + distance, children, self.branch)


@dataclass
class Flow:
    """The line of a graph: its `nodes`, and the `position` of each.

    `shared` are the values of rule 2. `sources` are the values that come from elsewhere, each with the position of its
    first reader. `last_read` has the position where a value is read last.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    position: dict[ir.Node, int] = field(default_factory=dict)
    reads: dict[ir.Node, list[ir.Value]] = field(default_factory=dict)
    shared: dict[ir.Value, None] = field(default_factory=dict)
    sources: dict[ir.Value, int] = field(default_factory=dict)
    last_read: dict[ir.Value, int] = field(default_factory=dict)

    def place(self, value: ir.Value) -> int | None:
        """Return the position in the line where a value is made. For one that comes from elsewhere, return where it is
        read first; None for sizes and the like."""
        producer = value.producer()
        made = None if producer is None else self.position.get(producer)
        return self.sources.get(value) if made is None else made

    def pieces(self) -> list[Piece]:
        """Cut the line wherever at most one value crosses."""
        return self._cut((0, len(self.nodes)), set())

    def split(self, piece: Piece) -> list[Piece]:
        """Cut a piece where at most one value crosses. Values that live at least half as long as the longest in the
        piece don't count."""
        start, end = piece
        lives: dict[ir.Value, int] = {}
        for position in range(start, end):
            for value in self.reads[self.nodes[position]]:
                made = self.place(value)
                if made is not None:
                    lives[value] = position - max(made, start)
        longest = max(lives.values(), default=0)
        return self._cut(piece, {v for v, life in lives.items() if 2 * life >= longest})

    def _cut(self, piece: Piece, ignored: set[ir.Value]) -> list[Piece]:
        start, end = piece
        changes = [0] * (end - start + 1)
        for value in self._values(piece):
            made = self.place(value)
            if made is not None and value not in self.shared and value not in ignored:
                changes[max(made, start) - start] += 1
                changes[min(self.last_read.get(value, made), end) - start] -= 1
        cut, pieces, crossing = start, [], 0
        for position in range(start, end):
            crossing += changes[position - start]
            if position + 1 == end or (crossing <= 1 and not self._belongs_to_next(position)):
                pieces.append((cut, position + 1))
                cut = position + 1
        return pieces

    def _belongs_to_next(self, position: int) -> bool:
        """Tell whether the next node belongs to this one: an activation or a rounding to the node that it works on, a
        batch norm to its convolution."""
        node, following = self.nodes[position], self.nodes[position + 1]
        value = following.inputs[0] if following.inputs else None
        if value is None or value not in node.outputs or len(value.uses()) > 1:
            return False
        normalised = is_convolution(node) and _is_batch_norm(following)
        return normalised or is_activation(following) or is_rounding(following)

    def _values(self, piece: Piece) -> dict[ir.Value, None]:
        """Return all values that a piece reads or makes."""
        nodes = self.nodes[slice(*piece)]
        return dict.fromkeys(value for node in nodes for value in (*self.reads[node], *node.outputs))

    def entries(self, piece: Piece) -> list[ir.Value]:
        """Return the values that a piece reads and does not make, in the order of use."""
        made = {value for node in self.nodes[slice(*piece)] for value in node.outputs}
        return [v for v in self._values(piece) if v not in made and self.place(v) is not None]

    def results(self, piece: Piece) -> list[ir.Value]:
        """Return the values of a piece that are read after it, or are results of the model."""
        made = [value for position in range(*piece) for value in self.nodes[position].outputs]
        return [v for v in made if self.last_read.get(v, 0) >= piece[1] or v.is_graph_output()]

    def describe(self, piece: Piece) -> tuple[object, ...]:
        """Describe what a piece computes, without the sizes in it. Pieces with equal descriptions are the same code."""
        outside: dict[ir.Value, int] = {}
        parts: list[object] = []
        for position in range(*piece):
            node = self.nodes[position]
            parts.append((node.domain, node.op_type, len(node.outputs), _attributes(node)))
            for index, value in enumerate(node.inputs):
                parts.append(self._operand(node, index, value, piece, outside))
        return tuple(parts)

    def _operand(
        self, node: ir.Node, index: int, value: ir.Value | None, piece: Piece, outside: dict[ir.Value, int]
    ) -> object:
        if value is None:
            return None
        if value.const_value is not None:
            shape = value.const_value.shape
            return (value.dtype, len(shape), _filter(list(shape)) if is_convolution(node) and index == 1 else None)
        producer = value.producer()
        made = None if producer is None else self.position.get(producer)
        if made is not None and made >= piece[0]:
            return made - piece[0], value.index()
        if self.place(value) is None:
            return "size"
        return "outside", outside.setdefault(value, len(outside))


def _filter(shape: Sequence[object]) -> tuple[bool, bool]:
    """Tell whether a convolution is depthwise (mixes no channels), and whether it is pointwise (mixes no places)."""
    return shape[1] == 1, all(size == 1 for size in shape[2:])


def _attributes(node: ir.Node) -> tuple[object, ...]:
    found: list[object] = []
    for name, attribute in sorted(node.attributes.items()):
        plain = attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS, ir.AttributeType.TENSOR)
        differs = name in SIZE_ATTRIBUTES
        found.append((name, attribute.type, repr(attribute.value) if plain and not differs else None))
    return tuple(found)


def is_layer(node: ir.Node) -> bool:
    """Tell whether a node holds weights, as a layer does."""
    inputs = [node.inputs[i] for i in weight_places(node) if i < len(node.inputs)]
    return any(v is not None and v.const_value is not None and v.dtype in NUMBERS and v.shape for v in inputs)


def is_rounding(node: ir.Node) -> bool:
    """Tell whether a node rounds the result of another one to steps, and does nothing else."""
    return node.op_type in ROUNDING and node.domain == DOMAIN


def is_convolution(node: ir.Node) -> bool:
    """Tell whether a node is a convolution of any kind."""
    return family_of(node) == "convolution"


def _is_batch_norm(node: ir.Node) -> bool:
    kind = kind_of(node)
    return kind is not None and kind.word == "bn"


def attends(nodes: Sequence[ir.Node]) -> bool:
    """Tell whether there is an attention among the nodes, or the softmax of one that was not recognised."""
    return any(node.op_type in ("Attention", "MultiheadAttention", "Softmax") for node in nodes)


def residual_sum(nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return the sum at the end of a block's nodes, perhaps with an activation or a rounding behind it. A sum with a
    constant does not count."""
    last = next((node for node in reversed(nodes) if not is_activation(node) and not is_rounding(node)), None)
    if last is None or last.op_type not in _SUMS:
        return None
    terms = [last.inputs[place] for place in _SUMS[last.op_type]]
    return last if all(value is not None and value.const_value is None for value in terms) else None


_SUMS = {"Add": (0, 1), "QLinearAdd": (0, 3)}
"""Operators that add, with the places of what they add."""


def find_flow(graph: ir.Graph) -> Flow:
    """Find the line of a graph."""
    flow = Flow(reads={node: outer_reads(node) for node in graph})
    depth: dict[ir.Node, int] = {}
    for node, values in flow.reads.items():
        if node.op_type not in SIZES:
            before = max((depth.get(p, 0) for v in values if (p := v.producer()) is not None), default=0)
            if before or is_layer(node):
                depth[node] = before + is_layer(node)
    needs = {node: _producers(flow.reads[node], depth) for node in depth}
    made = {value: None for node in depth for value in node.outputs}
    read = {v: None for node in depth for v in flow.reads[node] if v.const_value is None and v.dtype in NUMBERS}
    flow.shared = dict.fromkeys(find_shared({**made, **read}, depth, needs))
    starts = sorted(_producers(list(flow.shared), depth), key=lambda node: depth[node])
    ends = _producers(graph.outputs, depth)
    for node in depth_first([*starts, *ends], needs):
        flow.position[node] = len(flow.nodes)
        flow.nodes.append(node)
    for position, node in enumerate(flow.nodes):
        for value in flow.reads[node]:
            flow.last_read[value] = position
            if value in read and value not in made:
                flow.sources.setdefault(value, position)
    return flow


def _producers(values: Sequence[ir.Value], line: Collection[ir.Node]) -> list[ir.Node]:
    """Return the nodes of the line that make `values`, in the order of the values."""
    return list(dict.fromkeys(p for v in values if (p := v.producer()) is not None and p in line))


def depth_first(starts: list[ir.Node], needs: dict[ir.Node, list[ir.Node]]) -> Iterator[ir.Node]:
    """Yield all nodes that `starts` need, each after those that it needs itself, and otherwise from left to right."""
    seen: set[ir.Node] = set()
    for start in starts:
        waiting = [(start, False)]
        while waiting:
            node, ready = waiting.pop()
            if ready:
                yield node
            elif node not in seen:
                seen.add(node)
                waiting.append((node, True))
                waiting.extend((p, False) for p in reversed(needs[node]) if p not in seen and p in needs)
