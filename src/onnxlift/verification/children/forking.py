"""Start children by forking, where that is safe: they have everything imported from the start.

A Python that imports torch takes seconds to start, a fork milliseconds. But a fork has only one of the threads of its
parent, and may wait for ever for what the others have held. So we fork only from a process that has said that its
children may be forks (one that was forked itself, from a server that has imported what they need), and only as long as
it has no other thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .processes import fork

_ALLOWED = False


def allow_forks() -> None:
    """Say that children of this process may be forks of it, from now on."""
    global _ALLOWED
    _ALLOWED = True


def can_fork() -> bool:
    """Tell whether a child may be a fork of this process as it is now."""
    if not _ALLOWED:
        return False
    threads = Path("/proc/self/task")
    return threads.is_dir() and sum(1 for _ in threads.iterdir()) == 1


class Forked:
    """A forked child, with what we need of `subprocess.Popen`."""

    def __init__(self, work: Callable[[], None], log: int) -> None:
        self.pid = fork(work, log)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the return code; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end, and return the return code."""
        return self._wait(0)

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
