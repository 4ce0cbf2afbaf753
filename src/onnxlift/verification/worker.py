"""The program of the child process: `python -m onnxlift.verification.worker FOLDER`.

It reads FOLDER/task.json, runs one side on FOLDER/inputs, and writes FOLDER/SIDE and FOLDER/answer.json. The task may
name other files for inputs and results.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from .values import read_values, write_values


def main(folder: Path) -> None:
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    try:
        outputs, answer = _run(task, read_values(folder / task.get("inputs", "inputs")))
        write_values(folder / task.get("results", task["side"]), outputs)
    except Exception as error:
        cause = error.__cause__ if type(error).__name__ == "LoadingError" and error.__cause__ is not None else error
        text = f"{type(cause).__name__}: {str(cause).strip()[:2000]}{_place(cause, task)}"
        answer = {"error": text, "loaded": cause is error}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _run(task: dict[str, Any], inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if task["side"] == "reference":
        from .reference import run_reference

        model, folder = Path(task["model"]), Path(task["folder"])
        how = {"exact": task["exact"], **{name: task.get(name, False) for name in ("optimised", "nudged")}}
        name, outputs = run_reference(model, folder, inputs, task["outputs"], task["inside"], task["runtime"], **how)
        return outputs, {"runtime": name}
    from .candidate import run_candidate

    types = task.get("types") or {}
    return run_candidate(Path(task["source"]), inputs, task["outputs"], task["probes"], types, task.get("dtype")), {}


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
