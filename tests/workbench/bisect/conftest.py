from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onnxlift.verification import models, sides, worker
from onnxlift.verification.children.child import ANSWER, ChildError, Limits


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Run both sides in this process instead of children, which takes a tenth of the time. Gives the tasks."""
    tasks: list[dict[str, Any]] = []

    def run(job: Path, task: dict[str, Any], who: str, limits: Limits) -> dict[str, Any]:
        tasks.append(task)
        (job / "task.json").write_text(json.dumps(task), encoding="utf-8")
        worker.main(job)
        answer: dict[str, Any] = json.loads((job / ANSWER).read_text(encoding="utf-8"))
        if "error" in answer:
            raise ChildError(f"{who} failed: {answer['error']}", refused=answer.get("loaded", True))
        return answer

    monkeypatch.setattr(models, "run_child", run)
    monkeypatch.setattr(sides, "run_child", run)
    return tasks
