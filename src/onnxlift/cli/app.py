"""The commands under their names."""

from __future__ import annotations

from typing import Annotated

import typer

from .convert import convert
from .inspect import inspect
from .ops import ops
from .passes import passes
from .verify import verify

app = typer.Typer(
    name="onnxlift",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (convert, verify, inspect, ops, passes):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        from onnxlift import __version__

        print(f"onnxlift {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Lift an ONNX model back into the PyTorch that a person would have written."""
