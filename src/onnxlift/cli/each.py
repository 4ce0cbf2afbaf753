"""Run a verb on one model or on many: globs, standard input, several at a time, one answer each."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from onnxlift.errors import OnnxLiftError, OutputError

from .options import DEBUG, progress
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.workbench.report import ModelReport

STANDARD = "-"
"""The name of standard input and standard output."""

Work = Callable[[Path | bytes, str], Outcome]
"""What a verb does with a model, given its source and the name under which the user knows it.

It may run in another process, so it must be picklable: a function of a module, or a `partial` of one."""


@dataclass(frozen=True)
class Target:
    """Where a verb writes the models that it changes: the options -o, --force and --external-data."""

    output: str | None
    force: bool = False
    external_data: str = "auto"
    suffix: str = ""
    """The suffix of results in a folder, if it is not that of the model."""

    @property
    def is_stream(self) -> bool:
        return self.output == STANDARD

    def paths(
        self, models: Sequence[str], suffix: Callable[[], str], check: Callable[[Path], object] | None = None
    ) -> dict[str, Path | None]:
        """Return the file for what is written of each model, in another format; None if nothing is to be written.

        In a folder it has the model's name with another `suffix`; a file that is named is checked by `check`. Raises an
        OutputError before anything is worked out if two would be the same, or one is there already."""
        paths: dict[str, Path | None] = {}
        for name in models:
            path = self.path(name, is_one_of_many=len(models) > 1)
            if path is not None and str(path) != self.output:
                path = path.with_suffix(f".{suffix()}")
            elif path is not None and check is not None:
                check(path)
            if path is not None and path in paths.values():
                raise OutputError(f"two results would both be {str(path)!r}.")
            if path is not None and path.exists() and not self.force:
                raise OutputError(
                    f"{str(path)!r} is there already: pass --force to replace it, or write to another file."
                )
            paths[name] = path
        return paths

    def path(self, model: str, *, is_one_of_many: bool) -> Path | None:
        """Return the file for the result of a model; None if nothing is to be written to a file."""
        if self.output is None or self.is_stream:
            return None
        path = Path(self.output)
        if path.is_dir() or self.output.endswith(("/", os.sep)):
            name = Path(model).name if model != STANDARD else "model.onnx"
            return path / (Path(name).with_suffix(self.suffix) if self.suffix else name)
        if is_one_of_many:
            raise OutputError(f"{self.output!r} is no folder, and there are several models: add a / to its end.")
        return path


def run_each(
    command: str, models: Sequence[str], work: Work, *, json: bool = False, quiet: bool = False, jobs: int = 1
) -> None:
    """Run `work` on each model, and print the answers in the order of the models.

    Exits with 2 if there was trouble with any of them, else with 1 if the answer to any is no."""
    names = list(expand(models))
    several = len(names) > 1
    status = 0
    for name, outcome in answers(command, names, work, jobs=jobs):
        if several and not json and outcome.error:
            outcome = Outcome(False, error=f"{name}: {outcome.error}")
        outcome.show(command, name, json=json, quiet=quiet, one_line=several)
        status = max(status, outcome.status)
    if status:
        raise typer.Exit(status)


def run_one(
    command: str, model: str, work: Callable[[], Outcome], *, title: str, json: bool = False, quiet: bool = False
) -> None:
    """Run `work`, and print the answer: for commands that take no more than a certain number of models."""
    with progress(title):
        outcome = _caught(work)
    outcome.show(command, model, json=json, quiet=quiet)
    if outcome.status:
        raise typer.Exit(outcome.status)


def answers(command: str, models: Sequence[str], work: Work, *, jobs: int = 1) -> Iterator[tuple[str, Outcome]]:
    """Yield each model with the answer of `work`, in order, for commands that print them in their own way."""
    names = list(expand(models))
    yield from _outcomes(names, partial(_answer, work=work), jobs, f"{command} {', '.join(names[:3])}")


def change_each(
    command: str,
    models: Sequence[str],
    verb: Callable[..., ModelReport],
    target: Target,
    *,
    json: bool = False,
    quiet: bool = False,
    jobs: int = 1,
) -> None:
    """Run a verb that changes models on each, and write the results to the target.

    A result that does not match its original is not written."""
    names = list(expand(models))
    if target.is_stream and (json or len(names) > 1):
        raise OutputError("standard output takes one model and nothing else: write to a file (-o FILE).")
    _check_targets(names, target)
    if target.is_stream:
        outcome = _answer(names[0], work=partial(_stream, verb=verb, target=target))
        outcome.show(command, names[0], quiet=quiet, file=sys.stderr)
        if outcome.status:
            raise typer.Exit(outcome.status)
        return
    many = len(names) > 1
    paths = {name: target.path(name, is_one_of_many=many) for name in names}
    work = partial(_change, verb=verb, target=target, paths=paths)
    run_each(command, names, work, json=json, quiet=quiet, jobs=jobs)


def expand(models: Sequence[str]) -> Iterator[str]:
    """Yield the models that are meant: a glob stands for all files that it matches, in their order."""
    for name in models:
        path = Path(name)
        if name == STANDARD or path.exists() or not re.search(r"[*?\[]", name):
            yield name
            continue
        found = sorted(map(str, Path(path.anchor).glob(str(path.relative_to(path.anchor)))))
        if not found:
            raise OnnxLiftError(f"no file matches {name!r}.")
        yield from found


def _outcomes(
    names: Sequence[str], answer: Callable[[str], Outcome], jobs: int, title: str
) -> Iterator[tuple[str, Outcome]]:
    """Yield the answers, in order; on a terminal, with a bar while they are worked out."""
    with progress(title) as on_progress:
        if jobs == 1 or len(names) == 1:
            answers: Iterator[Outcome] = map(answer, names)
            yield from _counted(names, answers, on_progress)
            return
        with ProcessPoolExecutor(min(jobs, len(names))) as pool:
            yield from _counted(names, pool.map(answer, names), on_progress)


def _counted(
    names: Sequence[str], answers: Iterator[Outcome], on_progress: Callable[[int, int], None]
) -> Iterator[tuple[str, Outcome]]:
    for done, (name, outcome) in enumerate(zip(names, answers, strict=True), 1):
        if len(names) > 1:
            on_progress(done, len(names))
        yield name, outcome


def read(name: str) -> Path | bytes:
    """Return the source of a model that is named on the command line."""
    return sys.stdin.buffer.read() if name == STANDARD else Path(name)


def _answer(name: str, work: Work) -> Outcome:
    return _caught(lambda: work(read(name), name))


def _caught(work: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of `work`; if there is trouble, an outcome that says so."""
    try:
        return work()
    except OnnxLiftError as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error.__cause__ or error)
        return Outcome(False, error=str(error))


def _change(
    source: Path | bytes, name: str, *, verb: Callable[..., ModelReport], target: Target, paths: dict[str, Path | None]
) -> Outcome:
    report = verb(source)
    path = paths[name]
    lines, data = [str(report)], report.to_dict()
    written: list[Path] = []
    if path is not None and report.passed:
        written = report.save(path, force=target.force, external_data=target.external_data)
    elif path is not None:
        lines.append(f"  not written    {report.why_not_written}")
    lines += [f"  wrote          {file}" for file in written]
    data["written"] = [str(file) for file in written]
    return Outcome(report.ok, data, "\n".join(lines))


def _stream(source: Path | bytes, name: str, *, verb: Callable[..., ModelReport], target: Target) -> Outcome:
    """Write the result to standard output."""
    if target.external_data not in ("auto", "never"):
        raise OutputError("there is no file beside standard output that could hold external data: write to a file.")
    report = verb(source)
    if report.passed:
        sys.stdout.buffer.write(report.to_bytes())
        sys.stdout.buffer.flush()
    return Outcome(report.ok, report.to_dict(), str(report))


def _check_targets(names: Sequence[str], target: Target) -> None:
    """Refuse to write two results to one file, before anything is worked out."""
    taken: dict[Any, str] = {}
    for name in names:
        path = target.path(name, is_one_of_many=len(names) > 1)
        if path is None:
            continue
        if path in taken:
            raise OutputError(f"the results of {taken[path]!r} and {name!r} would both be {str(path)!r}.")
        if path.exists() and not target.force:
            raise OutputError(f"{str(path)!r} is there already: pass --force to replace it, or write to another file.")
        taken[path] = name
