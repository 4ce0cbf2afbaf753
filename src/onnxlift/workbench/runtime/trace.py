"""Read the trace that ONNX Runtime writes, and sum it up by kernel.

A kernel is a node of the graph that runs: the model's own, or one that ONNX Runtime has made of several.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean as mean
from typing import Any

MOST_EVENTS = 1_000_000
"""ONNX Runtime stops writing after so many."""
_KERNEL = "_kernel_time"
_RUN = "model_run"

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel that has run: its name, operator and provider, how often it ran in a run of the model, and how long.

    Its time is without that of the kernels inside it (the body of a Loop). `index` tells kernels of one name apart."""

    name: str
    operator: str
    provider: str
    index: int
    calls: float
    seconds: float


@dataclass(frozen=True)
class Trace:
    """What a trace tells: the kernels in the order in which they first ran, and the seconds of each run."""

    kernels: tuple[Kernel, ...]
    runs: tuple[float, ...]
    is_cut: bool = False
    """Whether there was more than ONNX Runtime writes."""

    @property
    def seconds(self) -> float:
        """The mean of the faster half of the runs. The times of the kernels are means over the same runs."""
        return mean(self.runs[number] for number in faster_half(self.runs)) if self.runs else 0.0


def faster_half(runs: Sequence[float]) -> list[int]:
    """Return the numbers of the faster half of runs: what else the machine did spoils the others most."""
    return sorted(range(len(runs)), key=lambda number: runs[number])[: (len(runs) + 1) // 2]


def read_trace(path: Path, skip: int = 0) -> Trace:
    """Sum up the trace in a file, but for the first runs (`skip`)."""
    events: list[Event] = [event for event in json.loads(path.read_text(encoding="utf-8", errors="replace")) if event]
    runs = sorted((event for event in events if event.get("name") == _RUN), key=_start)[skip:]
    nodes = sorted(_exclusive(event for event in events if _is_kernel(event)), key=lambda pair: _start(pair[0]))
    sums: dict[tuple[str, str, str, int], list[float]] = defaultdict(lambda: [0.0] * len(runs))
    calls: dict[tuple[str, str, str, int], int] = defaultdict(int)
    number = 0
    for event, microseconds in nodes:
        while number < len(runs) and _start(event) > _end(runs[number]):
            number += 1
        if number == len(runs) or _start(event) < _start(runs[number]):
            continue  # a run that is skipped, or work before the first
        args = event.get("args", {})
        key = (
            str(event["name"]).removesuffix(_KERNEL),
            str(args.get("op_name", "")),
            str(args.get("provider", "")),
            int(args.get("node_index", -1)),
        )
        sums[key][number] += microseconds / 1e6
        calls[key] += 1
    lengths = tuple(event["dur"] / 1e6 for event in runs)
    chosen = faster_half(lengths)
    kernels = tuple(
        Kernel(*key, calls[key] / len(runs), mean(seconds[number] for number in chosen))
        for key, seconds in sums.items()
    )
    return Trace(kernels, lengths, len(events) >= MOST_EVENTS)


def _is_kernel(event: Event) -> bool:
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(_KERNEL) and "dur" in event


def _start(event: Event) -> float:
    return float(event["ts"])


def _end(event: Event) -> float:
    return float(event["ts"]) + float(event["dur"])


def _exclusive(events: Iterable[Event]) -> list[tuple[Event, float]]:
    """Return each event with its duration, less that of the events inside it."""
    by_thread: dict[Any, list[Event]] = defaultdict(list)
    for event in events:
        by_thread[event.get("tid")].append(event)
    found: list[tuple[Event, float]] = []
    for thread in by_thread.values():
        own = {id(event): float(event["dur"]) for event in thread}
        around: list[Event] = []
        for event in sorted(thread, key=lambda event: (_start(event), -float(event["dur"]))):
            while around and (_end(around[-1]) <= _start(event) or _end(around[-1]) < _end(event)):
                around.pop()
            if around:
                own[id(around[-1])] -= float(event["dur"])
            around.append(event)
        found += [(event, max(0.0, own[id(event)])) for event in thread]
    return found


def kernels_from(rows: Sequence[Sequence[Any]]) -> tuple[Kernel, ...]:
    """Return the kernels that `kernel_rows` has written as plain lists."""
    return tuple(Kernel(*row) for row in rows)


def kernel_rows(kernels: Iterable[Kernel]) -> list[list[Any]]:
    """Return kernels as plain lists, for JSON."""
    return [[k.name, k.operator, k.provider, k.index, k.calls, k.seconds] for k in kernels]
