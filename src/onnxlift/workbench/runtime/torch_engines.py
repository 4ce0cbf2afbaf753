"""Run the lifted module: as it is, compiled, or as a package of AOTInductor. Called in the child process only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from onnxlift.executing import to_result
from onnxlift.verification.candidate import Candidate, load_candidate
from onnxlift.verification.child import loading


class LiftedEngine:
    """The lifted module. `model` is what is called."""

    def __init__(self, candidate: Candidate, model: Any, outputs: list[str]) -> None:
        self.candidate = candidate
        self.model = model
        self.outputs = outputs

    def feed(self, inputs: Mapping[str, Any]) -> Any:
        return self.candidate.arguments(inputs)

    def call(self, feed: Any) -> Any:
        with torch.inference_mode():
            return self.model(*feed)

    def results(self, values: Any) -> dict[str, Any]:
        given = values if isinstance(values, tuple | list) and len(self.outputs) != 1 else (values,)
        if len(given) != len(self.outputs):
            raise TypeError(f"forward returned {len(given)} values, and the ONNX model has {len(self.outputs)} outputs")
        return {name: to_result(value) for name, value in zip(self.outputs, given, strict=True)}


def open_torch_engine(task: Mapping[str, Any]) -> LiftedEngine:
    """Return the lifted module as the task asks for it: `lifted`, `compiled`, or `aoti`."""
    if task.get("threads"):
        torch.set_num_threads(task["threads"])
    candidate = load_candidate(Path(task["source"]), None, task.get("types"))
    model: Any = candidate.model
    with loading():
        if task["engine"] == "compiled":
            model = torch.compile(candidate.model)
        elif task["engine"] == "aoti":
            from torch._inductor import aoti_load_package

            model = aoti_load_package(task["package"])
    return LiftedEngine(candidate, model, task["outputs"])
