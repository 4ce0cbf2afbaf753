"""The ways to run a model in a child: ONNX Runtime, with operators in Python too, and the lifted module.

An engine takes inputs in its own form (`feed`), runs on them (`call`), and turns what it gives into arrays by name
(`results`), so that a run can be measured without the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import onnx


class Engine(Protocol):
    """A model that is ready to run."""

    def feed(self, inputs: Mapping[str, Any]) -> Any:
        """Return the inputs in the form that `call` takes."""
        ...

    def call(self, feed: Any) -> Any:
        """Run the model once."""
        ...

    def results(self, values: Any) -> dict[str, Any]:
        """Return what `call` gave as outputs by name."""
        ...


def open_engine(task: Mapping[str, Any]) -> Engine:
    """Return the engine that a task asks for."""
    if task.get("engine", "ort") != "ort":
        from .torch_engines import open_torch_engine

        return open_torch_engine(task)
    from .session import Session

    if not task.get("python"):
        return Session(task)
    from .python_ops import PythonSession, execute_files, extension_library

    operators = execute_files(task["python"])
    library = extension_library()
    task = {**task, "libraries": [*task["libraries"], *([library] if library else [])]}
    if not operators:
        return Session(task)
    return PythonSession(onnx.load(Path(task["model"]), load_external_data=False), task["outputs"], operators, task)
