"""Run the lifted module: as it is, compiled, or as a package of AOTInductor. Called in the child process only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from onnxlift.executing import to_argument, to_result
from onnxlift.verification.candidate import load_candidate
from onnxlift.verification.children.child import loading


class LiftedEngine:
    """The lifted module: `model` is what is called. `module` has its parts; a compiled package has none."""

    def __init__(self, model: Any, outputs: list[str], module: torch.nn.Module | None = None) -> None:
        self.model = model
        self.outputs = outputs
        self.module = module

    def feed(self, inputs: Mapping[str, Any]) -> Any:
        return [to_argument(value) for value in inputs.values()]

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
    if task["engine"] == "aoti":
        from torch._inductor import aoti_load_package

        with loading():
            return LiftedEngine(aoti_load_package(task["package"]), task["outputs"])
    module = load_candidate(Path(task["source"])).model
    model = torch.compile(module) if task["engine"] == "compiled" else module
    return LiftedEngine(model, task["outputs"], module)
