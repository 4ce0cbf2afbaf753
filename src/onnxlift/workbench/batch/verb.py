"""`batch`: many models, one report. docs/workbench/batch.md."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .children import Children, Ended, Limits
from .cluster import Cluster
from .config import Config, read_config
from .page import page_of
from .plan import Plan, Planned, make_plan
from .records import PAGE, Records, Row, row_of
from .report import BatchReport
from .steps import needed_packages

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A YAML file, or a mapping of the same form."""
OnRow = Callable[[Row, int, int], None]
"""Called for each model with its row, the number of models that are done, and of all."""


class Runner(Protocol):
    """Does tasks in children with limits: on this machine, or on a cluster."""

    def run(self, tasks: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[tuple[int, Ended]]: ...


def batch(
    config: Source,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    retry: bool = False,
    force: bool = False,
    on_row: OnRow | None = None,
) -> BatchReport:
    """Take many models through the same steps, each in a child process of its own, and return a report.

    `config` is a YAML file, or a mapping of the same form. What is done stays done: started again, a batch works only
    on models that it has not finished, or whose file, steps, options or versions of packages have changed. With `retry`
    it works again on those that have failed, with `force` on all. `jobs` is how many models are worked on at a time. With
    `dask`, the address of a scheduler, they are worked on by a cluster that sees the same files. `on_row` is called as
    each model is done."""
    begin = time.monotonic()
    settings = read_config(config)
    settings = settings if jobs is None else replace(settings, jobs=jobs)
    limits = _limits(settings)
    packages = needed_packages(settings.steps)
    records = Records(settings.output_dir)
    with Children(packages, settings.jobs) as children:
        plan = make_plan(settings, children, limits)
        with records.opened(force):
            if dask is None:
                rows = _run(plan, children, records, limits, retry, force, on_row)
            else:
                children.close()
                with Cluster(dask, packages, settings.memory) as cluster:
                    rows = _run(plan, cluster, records, limits, retry, force, on_row)
            report = BatchReport(
                settings.name,
                settings.output_dir,
                tuple(rows[each.key] for each in plan.models if each.key in rows),
                seconds=time.monotonic() - begin,
                stopped=len(plan.models) - len(rows),
                page=settings.output_dir / PAGE,
                notes=plan.config.notes,
            )
            records.write(PAGE, page_of(report, plan.config))
    return report


def plan_batch(config: Source, *, jobs: int | None = None) -> Plan:
    """Return what `batch` would do with this configuration, without doing it."""
    settings = read_config(config)
    settings = settings if jobs is None else replace(settings, jobs=jobs)
    with Children((), settings.jobs) as children:
        return make_plan(settings, children, _limits(settings))


def _limits(settings: Config) -> Limits:
    return Limits.of(settings.timeout, settings.memory, settings.jobs)


def _run(
    plan: Plan,
    runner: Runner,
    records: Records,
    limits: Limits,
    retry: bool,
    force: bool,
    on_row: OnRow | None,
) -> dict[str, Row]:
    """Return the rows by key: those of earlier runs that still hold, and those of the models that are worked on now."""
    rows: dict[str, Row] = {}
    waiting: list[Planned] = []
    for planned in plan.models:
        row = None if force else records.kept(planned, limits, retry=retry)
        if row is None:
            waiting.append(planned)
        else:
            rows[planned.key] = row
    records.begin(rows.values())
    for row in rows.values():
        if on_row is not None:
            on_row(row, len(rows), len(plan.models))
    if plan.config.on_error == "stop" and not all(rows.values()):
        return rows
    ended = runner.run([each.task for each in waiting], limits)
    for number, each in ended:
        row = row_of(waiting[number], each, limits)
        records.add(row)
        rows[row.key] = row
        if on_row is not None:
            on_row(row, len(rows), len(plan.models))
        if plan.config.on_error == "stop" and not row.passed:
            break
    return rows
