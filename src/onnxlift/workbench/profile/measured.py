"""Measure the time that ONNX Runtime takes for each node, and join it to the rows of a profile.

The times come from `workbench/runtime/node_times.py`. ONNX Runtime fuses nodes: the time of a kernel is that of one of
the nodes that it came from, and the others are told to be in it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.verification.given import Inputs
from onnxlift.workbench.runtime.node_times import NodeTimes, profile_nodes
from onnxlift.workbench.runtime.prepared import prepare
from onnxlift.workbench.runtime.settings import require_runtime, settings_from

from .opening import Opened
from .rows import GroupCosts, NodeCosts

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A node: its first output, and the nodes that hold the graphs that it is in, as NodeKey has them."""


@dataclass(frozen=True)
class Measuring:
    """How to measure: the inputs, how often, with how many threads, and the limits of the child."""

    inputs: Inputs = None
    seed: int = 0
    runs: int = 10
    warmup: int = 3
    threads: int | None = None
    as_written: bool = False
    """Whether ONNX Runtime runs every node by itself, without changing the model to make it faster."""
    timeout: float = 300.0
    memory: int | str | None = None


@dataclass(frozen=True)
class Measured:
    """What was measured, in seconds."""

    total: float
    """The time of one run of the model: the median."""
    overhead: float
    """What of it no kernel took."""
    elsewhere: float
    """What kernels took of which nobody knows the nodes."""
    runs: int
    runtime: str
    threads: int | None = None
    as_written: bool = False
    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The shapes of the inputs that it ran on."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**vars(self), "inputs": {name: list(shape) for name, shape in self.inputs.items()}}


def measure(
    source: Any,
    opened: Opened,
    how: Measuring,
    shapes: Mapping[str, Sequence[int]],
    dims: Mapping[str, int],
) -> tuple[NodeTimes, Measured]:
    """Run a model, and return the times of its nodes, and what else was measured."""
    version = require_runtime()
    if not opened.has_data:
        raise OnnxLiftError("the numbers of the weights are not there, so the model cannot run: leave out --measure.")
    options = {"graph_optimization_level": "disable"} if how.as_written else {}
    settings = settings_from(options=options, threads=how.threads)
    is_file = isinstance(source, str | os.PathLike) and not opened.has_changed
    given: dict[str, Any] = {"shapes": shapes, "dims": dims} if is_file else {}
    limits: dict[str, Any] = {"timeout": how.timeout, "memory": how.memory}
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        prepared = prepare(
            source if is_file else opened.model, Path(folder), inputs=how.inputs, seed=how.seed, **given, **limits
        )
        task = {"outputs": prepared.outputs, **settings.to_task()}
        values = prepared.given.taken_by(prepared.model.graph, lambda each: prepared.run(task, each))
        times = profile_nodes(prepared, settings, {"warmup": how.warmup, "runs": how.runs})
    taken = {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
    elsewhere = sum(group.seconds for group in times.groups if group.main is None)
    runtime = times.runtime or f"ONNX Runtime {version}"
    return times, Measured(
        times.total, times.overhead, elsewhere, len(times.runs), runtime, how.threads, how.as_written, taken
    )


def joined(
    rows: Sequence[NodeCosts], nodes: Sequence[ir.Node], graph: ir.Graph, times: NodeTimes
) -> tuple[NodeCosts, ...]:
    """Return the rows with the times of their nodes."""
    keys = dict(_keys(graph, ()))
    names = {keys[node]: node.name or "" for node in nodes if node in keys}
    seconds: dict[Key, float] = {}
    holders: dict[Key, str] = {}
    for group in times.groups:
        if group.main is None:
            continue
        main = (group.main.value, group.main.within)
        seconds[main] = seconds.get(main, 0.0) + group.seconds
        for member in group.nodes:
            holders[member.value, member.within] = names.get(main, group.main.name)
    found: list[NodeCosts] = []
    for row, node in zip(rows, nodes, strict=True):
        key = keys[node]
        if key in seconds:
            found.append(replace(row, costs=replace(row.costs, seconds=seconds[key])))
        else:
            found.append(replace(row, fused_into=holders.get(key, "")))
    return tuple(found)


def timed(group: GroupCosts, rows: Sequence[NodeCosts]) -> GroupCosts:
    """Return a group with the time of its nodes."""
    times = [row.costs.seconds for row in rows if row.costs.seconds is not None]
    seconds = sum(times) if times else None
    return replace(group, costs=replace(group.costs, seconds=seconds))


def _keys(graph: ir.Graph, within: tuple[tuple[str, str], ...]) -> Iterator[tuple[ir.Node, Key]]:
    for node in graph:
        value = next((output.name for output in node.outputs if output.name), "") or ""
        yield node, (value, within)
        for name, attribute in node.attributes.items() if node.attributes.data else ():
            if attribute.type is ir.AttributeType.GRAPH and not attribute.is_ref():
                yield from _keys(attribute.as_graph(), (*within, (value, name)))
