"""Measure how long each node of a model takes in ONNX Runtime.

ONNX Runtime fuses nodes, so a time is that of a group: of one kernel, or of some that belong together, and of the nodes
that they came from (see `origins`).
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import onnx

from onnxlift.verification.given import Inputs

from .origins import Group, NodeKey, find_groups, main_node
from .prepared import Prepared, name_nodes, prepare
from .settings import Providers, Settings, require_runtime, settings_from
from .trace import Kernel, faster_half, kernels_from


@dataclass(frozen=True)
class NodeGroup:
    """Kernels that ran, and the nodes of the model that they came from. `main` stands for them all.

    There is no node, and no `main`, if names do not tell where the kernels came from."""

    kernels: tuple[Kernel, ...]
    nodes: tuple[NodeKey, ...]
    main: NodeKey | None

    @property
    def seconds(self) -> float:
        """What the kernels took in one run of the model."""
        return sum(kernel.seconds for kernel in self.kernels)


@dataclass(frozen=True)
class NodeTimes:
    """How long the nodes of a model took, in the order in which they ran: means over the faster half of the runs."""

    runtime: str
    groups: tuple[NodeGroup, ...]
    runs: tuple[float, ...]
    """The seconds of each run of the whole model."""
    is_cut: bool = False
    """Whether ONNX Runtime stopped writing its trace before the end."""

    @property
    def total(self) -> float:
        """The seconds of a run of the whole model: the mean of the faster half."""
        return mean(self.runs[number] for number in faster_half(self.runs)) if self.runs else 0.0

    @property
    def overhead(self) -> float:
        """The seconds of a run that no kernel took."""
        return max(0.0, self.total - sum(group.seconds for group in self.groups))

    def by_node(self) -> dict[NodeKey, float]:
        """Return the seconds of each group, at the node that stands for it. The other nodes of the group have none."""
        seconds: dict[NodeKey, float] = defaultdict(float)
        for group in self.groups:
            if group.main is not None:
                seconds[group.main] += group.seconds
        return dict(seconds)


def measure_nodes(
    source: Any,
    *,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    runs: int = 10,
    warmup: int = 3,
    providers: str | Providers = (),
    options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> NodeTimes:
    """Run the model in `source` with ONNX Runtime, and return how long its nodes take.

    Inputs that are not given are made up, as for `verify`. The model runs in a child with limits, `warmup` times
    before it is measured, and then `runs` times."""
    require_runtime()
    settings = settings_from(providers=providers, options=options, threads=threads)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        given: dict[str, Any] = {"inputs": inputs, "shapes": shapes, "dims": dims, "seed": seed}
        prepared = prepare(source, Path(folder), **given, timeout=timeout, memory=memory)
        task = {"outputs": prepared.outputs, **settings.to_task()}
        prepared.given.taken_by(prepared.model.graph, lambda values: prepared.run(task, values))
        return profile_nodes(prepared, settings, {"warmup": warmup, "runs": runs})


def profile_nodes(prepared: Prepared, settings: Settings, task: Mapping[str, Any]) -> NodeTimes:
    """Run a model with a trace on the inputs that are in its folder, and map what ran to the model's nodes."""
    file, proto, renamed = name_nodes(prepared.file, prepared.job)
    optimised = prepared.job / "optimised.onnx"
    more = {
        "profile": str(prepared.job / "trace"),
        "optimised": str(optimised),
        "optimised_data": "optimised.onnx.data",
    }
    answer = replace(prepared, file=file).run({"outputs": prepared.outputs, **settings.to_task(), **more, **task})
    groups = find_groups(proto.graph, onnx.load(optimised, load_external_data=False).graph)
    kernels = kernels_from(answer["kernels"])
    return NodeTimes(answer["runtime"], join(groups, kernels, renamed), tuple(answer["runs"]), answer["is_cut"])


def join(groups: Sequence[Group], kernels: Sequence[Kernel], renamed: Mapping[str, str]) -> tuple[NodeGroup, ...]:
    """Join the kernels that ran with the groups that they belong to.

    Those of one name are taken to run in the order of the graph. `renamed` are the names that nodes have got, with
    those that they have in the model."""
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        for node in group.kernels:
            places[node.name, node.op_type].append(number)
    members: dict[int, list[Kernel]] = defaultdict(list)
    alone: list[Kernel] = []
    for kernel in kernels:
        # A node without a name is called after its operator and a number in the trace.
        found = places.get((kernel.name, kernel.operator)) or places.get(("", kernel.operator))
        if not found:
            alone.append(kernel)
            continue
        members[found.pop(0) if len(found) > 1 else found[0]].append(kernel)
    joined = [
        NodeGroup(
            tuple(found),
            tuple(_own_name(node, renamed) for node in groups[number].nodes),
            None if (main := main_node(groups[number])) is None else _own_name(main, renamed),
        )
        for number, found in members.items()
    ]
    return (*joined, *(NodeGroup((kernel,), (), None) for kernel in alone))


def _own_name(node: NodeKey, renamed: Mapping[str, str]) -> NodeKey:
    return replace(node, name=renamed.get(node.name, node.name))
