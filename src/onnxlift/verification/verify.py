"""`verify` runs the lifted model and the ONNX model on the same inputs, each in its own child process, and compares."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.api import lift
from onnxlift.lifted import Lifted
from onnxlift.sizes import parse_size

from .children.child import ChildError, Limits
from .compare import describe
from .given import Given, Inputs, read_given
from .judge import Judge, compare_outputs
from .models import ModelVerification, verify_models
from .report import Report
from .sides import Sides
from .values import write_values


def verify(
    source: Any,
    *,
    lifted: Lifted | None = None,
    against: Any = None,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    trace: bool = False,
    gradients: bool = True,
    timeout: float = 300.0,
    memory: int | str | None = None,
    **options: Any,
) -> Report | ModelVerification:
    """Compare the lifted model with ONNX Runtime on the same inputs, and return a report.

    The report says whether the two match and, if not, where they first differ. With `trace`, values inside the model
    are compared even if the outputs match, and the report lists them up to the first that differs. The lifted model is
    also called with gradients on, forward and backward: the report says which parameters get none, and if that fails,
    so does the verification. `gradients=False` leaves it out, since it takes some times as long as the call without.

    `inputs` are arrays by name or in order, or files (.npy, .npz, .pb). Inputs that are missing are made up from the
    model; `shapes` gives shapes of inputs, `dims` sizes of named dimensions. `rtol` and `atol` replace the tolerances
    of the types. `against` names a saved file `.py`, perhaps edited, that is verified instead of a fresh one: **it is
    executed**. If `against` is another ONNX model, nothing is lifted: it is compared with `source`, at two sizes where
    sizes are open. Each side may take `timeout` seconds and `memory` bytes. `lifted` is the result of lifting `source`,
    if you have it; without it, `source` is lifted here, with `options` of `lift`."""
    if hasattr(source, "read"):
        source = source.read()
    if against is not None and not is_python(against):
        how: dict[str, Any] = {"inputs": inputs, "shapes": shapes, "dims": dims, "seed": seed}
        return verify_models(source, against, **how, rtol=rtol, atol=atol, timeout=timeout, memory=memory)
    if lifted is None:
        lifted = lift(source, **options)
    limits = Limits(timeout, None if memory is None else parse_size(memory))
    graph = lifted.model.graph
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    values = given.make(graph, lifted.stored_types)
    judge = Judge(graph, rtol, atol, lifted.precisions)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        sides = Sides(Path(folder), source, lifted, against, limits, gradients)
        write_values(sides.job / "inputs", values)
        try:
            result = sides.run(look_inside=trace)
        except ChildError as error:
            values = sides.find_inputs(given, values, error)
            result = sides.run(look_inside=trace)
        compared = compare_outputs(graph, result.actual, result.expected, judge)
        if not all(each.passed for each in compared) and sides.multiply_bytes:
            sides.exact = True
            result = sides.run(look_inside=trace)
            compared = compare_outputs(graph, result.actual, result.expected, judge)
        if not all(each.passed for each in compared) and not judge.is_given:
            judge.others = sides.run_otherwise(judge.nudged(values))
            compared = compare_outputs(graph, result.actual, result.expected, judge)
        report = Report(
            name=sides.source.name if against else lifted.name,
            reference=result.runtime,
            inputs={name: describe(value) for name, value in values.items()},
            outputs=compared,
            seed=seed,
            notes=(SLOW,) if lifted.precisions[-1:] == (ir.DataType.FLOAT16,) else (),
            gradients=sides.gradients,
        )
        if report.matches and not trace:
            return report
        if not trace:
            try:
                result = sides.run(look_inside=True)
            except ChildError as error:
                return replace(report, notes=(*report.notes, f"cannot look inside: {error}"))
        return sides.locate(report, result, judge, trace=trace)


def is_python(against: Any) -> bool:
    """Tell whether a model is to be verified against a file of Python, and not against another ONNX model."""
    return isinstance(against, str | os.PathLike) and Path(against).suffix == ".py"


SLOW = "it ran in float16, which takes seconds a layer on a CPU; lifted in float32 it is faster (--dtype float32)"
