"""Exports whose child runs in this process, where torch is there already: that saves seconds for each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onnxlift.verification.children.child import ChildError, Limits
from onnxlift.verification.worker import main
from onnxlift.workbench.export import verb, worker


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run the child's program in this process. Gives the tasks that it got."""
    tasks: list[dict[str, Any]] = []

    def run_here(job: Path, task: dict[str, Any], who: str, limits: Limits, program: str) -> dict[str, Any]:
        assert program == worker.__name__
        tasks.append(task)
        (job / "task.json").write_text(json.dumps(task), encoding="utf-8")
        main(job, worker.run)
        answer: dict[str, Any] = json.loads((job / "answer.json").read_text(encoding="utf-8"))
        if "error" in answer:
            raise ChildError(f"{who} failed: {answer['error']}", answer=answer)
        return answer

    monkeypatch.setattr(verb, "run_child", run_here)
    return tasks


Here = list[dict[str, Any]]
Make = Callable[..., Any]
