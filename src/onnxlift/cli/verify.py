"""`onnxlift verify` runs the lifted model and the ONNX model on the same inputs, and compares their outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Dtype, Json, Model, NoSimplify, SkipPass, parse_dims, parse_shapes, progress


def verify(
    model: Model,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE.py", help="Verify this saved file, perhaps edited. Its code is executed."),
    ] = None,
    input: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="FILE", help="Inputs: .npy, .npz by name, .pb, or a folder of input_0.pb, ..."),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option("--shape", metavar="NAME=SIZES", help="Shape of an input: x=1,3,224,224.")
    ] = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Size of a named dimension: batch=4.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the inputs that are made up.")] = 0,
    rtol: Annotated[float | None, typer.Option(min=0, help="Relative tolerance, instead of that of the type.")] = None,
    atol: Annotated[float | None, typer.Option(min=0, help="Absolute tolerance, instead of that of the type.")] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Compare values inside the model also if all is well.")
    ] = False,
    no_gradients: Annotated[
        bool, typer.Option("--no-gradients", help="Do not call the lifted model with gradients on as well.")
    ] = False,
    no_simplify: NoSimplify = False,
    skip_pass: SkipPass = None,
    dtype: Dtype = None,
    timeout: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="What each side may take.")] = 300.0,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What each side may take: 8GB. By default most of what is free.")
    ] = None,
    json: Json = False,
) -> None:
    """Run the lifted model and ONNX Runtime on the same inputs, and compare.

    Inputs that are not given are made up from the model. If an output differs, the report shows the first value inside
    the model that does, and the line of source that computes it. The lifted model is also called with gradients on,
    forward and backward, and the report says which parameters get none. The exit status is 1 unless everything matches
    and that works.

    Example: onnxlift verify resnet50.onnx --dim batch=4

    Example: onnxlift verify bert.onnx --against out/bert.py --input tokens.npz --trace
    """
    from onnxlift.verification import verify

    with progress(f"Verifying {model.name}"):
        report = verify.verify(
            model,
            against=against,
            inputs=input or None,
            shapes=parse_shapes(shape or ()),
            dims=parse_dims(dim or ()),
            seed=seed,
            rtol=rtol,
            atol=atol,
            trace=trace,
            gradients=not no_gradients,
            timeout=timeout,
            memory=memory,
            simplify=not no_simplify,
            skip_passes=skip_pass or (),
            dtype=dtype,
        )
    if json:
        from json import dumps

        print(dumps(report.to_dict(), indent=2))
    else:
        print(report)
    if not report.passed:
        raise typer.Exit(1)
