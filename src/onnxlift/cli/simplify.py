"""`onnxlift simplify` writes the smallest model that computes the same."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from .changing import Change, changes_models
from .options import Models, SkipPass


@changes_models
def simplify(
    models: Models,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="VALUE", help="A value that stays under its name. Repeatable.")
    ] = None,
    portable: Annotated[
        bool, typer.Option("--portable", help="Take apart operators that ONNX does not define into standard ones.")
    ] = False,
    fuse_standard: Annotated[
        bool, typer.Option("--fuse-standard", help="Write what several nodes mean as one operator of the opset.")
    ] = False,
    skip_pass: SkipPass = None,
) -> Change:
    """Write the smallest ONNX model that computes the same.

    Folds what is constant, weights included, and what follows from sizes; merges equal expressions; folds batch norms,
    scales and paddings into convolutions; removes what has no effect. Inputs and outputs keep their names, types and
    order. The result is compared with the original at two sizes, and written only if it matches.

    With --shape and --dim, sizes that the model leaves open are fixed for good. With --portable, the fused operators
    that ONNX Runtime's optimiser writes become standard ones again, so that other runtimes take the model. With
    --fuse-standard, LayerNormalization, Gelu, Attention and others that are spelled out in several nodes become one,
    where the opset has them.

    Example: onnxlift simplify resnet50.onnx -o smaller.onnx

    Example: onnxlift simplify 'models/*.onnx' -o smaller/ --jobs 2

    Example: onnxlift simplify optimised.onnx -o standard.onnx --portable
    """
    from onnxlift.workbench.simplify import simplify as run

    return models, partial(
        run,
        keep=tuple(keep or ()),
        portable=portable,
        fuse_standard=fuse_standard,
        skip_passes=tuple(skip_pass or ()),
    )
