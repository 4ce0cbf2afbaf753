"""Start children as forks of a server that has imported what they need (`fork_server.py`), on Linux.

There is one server for this process. It is started with the first child, ends with us, and is started anew if it has
ended for want of work, or if our environment has changed since.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CHANGING = frozenset({"PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "_", "COLUMNS", "LINES"})
"""Variables that change all the time, and that no child needs."""
_POLL_SECONDS = 0.02
_LOST = -9  # the return code of a child whose server is gone: it was killed with it


class ServerGoneError(Exception):
    """The server has ended."""


@dataclass
class WarmChild:
    """A child of the server, with what we need of `subprocess.Popen`."""

    server: _Server
    number: int
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """Return the return code; None while it runs."""
        if self.returncode is None:
            self.returncode = self.server.code_of(self.number)
        return self.returncode

    def wait(self) -> int | None:
        """Wait for its end, and return the return code."""
        while self.poll() is None:
            time.sleep(_POLL_SECONDS)
        return self.returncode


def start_warm(
    worker: str, job: Path, log: Path, imports: Sequence[str], environment: Mapping[str, str]
) -> WarmChild | None:
    """Start a worker as a fork of the server; None if there can be none."""
    if sys.platform != "linux":  # elsewhere, a fork of a process with libraries like these is not safe
        return None
    with _LOCK:
        for _ in range(2):  # the server may end for want of work just now
            try:
                return _server_for(environment).start(worker, job, log, imports)
            except ServerGoneError:
                _SERVERS.clear()
    return None


@dataclass
class _Server:
    """The server, and what it has told of its children."""

    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]
    owner: int = field(default_factory=os.getpid)
    next_number: int = 0
    unread: bytes = b""
    pids: dict[int, int] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, worker: str, job: Path, log: Path, imports: Sequence[str]) -> WarmChild:
        """Ask for a child, and wait until it is started."""
        with self.lock:
            self.next_number += 1
            number = self.next_number
            task: dict[str, Any] = {
                "number": number,
                "worker": worker,
                "job": str(job.absolute()),
                "log": str(log.absolute()),
                "imports": list(imports),
                "folder": str(Path.cwd()),
            }
            assert self.process.stdin is not None
            try:
                self.process.stdin.write(json.dumps(task).encode() + b"\n")
                self.process.stdin.flush()
            except OSError as error:
                raise ServerGoneError from error
            while number not in self.pids:
                self._read(wait=True)
            return WarmChild(self, number, self.pids.pop(number))

    def code_of(self, number: int) -> int | None:
        """Return the return code of a child; None while it runs."""
        with self.lock:
            try:
                self._read(wait=False)
            except ServerGoneError:
                return self.codes.pop(number, _LOST)
            return self.codes.pop(number, None)

    def _read(self, *, wait: bool) -> None:
        """Take in what the server tells."""
        assert self.process.stdout is not None
        answers = self.process.stdout.fileno()
        while select.select([answers], [], [], None if wait else 0)[0]:
            wait = False
            data = os.read(answers, 1 << 16)
            if not data:
                raise ServerGoneError
            *lines, self.unread = (self.unread + data).split(b"\n")
            for line in lines:
                told = json.loads(line)
                known = self.pids if "pid" in told else self.codes
                known[told["number"]] = told.get("pid", told.get("code"))


def _server_for(environment: Mapping[str, str]) -> _Server:
    """Return the server of this process, for children with this environment."""
    environment = {name: value for name, value in environment.items() if name not in _CHANGING}
    server = _SERVERS.get(0)
    if server is not None and server.owner == os.getpid() and server.environment == environment:
        return server
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "onnxlift.verification.children.fork_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    _SERVERS[0] = _Server(process, environment)
    return _SERVERS[0]


_LOCK = threading.Lock()
_SERVERS: dict[int, _Server] = {}
"""The server, under 0, if there is one."""
