"""`onnxlift update` puts trained weights back into an ONNX file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .changing import Change, changes_models
from .options import Dtype, Models, NoSimplify, SkipPass, Structure


@changes_models
def update(
    models: Models,
    weights: Annotated[
        Path,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="The trained weights of the lifted model: safetensors, the index of several, or a .pt file.",
        ),
    ],
    reexport: Annotated[
        bool,
        typer.Option("--reexport", help="If a weight has no place in the file, let torch export the model anew."),
    ] = False,
    no_simplify: NoSimplify = False,
    skip_pass: SkipPass = None,
    structure: Structure = None,
    dtype: Dtype = None,
) -> Change:
    """Put the weights of the lifted model, after training, back into the ONNX file: the same graph, node for node.

    Operators, names, metadata and interface stay as they are; only numbers change. With unchanged weights the file is
    the same, byte for byte. What lifting did to the weights is undone: transposes, gate orders, what was merged, split,
    folded or computed. A weight that the file has no place for is an error that names it, or, with --reexport, torch
    exports the trained module anew. If the model was lifted with options (--structure, --dtype, ...), give them.

    The result is lifted and must have these weights, and ONNX Runtime must compute with it what the module does.

    Example: onnxlift update model.onnx --weights tuned.safetensors -o tuned.onnx
    """
    from onnxlift.workbench.update.verb import update as run

    lifting: dict[str, Any] = {
        "simplify": not no_simplify,
        "skip_passes": tuple(skip_pass or ()),
        "structure": structure,
        "dtype": dtype,
    }
    return models, partial(run, weights=weights, reexport=reexport, **lifting)
