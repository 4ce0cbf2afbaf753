"""Judge mutants in forked children, with limits of time and memory.

A child is forked from a process that has everything imported, and judges a batch, one mutant after the other. Before
each it says which one is next: if it dies, that one is at fault, and a new child goes on after it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import IO

from .judge import Kind, OutOfTimeError, Verdict, judge
from .make import Mutant, Nursery

SECONDS = 30
BYTES = 2 << 30
BATCH = 100
PATIENCE = 120
"""Seconds on the clock after which a child is killed that did not notice that its time is up, or waits for something.
The limit itself is of the time that the processor spends, so that it does not depend on what else is running."""
WARM_UP = 60


def judge_all(nursery: Nursery, numbers: range, jobs: int) -> Iterator[Verdict]:
    """The verdicts on these mutants, as they come."""
    batches = [numbers[start : start + BATCH] for start in range(0, len(numbers), BATCH)]
    batches.reverse()
    running: dict[int, _Child] = {}
    _warm_up(nursery)
    try:
        while batches or running:
            while batches and len(running) < jobs:
                child = _Child(nursery, batches.pop())
                running[child.reading] = child
            soonest = min(child.deadline for child in running.values())
            ready, _, _ = select.select(list(running), [], [], max(0.0, soonest - time.monotonic()))
            for child in [running[each] for each in ready] or list(running.values()):
                yield from child.verdicts()
                if child.ended:
                    del running[child.reading]
                    os.close(child.reading)
                    if child.rest:
                        batches.append(child.rest)
    finally:
        for child in running.values():
            child.kill()


def _warm_up(nursery: Nursery) -> None:
    """Lift some valid models, so that children are forked with everything imported, and each costs milliseconds."""
    for seed in nursery.seeds[:: max(1, len(nursery.seeds) // WARM_UP)]:
        if not seed.files:
            judge(Mutant(0, seed.name, (), seed.data, {}, {}, by_path=False))
    gc.collect()
    gc.freeze()


class _Child:
    """A process that judges a batch."""

    def __init__(self, nursery: Nursery, batch: range) -> None:
        self.rest = batch
        self.ended = False
        self.begun = False
        self.unread = b""
        self.reading, writing = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reading)
            _in_child(lambda out: _judge_batch(nursery, batch, out), writing)
        os.close(writing)
        self.deadline = time.monotonic() + PATIENCE

    def verdicts(self) -> Iterator[Verdict]:
        """What the child has told since; and if it is dead or stuck, the verdict on the mutant that it was at."""
        if not select.select([self.reading], [], [], 0)[0]:
            if time.monotonic() < self.deadline:
                return
            self.kill()
            yield self._next(Verdict(0, Kind.SLOW, "a call that does not return"))
            return
        data = os.read(self.reading, 1 << 16)
        if not data:
            _, status = os.waitpid(self.pid, 0)
            self.ended = True
            if self.rest:
                name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
                yield self._next(Verdict(0, Kind.SIGNAL, name))
            return
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.deadline = time.monotonic() + PATIENCE
            yield self._next(Verdict(**{**told, "kind": Kind(told["kind"])}))

    def _next(self, verdict: Verdict) -> Verdict:
        number, self.rest = self.rest[0], self.rest[1:]
        return replace(verdict, number=number)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.ended = True


def _in_child(work: Callable[[IO[str]], None], writing: int) -> None:
    """Do the work, and end the process without anything that the parent has planned for its end."""
    status = 1
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(silent, standard)
        os.environ["TMPDIR"] = _fast_folder()
        with os.fdopen(writing, "w") as out:
            work(out)
        status = 0
    finally:
        os._exit(status)


def _fast_folder() -> str:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else os.environ.get("TMPDIR", "/tmp")


def _judge_batch(nursery: Nursery, batch: range, out: IO[str]) -> None:
    base = _status("VmSize") * 1024
    resource.setrlimit(resource.RLIMIT_AS, (base + BYTES, base + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _out_of_time)
    for number in batch:
        mutant = nursery.make(number)
        _reset_peak()
        before = _status("VmRSS")
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        verdict = judge(mutant)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.perf_counter() - start
        megabytes = (_status("VmHWM") - before) / 1024
        print(json.dumps(asdict(replace(verdict, seconds=seconds, megabytes=megabytes))), file=out, flush=True)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError


def _status(key: str) -> int:
    """A number of kilobytes of what the kernel knows of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0


def _reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
