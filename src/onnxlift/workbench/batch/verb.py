"""`batch`: many models, one report. docs/workbench/batch.md."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .children import Children
from .cluster import Cluster
from .config import Config, read_config
from .page import page_of
from .plan import Plan, Planned, limits_of, make_plan
from .records import PAGE, Records, Row, row_of
from .report import BatchReport
from .steps import needed_packages

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A YAML file, or a mapping of the same form."""
OnRow = Callable[[Row, int, int], None]
"""Called for each model with its row, the number of models that are done, and of all."""


def batch(
    config: Source,
    *,
    jobs: int | None = None,
    dask: str | None = None,
    retry: bool = False,
    force: bool = False,
    on_row: OnRow | None = None,
) -> BatchReport:
    """Take many models through the same steps, in child processes with limits, and return a report.

    `config` is a YAML file, or a mapping of the same form. What is done stays done: started again, a batch works only
    on models that it has not finished, or whose file, steps, options or versions of packages have changed. With
    `retry` it works again on those that have failed, with `force` on all. `jobs` is how many models are worked on at a
    time. With `dask`, the address of a scheduler, a cluster works on them that sees the same files. `on_row` is called
    as each model is done."""
    begin = time.monotonic()
    settings = _settings(config, jobs)
    records = Records(settings.output_dir)
    records.check(force)
    plan = make_plan(settings)
    settings = plan.config
    with records.opened(force):
        waiting, rows = _kept(plan, records, retry=retry, force=force)
        for number, row in enumerate(rows.values(), 1):
            _tell(on_row, row, number, len(plan.models))
        if waiting and not (settings.on_error == "stop" and not all(rows.values())):
            with _runner(settings, dask) as runner:
                for row in _worked_on(waiting, runner, settings):
                    records.add(row)
                    rows[row.key] = row
                    _tell(on_row, row, len(rows), len(plan.models))
                    if settings.on_error == "stop" and not row.passed:
                        break
        report = BatchReport(
            settings.name,
            settings.output_dir,
            tuple(rows[each.key] for each in plan.models if each.key in rows),
            seconds=time.monotonic() - begin,
            stopped=len(plan.models) - len(rows),
            page=settings.output_dir / PAGE,
            notes=settings.notes,
        )
        records.write(PAGE, page_of(report, settings))
    return report


def plan_batch(config: Source, *, jobs: int | None = None) -> Plan:
    """Return what `batch` would do with this configuration, without doing it."""
    return make_plan(_settings(config, jobs))


def _settings(config: Source, jobs: int | None) -> Config:
    settings = read_config(config)
    return settings if jobs is None else replace(settings, jobs=jobs)


def _kept(plan: Plan, records: Records, *, retry: bool, force: bool) -> tuple[list[Planned], dict[str, Row]]:
    """Return what is to be worked on, and the rows of earlier runs that still hold, by key. The others are dropped."""
    limits = limits_of(plan.config)
    rows: dict[str, Row] = {}
    waiting: list[Planned] = []
    for planned in plan.models:
        row = None if force else records.kept(planned, limits, retry=retry)
        if row is None:
            waiting.append(planned)
        else:
            rows[planned.key] = row
    records.begin(rows.values())
    return waiting, rows


def _runner(settings: Config, dask: str | None) -> Children | Cluster:
    packages = needed_packages(settings.steps)
    if dask is None:
        return Children("work", packages, settings.jobs, ahead=settings.on_error != "stop")
    return Cluster(dask, packages, settings.memory)


def _worked_on(waiting: Sequence[Planned], runner: Children | Cluster, settings: Config) -> Iterator[Row]:
    limits = limits_of(settings)
    for number, ended in runner.run([each.task for each in waiting], limits):
        yield row_of(waiting[number], ended, limits)


def _tell(on_row: OnRow | None, row: Row, done: int, total: int) -> None:
    if on_row is not None:
        on_row(row, done, total)
