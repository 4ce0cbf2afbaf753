"""`onnxlift merge` writes two models as one, in which outputs of the first are inputs of the second."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from onnxlift.errors import OnnxLiftError

from .changing import Change, changes_models
from .each import STANDARD


@changes_models
def merge(
    first: Annotated[
        str, typer.Argument(metavar="A", help="The model that runs first: a file, or - for standard input.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The model that runs on outputs of the first.")],
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OUT=IN",
            help="An output of A and the input of B that it goes to. Repeatable; else those of equal names.",
        ),
    ] = None,
    prefix_a: Annotated[str, typer.Option("--prefix-a", metavar="TEXT", help="Put before all names of A.")] = "",
    prefix_b: Annotated[str, typer.Option("--prefix-b", metavar="TEXT", help="Put before all names of B.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the outputs of A that were connected.")] = False,
) -> Change:
    """Write two models as one, in which outputs of the first are inputs of the second.

    Names give way only where they collide. Initialisers that are in both are stored once. The result is compared with
    running A and then B.

    Example: onnxlift merge encoder.onnx decoder.onnx --map hidden=encoder_states -o both.onnx
    """
    from onnxlift.workbench.merge import merge as run

    if second == STANDARD:
        raise OnnxLiftError("only the first model can come from standard input: give the second as a file.")
    return [first], partial(
        run,
        second=second,
        map=tuple(map or ()),
        prefix_a=prefix_a,
        prefix_b=prefix_b,
        keep=keep,
    )
