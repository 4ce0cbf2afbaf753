"""The program of the child process: `python -m onnxlift.verification.worker FOLDER`.

It reads FOLDER/task.json, runs one side on FOLDER/inputs, and writes FOLDER/SIDE and FOLDER/answer.json. The task may
name other files for inputs and results. The lifted side then goes forward and backward with gradients on, if the task
says so, and adds to its answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .children.child import ANSWER, LoadingError
from .values import read_values, write_values

Answer = dict[str, Any]
Ran = tuple[dict[str, Any], Answer, Callable[[], Answer] | None]
"""The outputs of a side, its answer, and what is to be done when both are written."""
Run = Callable[[dict[str, Any], dict[str, Any]], Ran]


def main(folder: Path, run: Run | None = None) -> None:
    """Do the task in the folder: by `run`, which is given the task and the inputs, or else as a side of `verify`."""
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    inputs = read_values(folder / task.get("inputs", "inputs"))
    train: Callable[[], Answer] | None = None
    try:
        outputs, answer, train = (run or _run)(task, inputs)
        write_values(folder / (task.get("results") or task["side"]), outputs)
    except Exception as error:
        answer = error_answer(error, task)
    _write(answer, folder)
    if train is not None:  # by now the outputs are safe: it may take more than is allowed
        _write({**answer, "gradients": train()}, folder)


def serve(answer: Callable[[dict[str, Any]], Answer], task: dict[str, Any]) -> None:
    """Answer the questions that come in, a line of JSON each, until there are no more (see `Companion`)."""
    # Whatever a library prints goes to the log: answers have a stream of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:  # ONNX Runtime and torch raise errors of no common type; the child must answer
            found = error_answer(error, task)
        print(json.dumps(found), file=answers, flush=True)


def error_answer(error: Exception, task: dict[str, Any]) -> Answer:
    """Return the answer that says what went wrong, and whether the model had been loaded before that."""
    cause = error.__cause__ if isinstance(error, LoadingError) and error.__cause__ is not None else error
    text = f"{type(cause).__name__}: {str(cause).strip()[:2000]}{_place(cause, task)}"
    return {"error": text, "loaded": cause is error, "lines": _lines(cause, task)}


def _run(task: dict[str, Any], inputs: dict[str, Any]) -> Ran:
    """Run one side."""
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


def _lines(error: BaseException, task: dict[str, Any]) -> list[int]:
    """Return the lines of the lifted source that were being executed when the error happened, the innermost last."""
    traceback, lines = error.__traceback__, []
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == task.get("source"):
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return lines


def _place(error: BaseException, task: dict[str, Any]) -> str:
    """Return the line of the lifted source in which the error happened, as a clause; empty if it was elsewhere."""
    lines = _lines(error, task)
    if isinstance(error, SyntaxError) and error.filename == task.get("source"):
        return ""  # its text tells the line
    return f" (line {lines[-1]} of {Path(task['source']).name})" if lines else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
