"""`onnxlift infer` tells the types and sizes of a model's values, or writes them into it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .each import Target, change_each, run_each
from .options import (
    Dim,
    ExternalData,
    Force,
    Jobs,
    Json,
    Memory,
    Models,
    Output,
    Quiet,
    Shape,
    Timeout,
    Verify,
    parse_dims,
    parse_shapes,
)
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.infer import InferReport


def infer(
    models: Models,
    output: Output = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="VALUE", help="Tell only this value: a name or a glob in quotes. Repeatable."),
    ] = None,
    shape: Shape = None,
    dim: Dim = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1, and list them, if the type or rank of any value is unknown.")
    ] = False,
    verify: Verify = True,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    external_data: ExternalData = "auto",
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Tell the types and sizes of all values of a model, or write them into it (-o).

    Sizes are numbers, or formulas over the named dimensions of the inputs; a question mark is a size that nothing
    tells. With --shape and --dim, sizes that the model leaves open are fixed. A model that is written is also compared
    with the original.

    Example: onnxlift infer resnet50.onnx --value relu1_out --dim batch=4

    Example: onnxlift infer bert.onnx -o typed.onnx --strict
    """
    options: dict[str, Any] = {"shapes": parse_shapes(shape or ()), "dims": parse_dims(dim or ()), "strict": strict}
    if output is None:
        work = partial(_told, values=tuple(value or ()), **options)
        run_each("infer", models, work, json=json, quiet=quiet, jobs=jobs)
        return
    verb = partial(_written, values=tuple(value or ()), verify=verify, timeout=timeout, memory=memory, **options)
    change_each("infer", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)


def _told(source: Path | bytes, name: str, **options: Any) -> Outcome:
    from onnxlift.workbench.infer import infer as run

    report = run(source, **options)
    return Outcome(report.passed, report.to_dict(), str(report))


def _written(source: Any, **options: Any) -> InferReport:
    from onnxlift.workbench.infer import infer as run

    report = run(source, **options)
    return report if options["values"] else replace(report, brief=True)
