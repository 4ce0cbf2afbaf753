"""`onnxlift bisect` finds the node from which on two models, or two ways to run one, differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxlift.errors import OnnxLiftError, OutputError

from .each import STANDARD, read, run_one
from .options import (
    Atol,
    Dim,
    Force,
    Input,
    Json,
    Memory,
    Quiet,
    Rtol,
    Seed,
    Shape,
    Timeout,
    parse_dims,
    parse_shapes,
)
from .outcome import Outcome


def bisect(
    a: Annotated[str, typer.Argument(metavar="A", help="An ONNX model, or - for standard input.")],
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="The model to compare it with, or - for standard input.")
    ] = None,
    runtimes: Annotated[
        str | None,
        typer.Option(
            metavar="ONE,OTHER",
            help="Compare two ways to run A: of ort (ONNX Runtime), ort-plain (without its optimisations), reference "
            "(onnx's evaluator) and lifted (the lifted module).",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare A with this saved file of its lifted source: its code is executed."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Where to write the reproducer: a folder, which may be new."
        ),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Compare and list all values up to the first that differs.")
    ] = False,
    input: Input = None,
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find the first value that differs between two models with the same inputs, and the node to blame.

    Values are paired by structure, as diff does it: names need not agree. What the node reads agrees on both sides, and
    what it computes does not, also if it runs alone on equal inputs. With -o, this node is written as a model of its
    own, with its inputs and a script that shows the difference.

    The exit status is 0 if all outputs agree, 1 if they differ, and 2 if there was trouble.

    Example: onnxlift bisect before.onnx after.onnx -o repro/

    Example: onnxlift bisect model.onnx --runtimes ort,reference

    Example: onnxlift bisect model.onnx --against out/model.py
    """
    if a == b == STANDARD:
        raise OnnxLiftError("standard input holds one model: name a file for the other.")
    if output is not None and (output / "reproduce.py").exists() and not force:
        raise OutputError(f"{str(output)!r} holds a reproducer already: pass --force to replace it.")

    def work() -> Outcome:
        from onnxlift.workbench.bisect import bisect as run

        report = run(
            read(a),
            None if b is None else read(b),
            against=against,
            runtimes=runtimes,
            inputs=input or None,
            shapes=parse_shapes(shape or ()),
            dims=parse_dims(dim or ()),
            seed=seed,
            rtol=rtol,
            atol=atol,
            trace=trace,
            timeout=timeout,
            memory=memory,
        )
        data, lines = report.to_dict(), [report.text(show_all=trace)]
        written = report.save(output, force=force) if output is not None and report.reproducer is not None else []
        if written:
            lines += ["", *(f"  wrote     {file}" for file in written)]
        elif output is not None and not report.passed:
            lines += ["", "  not written: no part of a few nodes shows the difference by itself"]
        return Outcome(report.passed, {**data, "written": [str(file) for file in written]}, "\n".join(lines))

    title = f"bisect {a} {b or runtimes or against}"
    run_one("bisect", a, work, title=title, json=json, quiet=quiet)
