"""Measure contenders by turns: each has a child process of its own, and in each round every one has its turn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from onnxlift.verification.children.child import Companion, Limits
from onnxlift.verification.values import write_values

WORKER = "onnxlift.workbench.bench.worker"
ROUNDS = 30
"""Rounds, if the time allows them."""
FEWEST_ROUNDS = 5
TURN_SECONDS = 0.02
"""A turn is at least so long, since a model of microseconds would else be measured in cold caches."""
MOST_RUNS = 2000
"""Runs of one turn."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Contender:
    """A model on an engine: what the child is told, and its inputs."""

    title: str
    task: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(repr=False)
    job: Path = Path()


@dataclass(frozen=True)
class Samples:
    """What was measured of a contender: the seconds of each run, by rounds, and its memory in bytes.

    `memory` is the peak less what the process had taken before it opened the model. `load` and `first` are the seconds
    for opening the model, and for the first run."""

    rounds: tuple[tuple[float, ...], ...]
    load: float
    first: float
    peak: int
    memory: int


@dataclass(frozen=True)
class Effort:
    """How much is measured: `seconds` for each contender, or exactly so many `rounds` of so many `runs`."""

    seconds: float = 3.0
    warmup: int = 3
    runs: int | None = None
    rounds: int | None = None


def measure(
    contenders: Sequence[Contender], limits: Limits, effort: Effort, seed: int = 0, on_progress: Progress | None = None
) -> list[Samples]:
    """Return what was measured of each contender, in their order."""
    order = random.Random(seed)
    tell = on_progress or (lambda done, total: None)
    with ExitStack() as stack:
        children: list[Companion] = []
        opened: list[dict[str, Any]] = []
        for each in contenders:
            write_values(each.job / "inputs", each.inputs)
            child = stack.enter_context(Companion(each.job, dict(each.task), each.title, limits, WORKER))
            children.append(child)
            opened.append(child.ask({}))  # one after the other, so that none is disturbed while it warms up
        plans = [_plan(child, effort) for child in children]
        rounds = max(FEWEST_ROUNDS, max(count for count, _ in plans)) if effort.rounds is None else effort.rounds
        found: list[list[tuple[float, ...]]] = [[] for _ in children]
        last: list[dict[str, Any]] = [{} for _ in children]
        places = list(range(len(children)))
        for number in range(rounds):
            order.shuffle(places)
            for place in places:
                last[place] = children[place].ask({"runs": plans[place][1]})
                found[place].append(tuple(last[place]["seconds"]))
            tell(number + 1, rounds)
    return [
        Samples(tuple(turns), begun["load"], begun["first"], ended["peak"], ended["memory"])
        for turns, begun, ended in zip(found, opened, last, strict=True)
    ]


def _plan(child: Companion, effort: Effort) -> tuple[int, int]:
    """Warm up; return the number of rounds, and that of the runs in a turn."""
    seconds = median(child.ask({"runs": max(1, effort.warmup)})["seconds"])
    if effort.runs is not None:
        return ROUNDS, effort.runs
    turn = max(TURN_SECONDS, effort.seconds / ROUNDS)
    runs = min(MOST_RUNS, max(1, round(turn / max(seconds, 1e-7))))
    return min(ROUNDS, max(1, math.floor(effort.seconds / (runs * seconds)))), runs
