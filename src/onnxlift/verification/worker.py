"""The program of the child process: `python -m onnxlift.verification.worker FOLDER`.

It reads FOLDER/task.json, runs one side on FOLDER/inputs, and writes FOLDER/SIDE and FOLDER/answer.json. The task may
name other files for inputs and results. The lifted side then goes forward and backward with gradients on, if the task
says so, and adds to its answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .child import ANSWER, LoadingError
from .values import read_values, write_values

Answer = dict[str, Any]


def main(folder: Path) -> None:
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    inputs = read_values(folder / task.get("inputs", "inputs"))
    train: Callable[[], Answer] | None = None
    try:
        outputs, answer, train = _run(task, inputs)
        write_values(folder / task.get("results", task["side"]), outputs)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, LoadingError) and error.__cause__ is not None else error
        text = f"{type(cause).__name__}: {str(cause).strip()[:2000]}{_place(cause, task)}"
        answer = {"error": text, "loaded": cause is error}
    _write(answer, folder)
    if train is not None:  # by now the outputs are safe: it may take more than is allowed
        _write({**answer, "gradients": train()}, folder)


def _run(task: dict[str, Any], inputs: dict[str, Any]) -> tuple[dict[str, Any], Answer, Callable[[], Answer] | None]:
    """Run one side. Return its outputs, its answer, and what is to be done when both are written."""
    if task["side"] == "reference":
        from .reference import run_reference

        model, folder = Path(task["model"]), Path(task["folder"])
        how = {"exact": task["exact"], **{name: task.get(name, False) for name in ("optimised", "nudged", "only")}}
        name, outputs = run_reference(model, folder, inputs, task["outputs"], task["inside"], task["runtime"], **how)
        return outputs, {"runtime": name}, None
    if task["side"] == "export":
        from .exporting import export_candidate

        target, shapes = Path(task["target"]), task["open_sizes"]
        export_candidate(Path(task["source"]), inputs, task["outputs"], shapes, target, task.get("types"))
        return {}, {}, None
    from .candidate import load_candidate
    from .gradients import find_gradients

    candidate = load_candidate(Path(task["source"]), task["probes"], task.get("types"), task.get("dtype"))
    outputs = candidate.run(inputs, task["outputs"])
    if not task.get("gradients"):
        return outputs, {}, None
    arguments = partial(candidate.arguments, inputs)
    return outputs, {}, lambda: find_gradients(candidate.model, arguments, lambda error: _place(error, task))


def _write(answer: Answer, folder: Path) -> None:
    """Write the answer in one piece: the process may be stopped at any time."""
    (folder / "answer.part").write_text(json.dumps(answer), encoding="utf-8")
    (folder / "answer.part").replace(folder / ANSWER)


def _place(error: BaseException, task: dict[str, Any]) -> str:
    """Return the line of the lifted source in which the error happened, as a clause; empty if it was elsewhere."""
    traceback, line = error.__traceback__, None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == task.get("source"):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    if isinstance(error, SyntaxError) and error.filename == task.get("source"):
        return ""  # its text tells the line
    return "" if line is None else f" (line {line} of {Path(task['source']).name})"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
