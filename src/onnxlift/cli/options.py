"""The options that commands share, the functions that parse their texts, and the progress bar.

One option has one name and one meaning in all commands, so it is declared here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

Model = Annotated[Path, typer.Argument(help="The ONNX model: a file, with its external data beside it.")]
Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="ONNX models: files, with their external data beside them, globs in quotes, or - for standard input.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write: a file, a folder that is there or ends with /, or - for standard output. Without it, "
        "nothing is written, and only the report is printed.",
    ),
]
ExternalData = Annotated[
    str,
    typer.Option(
        metavar="auto|never|FILE",
        help="Where weights go: into the model's file as far as 2 GiB allow (auto), always into it (never), or into "
        "FILE beside it.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Verify = Annotated[
    bool,
    typer.Option("--verify/--no-verify", help="Run original and result, and compare; write only what matches."),
]
Jobs = Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many models to work on at a time.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what is wrong.")]
Input = Annotated[
    list[Path] | None,
    typer.Option("--input", metavar="FILE", help="Inputs: .npy, .npz by name, .pb, or a folder of input_0.pb, ..."),
]
Shape = Annotated[
    list[str] | None, typer.Option("--shape", metavar="NAME=SIZES", help="Shape of an input: x=1,3,224,224.")
]
Dim = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="Size of a named dimension: batch=4.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the inputs that are made up.")]
Rtol = Annotated[float | None, typer.Option("--rtol", min=0, help="Relative tolerance, instead of that of the type.")]
Atol = Annotated[float | None, typer.Option("--atol", min=0, help="Absolute tolerance, instead of that of the type.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="What each run may take.")]
Memory = Annotated[
    str | None,
    typer.Option("--memory", metavar="SIZE", help="What each run may take: 8GB. By default most of what is free."),
]
Mean = Annotated[
    str | None, typer.Option("--mean", metavar="NUMBERS", help="Mean of pixels, by channel: 0.485,0.456,0.406.")
]
Std = Annotated[
    str | None, typer.Option("--std", metavar="NUMBERS", help="Standard deviation of pixels: 0.229,0.224,0.225.")
]
Fit = Annotated[
    str, typer.Option("--fit", metavar="crop|stretch|pad", help="How a picture gets the size of the input.")
]
Provider = Annotated[
    list[str] | None,
    typer.Option(
        "--provider",
        metavar="NAME[:OPTION=VALUE,...]",
        help="An execution provider of ONNX Runtime: cpu, cuda, tensorrt, ... Repeatable, in the order to try them.",
    ),
]
SessionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="A session option of ONNX Runtime: graph_optimization_level=basic, or an entry like "
        "session.dynamic_block_base=4. Repeatable.",
    ),
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, metavar="N", help="Threads that run an operator.")]
CustomOp = Annotated[
    list[Path] | None,
    typer.Option(
        "--custom-op",
        metavar="FILE",
        help="Custom operators: a library (.so), or a Python file, whose code is executed. Repeatable.",
    ),
]
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
Dequantize = Annotated[
    bool,
    typer.Option(
        "--dequantize",
        help="Write the model of floats that a quantised model stands for, to fine-tune it, and tell its noise.",
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
Structure = Annotated[
    str | None,
    typer.Option(
        "--structure",
        metavar="KIND",
        help="What modules come from: `names` of nodes and weights, `repetition` of equal blocks, or nothing (`flat`: "
        "node by node in one class, without idioms; keys stay). If not given, what reads best.",
    ),
]

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


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Parse options of a session: `intra_op_num_threads=4` -> {"intra_op_num_threads": "4"}."""
    options: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{text!r} is not of the form graph_optimization_level=basic")
        options[name.strip()] = value.strip()
    return options


def parse_numbers(text: str | None) -> tuple[float, ...]:
    """Parse numbers that are separated by commas: `0.5,0.5` -> (0.5, 0.5)."""
    try:
        return tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not numbers with commas between them, like 0.485,0.456") from None


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
    """Show a progress bar, if stderr is a terminal. Give a function to call with the bytes done and the total.

    Inside another one, it is a second line below it for as long as it lasts."""
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
    outer = _BARS[-1] if _BARS else None
    bar = outer or Progress(*columns, console=Console(stderr=True), transient=True)
    with bar if outer is None else nullcontext():
        task = bar.add_task(title, total=None)
        _BARS.append(bar)
        try:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        finally:
            _BARS.pop()
            bar.remove_task(task)


_BARS: list[Progress] = []
"""The bars that are shown now, the innermost last."""
