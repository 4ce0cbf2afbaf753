"""The program of the child process: `python -m onnxlift.workbench.runtime.worker FOLDER`.

It opens a session as FOLDER/task.json says, runs it on FOLDER/inputs, and writes FOLDER/results and FOLDER/answer.json.
The task may ask for several runs, and for a trace: the answer then sums it up by kernel.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from onnxlift.verification.worker import Done, main

from .trace import kernel_rows, read_trace


def _run(task: dict[str, Any], inputs: dict[str, Any]) -> Done:
    import onnxruntime

    from .session import Session

    session = Session(task)
    warmup, runs = task.get("warmup", 0), task.get("runs", 1)
    outputs: dict[str, Any] = {}
    for _ in range(warmup + runs):
        outputs = session.run(inputs)
    answer: dict[str, Any] = {
        "runtime": f"ONNX Runtime {onnxruntime.__version__}",
        "providers": session.session.get_providers(),
    }
    if task.get("profile"):
        written = Path(session.session.end_profiling())
        trace = read_trace(written, warmup)
        answer |= {"kernels": kernel_rows(trace.kernels), "runs": list(trace.runs), "is_cut": trace.is_cut}
        if task.get("trace"):
            shutil.move(written, task["trace"])
    return outputs, answer, None


if __name__ == "__main__":
    main(Path(sys.argv[1]), _run)
