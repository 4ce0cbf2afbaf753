"""`onnxlift profile` tells what a model costs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxlift.errors import OutputError

from .each import STANDARD, Target, answers, expand, run_each
from .options import (
    Dim,
    Force,
    Input,
    Jobs,
    Json,
    Memory,
    Models,
    Output,
    Quiet,
    Seed,
    Shape,
    Threads,
    Timeout,
    parse_dims,
    parse_shapes,
)
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.profile import Profile


def profile(
    models: Models,
    output: Output = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="csv|json|svg", help="The format, where no suffix of a file tells it."),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="operator|module|node", help="The table to print. Repeatable."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="N", help="Levels of modules within modules; by default what fits."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="COLUMN",
            help="What shares, the order of rows and the areas of a treemap are about: flops, macs, parameters, bytes "
            "or time.",
        ),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, metavar="N", help="Print only the N dearest rows.")] = None,
    shape: Shape = None,
    dim: Dim = None,
    iterations: Annotated[
        list[str] | None,
        typer.Option("--iterations", metavar="NODE=N", help="How often the graph in a Loop runs: loop_1=10."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1, and list them, if the cost of any node is unknown.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run the model with ONNX Runtime, and tell the time of each row.")
    ] = False,
    as_written: Annotated[
        bool,
        typer.Option("--as-written", help="Measure without ONNX Runtime's optimisations, which fuse nodes."),
    ] = False,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="How often to measure.")] = 10,
    threads: Threads = None,
    input: Input = None,
    seed: Seed = 0,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Tell what a model costs: MACs, FLOPs, parameters, bytes read and written, and peak memory of activations.

    Costs are numbers, or formulas over sizes that the model leaves open; --shape and --dim fix these. What is not known
    is said, and never counted as zero. With -o, the nodes are written as .csv, all of it as .json, or a treemap by
    module as .svg.

    Example: onnxlift profile resnet50.onnx --dim batch=1

    Example: onnxlift profile bert.onnx --by node --top 20 --measure -o bert.svg
    """
    options: dict[str, Any] = {"shapes": parse_shapes(shape or ()), "dims": parse_dims(dim or ()), "strict": strict}
    options["iterations"] = parse_dims(iterations or ())
    if measure:
        limits = {"seed": seed, "timeout": timeout, "memory": memory}
        options |= {"measure": True, "inputs": input, "runs": runs, "threads": threads, "as_written": as_written}
        options |= limits
    elif as_written or input or threads:
        raise typer.BadParameter("--as-written, --input and --threads are for a measurement: add --measure")
    table = {"by": tuple(by or ()), "depth": depth, "sort": sort, "top": top}
    names = list(expand(models))
    if output == STANDARD:
        _to_stdout(names, format, sort, options, json=json, quiet=quiet)
        return
    paths = _paths(names, Target(output, force), format)
    work = partial(_profiled, paths=paths, format=format, force=force, table=table, options=options)
    run_each("profile", names, work, json=json, quiet=quiet, jobs=jobs)


def _to_stdout(
    names: list[str], format: str | None, sort: str | None, options: dict[str, Any], *, json: bool, quiet: bool
) -> None:
    if json or len(names) > 1:
        raise OutputError("standard output takes one profile and nothing else: write to a file (-o FILE).")
    work = partial(_streamed, format=format or "csv", sort=sort, options=options)
    ((name, outcome),) = answers("profile", names, work)
    outcome.show("profile", name, quiet=quiet, file=sys.stderr)
    if outcome.status:
        raise typer.Exit(outcome.status)


def _paths(names: list[str], target: Target, format: str | None) -> dict[str, Path | None]:
    from onnxlift.workbench.profile.report import format_of, known_format

    return target.paths(names, lambda: known_format(format or "csv"), None if format else format_of)


def _profiled(
    source: Path | bytes,
    name: str,
    *,
    paths: dict[str, Path | None],
    format: str | None,
    force: bool,
    table: dict[str, Any],
    options: dict[str, Any],
) -> Outcome:
    report, path = _profile(source, options), paths[name]
    lines, data = [report.table(**table)], report.to_dict()
    written = [] if path is None else report.save(path, format=format, force=force, sort=table["sort"])
    lines += [f"  wrote          {file}" for file in written]
    data["written"] = [str(file) for file in written]
    return Outcome(report.passed, data, "\n".join(lines))


def _streamed(source: Path | bytes, name: str, *, format: str, sort: str | None, options: dict[str, Any]) -> Outcome:
    report = _profile(source, options)
    sys.stdout.buffer.write(report.render(format, sort=sort))
    sys.stdout.buffer.flush()
    return Outcome(report.passed, report.to_dict(), report.table())


def _profile(source: Path | bytes, options: dict[str, Any]) -> Profile:
    from onnxlift.workbench.profile import profile as run

    return run(source, **options)
