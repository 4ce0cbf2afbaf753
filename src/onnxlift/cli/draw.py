"""`onnxlift draw` draws a picture of a model."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxlift.errors import OutputError

from .each import STANDARD, Target, answers, expand, run_each
from .options import Force, Jobs, Json, Models, Output, Quiet
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.draw import Drawing


def draw(
    models: Models,
    output: Output = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="svg|dot|mmd|png", help="The format, where no suffix of a file tells it."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, metavar="N", help="Levels of modules within modules; by default what fits."),
    ] = None,
    module: Annotated[
        str | None, typer.Option("--module", metavar="PATH", help="Draw only this module: encoder.layer.0.")
    ] = None,
    flat: Annotated[
        bool, typer.Option("--flat", help="Draw the nodes of the file: operators, attributes, shapes of weights.")
    ] = False,
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Draw a model: its modules with their classes, as `convert` writes them, and the shapes between them.

    Rows of equal modules are drawn once, with their number. The suffix of the file tells the format: .svg, .dot for
    Graphviz, .mmd for Mermaid, or .png (which needs `onnxlift[draw]`). With --json, the boxes and edges are printed.

    Example: onnxlift draw resnet50.onnx -o resnet50.svg

    Example: onnxlift draw bert.onnx -o layer.svg --module encoder.layer.0 --depth 3
    """
    options: dict[str, Any] = {"depth": depth, "module": module, "flat": flat}
    names = list(expand(models))
    if output == STANDARD:
        _to_stdout(names, format, options, json=json, quiet=quiet)
        return
    paths = _paths(names, Target(output, force), format)
    work = partial(_drawn, paths=paths, format=format, force=force, options=options)
    run_each("draw", names, work, json=json, quiet=quiet, jobs=jobs)


def _to_stdout(names: list[str], format: str | None, options: dict[str, Any], *, json: bool, quiet: bool) -> None:
    if json or len(names) > 1:
        raise OutputError("standard output takes one picture and nothing else: write to a file (-o FILE).")
    ((name, outcome),) = answers("draw", names, partial(_streamed, format=format or "svg", options=options))
    outcome.show("draw", name, quiet=quiet, file=sys.stderr)
    if outcome.status:
        raise typer.Exit(outcome.status)


def _paths(names: list[str], target: Target, format: str | None) -> dict[str, Path | None]:
    from onnxlift.workbench.draw.verb import format_of, known_format

    return target.paths(names, lambda: known_format(format or "svg"), None if format else format_of)


def _drawn(
    source: Path | bytes,
    name: str,
    *,
    paths: dict[str, Path | None],
    format: str | None,
    force: bool,
    options: dict[str, Any],
) -> Outcome:
    from onnxlift.workbench.draw.verb import format_of

    drawing, path = _draw(source, options), paths[name]
    lines, data = [str(drawing)], drawing.to_dict()
    if path is not None:
        drawing.save(path, format=format, force=force)
        limits = drawing.limits(format or format_of(path))
        lines += [f"  note           {each}" for each in limits]
        data["notes"] += limits
        lines.append(f"  wrote          {path}")
    data["written"] = [] if path is None else [str(path)]
    return Outcome(True, data, "\n".join(lines))


def _streamed(source: Path | bytes, name: str, *, format: str, options: dict[str, Any]) -> Outcome:
    drawing = _draw(source, options)
    content = drawing.render(format)
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    notes = [f"  note           {each}" for each in drawing.limits(format)]
    return Outcome(True, drawing.to_dict(), "\n".join([str(drawing), *notes]))


def _draw(source: Path | bytes, options: dict[str, Any]) -> Drawing:
    from onnxlift.workbench.draw import draw as run

    return run(source, **options)
