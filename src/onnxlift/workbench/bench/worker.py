"""The program of a child that is measured: `python -m onnxlift.workbench.bench.worker FOLDER`.

It opens an engine as FOLDER/task.json says, and answers questions until it is stopped. The first one opens the engine.
After that, `{"runs": 5}` runs the model once without the clock and five times with it, and tells the seconds of each:
of the clock, or of the processor if the task says so.
"""

from __future__ import annotations

import gc
import json
import sys
from importlib import import_module
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from onnxlift.verification.values import read_values
from onnxlift.verification.worker import serve

from ..runtime.engines import Engine, open_engine


def main(folder: Path) -> None:
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    serve(_Measured(task, folder).answer, task)


class _Measured:
    """An engine and its inputs. It is opened by the first question."""

    def __init__(self, task: dict[str, Any], folder: Path) -> None:
        self.task = task
        self.folder = folder
        self.engine: Engine | None = None
        self.feed: Any = None
        self.before = 0

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if self.engine is None:
            self._import()
            self.before = _status("VmRSS:")
            start = perf_counter()
            self.engine = open_engine(self.task)
            self.feed = self.engine.feed(read_values(self.folder / "inputs"))
            loaded = perf_counter()
            self.engine.call(self.feed)
            return {"load": loaded - start, "first": perf_counter() - loaded}
        self.engine.call(self.feed)  # other processes have used the caches since the last question
        seconds: list[float] = []
        now = process_time if self.task.get("processor") else perf_counter
        gc.disable()
        for _ in range(question["runs"]):
            start = now()
            self.engine.call(self.feed)
            seconds.append(now() - start)
        gc.enable()
        peak = _status("VmHWM:")
        return {"seconds": seconds, "peak": peak, "memory": max(0, peak - self.before)}

    def _import(self) -> None:
        """Import what the engine needs, so that it counts neither as loading nor as the model's memory."""
        import_module(f"onnxlift.workbench.runtime.{'session' if self.task['engine'] == 'ort' else 'torch_engines'}")


def _status(title: str) -> int:
    """Return a number of bytes that the system tells of this process; 0 if it does not."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.is_file() else []
    found = next((line for line in lines if line.startswith(title)), "")
    return int(found.split()[1]) * 1024 if found else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
