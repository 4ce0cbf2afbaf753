"""Prove that a file has the weights that it was given: by lifting it, and by running it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift import pipeline
from onnxlift.lifted import Lifted
from onnxlift.lifting.ops.layers import Array
from onnxlift.verification.models import ModelVerification, Run
from onnxlift.verification.report import Report
from onnxlift.verification.verify import verify

from ..report import Checking, told
from .file import ModelFile

MOST_SHOWN = 4
NO_TORCH = "torch is not installed, so the result was lifted, but not compared with the trained module"


def relifted(file: ModelFile, options: dict[str, Any], trained: Lifted) -> str:
    """Lift the file, and say which weights are not those of the trained model; nothing if all are.

    Only keys that both have are compared: weights that were equal before training may be told apart after it."""
    again, expected = pipeline.run(file.skeleton, name=trained.name, **options).state_dict, trained.state_dict
    stored, own = trained.precisions[0], trained.precisions[-1]
    wrong = [key for key in expected if key in again and not _is_same(again[key], expected[key], stored, own)]
    more = f" and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
    return f"the result lifts to other numbers for {', '.join(wrong[:MOST_SHOWN])}{more}" if wrong else ""


def _is_same(found: Array, expected: Array, stored: ir.DataType | None, own: ir.DataType | None) -> bool:
    """Tell whether a weight is what it should be, as far as the type of the file can hold it."""
    if found.shape != expected.shape:
        return False
    if stored is not None and stored != own:
        expected = expected.astype(stored.numpy())
        found = found.astype(stored.numpy())
    return bool(np.array_equal(found, expected, equal_nan=found.dtype.kind == "f"))


def compare_with_trained(
    model: Any, trained: Lifted, checking: Checking, name: str
) -> tuple[ModelVerification | None, tuple[str, ...]]:
    """Compare what ONNX Runtime computes with what the trained module does; return the result, and what to say."""
    if find_spec("torch") is None:
        return None, (NO_TORCH,)
    with told():
        report = verify(model, lifted=trained, gradients=False, **checking.options())
    assert isinstance(report, Report)
    run = Run(report.inputs, report.outputs)
    return ModelVerification("the trained module", name, report.reference, (run,), notes=report.notes), ()
