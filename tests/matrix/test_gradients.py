"""Every operator of the matrix, called with gradients on: none fails, whatever it gives a gradient for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import onnxlift
from lifting.ops.training import train
from matrix.case import Case, Revision, cases, revisions
from matrix.running import build_model, feeds, unformatted
from matrix.tables import TABLE
from onnxlift.executing import to_argument

NEWEST = list({revision.key: revision for revision in revisions()}.values())
# Operator -> what PyTorch says that it cannot do.
CANNOT = {
    "DepthToSpace": "returned an invalid gradient at index 0 - got [0, ",  # of a batch of none
    # Weights of classes that come from outside are written as they are: who wants a gradient for them is told so.
    "NegativeLogLikelihoodLoss": "not differentiable with respect to argument 'weight'",
    "SoftmaxCrossEntropyLoss": "not differentiable with respect to argument 'weight'",
}


@pytest.fixture(autouse=True)
def fast() -> Iterator[None]:
    with unformatted():
        yield


@pytest.mark.parametrize("revision", NEWEST, ids=lambda revision: revision.name)
def test_newest_revision(revision: Revision) -> None:
    problems = []
    for case in filter(_is_trained, cases(revision, TABLE[revision.key])):
        fed = feeds(case)
        for form in ("open", "fixed"):
            model = build_model(case, form)
            try:
                train(onnxlift.lift(model), [to_argument(fed[value.name]) for value in model.graph.input])
            except onnxlift.UnsupportedError:
                continue
            except (RuntimeError, ValueError, TypeError) as error:
                if CANNOT.get(revision.schema.name, "\0") not in str(error):
                    problems.append(f"{case.name}, sizes {form}: {type(error).__name__}: {error}")
    assert not problems, "\n\n".join([f"{len(problems)} problems", *problems[:10]])


def _is_trained(case: Case) -> bool:
    """Tell whether the case has floating-point inputs, all of a type that PyTorch has derivatives for."""
    types = {array.dtype for array in case.inputs if isinstance(array, np.ndarray)}
    floats = {dtype for dtype in types if _is_float(dtype)}
    return bool(floats) and floats <= {np.dtype(np.float32), np.dtype(np.float64)}


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or "float" in dtype.name
