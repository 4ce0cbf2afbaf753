"""`profile`: what a model costs, by node, operator and module, as formulas over its open sizes or as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import shape_of
from onnxlift.ir.graph.walk import all_nodes, subgraphs
from onnxlift.unforeseen import answered
from onnxlift.verification.inputs import Sizes
from onnxlift.workbench.report import name_of
from onnxlift.workbench.runtime.node_times import NodeTimes
from onnxlift.workbench.values import suggestion

from .counting import TOTAL, Counted, Counting, Groups, Key, keys_of, paths_above
from .liveness import Liveness, liveness
from .measured import Measured, Measuring, joined, timed
from .measured import measure as run_measured
from .modules import modules_of
from .opening import Opened, open_for_profile
from .report import Profile
from .rows import Costs, GroupCosts, NodeCosts


def profile(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    iterations: Mapping[str, int] | None = None,
    strict: bool = False,
    measure: bool = False,
    **measuring: Any,
) -> Profile:
    """Return what the model in `source` costs: multiply-accumulates, FLOPs, parameters, bytes, and peak memory.

    They are formulas over the sizes that the model leaves open, and numbers where `shapes` of inputs and sizes of named
    dimensions (`dims`) fix these. `iterations` says how often the graph in a Loop runs, by the name of the node. If
    `strict`, the profile has passed only if nothing in it is unknown.

    With `measure`, ONNX Runtime runs the model, and each row has its time; sizes that are open get numbers then.
    `measuring` takes `inputs` and `seed` as `verify` does, `runs`, `warmup`, `threads`, `as_written` (without ONNX
    Runtime's optimisations, so that every node has a time of its own), `timeout` and `memory`."""
    source = source.read() if hasattr(source, "read") else source  # it may be read twice
    how = _measuring(measuring, measure)
    times: NodeTimes | None = None
    measured: Measured | None = None
    with answered():
        opened = open_for_profile(source, shapes or {}, dims or {})
    if measure:
        times, measured = run_measured(source, opened, how, shapes or {}, dims or {})
    with answered():
        if measured is not None and opened.symbols:
            opened = open_for_profile(source, {**(shapes or {}), **measured.inputs}, dims or {})
        _check_iterations(opened, iterations or {})
        counted, alive = _counted(opened, iterations or {})
        if times is not None:
            counted.rows = list(joined(counted.rows, counted.nodes, opened.model.graph, times))
        return _report(name_of(source, opened.model), opened, counted, alive, measured, strict)


def _measuring(options: Mapping[str, Any], is_wanted: bool) -> Measuring:
    known = {each.name for each in fields(Measuring)}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"profile() got an unexpected keyword argument {unknown[0]!r}")
    if options and not is_wanted:
        raise OnnxLiftError(f"{', '.join(sorted(options))}: this is for a measurement; add --measure (measure=True).")
    return Measuring(**options)


def _check_iterations(opened: Opened, iterations: Mapping[str, int]) -> None:
    """Refuse a number of iterations for a node that is not there, or holds no graph that is repeated."""
    holders = [node.name or "" for node in all_nodes(opened.model.graph) if subgraphs(node) and node.op_type != "If"]
    for name, count in iterations.items():
        if name not in holders:
            known = suggestion(name, holders) or "; the model has none"
            raise OnnxLiftError(f"no Loop or Scan is named {quote(name)}{known}.")
        if count < 0:
            raise OnnxLiftError(f"{quote(name)} cannot run {count} times.")


def _counted(opened: Opened, iterations: Mapping[str, int]) -> tuple[Counted, Liveness]:
    model = opened.model
    counted = Counting(model, modules_of(model.graph), iterations, opened.symbols).run()
    return counted, liveness(model.graph, counted.views)


def _report(
    name: str, opened: Opened, counted: Counted, alive: Liveness, measured: Measured | None, strict: bool
) -> Profile:
    rows = [
        replace(row, live=alive.at.get(node, row.live)) for row, node in zip(counted.rows, counted.nodes, strict=True)
    ]
    groups = counted.groups if measured is None else _with_times(counted.groups, rows)
    total = groups.get(TOTAL, GroupCosts("", 0, Costs()))
    used = total.costs.flops.names | total.costs.read.names | total.costs.written.names | alive.peak.names
    return Profile(
        name,
        replace(total, name="total"),
        tuple(rows),
        tuple(group for (kind, _), group in groups.items() if kind == "operator"),
        _in_order([group for (kind, _), group in groups.items() if kind == "module"], rows),
        alive.peak,
        "" if alive.node is None else alive.node.name or "",
        {symbol: what for symbol, what in opened.symbols.items() if symbol in used},
        counted.iterations,
        _example(opened, used, counted.iterations),
        measured,
        strict,
        tuple(opened.notes),
    )


def _with_times(groups: Groups, rows: Sequence[NodeCosts]) -> Groups:
    members: dict[Key, list[NodeCosts]] = {}
    for row in rows:
        for key in keys_of(row):
            members.setdefault(key, []).append(row)
    return {key: timed(group, members.get(key, ())) for key, group in groups.items()}


def _in_order(modules: Sequence[GroupCosts], rows: Sequence[NodeCosts]) -> tuple[GroupCosts, ...]:
    """Sort modules as they come in the order of execution, each before those that are below it."""
    by_path = {group.name: group for group in modules}
    tree: dict[str, dict[str, None]] = {}
    for row in rows:
        for path in paths_above(row.module):
            tree.setdefault(path.rpartition(".")[0], {})[path] = None
    ordered: list[GroupCosts] = []
    waiting = list(reversed(tree.get("", {})))
    while waiting:
        path = waiting.pop()
        if path in by_path:
            ordered.append(by_path[path])
        waiting.extend(reversed(tree.get(path, {})))
    return tuple(ordered)


def _example(opened: Opened, names: Iterable[str], iterations: Iterable[str]) -> dict[str, int]:
    """Return a number for each open size, as inputs are made up with."""
    graph = opened.model.graph
    usual = Sizes(graph, {})
    found: dict[str, int] = {}
    for value in graph.inputs:
        shape = shape_of(value) or ()
        for axis, size in enumerate(shape):
            if isinstance(size, str) and size in names:
                found.setdefault(size, usual.size(size, axis, len(shape)))
    return {**dict.fromkeys(sorted(set(names) - found.keys()), 1), **found, **dict.fromkeys(iterations, 1)}
