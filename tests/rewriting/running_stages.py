"""The stages that rewrite a graph, run one at a time as the tests need them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx_ir as ir

from onnxlift.lifting.ops.layer_nodes import function_weights
from onnxlift.rewriting.stages import IDIOMS, NORMAL_FORM, RESTORING, SIMPLIFYING
from onnxlift.stages import Observer, Record, Stage


def normalise(model: ir.Model, observer: Observer | None = None, **environment: Any) -> None:
    """Bring the model to its normal form, and restore what exporters have undone."""
    record = Record(observer=observer)
    record.run(NORMAL_FORM, model, **environment)
    record.run(RESTORING, model)


def simplify(model: ir.Model, skip: Collection[str] = (), observer: Observer | None = None) -> dict[str, int]:
    """The number of rewrites by simplifying step."""
    return _run(SIMPLIFYING, model, skip, observer)


def recognise(model: ir.Model, skip: Collection[str] = (), observer: Observer | None = None) -> dict[str, int]:
    """The number of rewrites by idiom."""
    return _run(IDIOMS, model, skip, observer, function_weights=function_weights)


def _run(
    stage: Stage, model: ir.Model, skip: Collection[str], observer: Observer | None, **environment: Any
) -> dict[str, int]:
    record = Record(skip, observer)
    record.run(stage, model, **environment)
    return dict(record.changes[stage.name])
