"""`onnxlift expose` makes values inside a model outputs as well."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .changing import Change, changes_models


@changes_models
def expose(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The ONNX model: a file, a glob in quotes, or - for standard input.")
    ],
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE...", help=r"Names of values, or globs in quotes: '\*Relu\*'.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All values that nodes of the main graph compute.")] = False,
) -> Change:
    """Make values inside a model outputs as well, with their types, so that any runtime shows them.

    They come after the model's own outputs, in the order of the graph. The result is compared with the original.

    Example: onnxlift expose resnet50.onnx '*/Relu_output_*' -o exposed.onnx

    Example: onnxlift expose bert.onnx --all -o exposed.onnx
    """
    from onnxlift.workbench.expose import expose as run

    return [model], partial(run, values=tuple(values or ()), all=all)
