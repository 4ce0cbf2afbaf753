"""`bench`: measure the latency of models and engines by turns, in one run, and say how they compare."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.api import lift
from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import ValueType, type_of
from onnxlift.verification.given import Given, Inputs

from ..runtime.file_inputs import PictureSettings, read_files
from ..runtime.prepared import Prepared, prepare, title_of
from ..runtime.settings import Providers, Settings, require_runtime, settings_from
from .contest import Contender, Effort, Progress, Samples, measure
from .report import BenchReport, Measured, measured
from .statistics import NOISY

ENGINES = {
    "ort": "ONNX Runtime",
    "lifted": "the lifted module",
    "compiled": "the lifted module, compiled by torch.compile",
    "aoti": "the lifted module, compiled by AOTInductor",
}


@dataclass(frozen=True)
class _Entry:
    """A model, ready to run, with its name in the report."""

    title: str
    prepared: Prepared
    engines: Mapping[str, Mapping[str, Any]]
    """What the children are told, by engine."""


def bench(
    source: Any,
    *others: Any,
    engines: str | Sequence[str] = "ort",
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    sweep: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    threads: int | None = None,
    processor: bool = False,
    warmup: int = 3,
    seconds: float = 3.0,
    runs: int | None = None,
    rounds: int | None = None,
    providers: str | Providers = (),
    options: Mapping[str, Any] | None = None,
    custom_ops: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    timeout: float = 300.0,
    memory: int | str | None = None,
    on_progress: Progress | None = None,
) -> BenchReport:
    """Measure how fast the model in `source`, and `others`, run on each of the `engines`, and compare them.

    The engines are "ort" (ONNX Runtime), "lifted" (the lifted module), "compiled" (by torch.compile) and "aoti" (by
    AOTInductor, in the sizes that are measured). The first model on the first engine is what the others are compared
    with. Every contender has a process of its own, and they run by turns, in rounds of a random order, about `seconds`
    each; `runs` and `rounds` give the numbers exactly. `sweep` measures at several sizes of one dimension:
    `{"batch": [1, 2, 4, 8]}`. `threads` is for ONNX Runtime and torch alike; without it, both take their default.
    With `processor`, the time that the processor works on a run is measured, on all threads together, and not that of
    the clock: what else the machine does disturbs it less.

    Inputs that are not given are made up, as for `verify`. `providers`, `options` and `custom_ops` are those of `run`,
    for ONNX Runtime. Each question to a child may take `timeout` seconds, and it may take `memory` bytes."""
    chosen = _engines(engines)
    settings = settings_from(providers=providers, options=options, threads=threads, custom_ops=custom_ops)
    if "ort" in chosen:
        require_runtime()
    effort = _effort(seconds, warmup, runs, rounds)
    swept, sizes = _sweep(sweep)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        entries: list[_Entry] = []
        names: list[str] = []
        for number, each in enumerate((source, *others)):
            job = Path(folder) / f"model_{number}"
            job.mkdir()
            prepared = prepare(each, job, timeout=timeout, memory=memory)
            values, _ = read_files(inputs, prepared.model.graph, PictureSettings(), shapes=shapes, dims=dims)
            prepared = replace(prepared, given=Given(values, shapes, dict(dims or {}), seed))
            name = title_of(prepared.source, prepared.model)
            names.append(name)
            title = f"{name} ({names.count(name)})" if names.count(name) > 1 else name
            entries.append(_Entry(title, prepared, _tasks(prepared, settings, chosen, processor)))
        rows: list[Measured] = []
        apart: set[str] = set()
        for size in sizes:
            rows += _measure(entries, settings, {swept: size} if swept else {}, effort, on_progress, apart)
    notes = [f"{title} ran on other inputs than {entries[0].title}, whose inputs do not fit" for title in sorted(apart)]
    notes += _notes(rows)
    name = ", ".join(entry.title for entry in entries)
    return BenchReport(name, tuple(rows), swept, threads, tuple(notes), "processor" if processor else "wall")


def _measure(
    entries: Sequence[_Entry],
    settings: Settings,
    sizes: Mapping[str, int],
    effort: Effort,
    on_progress: Progress | None,
    apart: set[str],
) -> list[Measured]:
    """Measure all contenders at one size, and add those that need inputs of their own to `apart`."""
    contenders: list[Contender] = []
    facts: list[tuple[str, str, int]] = []
    sized = [_with_sizes(entry.prepared, sizes) for entry in entries]
    first = _inputs(sized[0], sized[1:], settings)
    for entry, prepared in zip(entries, sized, strict=True):
        values = _for(prepared, sized[0], first)
        if values is None:
            apart.add(entry.title)
            values = _inputs(prepared, [], settings)
        for engine, task in entry.engines.items():
            job = Path(tempfile.mkdtemp(prefix=f"{engine}-", dir=prepared.job))
            more = {"package": str(_package(prepared, values, job))} if engine == "aoti" else {}
            who = f"{entry.title} on {engine}"
            contenders.append(Contender(who, {**task, **more}, values, job))
            facts.append((entry.title, engine, _batch(prepared, values)))
    found = measure(contenders, entries[0].prepared.limits, effort, entries[0].prepared.given.seed, on_progress)
    baseline: Samples | None = None
    rows: list[Measured] = []
    for (title, engine, batch), samples in zip(facts, found, strict=True):
        rows.append(measured(title, engine, sizes, samples, baseline, batch))
        baseline = baseline or samples
    return rows


def _tasks(
    prepared: Prepared, settings: Settings, engines: Sequence[str], processor: bool
) -> dict[str, dict[str, Any]]:
    """Return what a child of each engine is told."""
    tasks: dict[str, dict[str, Any]] = {}
    source = ""
    if {"lifted", "compiled"} & {*engines}:
        source = str(lift(prepared.source).save(prepared.job / "lifted")[0])
    for engine in engines:
        task: dict[str, Any] = {"engine": engine, "outputs": prepared.outputs, "threads": settings.threads}
        task["processor"] = processor
        if engine == "ort":
            places = {"model": str(prepared.file.path), "folder": str(prepared.file.folder)}
            task |= {**places, **settings.to_task()}
            # A pool that spins while another contender has its turn would take its time away.
            task["options"] = {"session.force_spinning_stop": "1", **task["options"]}
        tasks[engine] = {**task, "source": source}
    return tasks


def _with_sizes(prepared: Prepared, sizes: Mapping[str, int]) -> Prepared:
    return replace(prepared, given=replace(prepared.given, dims={**prepared.given.dims, **sizes}))


def _inputs(prepared: Prepared, others: Sequence[Prepared], settings: Settings) -> dict[str, Any]:
    """Return inputs that the model takes, as far as ONNX Runtime can tell, and all others that they fit."""
    graph = prepared.model.graph
    if not prepared.given.sizes(graph).chosen:
        return prepared.given.make(graph)
    require_runtime()

    def run(values: Mapping[str, Any]) -> None:
        for each in (prepared, *others):
            fitting = _for(each, prepared, values)
            if fitting is not None:
                each.run({"outputs": each.outputs, **settings.to_task()}, fitting)

    return prepared.given.taken_by(graph, run)


def _for(prepared: Prepared, first: Prepared, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the inputs of the first model as those of another one; None if they do not fit: then it gets its own.

    Two models that are compared run on the same inputs, even if the sizes of these are made up."""
    kinds = {value.name or "": type_of(value) for value in prepared.model.graph.inputs}
    theirs = {value.name or "": type_of(value) for value in first.model.graph.inputs}
    fits = all(name in values and _fits(kind, theirs[name], values[name]) for name, kind in kinds.items())
    return {name: values[name] for name in kinds} if fits else None


def _fits(kind: ValueType, declared: ValueType, value: Any) -> bool:
    """Tell whether an input of this kind takes a value that was made for an input as it is declared elsewhere."""
    if kind == declared:
        return True
    if kind.kind != "tensor" or (kind.kind, kind.dtype) != (declared.kind, declared.dtype):
        return False
    return kind.shape is None or (
        kind.rank == np.ndim(value)
        and all(size == own or not isinstance(size, int) for size, own in zip(kind.shape, np.shape(value), strict=True))
    )


def _package(prepared: Prepared, values: Mapping[str, Any], job: Path) -> Path:
    """Compile the model by AOTInductor, in the sizes of these inputs."""
    from onnxlift import export

    shapes = {name: np.shape(value) for name, value in values.items() if isinstance(value, np.ndarray)}
    limits = prepared.limits
    report = export(
        prepared.source, aoti=True, shapes=shapes, verify=False, timeout=limits.seconds, memory=limits.memory
    )
    files: list[Path] = report.save(job / "model.pt2")
    return files[0]


def _batch(prepared: Prepared, values: Mapping[str, Any]) -> int:
    """Return the number of samples in a run: the size of the first axis of the inputs, if the model leaves it open."""
    graph = prepared.model.graph
    open_names = [value.name or "" for value in graph.inputs if isinstance((type_of(value).shape or (0,))[:1][0], str)]
    first = [np.shape(values[name])[0] for name in open_names if name in values and np.ndim(values[name])]
    return int(first[0]) if first and first[0] and len(set(first)) == 1 else 1


def _engines(engines: str | Sequence[str]) -> list[str]:
    names = [part.strip() for part in engines.split(",")] if isinstance(engines, str) else list(engines)
    names = list(dict.fromkeys(name for name in names if name))
    for name in names:
        if name not in ENGINES:
            raise OnnxLiftError(f"there is no engine {quote(name)}: it is one of {', '.join(ENGINES)}.")
    if not names:
        raise OnnxLiftError(f"name an engine: {', '.join(ENGINES)}.")
    return names


def _effort(seconds: float, warmup: int, runs: int | None, rounds: int | None) -> Effort:
    if seconds <= 0 or warmup < 1 or any(number is not None and number < 1 for number in (runs, rounds)):
        raise OnnxLiftError("seconds, warm-up, runs and rounds are greater than 0.")
    return Effort(seconds, warmup, runs, rounds)


def _sweep(sweep: Mapping[str, Sequence[int]] | None) -> tuple[str, list[int]]:
    """Return the dimension of a sweep, and its sizes; one size of no dimension if there is none."""
    if not sweep:
        return "", [0]
    if len(sweep) > 1:
        raise OnnxLiftError("a sweep is over one dimension: give the others a size (--dim).")
    ((name, sizes),) = sweep.items()
    if not sizes or any(size < 1 for size in sizes):
        raise OnnxLiftError(f"a sweep over {quote(name)} needs sizes of 1 or more: --sweep {name}=1,2,4.")
    return name, list(dict.fromkeys(sizes))


def _notes(rows: Sequence[Measured]) -> list[str]:
    """Say how far the numbers can be trusted."""
    notes: list[str] = []
    worst = max(row.noise for row in rows)
    unclear = [row for row in rows if row.verdict == "unclear" and row.ratio is not None]
    if unclear:
        widest = max(row.ratio.spread for row in unclear if row.ratio is not None)
        notes.append(
            f"the machine was too noisy to tell: differences below {widest:.0%} are lost in it. Measure for longer "
            "(--seconds), or end what else is running"
        )
    if worst > NOISY:
        load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, os.cpu_count() or 1
        busy = f"; the load is {load:.1f} on {cores} cores" if load > cores else ""
        notes.append(f"the medians of the rounds are spread by {worst:.0%}: something else was running{busy}")
    if any(row.p99 is None for row in rows):
        notes.append("p99 needs 100 runs at least: measure for longer (--seconds)")
    return notes
