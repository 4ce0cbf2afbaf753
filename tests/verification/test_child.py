"""A child that hangs, crashes, takes too much or fails becomes one clear error, and never a hang of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onnxlift.errors import VerifyError
from onnxlift.verification.child import ChildError, Limits, run_child

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
