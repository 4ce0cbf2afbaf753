"""Have tasks done in children with limits, several at a time, by a server that starts them (server.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

from onnxlift.errors import OnnxLiftError
from onnxlift.verification.children.child import child_environment
from onnxlift.verification.children.processes import free_memory

SERVER = "onnxlift.workbench.batch.server"
READY = b"ready\n"
PATIENCE = 10
MOST_WARM_UPS, MODELS_A_WARM_UP = 10, 8
"""So often at most a server works on models of its own first, once for so many others that wait for it.

Python makes code faster that has run some times, and ten times take a second."""
MOST_TRIES = 2
"""So often a task is begun whose server dies with it."""


@dataclass(frozen=True)
class Ended:
    """How a task has ended: what the child has told, and if it did not finish, why (`kind` is a word for it)."""

    told: tuple[Mapping[str, Any], ...] = ()
    kind: str = ""
    text: str = ""
    seconds: float = 0.0
    peak: int = 0


@dataclass(frozen=True)
class Limits:
    """What each child may take: seconds, and bytes."""

    seconds: float
    memory: int

    @classmethod
    def of(cls, seconds: float, memory: int | None, jobs: int) -> Limits:
        """Return the limits. If no memory is given, each child may take its share of four fifths of what is free."""
        free = free_memory()
        share = sys.maxsize if free is None else free * 4 // 5 // jobs
        return cls(seconds, memory if memory is not None else share)


Waiting = tuple[int, dict[str, Any], int]
"""A task that waits: its number, what it says, and which try this is."""
Begun = tuple[dict[str, Any], int]


class Children:
    """Does tasks in children of a server, which is started when it is first needed. It ends with the `with` block."""

    def __init__(
        self, call: str, modules: Sequence[str] = (), jobs: int = 1, expected: int = 0, *, ahead: bool = True
    ) -> None:
        self.call = call
        """What all tasks ask for: "look" or "work"."""
        self.modules = list(modules)
        self.jobs = jobs
        self.expected = expected
        """The number of tasks that will come, if it is more than those of a call."""
        self.ahead = ahead
        """Whether the next task is begun while a caller still does something about the one before."""
        self._rounds = 0
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, tasks: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[tuple[int, Ended]]:
        """Do the tasks, `jobs` at a time, and yield the number of each with how it has ended, as they end."""
        self._rounds = min(max(len(tasks), self.expected) // MODELS_A_WARM_UP, MOST_WARM_UPS)
        waiting: deque[Waiting] = deque((number, dict(task), 1) for number, task in enumerate(tasks))
        running: dict[int, Begun] = {}
        while waiting or running:
            try:
                self._begin(waiting, running, limits)
                answer = self._answer()
            except (BrokenPipeError, EOFError):
                self.close()
                for number, (task, tries) in running.items():
                    if tries < MOST_TRIES:
                        waiting.append((number, task, tries + 1))
                    else:
                        yield number, Ended(kind="crash", text="the process that starts the children died with it.")
                running.clear()
                continue
            number = answer.pop("number")
            if running.pop(number, None) is not None:
                if self.ahead:
                    with suppress(BrokenPipeError):  # what was begun is begun again
                        self._begin(waiting, running, limits)
                lines = tuple(json.loads(line) for line in answer.pop("lines"))
                yield number, Ended(lines, **answer)

    def _begin(self, waiting: deque[Waiting], running: dict[int, Begun], limits: Limits) -> None:
        """Send the server as many tasks as may be at work."""
        while waiting and len(running) < self.jobs:
            number, task, tries = waiting.popleft()
            running[number] = task, tries
            told = {"call": self.call, "number": number, "seconds": limits.seconds, "memory": limits.memory}
            self._send({**task, **told})

    def run_one(self, task: Mapping[str, Any], limits: Limits) -> Ended:
        """Do one task."""
        ((_, ended),) = self.run([task], limits)
        return ended

    def close(self) -> None:
        """End the server, and all children that are still at work."""
        server, self._server = self._server, None
        if server is None:
            return
        with suppress(BrokenPipeError):
            _pipe(server.stdin).close()
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        _pipe(server.stdout).close()

    def _send(self, request: Mapping[str, Any]) -> None:
        if self._server is None:
            self._server = self._start()
            self._send({"call": self.call, "modules": self.modules, "rounds": self._rounds})
            if _pipe(self._server.stdout).readline() != READY:
                self.close()
                raise OnnxLiftError("the process that works on models could not start; what it says stands above.")
        stdin = _pipe(self._server.stdin)
        stdin.write(json.dumps(request).encode() + b"\n")
        stdin.flush()

    def _answer(self) -> dict[str, Any]:
        line = b"" if self._server is None else _pipe(self._server.stdout).readline()
        if not line.endswith(b"\n"):
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = {"OMP_NUM_THREADS": str(max(1, cores // self.jobs))}
        # A process that has started threads cannot be forked safely, and BLAS would start some when it is imported.
        environment = {**threads, **child_environment(), "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-P", "-m", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C on the terminal is for us, and we end the server
        )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise OnnxLiftError("the process that starts the children has no pipe.")
    return stream
