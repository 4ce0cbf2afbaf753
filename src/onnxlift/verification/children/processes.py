"""What the kernel knows of a process and of those that it has started: their memory, and how to end them all."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def kernel_bytes(path: Path, title: str) -> int | None:
    """Return a number of bytes from the line `title` of a file under /proc, which has kB; None if there is none."""
    try:
        found = path.read_text().partition(f"\n{title}")[2]
    except OSError:
        return None
    return int(found.split(maxsplit=1)[0]) * 1024 if found else None


def memory_of(pid: int) -> int | None:
    """Return the bytes that a process has taken for itself; None if nobody knows."""
    return kernel_bytes(Path(f"/proc/{pid}/status"), "RssAnon:")


def free_memory() -> int | None:
    """Return the bytes that are free on this machine; None if nobody knows."""
    return kernel_bytes(Path("/proc/meminfo"), "MemAvailable:")


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that it has started, and that these have."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text(encoding="ascii").split():
                yield from family(int(child))


def family_memory(pid: int) -> int:
    """Return the bytes that a process and all that it has started have taken for themselves."""
    return sum(memory_of(each) or 0 for each in family(pid))


def kill_family(pid: int) -> None:
    """End a process, which leads a group of its own, and all that it has started."""
    if not hasattr(os, "killpg"):  # Windows
        os.kill(pid, signal.SIGTERM)
        return
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # it starts no more while we look
    for each in list(family(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    kill_group(pid)


def kill_group(pid: int) -> None:
    """End what is left of the group of a process."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """Return how a process has ended, by its return code: `SIGSEGV` or `exit status 3`."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def fork(work: Callable[[], None], log: int) -> int:
    """Do the work in a forked child, which leads a group of its own and ends when we do; return its process id.

    What it prints goes to the file `log`. Its exit status is 0 if the work raises nothing."""
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _in_child(work, log, parent)
    return pid


def _in_child(work: Callable[[], None], log: int, parent: int) -> NoReturn:
    """Do the work, and end the process without anything that its parent has planned for its own end."""
    import resource

    status = 1
    try:
        os.setsid()
        _die_with(parent)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silent = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((silent, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        sys.stdout = sys.stderr = io.TextIOWrapper(
            io.FileIO(1, "w", closefd=False), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        work()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _die_with(parent: int) -> None:
    """Let this process end as soon as its parent does, however that ends. Only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
