"""Operators that do to a process what a model from a stranger might: each ends the child that lifts it in its own way.

Python imports this file when it starts, if its folder is in PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import time
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
