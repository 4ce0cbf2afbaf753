"""Children that are forks: how they end, what they print, and that all they have started ends with them."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onnxlift.verification.children import forking
from onnxlift.verification.children.forking import Forked, can_fork
from onnxlift.verification.children.processes import describe_exit, family, kill_family, memory_of


def fail() -> None:
    raise ValueError("what it says")


def crash() -> None:
    faulthandler.disable()  # pytest's own would write to its terminal
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        (lambda: print("hello"), 0, "hello"),
        (fail, 1, "ValueError: what it says"),
        (crash, -signal.SIGSEGV, ""),
        (lambda: sys.exit(3), 3, ""),
    ],
    ids=["ends", "fails", "crashes", "exits"],
)
def test_a_fork_ends_as_a_process_does(work: object, code: int, said: str, tmp_path: Path) -> None:
    assert callable(work)
    with (tmp_path / "log").open("wb") as log:
        forked = Forked(work, log.fileno())
        assert forked.wait() == code and forked.poll() == code and forked.returncode == code
    assert said in (tmp_path / "log").read_text()
    assert describe_exit(code) == ("SIGSEGV" if code < 0 else f"exit status {code}")


def test_all_that_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    def start() -> None:
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"], start_new_session=True)
        time.sleep(60)

    with (tmp_path / "log").open("wb") as log:
        forked = Forked(start, log.fileno())
        deadline = time.monotonic() + 60
        while len(list(family(forked.pid))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        members = list(family(forked.pid))
        assert len(members) == 2 and forked.poll() is None and memory_of(forked.pid)
        kill_family(forked.pid)
        assert forked.wait() == -signal.SIGKILL
    while any(memory_of(pid) for pid in members) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(memory_of(pid) for pid in members)


def test_only_a_process_that_allows_it_and_has_one_thread_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_fork()
    text = """
import threading
from onnxlift.verification.children.forking import allow_forks, can_fork
allow_forks()
assert can_fork()
threading.Thread(target=threading.Event().wait, daemon=True).start()
assert not can_fork()
"""
    source = str(Path(forking.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0
