"""`onnxlift batch` takes many models through the same steps, as a YAML file says."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxlift.errors import OnnxLiftError

from .options import Force, Json, Quiet, progress
from .outcome import NO, TROUBLE, Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.batch import Row


def batch(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yml", help="What to do: a YAML file.")],
    init: Annotated[bool, typer.Option("--init", help="Write a commented example to CONFIG.yml, and stop.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, metavar="N", help="How many models to work on at a time, instead of `jobs`."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS", help="Work on a dask cluster, by the address of its scheduler."),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Work again on the models that have failed before.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Take many models through the same steps, in processes with limits, and write one report.

    CONFIG.yml says which models, which steps (simplify, opset, convert, export, quantize, verify, profile, lint), with
    which options, and where results go. A model that crashes, hangs or takes too much memory costs one row of the
    report. report.jsonl has a line for each model as soon as it is done, report.html a table of all.

    What is done stays done: started again, even after kill -9, a batch works only on models that it has not finished,
    or whose file, steps or options have changed. --retry works again on those that have failed, --force on all.

    The exit status is 1 if any model has failed.

    Example: onnxlift batch models.yml --init

    Example: onnxlift batch models.yml --dry-run

    Example: onnxlift batch models.yml --jobs 2
    """
    try:
        if init:
            _init(config, force=force, json=json)
        elif dry_run:
            _dry_run(config, jobs=jobs, json=json)
        else:
            _batch(config, jobs=jobs, dask=dask, retry=retry, force=force, quiet=quiet, json=json)
    except OnnxLiftError as error:
        if not json:
            raise
        Outcome(False, error=str(error)).show("batch", str(config), json=True)
        raise typer.Exit(TROUBLE) from error


def _init(config: Path, *, force: bool, json: bool) -> None:
    from onnxlift.workbench.batch import write_example

    written = str(write_example(config, force=force))
    told = f"wrote {written}: change it as you need, then `onnxlift batch {written} --dry-run`"
    Outcome(True, {"written": [written]}, told).show("batch", str(config), json=json)


def _dry_run(config: Path, *, jobs: int | None, json: bool) -> None:
    from onnxlift.workbench.batch import plan_batch

    with progress("Looking at the models"):
        plan = plan_batch(config, jobs=jobs)
    Outcome(True, plan.to_dict(), str(plan)).show("batch", str(config), json=json)


def _batch(config: Path, *, quiet: bool, json: bool, **options: Any) -> None:
    from onnxlift.workbench.batch import batch as run

    try:
        with _shown(json=json) as on_row:
            report = run(config, on_row=on_row, **options)
    except KeyboardInterrupt:
        print("onnxlift: stopped; what is done is kept: start again to go on.", file=sys.stderr)
        raise
    if not json and not (quiet and report.passed):
        print(report.closing)
    if not report.passed:
        raise typer.Exit(NO)


@contextmanager
def _shown(*, json: bool) -> Iterator[Callable[[Row, int, int], None]]:
    """Give a function that shows each row: as a line of JSON or, if it failed, of text, and a bar on a terminal."""
    from onnxlift.workbench.batch import failure_line

    with progress("Working on the models") as on_progress:

        def on_row(row: Row, done: int, total: int) -> None:
            on_progress(done, total)
            if json:
                print(json_text.dumps(row.to_dict()), flush=True)
            elif not row.passed:
                print(failure_line(row), file=sys.stderr)

        yield on_row
