"""`onnxlift run` runs a model on inputs, and writes what it computes."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxlift.errors import OutputError

from .each import STANDARD, Target, answers, expand, run_each
from .options import (
    CustomOp,
    Dim,
    Fit,
    Force,
    Jobs,
    Json,
    Mean,
    Memory,
    Models,
    Provider,
    Quiet,
    Seed,
    SessionOption,
    Shape,
    Std,
    Threads,
    Timeout,
    parse_dims,
    parse_numbers,
    parse_options,
    parse_shapes,
)
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.run.report import RunReport


def run(
    models: Models,
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="[NAME=]FILE",
            help="Inputs: .npy, .npz by name, .pb, a folder of input_0.pb, ..., a picture, or a text. Repeatable.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the outputs: .npz, .npy or .json, a folder that is there or ends with /, or - for "
            "standard output (.npz).",
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", metavar="VALUE", help="Compute only this output, or value inside. Repeatable."),
    ] = None,
    provider: Provider = None,
    strict_provider: Annotated[
        bool, typer.Option("--strict-provider", help="Fail, and list them, if nodes fall back to the CPU.")
    ] = False,
    option: SessionOption = None,
    threads: Threads = None,
    optimized: Annotated[
        Path | None,
        typer.Option("--optimized", metavar="FILE", help="Write the graph that ONNX Runtime has made of the model."),
    ] = None,
    lifted: Annotated[bool, typer.Option("--lifted", help="Run the lifted module, and not ONNX Runtime.")] = False,
    custom_op: CustomOp = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            "--profile",
            metavar="FILE.json",
            help="Write a trace for Perfetto (ui.perfetto.dev), and print where the time went.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs that are profiled.")] = 5,
    mean: Mean = None,
    std: Std = None,
    fit: Fit = "crop",
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a model on inputs with ONNX Runtime, and write what it computes.

    Inputs that are not given are made up, as `verify` makes them up, and the report says which. A picture becomes the
    input that looks like one, in the layout and the size that the model declares; a text becomes an input of strings.

    Example: onnxlift run resnet50.onnx --input cat.png --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 -o out.npz

    Example: onnxlift run bert.onnx --input tokens.npz --provider cuda --strict-provider

    Example: onnxlift run model.onnx --profile trace.json
    """
    names = list(expand(models))
    if len(names) > 1 and (optimized is not None or profile is not None):
        raise OutputError("--optimized and --profile name one file, and there are several models.")
    options: dict[str, Any] = {
        "inputs": input or None,
        "outputs": tuple(outputs or ()),
        "providers": tuple(provider or ()),
        "strict_provider": strict_provider,
        "options": parse_options(option or ()),
        "threads": threads,
        "optimized": optimized,
        "lifted": lifted,
        "custom_ops": tuple(custom_op or ()),
        "profile": False if profile is None else profile,
        "runs": runs,
        "mean": parse_numbers(mean),
        "std": parse_numbers(std),
        "fit": fit,
        "shapes": parse_shapes(shape or ()),
        "dims": parse_dims(dim or ()),
        "seed": seed,
        "timeout": timeout,
        "memory": memory,
        "force": force,
    }
    if output == STANDARD:
        _to_stdout(names, options, json=json, quiet=quiet)
        return
    work = partial(_written, paths=_paths(names, Target(output, force)), force=force, options=options)
    run_each("run", names, work, json=json, quiet=quiet, jobs=jobs)


def _to_stdout(names: list[str], options: dict[str, Any], *, json: bool, quiet: bool) -> None:
    if json or len(names) > 1:
        raise OutputError("standard output takes the outputs of one model and nothing else: write to a file (-o FILE).")
    ((name, outcome),) = answers("run", names, partial(_streamed, options=options))
    outcome.show("run", name, quiet=quiet, file=sys.stderr)
    if outcome.status:
        raise typer.Exit(outcome.status)


def _paths(names: list[str], target: Target) -> dict[str, Path | None]:
    """Return the file for the outputs of each model; in a folder, that of the model with another suffix."""
    from onnxlift.workbench.run.values_file import known_format

    paths: dict[str, Path | None] = {}
    for name in names:
        path = target.path(name, is_one_of_many=len(names) > 1)
        if path is not None and str(path) != target.output:
            path = path.with_suffix(".npz")
        if path is not None:
            known_format(path)
            if path in paths.values():
                raise OutputError(f"the outputs of two models would both be {str(path)!r}.")
            if path.exists() and not target.force:
                raise OutputError(f"{str(path)!r} is there already: pass --force to replace it.")
        paths[name] = path
    return paths


def _written(
    source: Path | bytes, name: str, *, paths: dict[str, Path | None], force: bool, options: dict[str, Any]
) -> Outcome:
    report, path = _run(source, options), paths[name]
    written = [*report.written, *([] if path is None else report.save(path, force=force))]
    lines = [str(report), *(f"  wrote          {file}" for file in written)]
    return Outcome(report.passed, {**report.to_dict(), "written": [str(file) for file in written]}, "\n".join(lines))


def _streamed(source: Path | bytes, name: str, *, options: dict[str, Any]) -> Outcome:
    report = _run(source, options)
    sys.stdout.buffer.write(report.to_bytes())
    sys.stdout.buffer.flush()
    return Outcome(report.passed, report.to_dict(), str(report))


def _run(source: Path | bytes, options: dict[str, Any]) -> RunReport:
    from onnxlift.workbench.run import run as verb

    return verb(source, **options)
