"""Run untrusted models and code in a child process with limits of time and memory.

We watch the memory that the process itself has taken (anonymous pages). A limit on its address space would be of no
use: torch and ONNX Runtime reserve far more than they use. Weights that are mapped from a file do not count.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from onnxlift.errors import VerifyError
from onnxlift.sizes import format_bytes

from .forking import Forked, can_fork
from .processes import describe_exit, free_memory, kill_family, memory_of
from .warm import WarmChild, start_warm

WORKER = "onnxlift.verification.worker"
_IMPORTS = {
    "reference": ("onnxruntime", "onnxlift.verification.reference"),
    "lifted": ("torch", "onnxlift.verification.candidate", "onnxlift.verification.gradients"),
}
"""What this worker imports, by the side that it runs."""
ANSWER = "answer.json"
LOG = "log.txt"
POLL_SECONDS = 0.02
TAIL = 2000

Process = subprocess.Popen[bytes] | Forked | WarmChild


@dataclass(frozen=True)
class Limits:
    """The time and the memory that a side may take, in seconds and bytes.

    Without `memory`, the limit is four fifths of the free memory."""

    seconds: float = 300.0
    memory: int | None = None

    @property
    def bytes(self) -> int | None:
        if self.memory is not None:
            return self.memory
        free = free_memory()
        return None if free is None else free * 4 // 5


class ChildError(VerifyError):
    """A side did not finish. It `crashed` if its process died, instead of reporting an error. It `refused` its inputs
    if it was loaded, and failed while it ran. `answer` is what it told of its error, if it did."""

    def __init__(
        self, message: str, crashed: bool = False, refused: bool = False, answer: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.crashed = crashed
        self.refused = refused
        self.answer = answer or {}


class LoadingError(Exception):
    """In the child: what is to be run could not be loaded, so that no input can be at fault. Its cause says why."""


@contextmanager
def loading() -> Iterator[None]:
    """Let whatever goes wrong leave as a LoadingError."""
    try:
        yield
    except Exception as error:  # loading a stranger's model or code can raise anything; it is told as the cause
        raise LoadingError from error


def run_child(job: Path, task: dict[str, Any], who: str, limits: Limits, worker: str = WORKER) -> dict[str, Any]:
    """Run `task` in a worker process in the folder `job`, and return its answer.

    Raises ChildError if it does not finish; the message calls it `who`."""
    # An answer that an earlier side left in the folder must not be taken for the answer of this one.
    (job / ANSWER).unlink(missing_ok=True)
    (job / "task.json").write_text(json.dumps(task), encoding="utf-8")
    imports = _IMPORTS.get(task.get("side", "")) if worker == WORKER else None
    with (job / LOG).open("wb") as log:
        process = _start(job, worker, log, imports)
        try:
            _watch(process, who, limits)
        finally:
            _kill(process)
    if process.returncode:
        raise ChildError(f"{who} crashed ({describe_exit(process.returncode)}).{tail(job / LOG)}", crashed=True)
    answer = read_answer(job)
    if answer is None:
        raise ChildError(f"{who} gave no answer.{tail(job / LOG)}", crashed=True)
    if "error" in answer:
        raise ChildError(f"{who} failed: {answer['error']}", refused=answer.get("loaded", True), answer=answer)
    return answer


def read_answer(job: Path) -> dict[str, Any] | None:
    """Return the last answer of the process that ran in the folder `job`; None if it has not given any."""
    if not (job / ANSWER).is_file():
        return None
    answer: dict[str, Any] = json.loads((job / ANSWER).read_text(encoding="utf-8"))
    return answer


def _start(job: Path, worker: str, log: IO[bytes], imports: Sequence[str] | None) -> Process:
    """Start the worker: as a fork of us if we may, of a server if we know what it imports, else as a new Python."""
    if can_fork():
        return Forked(lambda: _run_as_program(worker, str(job)), log.fileno())
    if imports is not None:
        started = start_warm(worker, job, job / LOG, imports, child_environment())
        if started is not None:
            return started
    # -P: import nothing from the current folder, which may be the model's.
    command = [sys.executable, "-P", "-m", worker, str(job)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child_environment(), start_new_session=True
    )


def _run_as_program(module: str, *arguments: str) -> None:
    """Run a module in this process as `python -m` would."""
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _watch(process: Process, who: str, limits: Limits) -> None:
    """Wait for the end of the process. Raises ChildError if it exceeds a limit."""
    deadline = time.monotonic() + limits.seconds
    most = limits.bytes
    while process.poll() is None:
        _check_limits(who, limits, deadline, most, process.pid)
        time.sleep(POLL_SECONDS)


def _check_limits(who: str, limits: Limits, deadline: float, most: int | None, pid: int) -> None:
    """Raise a ChildError if a process exceeds a limit."""
    if time.monotonic() > deadline:
        raise ChildError(f"{who} did not finish within {limits.seconds:g} seconds: raise the limit (--timeout).")
    used = None if most is None else memory_of(pid)
    if most is not None and used is not None and used > most:
        raise ChildError(
            f"{who} took more than {format_bytes(most)} of memory and was stopped: raise the limit (--memory), or "
            "use smaller inputs (--shape, --dim)."
        )


def _kill(process: Process) -> None:
    if process.poll() is None:
        kill_family(process.pid)  # with the processes that it started
        process.wait()


def child_environment() -> dict[str, str]:
    """Return our environment, changed so that the child imports the same onnxlift as we do."""
    root = str(Path(__file__).parents[3])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def tail(log: Path) -> str:
    """Return the end of the log of a process, as a clause for a message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = file.read().decode("utf-8", "replace").strip()
    return f" Its last words:\n{text}" if text else ""


class Companion:
    """A child process that stays, and answers one question after the other. It ends with the `with` block.

    A question and its answer are one line of JSON each. The worker gets the folder `job` as its argument, which holds
    task.json. The limit of time is for each question."""

    def __init__(self, job: Path, task: dict[str, Any], who: str, limits: Limits, worker: str) -> None:
        self.job, self.who, self.limits = job, who, limits
        (job / "task.json").write_text(json.dumps(task), encoding="utf-8")
        self._log = (job / LOG).open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", worker, str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=child_environment(),
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        _kill(self.process)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with suppress(OSError):  # what was not sent is of no use any more
                    stream.close()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a question. Raises ChildError if there is none within the limits."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self._crash() from None
        line = self._line(self.process.stdout.fileno())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{self.who} failed: {answer['error']}", refused=answer.get("loaded", True))
        return answer

    def _line(self, stream: int) -> bytes:
        """Wait for a line, and keep an eye on time and memory while it does not come."""
        deadline = time.monotonic() + self.limits.seconds
        most = self.limits.bytes
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([stream], [], [], POLL_SECONDS)
            if ready:
                part = os.read(stream, 1 << 16)
                if not part:
                    raise self._crash()
                line += part
            _check_limits(self.who, self.limits, deadline, most, self.process.pid)
        return line

    def _crash(self) -> ChildError:
        code = self.process.wait()
        return ChildError(f"{self.who} crashed ({describe_exit(code)}).{tail(self.job / LOG)}", crashed=True)
