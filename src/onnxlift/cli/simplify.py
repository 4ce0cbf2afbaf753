"""`onnxlift simplify` writes the smallest model that computes the same."""

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
    SkipPass,
    Timeout,
    Verify,
    parse_dims,
    parse_shapes,
)


def simplify(
    models: Models,
    output: Output = None,
    shape: Shape = None,
    dim: Dim = None,
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

    verb = partial(
        run,
        shapes=parse_shapes(shape or ()),
        dims=parse_dims(dim or ()),
        keep=tuple(keep or ()),
        portable=portable,
        fuse_standard=fuse_standard,
        skip_passes=tuple(skip_pass or ()),
        verify=verify,
        inputs=input,
        seed=seed,
        rtol=rtol,
        atol=atol,
        timeout=timeout,
        memory=memory,
    )
    change_each("simplify", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)
