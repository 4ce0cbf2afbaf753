"""The program that works on models: `python -m onnxlift.workbench.batch.server`.

    batch ─▶ server, which has imported all that the steps need ─▶ forks that work on models ─▶ forks that run them

It reads a line of JSON that says what to import, then one for each task, and answers each with a line. A task is done
in a forked child with limits (child.py): whatever a model does to its child, the server goes on, and another child
takes its place. When its input ends, because whoever has started it has finished or was killed, it ends all children
and itself.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .child import UNCERTAIN, WORK, Child, Running

POLL_SECONDS = 0.1


class Server:
    """Gives each task that it reads to a child, forks one if none is idle, and answers when the task is done."""

    def __init__(self, requests: int, answers: int) -> None:
        self.requests, self.answers = requests, answers
        self.children: list[Child] = []
        self.unread = b""
        self.woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Serve until the requests end."""
        try:
            while True:
                busy = [child for child in self.children if child.running is not None]
                heard = [child.files[1] for child in busy]
                ready, _, _ = select.select([self.requests, self.woken, *heard], [], [], POLL_SECONDS if busy else None)
                if self.woken in ready:
                    os.read(self.woken, 4096)
                if self.requests in ready and not self._read():
                    return
                for child in list(self.children):
                    self._look_after(child)
        finally:
            for child in self.children:
                child.end()
                if child.running is not None:
                    child.running.remove(unfinished=True)

    def _read(self) -> bool:
        """Start what is asked for; return False if nothing more will be."""
        data = os.read(self.requests, 1 << 16)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            self._start(json.loads(line))
        return bool(data)

    def _start(self, task: Mapping[str, Any], *, fresh: bool = False) -> None:
        """Give a task to an idle child, or to a new one."""
        running = Running.of(task)
        idle = next((child for child in self.children if child.running is None), None)
        if idle is not None and not fresh:
            idle.send(running)
            return
        ours = [self.requests, self.answers, self.woken, *(file for child in self.children for file in child.files)]
        self.children.append(Child(running, ours))

    def _look_after(self, child: Child) -> None:
        """Answer if a child has finished its task or has ended, and end it if it takes too much, or has had its day."""
        found, status = os.waitpid(child.pid, os.WNOHANG)
        running = child.running
        if running is not None and child.has_finished():
            if not found:
                running.measure(child.pid)
            is_spent = bool(found) or child.is_spent()
            child.running = None
            if is_spent:
                self._let_go(child, ended=bool(found))
            self._answer(running.finished())
        elif found:
            self._let_go(child, ended=True)
            if running is not None:
                self._answer_for(running, os.waitstatus_to_exitcode(status), child.is_fresh)
        elif running is not None:
            running.watch(child.pid)

    def _let_go(self, child: Child, *, ended: bool) -> None:
        """Have no more to do with a child, which is ended first if it has not `ended`."""
        if not ended:
            child.end()
            os.waitpid(child.pid, 0)
        self.children.remove(child)
        child.bury()

    def _answer_for(self, running: Running, code: int, is_fresh: bool) -> None:
        """Answer for a task whose child has ended, or try it again if an earlier task may be to blame."""
        answer = running.ended(code)
        if answer["kind"] in UNCERTAIN and not is_fresh:
            self._start(running.task, fresh=True)
        else:
            self._answer(answer)

    def _answer(self, answer: dict[str, Any]) -> None:
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
