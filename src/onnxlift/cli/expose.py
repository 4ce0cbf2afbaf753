"""`onnxlift expose` makes values inside a model outputs as well."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .each import Target, change_each
from .options import (
    Atol,
    Dim,
    ExternalData,
    Force,
    Input,
    Json,
    Memory,
    Output,
    Quiet,
    Rtol,
    Seed,
    Shape,
    Timeout,
    Verify,
    parse_dims,
    parse_shapes,
)


def expose(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The ONNX model: a file, a glob in quotes, or - for standard input.")
    ],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE...", help="Names of values, or globs in quotes: '*Relu*'.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All values that nodes of the main graph compute.")] = False,
    output: Output = None,
    verify: Verify = True,
    input: Input = None,
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    external_data: ExternalData = "auto",
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make values inside a model outputs as well, with their types, so that any runtime shows them.

    They come after the model's own outputs, in the order of the graph. The result is compared with the original.

    Example: onnxlift expose resnet50.onnx '*/Relu_output_*' -o exposed.onnx

    Example: onnxlift expose bert.onnx --all -o exposed.onnx
    """
    from onnxlift.workbench.expose import expose as run

    verb = partial(
        run,
        values=tuple(values or ()),
        all=all,
        verify=verify,
        inputs=input,
        shapes=parse_shapes(shape or ()),
        dims=parse_dims(dim or ()),
        seed=seed,
        rtol=rtol,
        atol=atol,
        timeout=timeout,
        memory=memory,
    )
    change_each("expose", [model], verb, Target(output, force, external_data), json=json, quiet=quiet)
