"""`onnxlift opset` writes the same model at another opset."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

import typer

from .changing import Change, changes_models

_TARGET = re.compile(r"(?:(?P<domain>ai\.onnx(?:\.ml)?)=)?(?P<version>\d{1,3}|newest)")


@changes_models
def opset(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[VERSION] MODEL...",
            help="The opset: 17, newest, or ai.onnx.ml=3, or several; then the models: files, globs in quotes, or - "
            "for standard input.",
        ),
    ],
    runtime: Annotated[
        str | None,
        typer.Option("--for", metavar="RUNTIME", help="Bring down what is too new for a runtime: onnxruntime==1.17."),
    ] = None,
    ir_version: Annotated[
        int | None, typer.Option("--ir-version", metavar="N", help="The version of the file format.")
    ] = None,
) -> Change:
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
    return models, partial(
        run,
        domains=targets,
        ir_version=ir_version,
        runtime=runtime,
    )
