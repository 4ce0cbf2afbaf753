"""Count what the nodes of a model cost, and sum it up by module, by operator, and for the model.

A graph inside a node counts as often as it runs: the body of a Loop or Scan once for each iteration, and of an If one
of its branches, so that its cost is a range from the cheaper to the dearer one. How often a Loop runs that data ends is
a symbol in the formulas, `iterations`, unless the user says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import mul

import onnx_ir as ir

from onnxlift.ir.graph.shapes import shape_of, static_elements
from onnxlift.ir.graph.walk import opset_of, subgraphs
from onnxlift.ir.inference.control_flow import trip_count
from onnxlift.workbench.values import known_type

from .amount import Amount, AmountSum, either, exactly
from .bodies import Bodies, BodyWork
from .formula import UNKNOWN, Size, is_known, size_of, symbol
from .node import CostNode, NotKnownError, total_bytes
from .registry import Work, find_cost
from .rows import ONCE, Costs, GroupCosts, NodeCosts
from .weights import Weights, added, weights_of

Key = tuple[str, str]
"""Of a group: ("module", path), ("operator", name), or ("total", "")."""
TOTAL: Key = ("total", "")


class Sums:
    """The costs of a group of nodes, without parameters, which several groups may share."""

    __slots__ = ("flops", "macs", "nodes", "read", "unknown", "written")

    def __init__(self) -> None:
        self.macs, self.flops, self.read, self.written = AmountSum(), AmountSum(), AmountSum(), AmountSum()
        self.nodes = self.unknown = 0

    def add(self, costs: Costs) -> None:
        """Add a node."""
        self.macs.add(costs.macs)
        self.flops.add(costs.flops)
        self.read.add(costs.read)
        self.written.add(costs.written)
        self.nodes += 1
        self.unknown += not costs.is_known

    def join(self, group: GroupCosts) -> None:
        """Add a group that is summed up already."""
        self.add(group.costs)
        self.nodes += group.nodes - 1
        self.unknown += group.unknown - (not group.costs.is_known)

    def group(self, name: str) -> GroupCosts:
        """Return what was added."""
        costs = Costs(self.macs.amount, self.flops.amount, self.read.amount, self.written.amount)
        return GroupCosts(name, self.nodes, costs, self.unknown)


Groups = dict[Key, GroupCosts]


@dataclass
class Counted:
    """What was counted: a row for each node in the order of execution, and the groups."""

    rows: list[NodeCosts] = field(default_factory=list)
    nodes: list[ir.Node] = field(default_factory=list)
    """The node of each row."""
    weights: list[Weights] = field(default_factory=list)
    """The constants that each row reads."""
    groups: Groups = field(default_factory=dict)
    views: set[ir.Node] = field(default_factory=set)
    """The nodes whose output is their first input under another shape."""
    iterations: dict[str, str] = field(default_factory=dict)
    """Symbol in the formulas -> the node whose graph runs so often."""


class Counting:
    """Counts one model, whose types were inferred."""

    def __init__(
        self, model: ir.Model, modules: Mapping[ir.Node, str], iterations: Mapping[str, int], taken: Iterable[str] = ()
    ) -> None:
        self.model = model
        self.modules = modules
        self.given = iterations
        self.taken = set(taken)
        self.bodies = Bodies(model, self._count_body)
        self.result = Counted()

    def run(self) -> Counted:
        """Count all nodes."""
        self.result.groups = self._graph(self.model.graph, "", ONCE)
        _add_parameters(self.result)
        return self.result

    def _graph(self, graph: ir.Graph, place: str, times: Amount) -> Groups:
        """Count the nodes of a graph, and return its groups for one run of it."""
        plain: dict[Key, Sums] = {}
        inner: list[Groups] = []
        for node in graph:
            row = len(self.result.rows)
            costs = self._append(node, place, times)
            plain.setdefault((self.modules.get(node, ""), operator_of(node)), Sums()).add(costs)
            if not subgraphs(node):
                continue
            groups = self._control(node, times)
            inner.append(groups)
            whole = groups.get(TOTAL, GroupCosts("", 0, Costs())).costs
            self.result.rows[row] = replace(self.result.rows[row], costs=whole, holds_graphs=True)
        return _rolled_up(plain, inner)

    def _append(self, node: ir.Node, place: str, times: Amount) -> Costs:
        """Add the row of a node, and return its costs."""
        work, costs, reason = self._costs(node)
        outputs = [value for value in node.outputs if value.name]
        output = str(known_type(outputs[0])) if outputs else ""
        weights = weights_of(node, work)
        parameters, stored = map(exactly, added([weights]))
        told = replace(costs, parameters=parameters, weight_bytes=stored) if weights else costs
        module = self.modules.get(node, "")
        row = NodeCosts(node.name or "", operator_of(node), module, told, place, output, times, reason=reason)
        self.result.rows.append(row)
        self.result.nodes.append(node)
        self.result.weights.append(weights)
        return costs

    def _costs(self, node: ir.Node) -> tuple[Work | None, Costs, str]:
        """Return what one run of a node costs, without the graphs in it; and why something is not known."""
        if subgraphs(node):
            return None, Costs(), ""
        work: Work | None = None
        macs = flops = Amount(0, UNKNOWN)
        reason = "a size of its inputs or outputs is not known"
        found = find_cost(node.domain, node.op_type)
        try:
            if found is not None:
                work = found.function(CostNode(node, opset_of(node, self.model.opset_imports)))
                macs, flops = exactly(work.macs), work.flops
            elif self.bodies.has_body(node):
                macs, flops = self.bodies.work(node)
            else:
                reason = f"nothing is known of the operator {operator_of(node)}"
        except NotKnownError as error:
            reason = str(error)
        except (IndexError, TypeError, ValueError, ArithmeticError):
            reason = "its inputs and attributes do not fit together"
        if _is_about_sizes(node):
            flops = macs = Amount()
        costs = Costs(macs, flops, *self._traffic(node, work))
        return work, costs, "" if costs.is_known else reason

    def _traffic(self, node: ir.Node, work: Work | None) -> tuple[Amount, Amount]:
        """Return the bytes that a node reads and writes."""
        work = work or Work()
        if work.is_view:
            self.result.views.add(node)
        read = total_bytes(node.inputs) if work.reads is None else work.reads
        outputs = (value for value in node.outputs if value.name)
        return exactly(read), exactly(total_bytes(outputs) if work.writes is None else work.writes)

    def _control(self, node: ir.Node, times: Amount) -> Groups:
        """Count the graphs in a node, and return their groups for one run of the node."""
        name = node.name or ""
        if node.op_type == "If" and not node.domain:
            branches = [node.attributes[each].as_graph() for each in ("then_branch", "else_branch")]
            condition = static_elements(node.inputs[0])
            if condition is not None and len(condition) == 1:  # the other one never runs
                return self._graph(branches[0 if condition[0] else 1], name, times)
            return _one_of(*(self._graph(branch, name, times) for branch in branches))
        count = exactly(self._trips(node))
        groups: Groups = {}
        for body in subgraphs(node):
            groups = self._graph(body, name, times * count)
        return {key: _repeated(group, count) for key, group in groups.items()}

    def _trips(self, node: ir.Node) -> Size:
        """Return how often the graph in a node runs: a number, a formula, or a symbol of its own."""
        if (node.name or "") in self.given:
            return self.given[node.name or ""]
        body = subgraphs(node)[0]
        found: Size = UNKNOWN
        if node.op_type == "Loop" and not node.domain:
            found = size_of(trip_count(node, body))
        elif node.op_type == "Scan" and not node.domain:
            found = _scan_length(node, opset_of(node, self.model.opset_imports))
        if is_known(found):
            return found
        name = next(each for each in _numbered("iterations") if each not in self.taken)
        self.taken.add(name)
        self.result.iterations[name] = node.name or ""
        return symbol(name)

    def _count_body(self, body: ir.Model) -> BodyWork:
        """Count the body of an operator."""
        within = Counting(body, {}, {}, self.taken)
        total = within._graph(body.graph, "", ONCE).get(TOTAL)
        costs = Costs() if total is None else total.costs
        return costs.macs, costs.flops


def operator_of(node: ir.Node) -> str:
    """Return the name of a node's operator, with its domain if that is not ONNX's own."""
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _is_about_sizes(node: ir.Node) -> bool:
    """Tell whether a node computes with sizes, which inference has followed: that is no work on data."""
    return all("dims" in value.meta for value in node.outputs)


def _scan_length(node: ir.Node, opset: int) -> Size:
    count = node.attributes["num_scan_inputs"].as_int()
    value = node.inputs[len(node.inputs) - count]
    shape = shape_of(value)
    axes = node.attributes["scan_input_axes"].as_ints() if "scan_input_axes" in node.attributes else [0]
    axis = axes[0] if opset >= 9 else 1
    return UNKNOWN if shape is None or not -len(shape) <= axis < len(shape) else size_of(shape[axis])


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _rolled_up(plain: Mapping[Key, Sums], inner: Iterable[Groups]) -> Groups:
    """Sum up nodes by module and operator, and the groups of nodes that hold graphs."""
    sums: dict[Key, Sums] = {}

    def join(key: Key, group: GroupCosts) -> None:
        sums.setdefault(key, Sums()).join(group)

    for (module, operator), own in plain.items():
        group = own.group("")
        join(TOTAL, group)
        join(("operator", operator), group)
        for path in paths_above(module):
            join(("module", path), group)
    for groups in inner:
        for key, group in groups.items():
            join(key, group)
    return {key: found.group(key[1]) for key, found in sums.items()}


def paths_above(module: str) -> Iterator[str]:
    """Yield the path of a module, and of all modules around it but the model."""
    end = len(module)
    while end > 0:
        yield module[:end]
        end = module.rfind(".", 0, end)


def keys_of(row: NodeCosts) -> Iterator[Key]:
    """Yield the groups that a row belongs to."""
    yield TOTAL
    yield ("operator", row.operator)
    yield from (("module", path) for path in paths_above(row.module))


def _one_of(first: Groups, second: Groups) -> Groups:
    """Return the groups of an If: the costs of one branch or of the other."""
    nothing = GroupCosts("", 0, Costs())
    result: Groups = {}
    for key in dict.fromkeys([*first, *second]):
        a, b = first.get(key, nothing), second.get(key, nothing)
        result[key] = GroupCosts(key[1], a.nodes + b.nodes, a.costs.joined(b.costs, either), a.unknown + b.unknown)
    return result


def _repeated(group: GroupCosts, count: Amount) -> GroupCosts:
    return replace(group, costs=group.costs.joined(Costs(count, count, count, count), mul))


def _add_parameters(counted: Counted) -> None:
    """Give each group its parameters. A constant that several nodes of a group read counts once."""
    read: dict[Key, list[Weights]] = {}
    for row, weights in zip(counted.rows, counted.weights, strict=True):
        for key in keys_of(row) if weights else ():
            read.setdefault(key, []).append(weights)
    for key, group in counted.groups.items():
        parameters, stored = map(exactly, added(read.get(key, ())))
        counted.groups[key] = replace(group, costs=replace(group.costs, parameters=parameters, weight_bytes=stored))
