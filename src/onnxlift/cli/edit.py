"""`onnxlift edit` changes a model by a script, by operations as JSON, or by options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxlift.errors import OnnxLiftError, OutputError

from .each import STANDARD, Target, change_each, expand
from .options import (
    Atol,
    Dim,
    ExternalData,
    Force,
    Input,
    Jobs,
    Json,
    Memory,
    Output,
    Quiet,
    Rtol,
    Seed,
    Timeout,
    Verify,
    parse_dims,
)
from .ordered import given_options

if TYPE_CHECKING:
    from onnxlift.workbench.edit import Editor, EditReport


def edit(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[SCRIPT] MODEL...",
            help="A script (.py) or operations (.json), if any, and then ONNX models: files, globs in quotes, or - for "
            "standard input.",
        ),
    ],
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set an attribute of a node, or a constant: 'conv1.pads=[1,1,1,1]'. Values are JSON, or texts.",
        ),
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="NODE", help="Remove a node that nobody reads.")
    ] = None,
    bypass: Annotated[
        list[str] | None,
        typer.Option("--bypass", metavar="NODE", help="Remove a node, and let its readers read its first input."),
    ] = None,
    add_output: Annotated[
        list[str] | None, typer.Option("--add-output", metavar="VALUE", help="Make a value an output as well.")
    ] = None,
    remove_output: Annotated[
        list[str] | None, typer.Option("--remove-output", metavar="NAME", help="Take an output from the model.")
    ] = None,
    dim: Dim = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Give a value or a node another name.")
    ] = None,
    remove_unused: Annotated[
        bool, typer.Option("--remove-unused", help="Drop nodes and weights that no output depends on.")
    ] = False,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Write what was done as a script (.py) or as JSON (.json)."),
    ] = None,
    output: Output = None,
    run: Annotated[
        bool, typer.Option("--run/--no-run", help="Run the result on made-up inputs; write only what runs.")
    ] = True,
    verify: Verify = False,
    input: Input = None,
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    external_data: ExternalData = "auto",
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Change a model: rename, delete, insert and replace nodes, set attributes, constants, sizes, inputs and outputs.

    A script is Python that is executed; it finds the model's editor as `m`. Options are done after it, one after the
    other, as they stand on the command line: what comes after --rename knows the new name.

    The result must be a valid model that ONNX Runtime takes. It need not compute what the original does; --verify
    demands that.

    Example: onnxlift edit script.py resnet50.onnx -o edited.onnx

    Example: onnxlift edit resnet50.onnx --set 'conv1.pads=[1,1,1,1]' --rename 495=logits -o edited.onnx
    """
    recipe, models = (files[0], files[1:]) if files[0].endswith((".py", ".json")) else (None, files)
    if not models:
        raise typer.BadParameter("there is no model behind the script.")
    if script == Path(STANDARD) and (json or output == STANDARD):
        raise OutputError("standard output takes one thing: write the script to a file (--script FILE).")
    if script is not None and len(list(expand(models))) > 1:
        raise OutputError("--script writes what was done to one model: give one model.")
    parse_dims(dim or ())  # two sizes for one name are an error before anything is done
    # Not from the parameters, which do not tell their order.
    options = [operation for name, text in given_options(context) for operation in _operations(name, text)]
    checking = {
        "inputs": input,
        "seed": seed,
        "rtol": rtol,
        "atol": atol,
        "timeout": timeout,
        "memory": memory,
    }
    verb = partial(
        _edit,
        recipe=recipe,
        options=options,
        script=script,
        force=force,
        report={"run": run, "verify": verify, **checking},
    )
    quiet = quiet or script == Path(STANDARD)  # the script alone, so that it can be written to a file
    change_each("edit", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)


def _operations(name: str, text: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what an option asks for: an operation with its fields; nothing if it changes no model."""
    if name == "dim":
        for size_name, size in parse_dims([text]).items():
            yield "set_size", {"name": size_name, "size": size}
    elif name in _FIELDS:
        operation, fields = _FIELDS[name]
        yield operation, fields(text)


def _renaming(text: str) -> dict[str, str]:
    old, equals, new = text.rpartition("=")
    if not equals or not old or not new:
        raise typer.BadParameter(f"{text!r} is not of the form OLD=NEW")
    return {"old": old, "new": new}


_FIELDS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "set": ("set", lambda text: {"text": text}),
    "delete": ("delete", lambda node: {"node": node}),
    "bypass": ("delete", lambda node: {"node": node, "bridge": True}),
    "add_output": ("add_output", lambda value: {"value": value}),
    "remove_output": ("remove_output", lambda name: {"name": name}),
    "rename": ("rename", _renaming),
    "remove_unused": ("remove_unused", lambda _: {}),
}
"""Option -> the operation that it stands for, and the fields of that."""


def _edit(
    source: Path | bytes,
    *,
    recipe: str | None,
    options: list[tuple[str, dict[str, Any]]],
    script: Path | None,
    force: bool,
    report: dict[str, Any],
) -> EditReport:
    from onnxlift.workbench.edit import Editor

    editor = Editor(source)
    if recipe is not None:
        _follow(editor, Path(recipe))
    for name, fields in options:
        if name == "set":
            _set(editor, fields["text"])
        else:
            editor.do({"op": name, **fields})
    found = editor.report(**report)
    if script is not None and found.passed:
        _write(editor, script, force)
    return found


def _follow(editor: Editor, recipe: Path) -> None:
    """Run a script, or do the operations of a JSON file."""
    from onnxlift.workbench.edit import parse_operations, run_script

    if recipe.suffix == ".py":
        run_script(editor, recipe)
        return
    try:
        text = recipe.read_bytes()
    except OSError as error:
        raise OnnxLiftError(f"cannot read the operations {str(recipe)!r}: {error.strerror}.") from error
    for number, operation in enumerate(parse_operations(text)):
        try:
            editor.do(operation)
        except OnnxLiftError as error:
            raise OnnxLiftError(f"operation {number} of {recipe.name} ({operation.op()}): {error}") from error


def _set(editor: Editor, text: str) -> None:
    """Set an attribute, or a constant if one has the name."""
    from json import loads

    name, equals, value = text.partition("=")
    while equals and value and "=" in value and not _is_target(editor, name):
        more, _, value = value.partition("=")  # names from the model may contain one
        name = f"{name}={more}"
    if not equals or not name:
        raise typer.BadParameter(f"{text!r} is not of the form NODE.ATTRIBUTE=VALUE")
    try:
        parsed = loads(value)
    except (ValueError, RecursionError):
        parsed = value
    if editor.is_constant(name):
        editor.do({"op": "set_constant", "name": name, "value": parsed})
    else:
        editor.do({"op": "set_attribute", "node": name, "value": parsed})


def _is_target(editor: Editor, name: str) -> bool:
    """Tell whether a constant has this name, or a node the part before its last dot."""
    node = name.rpartition(".")[0]
    return editor.is_constant(name) or node in editor.nodes() or node in editor.values()


def _write(editor: Editor, path: Path, force: bool) -> None:
    """Write what was done, as a script or as JSON."""
    if str(path) == STANDARD:
        print(editor.script(), end="")
    elif path.suffix == ".json":
        editor.to_json(path, force=force)
    else:
        editor.script(path, force=force)
