"""A child that hangs, crashes, takes too much or fails becomes one clear error, and never a hang of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import onnxlift
from onnxlift.errors import VerifyError
from onnxlift.verification.children.child import WORKER as WARM
from onnxlift.verification.children.child import ChildError, Limits, child_environment, run_child
from onnxlift.verification.children.warm import WarmChild, start_warm

WORKER = "import sys, pathlib, json, os, time; folder = pathlib.Path(sys.argv[1])\n"


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, limits: Limits) -> object:
    (tmp_path / "naughty.py").write_text(WORKER + code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return run_child(tmp_path, {"a": 1}, "the model", limits, worker="naughty")


def test_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "(folder / 'answer.json').write_text((folder / 'task.json').read_text())"
    assert run(tmp_path, monkeypatch, code, Limits()) == {"a": 1}


@pytest.mark.parametrize(
    ("code", "limits", "message"),
    [
        ("time.sleep(60)", Limits(seconds=0.3), r"the model did not finish within 0\.3 seconds"),
        (
            "b = [bytearray(20 << 20) for _ in range(100)]; time.sleep(60)",
            Limits(memory=200 << 20),
            "took more than 209",
        ),
        ("print('last words', flush=True); os.abort()", Limits(), r"crashed \(SIGABRT\)\. Its last words:\nlast words"),
        ("sys.exit(7)", Limits(), r"crashed \(exit status 7\)"),
        (
            """(folder / 'answer.json').write_text('{"error": "no such op"}')""",
            Limits(),
            "the model failed: no such op",
        ),
    ],
    ids=["time", "memory", "abort", "exit", "error"],
)
def test_failures(code: str, limits: Limits, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    with pytest.raises(VerifyError, match=message) as caught:
        run(tmp_path, monkeypatch, code, limits)
    assert time.monotonic() - started < 30
    assert isinstance(caught.value, ChildError)
    assert caught.value.crashed == ("crashed" in str(caught.value))


def test_the_working_folder_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "numpy.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path / "here")
    code = "import numpy; (folder / 'answer.json').write_text('{}')"
    assert run(tmp_path, monkeypatch, code, Limits()) == {}


# Children that are forks of a server


def test_sides_are_forks_of_one_server_and_end_with_their_own_codes(tmp_path: Path) -> None:
    environment = child_environment()
    (tmp_path / "task.json").write_text("{}")  # a task without a side: the worker fails
    children = [start_warm(WARM, tmp_path, tmp_path / "log.txt", (), environment) for _ in range(2)]
    assert all(isinstance(child, WarmChild) for child in children)
    assert [child.wait() for child in children if child is not None] == [1, 1]
    assert len({child.pid for child in children if child is not None}) == 2
    assert len({child.server.process.pid for child in children if child is not None}) == 1
    assert "Error" in (tmp_path / "log.txt").read_text()


def test_another_environment_has_another_server(tmp_path: Path) -> None:
    (tmp_path / "naughty.py").write_text(WORKER + "(folder / os.environ['WHICH']).touch()")
    for which in ("one", "two"):
        environment = {**child_environment(), "PYTHONPATH": f"{Path(onnxlift.__file__).parents[1]}:{tmp_path}"}
        child = start_warm("naughty", tmp_path, tmp_path / "log.txt", (), {**environment, "WHICH": which})
        assert child is not None and child.wait() == 0, (tmp_path / "log.txt").read_text()
        assert (tmp_path / which).exists()


def test_a_server_that_was_killed_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text("{}")
    first = start_warm(WARM, tmp_path, tmp_path / "log.txt", (), child_environment())
    assert first is not None
    first.wait()
    first.server.process.kill()
    first.server.process.wait()
    second = start_warm(WARM, tmp_path, tmp_path / "log.txt", (), child_environment())
    assert second is not None and second.wait() == 1
    assert second.server is not first.server


def test_a_child_whose_server_was_killed_counts_as_killed(tmp_path: Path) -> None:
    (tmp_path / "naughty.py").write_text(WORKER + "time.sleep(60)")
    environment = {**child_environment(), "PYTHONPATH": f"{Path(onnxlift.__file__).parents[1]}:{tmp_path}"}
    child = start_warm("naughty", tmp_path, tmp_path / "log.txt", (), environment)
    assert child is not None and child.poll() is None
    child.server.process.kill()
    assert child.wait() == -9
