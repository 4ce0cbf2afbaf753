"""A child that works on models, one after the other, seen from both ends.

A fork costs little, but what it then writes to costs a copy, and that is most of the work on a small model. So a child
stays for the next model. It does not stay if an earlier model has left something behind that a later one could feel:
memory, a thread or a process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from onnxlift.sizes import format_bytes
from onnxlift.verification.children.child import tail
from onnxlift.verification.children.forking import allow_forks
from onnxlift.verification.children.processes import (
    describe_exit,
    family,
    family_memory,
    fork,
    kill_family,
    kill_group,
    memory_of,
)

WORK: dict[str, str] = {"look": "onnxlift.workbench.batch.look", "work": "onnxlift.workbench.batch.work"}
"""What a task can ask for: a function of the same name in this module."""
LOG, TOLD = "log.txt", "told.jsonl"
MOST_TASKS = 50
"""So many tasks a child does at most."""
MOST_LEFT, PART_LEFT = 64 << 20, 16
"""A child stays as long as earlier tasks have left so many bytes in it at most, and such a part of its limit."""
UNCERTAIN = frozenset({"crash", "memory"})
"""What an earlier task of the same child may be to blame for."""


@dataclass
class Running:
    """A task at work: the folder for its files, what it may take, and what it has taken."""

    task: Mapping[str, Any]
    folder: Path
    begin: float
    peak: int = 0
    problem: tuple[str, str] | None = None
    """What its child was ended for: a word, and what to say."""

    @classmethod
    def of(cls, task: Mapping[str, Any]) -> Running:
        """Return a task that begins now, with a folder of its own."""
        return cls(task, Path(tempfile.mkdtemp(prefix="onnxlift-batch-")), time.monotonic())

    def watch(self, pid: int) -> None:
        """End the child if it takes more than it may."""
        if self.problem is not None:
            return
        used, seconds, memory = self.measure(pid), float(self.task["seconds"]), int(self.task["memory"])
        if time.monotonic() - self.begin > seconds:
            self.problem = "timeout", f"it did not finish within {seconds:g} seconds: raise the limit (timeout)."
        elif used > memory:
            most = format_bytes(memory)
            self.problem = "memory", f"it took more than {most} of memory: raise the limit (memory), or use fewer jobs."
        if self.problem is not None:
            kill_family(pid)

    def measure(self, pid: int) -> int:
        """Return the memory that the child takes now, all its processes together, and note the most of it."""
        used = family_memory(pid)
        self.peak = max(self.peak, used)
        return used

    def finished(self) -> dict[str, Any]:
        """Return the answer to the task, which is done, and remove its files."""
        return self._answer("", "")

    def ended(self, code: int) -> dict[str, Any]:
        """Return the answer to the task, whose child has ended before it was done, and remove its files."""
        kind, text = self.problem or ("", "")
        if not kind:
            told_by_kernel = " The kernel does that if memory runs out." if code == -signal.SIGKILL else ""
            kind, text = "crash", f"it crashed ({describe_exit(code)}).{told_by_kernel}{tail(self.folder / LOG)}"
        return self._answer(kind, text)

    def _answer(self, kind: str, text: str) -> dict[str, Any]:
        told = (self.folder / TOLD).read_text(encoding="utf-8") if (self.folder / TOLD).exists() else ""
        self.remove(unfinished=bool(kind))
        return {
            "number": self.task["number"],
            "lines": [line for line in told.split("\n")[:-1] if line],
            "kind": kind,
            "text": text,
            "seconds": time.monotonic() - self.begin,
            "peak": self.peak,
        }

    def remove(self, *, unfinished: bool) -> None:
        """Remove the files of the task, and what it has not finished writing to the folder of its model."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if unfinished and self.task.get("folder"):
            _remove_leftovers(Path(self.task["folder"]))


def _remove_leftovers(folder: Path) -> None:
    """Remove what a child that was killed has not finished writing: hidden folders in that of its model."""
    if folder.is_dir():
        for each in folder.glob(".*"):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()  # if there is nothing else in it


class Child:
    """A child as the server sees it: it is sent tasks, tells when one is done, and has ended or is ended."""

    def __init__(self, first: Running, unwanted: list[int]) -> None:
        """Fork a child that begins with a task; it closes the files `unwanted`."""
        its_requests, self._requests = os.pipe()
        self._answers, its_answers = os.pipe()
        own = (self._requests, self._answers)
        with (first.folder / LOG).open("wb") as log:
            self.pid = fork(lambda: _serve(its_requests, its_answers, [*unwanted, *own]), log.fileno())
        os.close(its_requests)
        os.close(its_answers)
        os.set_blocking(self._answers, False)
        self.running: Running | None = None
        self._begun = 0
        self._fresh = memory_of(self.pid) or 0
        self.send(first)

    @property
    def files(self) -> tuple[int, int]:
        """The files by which the server talks with it: the second one can be read when it tells something."""
        return self._requests, self._answers

    @property
    def is_fresh(self) -> bool:
        """Whether it has not been given more than one task."""
        return self._begun < 2

    def send(self, running: Running) -> None:
        """Begin a task. If the child has died meanwhile, its end tells."""
        self.running = running
        self._begun += 1
        with suppress(BrokenPipeError):
            line = memoryview(json.dumps({"task": running.task, "folder": str(running.folder)}).encode() + b"\n")
            while line:
                line = line[os.write(self._requests, line) :]

    def has_finished(self) -> bool:
        """Tell whether it has finished its task."""
        try:
            return self.running is not None and os.read(self._answers, 1) != b""
        except BlockingIOError:
            return False

    def is_spent(self) -> bool:
        """Tell whether its tasks have left something behind, or were many, so that the next one goes to another."""
        if self._begun >= MOST_TASKS or self.running is None:
            return True
        most = min(MOST_LEFT, int(self.running.task["memory"]) // PART_LEFT)
        if (memory_of(self.pid) or 0) > self._fresh + most or sum(1 for _ in family(self.pid)) > 1:
            return True
        with suppress(OSError):
            return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir()) > 1
        return True

    def end(self) -> None:
        """End it, with all that it has started."""
        kill_family(self.pid)

    def bury(self) -> None:
        """End what it has left running, now that it has ended, and let go of it."""
        kill_group(self.pid)
        for each in self.files:
            os.close(each)


def _serve(requests: int, answers: int, unwanted: list[int]) -> None:
    """In the child: do a task for each line that is read, and write a byte when it is done."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for each in unwanted:
        os.close(each)
    allow_forks()
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            told = json.loads(line)
            _do(told["task"], Path(told["folder"]))
            os.write(answers, b".")


def _do(task: Mapping[str, Any], folder: Path) -> None:
    """Do a task, with its own files in a folder: what it tells, what it prints, and what is temporary."""
    sys.stdout.flush()
    with (folder / LOG).open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    run: Callable[..., None] = getattr(import_module(WORK[task["call"]]), task["call"])
    with (folder / TOLD).open("a", encoding="utf-8") as file:

        def tell(told: Mapping[str, Any]) -> None:
            file.write(f"{json.dumps(told, default=str)}\n")
            file.flush()

        run(task, tell)
