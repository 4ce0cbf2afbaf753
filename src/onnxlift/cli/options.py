"""The options that several commands share, the functions that parse their texts, and the progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[Path, typer.Argument(help="The ONNX model: a file, with its external data beside it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, for a report.")]
NoSimplify = Annotated[
    bool,
    typer.Option(
        "--no-simplify",
        help="Leave out the stage `simplifying`; normal form, restoring and idioms still run.",
    ),
]
SkipPass = Annotated[
    list[str] | None,
    typer.Option(
        "--skip-pass", metavar="NAME", help="A step to leave out (`onnxlift passes` lists them). May be repeated."
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="TYPE",
        help="Lift the model in another precision: float32, float16, bfloat16 or float64. Integers stay.",
    ),
]
Flat = Annotated[bool, typer.Option("--flat", help="Transcribe node by node into one class: no modules, no idioms.")]

DEBUG = "ONNXLIFT_DEBUG"
"""The environment variable that --debug sets: errors show their traceback."""


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Parse shapes of inputs: `x=1,3,224,224` -> {"x": (1, 3, 224, 224)}. `s=` is a scalar."""
    return {name: tuple(_sizes(size, text)) for text, (name, size) in _pairs(texts, "x=1,3,224,224")}


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Parse sizes of named dimensions: `batch=4` -> {"batch": 4}."""
    dims: dict[str, int] = {}
    for text, (name, size) in _pairs(texts, "batch=4"):
        sizes = _sizes(size, text)
        if len(sizes) != 1:
            raise typer.BadParameter(f"{text!r} is not a name and one size, like batch=4")
        dims[name] = sizes[0]
    return dims


def _pairs(texts: Iterable[str], example: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for text in texts:
        name, separator, size = text.rpartition("=")  # the last "=": names from the model may contain one, sizes cannot
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} is not of the form {example}")
        yield text, (name, size)


def _sizes(text: str, whole: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter(f"{whole!r}: sizes are whole numbers, separated by commas")
    return [int(part) for part in parts]


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar, if stderr is a terminal. Give a function to call with the bytes done and the total."""
    import sys

    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
