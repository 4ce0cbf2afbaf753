"""A child process with limits of time and memory, in which a stranger's model may run.

Memory is what the process itself has taken (anonymous pages), watched from here. A limit on address space is of no use:
torch and ONNX Runtime reserve far more than they touch. Weights that are pages of a file do not count.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlift.errors import VerifyError
from onnxlift.report import format_bytes

WORKER = "onnxlift.verification.worker"
POLL_SECONDS = 0.02
TAIL = 2000


@dataclass(frozen=True)
class Limits:
    """How long a side may take, in seconds, and how much memory, in bytes (None: four fifths of what is free)."""

    seconds: float = 300.0
    memory: int | None = None

    @property
    def bytes(self) -> int | None:
        if self.memory is not None:
            return self.memory
        free = _field(Path("/proc/meminfo"), "MemAvailable:")
        return None if free is None else free * 4 // 5


class ChildError(VerifyError):
    """A side did not finish. `crashed` if it was not an error that it could report itself."""

    def __init__(self, message: str, crashed: bool = False) -> None:
        super().__init__(message)
        self.crashed = crashed


def run_child(job: Path, task: dict[str, Any], who: str, limits: Limits, worker: str = WORKER) -> dict[str, Any]:
    """What the worker answers to `task`, in the folder `job`. Raises ChildError, in which it is called `who`."""
    # A side writes only here, and what an earlier one left must not be taken for its answer.
    answer = job / "answer.json"
    answer.unlink(missing_ok=True)
    (job / "task.json").write_text(json.dumps(task), encoding="utf-8")
    # -P: the folder in which we were started, which may be the model's, is no place to import from.
    command = [sys.executable, "-P", "-m", worker, str(job)]
    with (job / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(), start_new_session=True
        )
        try:
            _watch(process, who, limits)
        finally:
            _kill(process)
    if process.returncode != 0:
        raise ChildError(f"{who} crashed ({_exit(process.returncode)}).{_tail(job / 'log.txt')}", crashed=True)
    answered: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in answered:
        raise ChildError(f"{who} failed: {answered['error']}")
    return answered


def _watch(process: subprocess.Popen[bytes], who: str, limits: Limits) -> None:
    """Wait for the end of the process, and raise ChildError if it goes too far."""
    deadline = time.monotonic() + limits.seconds
    most = limits.bytes
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise ChildError(f"{who} did not finish within {limits.seconds:g} seconds: raise the limit (--timeout).")
        used = None if most is None else _field(status, "RssAnon:")
        if most is not None and used is not None and used > most:
            raise ChildError(
                f"{who} took more than {format_bytes(most)} of memory and was stopped: raise the limit (--memory), or "
                "use smaller inputs (--shape, --dim)."
            )
        time.sleep(POLL_SECONDS)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started: it leads a session of its own
        else:
            process.kill()
        process.wait()


def _field(path: Path, title: str) -> int | None:
    """A line of a file under /proc that is given in kB, in bytes; None where there is no such thing."""
    try:
        line = next(line for line in path.read_text().splitlines() if line.startswith(title))
    except (OSError, StopIteration):
        return None
    return int(line.split()[1]) * 1024


def _environment() -> dict[str, str]:
    """Ours, with this very onnxlift to be imported, however it was found."""
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def _exit(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _tail(log: Path) -> str:
    """The last words of a process."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = file.read().decode("utf-8", "replace").strip()
    return f" Its last words:\n{text}" if text else ""
