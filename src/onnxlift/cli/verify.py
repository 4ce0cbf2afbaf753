"""`onnxlift verify` runs the lifted model and the ONNX model on the same inputs, and compares their outputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .each import run_each
from .options import (
    Atol,
    Dim,
    Dtype,
    Input,
    Jobs,
    Json,
    Memory,
    Models,
    NoSimplify,
    Quiet,
    Rtol,
    Seed,
    Shape,
    SkipPass,
    Timeout,
    parse_dims,
    parse_shapes,
)
from .outcome import Outcome


def verify(
    models: Models,
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
    jobs: Jobs = 1,
    quiet: Quiet = False,
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
    work = partial(
        _verify,
        against=against,
        trace=trace,
        gradients=not no_gradients,
        simplify=not no_simplify,
        skip_passes=skip_pass or (),
        dtype=dtype,
        inputs=input or None,
        shapes=parse_shapes(shape or ()),
        dims=parse_dims(dim or ()),
        seed=seed,
        rtol=rtol,
        atol=atol,
        timeout=timeout,
        memory=memory,
    )
    run_each("verify", models, work, json=json, quiet=quiet, jobs=jobs)


_LIFTING = ("gradients", "simplify", "skip_passes", "dtype")


def _verify(source: Path | bytes, name: str, *, against: Path | None, trace: bool, **options: Any) -> Outcome:
    from onnxlift.verification import verify

    report = verify.verify(source, against=against, trace=trace, **options)
    data, text = report.to_dict(), str(report)
    if trace and against is not None and not verify.is_python(against):
        from onnxlift.workbench.bisect import bisect

        running = {name: value for name, value in options.items() if name not in _LIFTING}
        found = bisect(source, against, trace=True, **running)
        data |= {name: found.to_dict()[name] for name in ("trace", "culprit")}
        text = f"{text}\n\n{found.details(show_all=True)}"
    return Outcome(report.passed, data, text)
