"""The program that children are forked from: `python -m onnxlift.verification.children.fork_server`.

    we ─▶ this server, which has imported what children need ─▶ a fork for each child

A Python that imports torch takes seconds to start, a fork milliseconds. The server never runs a model, so each child
starts from the same clean state. `warm.py` is the other end: a line of JSON asks for a child, a line tells its process
id, and another one how it has ended. The server ends when its input does, because whoever has started it has ended, and
with it all children. It also ends if nobody has asked for a minute.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from .processes import fork, kill_family

IDLE_SECONDS = 60


def main() -> None:
    """Serve until nobody asks any more."""
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what a package prints while it is imported is no answer
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started us decides what Ctrl-C means
    children: dict[int, int] = {}  # process id -> number of the request
    unread = b""
    try:
        while True:
            ready, _, _ = select.select([requests, woken], [], [], None if children else IDLE_SECONDS)
            if not ready:
                return
            if woken in ready:
                os.read(woken, 4096)
            if requests in ready:
                data = os.read(requests, 1 << 16)
                if not data:
                    return
                *lines, unread = (unread + data).split(b"\n")
                for line in lines:
                    task = json.loads(line)
                    pid = _start(task, (requests, answers, woken, wakes))
                    children[pid] = task["number"]
                    _tell(answers, number=task["number"], pid=pid)
            for pid in list(children):
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    _tell(answers, number=children.pop(pid), code=os.waitstatus_to_exitcode(status))
    finally:
        for pid in children:
            kill_family(pid)


def _start(task: Mapping[str, Any], own: tuple[int, ...]) -> int:
    """Import what the child needs, if that is not done yet, and fork it; return its process id."""
    for name in task["imports"]:
        with suppress(ImportError):  # the child finds out, and tells
            import_module(name)

    def work() -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for each in own:
            os.close(each)
        os.chdir(task["folder"])
        sys.argv = [task["worker"], task["job"]]
        runpy.run_module(task["worker"], run_name="__main__", alter_sys=True)

    with Path(task["log"]).open("ab") as log:
        return fork(work, log.fileno())


def _tell(answers: int, **told: int) -> None:
    with suppress(BrokenPipeError):
        os.write(answers, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()
