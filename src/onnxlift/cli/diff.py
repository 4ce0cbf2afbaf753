"""`onnxlift diff` shows what changed between two models."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onnxlift.errors import OnnxLiftError

from .each import STANDARD, read, run_one
from .options import Atol, Json, Quiet, Rtol
from .outcome import Outcome

_ASPECTS = "interface, names (of inputs, outputs and sizes), nodes, weights, opset or metadata"


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An ONNX model, or - for standard input.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The model to compare it with, or - for standard input.")],
    show_all: Annotated[bool, typer.Option("--all", help="List each node and weight, also if there are many.")] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="ASPECT", help=f"What does not count: {_ASPECTS}. Repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ASPECT", help="What alone counts: the same words. Repeatable."),
    ] = None,
    source: Annotated[
        bool, typer.Option("--source", help="Show also a unified diff of the PyTorch source that both lift to.")
    ] = False,
    rtol: Rtol = None,
    atol: Atol = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show what changed between two models: not their bytes, but what they are.

    Nodes are matched by structure and weights. Names inside the models and the order of nodes do not count, so that a
    model that was only renamed or sorted is the same. A changed weight, attribute or operator is one line, with how far
    the numbers differ. Many changes are counted by module.

    By default a weight is different if any bit is; with --rtol and --atol, if |a - b| > atol + rtol * max(|a|, |b|).

    The exit status is 0 if the models are the same, 1 if they differ, and 2 if there was trouble.

    Example: onnxlift diff before.onnx after.onnx

    Example: onnxlift diff before.onnx after.onnx --ignore metadata --rtol 1e-5
    """
    if a == b == STANDARD:
        raise OnnxLiftError("standard input holds one model: name a file for the other.")

    def work() -> Outcome:
        from onnxlift.workbench.diff import diff as run

        options: dict[str, Any] = {"ignore": ignore or (), "only": only or (), "source": source}
        report = run(read(a), read(b), rtol=rtol or 0.0, atol=atol or 0.0, **options)
        return Outcome(report.same, report.to_dict(), report.text(show_all=show_all))

    run_one("diff", a, work, title=f"diff {a} {b}", json=json, quiet=quiet)
