"""`onnxlift opset` writes the same model at another opset."""

from __future__ import annotations

import re
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

_TARGET = re.compile(r"(?:(?P<domain>ai\.onnx(?:\.ml)?)=)?(?P<version>\d{1,3}|newest)")


def opset(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[VERSION] MODEL...",
            help="The opset: 17, newest, or ai.onnx.ml=3, or several; then the models: files, globs in quotes, or - "
            "for standard input.",
        ),
    ],
    output: Output = None,
    runtime: Annotated[
        str | None,
        typer.Option("--for", metavar="RUNTIME", help="Bring down what is too new for a runtime: onnxruntime==1.17."),
    ] = None,
    ir_version: Annotated[
        int | None, typer.Option("--ir-version", metavar="N", help="The version of the file format.")
    ] = None,
    shape: Shape = None,
    dim: Dim = None,
    verify: Verify = True,
    input: Input = None,
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
    """Write the same model at another opset, newer or older.

    Every node goes through all revisions of its operator in between. Where an older opset lacks an operator, it is
    spelled out in others, if that is exact. If a node cannot go, nothing is written, and all such nodes are listed,
    each with the reason and the lowest opset that would do. The result is compared with the original, and written only
    if it matches. --shape and --dim say at which sizes.

    Example: onnxlift opset 17 model.onnx -o model17.onnx

    Example: onnxlift opset --for onnxruntime==1.17 model.onnx -o older.onnx
    """
    from onnxlift.workbench.opset import NEWEST
    from onnxlift.workbench.opset import opset as run

    targets: dict[str, int] = {}
    models = list(arguments)
    while models and (found := _TARGET.fullmatch(models[0])):
        domain = "" if found["domain"] in (None, "ai.onnx") else found["domain"]
        targets[domain] = NEWEST[domain] if found["version"] == "newest" else int(found["version"])
        models.pop(0)
    if not models:
        raise typer.BadParameter("there is no model: onnxlift opset 17 model.onnx")
    if not targets and runtime is None and ir_version is None:
        raise typer.BadParameter("say which opset, first of all: onnxlift opset 17 model.onnx")
    verb = partial(
        run,
        domains=targets,
        ir_version=ir_version,
        runtime=runtime,
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
    change_each("opset", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)
