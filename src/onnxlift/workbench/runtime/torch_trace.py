"""Run a lifted module with torch's profiler, so that its trace tells modules and operators. Called in a child only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import fmean as mean
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from .torch_engines import LiftedEngine

_MODULE = "module: "
_RUN = "run of the model"


def traced(engine: LiftedEngine, feed: Any, task: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the engine as often as the task asks. Return what it gives, and, if the task asks for a trace, its summary.

    The summary has rows of module, operator, calls and seconds in one run: the time of an operator is without that of
    the operators that it calls itself."""
    values: Any = None
    for _ in range(task.get("warmup", 0)):
        values = engine.call(feed)
    runs = task.get("runs", 1)
    if not task.get("trace"):
        for _ in range(runs):
            values = engine.call(feed)
        return values, {}
    seconds: list[float] = []
    with _told(engine.module), profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(runs):
            start = perf_counter()
            with record_function(_RUN):
                values = engine.call(feed)
            seconds.append(perf_counter() - start)
    found.export_chrome_trace(task["trace"])
    return values, {"rows": _rows(found, runs), "runs": seconds, "total": mean(seconds)}


@contextmanager
def _told(model: torch.nn.Module | None) -> Iterator[None]:
    """Let every call of a module be a span of the trace, while this lasts."""
    spans: list[ExitStack] = []
    handles: list[Any] = []

    def enter(path: str) -> Any:
        def hook(module: torch.nn.Module, arguments: Any) -> None:
            spans.append(ExitStack())
            spans[-1].enter_context(record_function(f"{_MODULE}{path}"))

        return hook

    def leave(module: torch.nn.Module, arguments: Any, result: Any) -> None:
        spans.pop().close()

    for path, module in () if model is None else model.named_modules():
        handles += [module.register_forward_pre_hook(enter(path)), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rows(found: Any, runs: int) -> list[list[Any]]:
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    for event in found.events():
        if event.name.startswith(_MODULE) or event.name == _RUN:
            continue
        around = event.cpu_parent
        while around is not None and not around.name.startswith(_MODULE):
            around = around.cpu_parent
        key = ("" if around is None else around.name.removeprefix(_MODULE), event.name)
        sums[key][0] += 1
        sums[key][1] += event.self_cpu_time_total / 1e6
    return [[*key, count / runs, seconds / runs] for key, (count, seconds) in sums.items()]
