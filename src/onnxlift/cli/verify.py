"""`onnxlift verify` runs the lifted model and the ONNX model on the same inputs, and compares their outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import (
    Atol,
    Dim,
    Dtype,
    Input,
    Json,
    Memory,
    Model,
    NoSimplify,
    Rtol,
    Seed,
    Shape,
    SkipPass,
    Timeout,
    parse_dims,
    parse_shapes,
    progress,
)
from .outcome import NO, Outcome


def verify(
    model: Model,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Verify this saved file (.py), perhaps edited: its code is executed. Or compare with another ONNX "
            "model (.onnx), which should compute the same.",
        ),
    ] = None,
    input: Input = None,
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Compare values inside the model, too, and list them up to the first difference."),
    ] = False,
    no_gradients: Annotated[
        bool, typer.Option("--no-gradients", help="Do not call the lifted model with gradients on as well.")
    ] = False,
    no_simplify: NoSimplify = False,
    skip_pass: SkipPass = None,
    dtype: Dtype = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Run the lifted model and ONNX Runtime on the same inputs, and compare.

    Inputs that are not given are made up from the model. If an output differs, the report shows the first value inside
    the model that does, and the line of source that computes it. The lifted model is also called with gradients on,
    forward and backward, and the report says which parameters get none. The exit status is 1 unless everything matches
    and that works.

    Example: onnxlift verify resnet50.onnx --dim batch=4

    Example: onnxlift verify bert.onnx --against out/bert.py --input tokens.npz --trace

    With another ONNX model as --against, nothing is lifted: both run in ONNX Runtime, at two sizes where sizes are
    open, and must compute the same.

    Example: onnxlift verify resnet50.onnx --against smaller.onnx
    """
    from onnxlift.verification import verify

    how: dict[str, Any] = {
        "inputs": input or None,
        "shapes": parse_shapes(shape or ()),
        "dims": parse_dims(dim or ()),
        "seed": seed,
        "rtol": rtol,
        "atol": atol,
        "timeout": timeout,
        "memory": memory,
    }
    with progress(f"Verifying {model.name}"):
        report = verify.verify(
            model,
            against=against,
            trace=trace,
            gradients=not no_gradients,
            simplify=not no_simplify,
            skip_passes=skip_pass or (),
            dtype=dtype,
            **how,
        )
        data, text = report.to_dict(), str(report)
        if trace and against is not None and not verify.is_python(against):
            from onnxlift.workbench.bisect import bisect

            found = bisect(model, against, trace=True, **how)
            data |= {name: found.to_dict()[name] for name in ("trace", "culprit")}
            text = f"{text}\n\n{found.details(show_all=True)}"
    Outcome(report.passed, data, text).show("verify", str(model), json=json)
    if not report.passed:
        raise typer.Exit(NO)
