"""The program of the child process: `python -m onnxlift.workbench.runtime.worker FOLDER`.

It opens an engine as FOLDER/task.json says, runs it on FOLDER/inputs, and writes FOLDER/results and FOLDER/answer.json.
The task may ask for several runs, and for a trace: the answer then sums it up by kernel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from onnxlift.verification.worker import Ran, main

from .engines import open_engine
from .trace import kernel_rows, read_trace


def _run(task: dict[str, Any], inputs: dict[str, Any]) -> Ran:
    if task.get("engine", "ort") != "ort":
        return _run_lifted(task, inputs)
    import onnxruntime

    from .session import Session

    engine = open_engine(task)
    warmup, values, feed = task.get("warmup", 0), None, engine.feed(inputs)
    for _ in range(warmup + task.get("runs", 1)):
        values = engine.call(feed)
    answer: dict[str, Any] = {"runtime": f"ONNX Runtime {onnxruntime.__version__}"}
    if isinstance(engine, Session):
        answer |= {"providers": engine.session.get_providers(), **_trace(engine.session, task, warmup)}
    else:
        answer["in_python"] = getattr(engine, "nodes_in_python", 0)
    return engine.results(values), answer, None


def _run_lifted(task: dict[str, Any], inputs: dict[str, Any]) -> Ran:
    import torch

    from .torch_engines import open_torch_engine
    from .torch_trace import traced

    engine = open_torch_engine(task)
    values, summary = traced(engine, engine.feed(inputs), task)
    return engine.results(values), {"runtime": f"PyTorch {torch.__version__}", **summary}, None


def _trace(session: Any, task: dict[str, Any], warmup: int) -> dict[str, Any]:
    if not task.get("profile"):
        return {}
    written = Path(session.end_profiling())
    trace = read_trace(written, warmup)
    if task.get("trace"):
        shutil.move(written, task["trace"])
    return {"kernels": kernel_rows(trace.kernels), "runs": list(trace.runs), "is_cut": trace.is_cut}


if __name__ == "__main__":
    main(Path(sys.argv[1]), _run)
