"""Tell whether a runtime takes an edited model: it runs on made-up inputs, in a child with limits."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, VerifyError
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.weights import data_files
from onnxlift.sizes import parse_size
from onnxlift.verification.children.child import ChildError, Limits, run_child
from onnxlift.verification.given import Given, read_given
from onnxlift.verification.model_file import model_file
from onnxlift.verification.refusals import other_sizes, refusal
from onnxlift.verification.values import write_values

from ..report import Checking
from .report import EditReport

MOST_SIZES = 8
"""How many other sizes are tried if a model refuses the first."""


def runs(report: EditReport, original: Any, options: Checking) -> EditReport:
    """Return the report with what ONNX Runtime says to the model. Its refusal counts if it takes the original.

    A model that is loaded, and then refuses the inputs that were made up, may be right: a note tells of it. `options`
    say which inputs are given, and what a run may take."""
    if find_spec("onnxruntime") is None:
        return replace(report, notes=(*report.notes, "ONNX Runtime is not installed, so the result was not run"))
    try:
        return replace(report, runtime=_run(report.model, options))
    except ChildError as error:
        if error.refused:
            note = f"ONNX Runtime loads the model, and refuses the inputs that were made up: {refusal(error)}"
            return replace(report, notes=(*report.notes, note))
        reason = refusal(error)
    except VerifyError as error:
        return replace(report, notes=(*report.notes, f"not run on made-up inputs: {error}"))
    try:
        _run(original, options)
    except ChildError as error:
        if not error.refused:
            note = f"ONNX Runtime does not take the model, as it does not take the original: {reason}"
            return replace(report, notes=(*report.notes, note))
    except OnnxLiftError:
        pass  # the original is broken, and the result is meant to be right
    return replace(report, refusal=reason)


def _run(source: Any, options: Checking) -> str:
    """Run a model on made-up inputs, of other sizes if it refuses the first; return the name of the runtime."""
    model: ir.Model = load(source)
    infer(model)
    given = Given(read_given(options.inputs), options.shapes, options.dims, options.seed)
    limits = Limits(options.timeout, None if options.memory is None else parse_size(options.memory))
    sizes = given.sizes(model.graph)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        job = Path(folder)
        file = model_file(source, data_files(model), job)
        task = {
            "side": "reference",
            "model": str(file.path),
            "folder": str(file.folder),
            "outputs": [value.name for value in model.graph.outputs],
            "inside": [],
            "exact": False,
            "runtime": "onnxruntime",
        }
        refused: ChildError | None = None
        for other in (None, *islice(other_sizes(sizes.chosen, sizes.leading), MOST_SIZES)):
            write_values(job / "inputs", given.make(model.graph, sizes=other))
            try:
                return str(run_child(job, task, "the model", limits)["runtime"])
            except ChildError as error:
                if not error.refused:
                    raise
                refused = refused or error
        assert refused is not None
        raise refused
