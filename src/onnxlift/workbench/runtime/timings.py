"""Where the time of a run goes: rows by node, summed up by operator and by module, as tables and as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxlift.api import lift
from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.terminal import plain

from ..modules import module_path
from .node_times import NodeGroup, NodeTimes

MOST_ROWS = 15
"""So many rows of a table are printed; JSON has them all."""
WIDEST = 48


@dataclass(frozen=True)
class Timing:
    """A row: a node (or the operators of a line of lifted code) with what it took in one run of the model.

    `fused` are the other nodes of the model that ran with it."""

    node: str
    operator: str
    module: str
    provider: str
    calls: float
    seconds: float
    fused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return {**vars(self), "fused": list(self.fused)}


@dataclass(frozen=True)
class Timings:
    """All rows of a run, in the order in which they ran, and the seconds of the whole run."""

    rows: tuple[Timing, ...]
    total: float
    runs: int
    how: str = ""
    """How the runs were summed up."""
    notes: tuple[str, ...] = ()

    @property
    def overhead(self) -> float:
        """The seconds that no row has."""
        return max(0.0, self.total - sum(row.seconds for row in self.rows))

    def by_operator(self) -> list[tuple[str, float, float]]:
        """Return operator, calls and seconds, what took longest first."""
        return _summed((row.operator, row) for row in self.rows)

    def by_module(self) -> list[tuple[str, float, float]]:
        """Return module, calls and seconds, with all that is in it; what took longest first."""
        pairs = [(path, row) for row in self.rows for path in _prefixes(row.module)]
        return _summed(pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return rows and sums as plain dicts and lists."""
        return {
            "seconds": self.total,
            "runs": self.runs,
            "overhead": self.overhead,
            "nodes": [row.to_dict() for row in self.rows],
            "operators": [_sum_dict("operator", row) for row in self.by_operator()],
            "modules": [_sum_dict("module", row) for row in self.by_module()],
        }

    def lines(self) -> list[str]:
        """Return the tables, line by line."""
        spent = sum(row.seconds for row in self.rows) or 1.0
        slowest = sorted(self.rows, key=lambda row: -row.seconds)
        nodes = [(_title(row), row.operator, row.seconds) for row in slowest if row.node]
        overhead = f"{format_seconds(self.overhead)} of it in no node"
        lines = [f"  took           {format_seconds(self.total)} ({self.how}), {overhead}"]
        lines += _table("node", "operator", nodes, spent) if nodes else []
        operators = [(name, f"{calls:g}", seconds) for name, calls, seconds in self.by_operator()]
        lines += _table("operator", "calls", operators, spent)
        modules = [(name, "", seconds) for name, _, seconds in self.by_module()]
        lines += _table("module", "", modules, spent) if modules else []
        return [*lines, *(f"  note           {note}" for note in self.notes)]


def timings_of_nodes(times: NodeTimes, source: Any, model: ir.Model) -> Timings:
    """Return the rows of a run by ONNX Runtime: one for each kernel, or for those that belong together."""
    module = modules_of(source, model)
    rows = tuple(_row(group, module) for group in times.groups)
    notes = ("ONNX Runtime stopped writing its trace before the end of the run",) if times.is_cut else ()
    return Timings(rows, times.total, len(times.runs), f"the faster half of {len(times.runs)} runs", notes)


def timings_of_lifted(rows: Iterable[Sequence[Any]], total: float, runs: int) -> Timings:
    """Return the rows of a run of the lifted module, from those of its trace: module, operator, calls, seconds."""
    found = tuple(Timing("", op, module, "cpu", calls, seconds) for module, op, calls, seconds in rows)
    return Timings(found, total, runs, f"mean of {runs} runs")


def modules_of(source: Any, model: ir.Model) -> Callable[[NodeGroup], str]:
    """Return a function that tells the module of a group of nodes, as the exporter says, or as lifting finds it."""
    told: Mapping[str | None, str] = {
        value.name: module_path(node) for node in all_nodes(model.graph) for value in node.outputs
    }
    if not any(told.values()):
        told = _lifted_modules(source)
    return lambda group: next((told[node.value] for node in _outside_in(group) if told.get(node.value)), "")


def _outside_in(group: NodeGroup) -> Iterable[Any]:
    main = () if group.main is None else (group.main,)
    return (*main, *group.nodes)


def _lifted_modules(source: Any) -> Mapping[str | None, str]:
    """Return the module of each value, as lifting finds it; of none, if the model cannot be lifted."""
    try:
        lifted = lift(source)
    except OnnxLiftError:
        return {}
    if lifted.lift is None:
        return {}
    paths = lifted.lift.paths.by_node
    return {value.name: ".".join(path) for node, path in paths.items() for value in node.outputs}


def _row(group: NodeGroup, module: Callable[[NodeGroup], str]) -> Timing:
    first, main = group.kernels[0], group.main
    others = tuple(_name(node) for node in group.nodes if node is not main and node != main)
    return Timing(
        node=first.name if main is None else _name(main),
        operator=first.operator if main is None else main.operator,
        module=module(group),
        provider=first.provider,
        calls=max(kernel.calls for kernel in group.kernels),
        seconds=group.seconds,
        fused=others,
    )


def _name(node: Any) -> str:
    return str(node.name or node.value)


def _summed(pairs: Iterable[tuple[str, Timing]]) -> list[tuple[str, float, float]]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, row in pairs:
        sums[key][0] += row.calls
        sums[key][1] += row.seconds
    return sorted(((key, calls, seconds) for key, (calls, seconds) in sums.items()), key=lambda row: -row[2])


def _sum_dict(title: str, row: tuple[str, float, float]) -> dict[str, Any]:
    return {title: row[0], "calls": row[1], "seconds": row[2]}


def _prefixes(path: str) -> list[str]:
    """Return the modules that a path goes through: `a`, `a.b`."""
    parts = path.split(".") if path else []
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _title(row: Timing) -> str:
    return f"{row.node} (+{len(row.fused)})" if row.fused else row.node


def _table(title: str, second_title: str, rows: Sequence[tuple[str, str, float]], spent: float) -> list[str]:
    shown = [(_cut(name), plain(detail), seconds) for name, detail, seconds in rows[:MOST_ROWS]]
    width = max(len(title), *(len(name) for name, _, _ in shown))
    second = max(len(second_title), *(len(detail) for _, detail, _ in shown))
    lines = ["", f"  {title:{width}}  {second_title:{second}}  {'time':>9}  {'share':>6}"]
    for name, detail, seconds in shown:
        lines.append(f"  {name:{width}}  {detail:{second}}  {format_seconds(seconds):>9}  {seconds / spent:6.1%}")
    if len(rows) > MOST_ROWS:
        more = f"... and {len(rows) - MOST_ROWS:,} more"
        rest = format_seconds(sum(seconds for _, _, seconds in rows[MOST_ROWS:]))
        lines.append(f"  {more}" if title == "module" else f"  {more:{width}}  {'':{second}}  {rest:>9}")
    return lines


def _cut(name: str) -> str:
    text = plain(name)
    return text if len(text) <= WIDEST else f"...{text[3 - WIDEST :]}"


def format_seconds(seconds: float) -> str:
    """Write a time for people, with three digits: 1.23 ms."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            number = seconds * factor
            digits = 2 if number < 10 else 1 if number < 100 else 0
            return f"{number:.{digits}f} {unit}"
    return "0"
