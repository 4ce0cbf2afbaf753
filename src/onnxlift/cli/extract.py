"""`onnxlift extract` writes a part of a model as a model of its own."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .changing import Change, changes_models
from .options import Models


@changes_models
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
) -> Change:
    """Write a part of a model as a model of its own: what lies between some values, or a module.

    Its inputs have the types that inference finds, named sizes included. Weights, functions and opsets come along as
    far as they are needed. The part is compared with the whole: it runs on the values that the whole computes at the
    cut, and must give what the whole gives. Inputs, shapes and sizes that are given are those of the whole.

    Example: onnxlift extract resnet50.onnx --from /layer1/Relu_output_0 --to /layer2/Relu_output_0 -o part.onnx

    Example: onnxlift extract bert.onnx --module encoder.layer.0 -o layer.onnx
    """
    from onnxlift.workbench.extract import extract as run

    return models, partial(
        run,
        from_=tuple(from_ or ()),
        to=tuple(to or ()),
        module=module,
    )
