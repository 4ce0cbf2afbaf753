"""Find the nodes of a model that each node of the graph came from which ONNX Runtime's optimiser has made of it.

    Conv ─▶ BatchNormalization ─▶ Relu      ->      one kernel, with the output of the Relu

The optimiser fuses nodes, but what it computes keeps its name where others read it. So a kernel came from the nodes
that lead to its outputs, back to what other kernels compute. Where a value has a new name, the kernel's own name tells
(`relu_nchwc` computes `relu` in another layout). A kernel that nothing tells of (a Cast, a change of layout, a node of
a function) belongs to the one that reads it. Names are all that there is, so this is a finding, and no proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from onnx import AttributeProto, GraphProto, NodeProto

from onnxlift.verification.pruning import reads

_NCHWC = "_nchwc"
_LAYOUTS = ("ReorderInput", "ReorderOutput")


@dataclass(frozen=True)
class NodeKey:
    """A node of the model. `value` is the first of its outputs that has a name.

    `within` names the nodes whose subgraphs it is in, from the outside in: each by its value and the attribute."""

    value: str
    name: str
    operator: str
    within: tuple[tuple[str, str], ...] = ()


@dataclass
class Group:
    """Kernels that belong together, and the nodes of the model that they came from."""

    kernels: list[NodeProto] = field(default_factory=list)
    nodes: list[NodeKey] = field(default_factory=list)


def find_groups(original: GraphProto, optimised: GraphProto) -> list[Group]:
    """Return the groups of a graph and of its subgraphs, in the order of the kernels."""
    return list(_groups(original, optimised, ()))


def _groups(original: GraphProto, optimised: GraphProto, within: tuple[tuple[str, str], ...]) -> Iterator[Group]:
    match = _Match(original, optimised)
    for kernels, nodes in match.groups():
        yield Group(kernels, [_key(node, within) for node in nodes])
        for kernel in kernels:
            for name, body in _bodies(kernel):
                holder = next((node for node in nodes if node.op_type == kernel.op_type), None)
                other = None if holder is None else dict(_bodies(holder)).get(name)
                if holder is not None and other is not None:
                    yield from _groups(other, body, (*within, (_value(holder), name)))


class _Match:
    """A graph as it was, and as it is after optimising."""

    def __init__(self, original: GraphProto, optimised: GraphProto) -> None:
        self.nodes = original.node
        self.kernels = optimised.node
        self.maker = {value: place for place, node in enumerate(original.node) for value in node.output if value}
        self.readers: dict[str, list[int]] = defaultdict(list)
        for place, node in enumerate(original.node):
            for value in node.input:
                self.readers[value].append(place)
        self.by_name = {node.name: place for place, node in enumerate(original.node) if node.name}

    def groups(self) -> list[tuple[list[NodeProto], list[NodeProto]]]:
        targets = [self._targets(kernel) for kernel in self.kernels]
        belongs = self._belongs(targets)
        ends: dict[int, dict[str, None]] = defaultdict(dict)
        members: dict[int, list[NodeProto]] = defaultdict(list)
        for kernel, values, group in zip(self.kernels, targets, belongs, strict=True):
            members[group].append(kernel)
            ends[group].update(dict.fromkeys(values))
        stops = {value for values in targets for value in values}
        claimed: set[int] = set()
        return [
            (kernels, [self.nodes[place] for place in self._claim(ends[group], stops, claimed)])
            for group, kernels in members.items()
        ]

    def _targets(self, kernel: NodeProto) -> list[str]:
        """Return the values of the model that a kernel computes, as far as names tell."""
        values = [value for value in kernel.output if value in self.maker]
        if values:
            return values
        value = kernel.name.removesuffix(_NCHWC)
        if value != kernel.name and value in self.maker:
            return [self._after_fusing(kernel, value)]
        place = self.by_name.get(kernel.name)
        return [] if place is None else [value for value in self.nodes[place].output if value]

    def _after_fusing(self, kernel: NodeProto, value: str) -> str:
        """Return what a convolution in NCHWc layout computes: its name is older than what was fused into it last."""
        if len(kernel.input) > 3 and kernel.input[3]:
            value = self._next(value, ("Add", "Sum"))
        for attribute in kernel.attribute:
            if attribute.name == "activation" and attribute.type == AttributeProto.STRING:
                value = self._next(value, (attribute.s.decode("utf-8", "replace"),))
        return value

    def _next(self, value: str, operators: Sequence[str]) -> str:
        """Return the output of the only node that reads a value, if it has one of these operators; else the value."""
        readers = self.readers.get(value, ())
        if len(readers) != 1 or self.nodes[readers[0]].op_type not in operators:
            return value
        return str(self.nodes[readers[0]].output[0])

    def _belongs(self, targets: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of the group of each kernel. Those that compute the same value are in one group."""
        by_value: dict[str, int] = {}
        groups: list[int | None] = []
        for number, values in enumerate(targets):
            known = next((by_value[value] for value in values if value in by_value), None)
            group = number if known is None and values else known
            groups.append(group)
            by_value.update({value: group for value in values if group is not None})
        readers: dict[str, list[int]] = defaultdict(list)
        makers: dict[str, int] = {}
        for number, kernel in enumerate(self.kernels):
            makers.update(dict.fromkeys(kernel.output, number))
            for value in kernel.input:
                readers[value].append(number)
        for number in reversed(range(len(groups))):
            if groups[number] is None:
                after = (reader for value in self.kernels[number].output for reader in readers.get(value, ()))
                groups[number] = next((groups[each] for each in after if groups[each] is not None), None)
        for number, kernel in enumerate(self.kernels):
            if groups[number] is None:
                before = (makers[value] for value in kernel.input if value in makers)
                groups[number] = next((groups[each] for each in before if groups[each] is not None), number)
        return [number if group is None else group for number, group in enumerate(groups)]

    def _claim(self, ends: Iterable[str], stops: set[str], claimed: set[int]) -> list[int]:
        """Return the nodes that lead to these values, back to values that other kernels compute, in their order."""
        waiting = [self.maker[value] for value in ends if value in self.maker]
        found: list[int] = []
        while waiting:
            place = waiting.pop()
            if place in claimed:
                continue
            claimed.add(place)
            found.append(place)
            before = (value for value in reads(self.nodes[place]) if value not in stops)
            waiting += [self.maker[value] for value in before if value in self.maker]
        return sorted(found)


def main_node(group: Group) -> NodeKey | None:
    """Return the node that stands for a group: one whose operator its kernels are named after, else the last."""
    operators = [kernel.op_type for kernel in group.kernels if kernel.op_type not in _LAYOUTS]
    for same in (lambda mine, theirs: mine == theirs, lambda mine, theirs: mine in theirs):
        for node in group.nodes:
            if any(same(node.operator, operator) for operator in operators):
                return node
    return group.nodes[-1] if group.nodes else None


def _key(node: NodeProto, within: tuple[tuple[str, str], ...]) -> NodeKey:
    return NodeKey(_value(node), node.name, f"{node.domain}::{node.op_type}" if node.domain else node.op_type, within)


def _value(node: NodeProto) -> str:
    return next((value for value in node.output if value), "")


def _bodies(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from ((f"{attribute.name}.{number}", graph) for number, graph in enumerate(attribute.graphs))
