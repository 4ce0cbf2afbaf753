"""`onnxlift extract` writes a part of a model as a model of its own."""

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
    Jobs,
    Json,
    Memory,
    Models,
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


def extract(
    models: Models,
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="VALUE",
            help="A value that the part takes as an input. Repeatable; else the model's inputs.",
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="VALUE",
            help="A value that the part gives as an output. Repeatable; else the model's outputs.",
        ),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option("--module", metavar="PATH", help="A module instead: all nodes in encoder.layer.0, say."),
    ] = None,
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
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a part of a model as a model of its own: what lies between some values, or a module.

    Its inputs have the types that inference finds, named sizes included. Weights, functions and opsets come along as
    far as they are needed. The part is compared with the whole: it runs on the values that the whole computes at the
    cut, and must give what the whole gives. Inputs, shapes and sizes that are given are those of the whole.

    Example: onnxlift extract resnet50.onnx --from /layer1/Relu_output_0 --to /layer2/Relu_output_0 -o part.onnx

    Example: onnxlift extract bert.onnx --module encoder.layer.0 -o layer.onnx
    """
    from onnxlift.workbench.extract import extract as run

    verb = partial(
        run,
        from_=tuple(from_ or ()),
        to=tuple(to or ()),
        module=module,
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
    change_each("extract", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)
