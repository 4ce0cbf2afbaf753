"""Register the commands. A file of this folder is a command if it has a function of the same name as the file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from inspect import isfunction
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from onnxlift import cli

from .options import DEBUG, Debug
from .ordered import OrderedCommand

app = typer.Typer(
    name="onnxlift",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _commands() -> Iterator[Callable[..., None]]:
    """Yield the function of each command, in alphabetical order of the commands."""
    for found in sorted(iter_modules(cli.__path__), key=lambda module: module.name):
        command = getattr(import_module(f"{cli.__name__}.{found.name}"), found.name, None)
        if isfunction(command):
            yield command


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


def _debuggable(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the option --debug, which every command has."""
    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)

    @wraps(command)
    def run(*arguments: Any, debug: bool, **options: Any) -> None:
        if debug:
            os.environ[DEBUG] = "1"
        command(*arguments, **options)

    vars(run)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), option])
    return run


def _help(command: Callable[..., None]) -> str:
    """Return the docstring for `--help`, which is read as Markdown: an asterisk in a glob is no emphasis."""
    return inspect.cleandoc(command.__doc__ or "").replace("*", r"\*")


for _command in _commands():
    app.command(help=_help(_command), cls=OrderedCommand)(_debuggable(_command))
