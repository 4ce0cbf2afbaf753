"""Open a session of ONNX Runtime with the settings of a task. Called in the child process only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from onnxlift.verification.children.child import loading
from onnxlift.verification.reference import with_outputs
from onnxlift.verification.session_values import CAST_OUT, call_session, cast_outputs, feeds_of, named_outputs

from .options import session_options
from .settings import CPU

LARGEST_INSIDE = "1024"
"""Weights of more bytes are written beside an optimised model, so that 2 GiB are no limit."""


class Session:
    """A session that computes the `outputs` of a model."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.task = task
        self.outputs: list[str] = task["outputs"]
        with loading():
            self._open()

    def feed(self, inputs: Mapping[str, Any]) -> Any:
        return feeds_of(self.session, inputs)

    def call(self, feed: Any) -> Any:
        return call_session(self.session, self.casts, feed, self.outputs)

    def results(self, values: Any) -> dict[str, Any]:
        return named_outputs(values, self.casts, self.outputs)

    def _open(self) -> None:
        path, folder = Path(self.task["model"]), Path(self.task["folder"])
        inside: Sequence[str] = self.task.get("inside", ())
        # Given a path, ONNX Runtime reads the model piece by piece; but then the external data must lie beside it.
        model = with_outputs(path, self.outputs, inside, False) if inside or folder != path.parent else None
        optimised = self.task.get("optimised", "")
        self.session = self._start(str(path) if model is None else model.SerializeToString(), optimised)
        types = {output.name: output.type for output in self.session.get_outputs()}
        casts = {name: types[name] for name in self.outputs if types.get(name) in CAST_OUT}
        if casts:
            model = model or with_outputs(path, self.outputs, (), False)
            self.session = self._start(cast_outputs(model, casts).SerializeToString())
        self.casts: dict[str, Any] = {name: np.dtype(CAST_OUT[kind][1]) for name, kind in casts.items()}

    def _start(self, model: str | bytes, optimised: str = "") -> Any:
        options = session_options(self.task)
        if optimised:
            options.optimized_model_filepath = optimised
        if optimised and self.task.get("optimised_data"):
            name = self.task["optimised_data"]
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", name)
            entry = "session.optimized_model_external_initializers_min_size_in_bytes"
            options.add_session_config_entry(entry, LARGEST_INSIDE)
        providers = self.task["providers"] or [[CPU, {}]]
        names, settings = [name for name, _ in providers], [options for _, options in providers]
        # Without `enable_fallback=0`, a provider that does not start is left out without a word.
        return onnxruntime.InferenceSession(model, options, names, settings, enable_fallback=0)
