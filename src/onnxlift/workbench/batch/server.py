"""The program that works on models: `python -m onnxlift.workbench.batch.server`.

    batch ─▶ server, which has imported all that the steps need ─▶ a fork for each model ─▶ forks that run it

It reads a line of JSON that says what to import, then one for each task, and answers each with a line. A task is done
in a forked child with limits: whatever a model does to its child, the server goes on. When its input ends, because
whoever has started it has finished or was killed, it ends all children and itself.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from onnxlift.sizes import format_bytes
from onnxlift.verification.children.child import tail
from onnxlift.verification.children.forking import allow_forks
from onnxlift.verification.children.processes import describe_exit, family_memory, fork, kill_family, kill_group

POLL_SECONDS = 0.1
WORK: dict[str, str] = {"look": "onnxlift.workbench.batch.look", "work": "onnxlift.workbench.batch.work"}
"""What a task can ask for: a function of the same name in this module."""
LOG, TOLD = "log.txt", "told.jsonl"


@dataclass
class Child:
    """A child at work: the folder for its files, what it may take, and what it has taken."""

    number: int
    pid: int
    folder: Path
    begin: float
    seconds: float
    memory: int
    leftovers: str
    peak: int = 0
    problem: tuple[str, str] | None = None
    """What it was ended for: a word, and what to say."""

    def watch(self) -> None:
        """End the child if it takes more than it may."""
        if self.problem is not None:
            return
        used = family_memory(self.pid)
        self.peak = max(self.peak, used)
        if time.monotonic() - self.begin > self.seconds:
            self.problem = "timeout", f"it did not finish within {self.seconds:g} seconds: raise the limit (timeout)."
        elif used > self.memory:
            most = format_bytes(self.memory)
            self.problem = "memory", f"it took more than {most} of memory: raise the limit (memory), or use fewer jobs."
        if self.problem is not None:
            kill_family(self.pid)

    def ended(self, code: int) -> dict[str, Any]:
        """Return the answer to the task, now that the child has ended, and remove its files."""
        kill_group(self.pid)
        told = (self.folder / TOLD).read_text(encoding="utf-8") if (self.folder / TOLD).exists() else ""
        kind, text = self.problem or ("", "")
        if not kind and code:
            told_by_kernel = " The kernel does that if memory runs out." if code == -signal.SIGKILL else ""
            kind, text = "crash", f"it crashed ({describe_exit(code)}).{told_by_kernel}{tail(self.folder / LOG)}"
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind and self.leftovers:
            _remove_leftovers(Path(self.leftovers))
        return {
            "number": self.number,
            "lines": [line for line in told.split("\n")[:-1] if line],
            "kind": kind,
            "text": text,
            "seconds": time.monotonic() - self.begin,
            "peak": self.peak,
        }


def _remove_leftovers(folder: Path) -> None:
    """Remove what a child that was killed has not finished writing: hidden folders in that of its model."""
    if folder.is_dir():
        for each in folder.glob(".*"):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()  # if there is nothing else in it


class Server:
    """Forks a child for each task that it reads, and answers when the child has ended."""

    def __init__(self, requests: int, answers: int) -> None:
        self.requests, self.answers = requests, answers
        self.children: dict[int, Child] = {}
        self.unread = b""
        self.woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Serve until the requests end."""
        try:
            while True:
                ready, _, _ = select.select(
                    [self.requests, self.woken], [], [], POLL_SECONDS if self.children else None
                )
                if self.woken in ready:
                    os.read(self.woken, 4096)
                if self.requests in ready and not self._read():
                    return
                self._reap()
                for child in self.children.values():
                    child.watch()
        finally:
            for child in self.children.values():
                kill_family(child.pid)
                shutil.rmtree(child.folder, ignore_errors=True)
                if child.leftovers:
                    _remove_leftovers(Path(child.leftovers))

    def _read(self) -> bool:
        """Start what is asked for; return False if nothing more will be."""
        data = os.read(self.requests, 1 << 16)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            self._start(json.loads(line))
        return bool(data)

    def _start(self, task: Mapping[str, Any]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="onnxlift-batch-"))
        begin = time.monotonic()
        with (folder / LOG).open("wb") as log:
            pid = fork(lambda: self._in_child(task, folder), log.fileno())
        limits = float(task["seconds"]), int(task["memory"])
        self.children[pid] = Child(task["number"], pid, folder, begin, *limits, leftovers=task.get("folder", ""))

    def _in_child(self, task: Mapping[str, Any], folder: Path) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self.requests, self.answers, self.woken):
            os.close(each)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        allow_forks()
        run: Callable[..., None] = getattr(import_module(WORK[task["call"]]), task["call"])
        with (folder / TOLD).open("a", encoding="utf-8") as file:

            def tell(told: Mapping[str, Any]) -> None:
                file.write(f"{json.dumps(told, default=str)}\n")
                file.flush()

            run(task, tell)

    def _reap(self) -> None:
        for pid, child in list(self.children.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self.children[pid]
                self._answer(child.ended(os.waitstatus_to_exitcode(status)))

    def _answer(self, answer: Mapping[str, Any]) -> None:
        data = memoryview(json.dumps(answer).encode() + b"\n")
        while data:
            data = data[os.write(self.answers, data) :]


def warm_up(call: str, modules: Sequence[str], rounds: int) -> None:
    """Import what tasks need, and work on small models a few times, so that a fork has everything at hand.

    Python makes code faster that has run before, and a fork begins with what is fast by then."""
    for name in (*modules, WORK[call]):
        import_module(name)
    if call == "work":
        with tempfile.TemporaryDirectory(prefix="onnxlift-batch-") as folder:
            for _ in range(rounds):
                _work_on_samples(Path(folder))
    gc.collect()
    gc.freeze()


def _work_on_samples(folder: Path) -> None:
    """Take two models of our own through steps that run nothing."""
    from .samples import samples
    from .work import work

    steps = [("lint", {}), ("simplify", {"verify": False}), ("convert", {})]
    for name, model in samples():
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
        task = {
            "model": str(folder / f"{name}.onnx"),
            "folder": str(folder / name),
            "stem": name,
            "steps": [{"step": step, "options": options, "save": True} for step, options in steps],
            "shapes": {},
            "inputs": [],
            "examples": {},
            "given": {},
        }
        work(task, lambda told: None)


def main() -> None:
    """Warm up as the first line says, and serve."""
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what a package prints while it is imported is no answer
    first = b""
    while not first.endswith(b"\n"):
        byte = os.read(requests, 1)
        if not byte:
            sys.exit(0)
        first += byte
    told = json.loads(first)
    warm_up(told["call"], told["modules"], told["rounds"])
    os.write(answers, b"ready\n")
    Server(requests, answers).serve()


if __name__ == "__main__":
    main()
