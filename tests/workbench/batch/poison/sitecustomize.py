"""Operators that do to a process what a model from a stranger might: each ends the child that lifts it in its own way.

Python imports this file when it starts, if its folder is in PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from onnxlift import op


@op("Crash", domain="poison")
def Crash(n: Any, x: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)
    return x


@op("Hang", domain="poison")
def Hang(n: Any, x: Any) -> Any:
    while True:
        time.sleep(60)


@op("Slow", domain="poison")
def Slow(n: Any, x: Any) -> Any:
    time.sleep(1)
    return x.relu()


@op("Hoard", domain="poison")
def Hoard(n: Any, x: Any) -> Any:
    hoard = [b"x" * (1 << 26)]
    while len(hoard) < 100:
        hoard.append(bytes(hoard[0]) + b"x")
        time.sleep(0.01)
    return x.relu()


LEFT: list[Any] = []
"""What models have left behind in this process."""


def _note() -> None:
    """Write down the process that lifts a model."""
    with Path(os.environ["POISON_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")


@op("Note", domain="poison")
def Note(n: Any, x: Any) -> Any:
    _note()
    return x.relu()


@op("LeaveMemory", domain="poison")
def LeaveMemory(n: Any, x: Any) -> Any:
    _note()
    LEFT.append(b"x" * (100 << 20))
    return x.relu()


@op("LeaveThread", domain="poison")
def LeaveThread(n: Any, x: Any) -> Any:
    _note()
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return x.relu()


@op("LeaveProcess", domain="poison")
def LeaveProcess(n: Any, x: Any) -> Any:
    _note()
    LEFT.append(subprocess.Popen(["sleep", "600"]))
    return x.relu()


@op("Second", domain="poison")
def Second(n: Any, x: Any) -> Any:
    _note()
    if LEFT:
        os.kill(os.getpid(), signal.SIGSEGV)
    LEFT.append(n)
    return x.relu()
