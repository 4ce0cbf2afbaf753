"""`onnxlift lint` finds what may trouble whoever ships a model."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .each import Target, answers, change_each, run_each
from .options import (
    Atol,
    Dim,
    ExternalData,
    Force,
    Input,
    Jobs,
    Json,
    Memory,
    Models,
    Output,
    Quiet,
    Rtol,
    Seed,
    Shape,
    Timeout,
    Verify,
    parse_dims,
    parse_shapes,
)
from .outcome import NO, TROUBLE, YES, Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.lint.report import LintFix


class Severity(StrEnum):
    """The values of --fail-on. (Older releases of typer do not know Literal.)"""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Format(StrEnum):
    """The values of --format."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def lint(
    models: Models,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="RULES", help="Only these rules: identifiers, prefixes or names: OL3,OL201."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULES", help="All but these rules: OL408, OL4.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--for", metavar="RUNTIME", help="A runtime that must take the model: onnxruntime==1.17."),
    ] = None,
    no_weights: Annotated[bool, typer.Option("--no-weights", help="Do not look at the numbers of weights.")] = False,
    fail_on: Annotated[
        Severity,
        typer.Option("--fail-on", help="The least severity for which the exit status is 1."),
    ] = Severity.WARNING,
    every_place: Annotated[bool, typer.Option("--all", help="List every place, and not only the first few.")] = False,
    format: Annotated[Format, typer.Option("--format", help="How to print findings.")] = Format.TEXT,
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended exactly; -o says where to write.")
    ] = False,
    output: Output = None,
    shape: Shape = None,
    dim: Dim = None,
    verify: Verify = True,
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
    """Find what may trouble whoever ships a model: broken, contradictory, wasteful or refused by a runtime.

    Each finding has a rule with a stable identifier and a severity: error, warning or info. The exit status is 1 if
    there are errors or warnings, 2 if a model cannot be read. docs/workbench/lint-rules.md explains each rule.

    With --fix, what can be mended exactly is: the result is compared with the original, and written to -o.

    Example: onnxlift lint resnet50.onnx

    Example: onnxlift lint 'models/*.onnx' --ignore OL1 --for onnxruntime==1.17 --format sarif

    Example: onnxlift lint resnet50.onnx --fix -o better.onnx
    """
    if output is not None and not fix:
        raise typer.BadParameter("-o says where to write a model that --fix has mended: pass --fix as well.")
    json = json or format is Format.JSON
    options: dict[str, Any] = {
        "select": tuple(select or ()),
        "ignore": tuple(ignore or ()),
        "target": target,
        "weights": not no_weights,
        "fail_on": fail_on.value,
    }
    if fix:
        checking = {
            "verify": verify,
            "inputs": input,
            "shapes": parse_shapes(shape or ()),
            "dims": parse_dims(dim or ()),
            "seed": seed,
            "rtol": rtol,
            "atol": atol,
            "timeout": timeout,
            "memory": memory,
        }
        verb = partial(_fix, options=options, checking=checking)
        change_each("lint", models, verb, Target(output, force, external_data), json=json, quiet=quiet, jobs=jobs)
        return
    work = partial(_look, options=options, every_place=every_place)
    if format is Format.SARIF:
        _print_sarif(models, work, jobs)
    else:
        run_each("lint", models, work, json=json, quiet=quiet, jobs=jobs)


def _look(source: Path | bytes, name: str, *, options: dict[str, Any], every_place: bool) -> Outcome:
    from onnxlift.workbench.lint.lint import lint as run

    report = run(source, **options)
    return Outcome(report.passed, report.to_dict(), report.text(every_place=every_place))


def _fix(source: Path | bytes, *, options: dict[str, Any], checking: dict[str, Any]) -> LintFix:
    from onnxlift.workbench.lint.lint import lint as run

    return run(source, **options).fix(**checking)


def _print_sarif(models: list[str], work: Any, jobs: int) -> None:
    """Print one log for all models."""
    import sys
    from json import dumps

    from onnxlift.workbench.lint.report import LintFinding
    from onnxlift.workbench.lint.sarif import sarif_log

    found, errors, status = [], [], YES
    for name, outcome in answers("lint", models, work, jobs=jobs):
        status = max(status, outcome.status)
        if outcome.error:
            print(f"onnxlift: {name}: {outcome.error}", file=sys.stderr)
            errors.append((name, outcome.error))
        else:
            found.append((name, [LintFinding(**finding) for finding in outcome.data["findings"]]))
    print(dumps(sarif_log(found, errors), indent=2))
    if status in (NO, TROUBLE):
        raise typer.Exit(status)
