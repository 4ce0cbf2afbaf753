"""The rows of a batch: one for each model, written to report.jsonl as soon as it is known, and read again later.

A row has a key: a digest of the model's files, the steps with their options, shapes, inputs, and the versions of all
that takes part. A batch that is started again keeps the rows whose keys are the same and whose files are still there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxlift.envelope import envelope
from onnxlift.errors import OutputError, quote

from .children import Ended, Limits
from .plan import Planned

ROWS, PAGE = "report.jsonl", "report.html"
PASSED, SAYS_NO, ERROR = "passed", "failed", "error"
MUCH_LARGER = 1.25
"""A limit that is larger by this factor is worth another try."""


@dataclass(frozen=True)
class Row:
    """What became of a model. It is true if all steps have passed.

    `kind` is "passed", "failed" (a step says no), "error" (a step could not do its work), "timeout", "memory" or
    "crash". `reason` says why, in one paragraph that begins with the step."""

    model: str
    key: str
    kind: str
    reason: str = ""
    seconds: float = 0.0
    memory: int = 0
    folder: str = ""
    steps: tuple[Mapping[str, Any], ...] = ()
    limit: float = 0
    """The limit that was too small, if it was one."""
    kept: bool = field(default=False, compare=False)
    """Whether an earlier run has done it."""

    @property
    def passed(self) -> bool:
        """Tell whether all steps have passed."""
        return self.kind == PASSED

    def __bool__(self) -> bool:
        return self.passed

    @property
    def written(self) -> list[str]:
        """The files that were written."""
        return [path for step in self.steps for path in step["written"]]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a line of report.jsonl: the envelope that all commands answer with."""
        names = ("key", "kind", "seconds", "memory", "folder", "limit")
        data = {name: getattr(self, name) for name in names}
        data |= {"reason": self.reason, "steps": [dict(step) for step in self.steps], "written": self.written}
        return envelope("batch", self.model, self.passed, data, "" if self.kind in (PASSED, SAYS_NO) else self.reason)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Row:
        """Return the row that a line of report.jsonl tells of."""
        data = {name: value for name, value in told["data"].items() if name != "written"}
        return cls(told["model"], **{**data, "steps": tuple(data["steps"])}, kept=True)


def row_of(planned: Planned, ended: Ended, limits: Limits) -> Row:
    """Return the row of a model whose child has ended."""
    steps = [told for told in ended.told if "step" in told]
    begun = [told["begins"] for told in ended.told if "begins" in told]
    wrong = next((step for step in steps if not step["passed"]), None)
    kind, reason = PASSED, ""
    if ended.kind:
        where = begun[len(steps)] if len(begun) > len(steps) else "start"
        kind, reason = ended.kind, f"{where}: {ended.text}"
    elif wrong is not None:
        kind = ERROR if "error" in wrong else SAYS_NO
        reason = f"{wrong['step']}: {wrong.get('error') or _says(wrong)}"
    return Row(
        planned.model,
        planned.key,
        kind,
        reason,
        seconds=ended.seconds,
        memory=ended.peak,
        folder=str(planned.folder),
        steps=tuple(steps),
        limit=_limit(kind, limits),
    )


def _says(step: Mapping[str, Any]) -> str:
    """Return what a step has said that did not pass: its text, without the lines that are not about what is wrong."""
    lines = str(step.get("text", "")).splitlines()
    telling = [line.strip() for line in lines if "FAILED" in line or "NOT MATCH" in line]
    return (telling or lines or ["it has not passed"])[0]


class Records:
    """The folder of results, and the rows in it. Only one batch at a time has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        """The rows of earlier runs by key."""

    def check(self, force: bool) -> None:
        """Refuse a folder with files in it that are not of a batch, unless `force`."""
        with _answered(self.folder):
            is_taken = self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / ROWS).exists()
        if is_taken and not force:
            raise OutputError(
                f"{quote(str(self.folder))} is not empty, and not the folder of a batch: give another `output_dir`, or "
                "pass --force to write into it."
            )

    @contextmanager
    def opened(self, force: bool) -> Iterator[None]:
        """Take the folder for this batch, and read the rows that are in it."""
        self.check(force)
        path = self.folder / ROWS
        with _answered(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder, os.O_RDONLY)
        try:
            _lock(lock, self.folder)
            with _answered(self.folder):
                path.touch()
                self.rows = {row.key: row for row in read_rows(path)}
            yield
        finally:
            os.close(lock)

    def kept(self, planned: Planned, limits: Limits, *, retry: bool) -> Row | None:
        """Return the row of an earlier run that still holds for a model; None if the model is to be worked on.

        A model for which a limit was too small is worked on again if the limit is much larger now."""
        row = self.rows.get(planned.key)
        if row is None or (retry and not row.passed):
            return None
        if _limit(row.kind, limits) > row.limit * MUCH_LARGER or not all(Path(path).exists() for path in row.written):
            return None
        return replace(row, model=planned.model)

    def begin(self, rows: Iterable[Row]) -> None:
        """Let report.jsonl hold these rows and no others, in one go."""
        text = "".join(f"{json.dumps(row.to_dict())}\n" for row in rows)
        self.write(ROWS, text)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the report, whole or not at all."""
        with _answered(self.folder):
            part = self.folder / f".{name}.part"
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
            return part.replace(self.folder / name)

    def add(self, row: Row) -> None:
        """Add a row to report.jsonl, for good."""
        with _answered(self.folder), (self.folder / ROWS).open("ab") as file:
            file.write(f"{json.dumps(row.to_dict())}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def _limit(kind: str, limits: Limits) -> float:
    """Return the limit that a row of this kind has met, or would meet."""
    return {"timeout": limits.seconds, "memory": float(limits.memory)}.get(kind, 0)


@contextmanager
def _answered(folder: Path) -> Iterator[None]:
    """Say of a failure to write what could not be written."""
    try:
        yield
    except OSError as error:
        reason = "it is a file, and no folder" if folder.is_file() else error.strerror or error
        raise OutputError(f"cannot write to {quote(str(folder))}: {reason}.") from error


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a report.jsonl. What is no row is passed over, such as a last line that was cut off."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield Row.of(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue


def _lock(file: int, folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(f"another batch is writing to {quote(str(folder))}: wait until it has finished.") from error
