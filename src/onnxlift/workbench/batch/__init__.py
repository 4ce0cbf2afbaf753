"""`batch`: many models, one report. docs/workbench/batch.md."""

from __future__ import annotations

from .example import write_example
from .located import ConfigError
from .plan import Plan
from .records import Row
from .report import BatchReport, failure_line
from .verb import batch, plan_batch

__all__ = ["BatchReport", "ConfigError", "Plan", "Row", "batch", "failure_line", "plan_batch", "write_example"]
