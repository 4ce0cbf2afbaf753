"""The operators of ONNX's own suite and of the matrix, at all revisions, built again through `op`: the same nodes."""

from __future__ import annotations

import warnings

import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases

from build.rebuilding import is_plain, nodes_of, rebuilt
from matrix.case import Revision, cases, revisions
from matrix.running import build_model
from matrix.tables import TABLE


def problem(model: onnx.ModelProto) -> str:
    """Return what is wrong with the model that is built again; an empty text if nothing is."""
    try:
        found = rebuilt(model).proto()
    except Exception as error:
        return repr(error)
    expected, actual = nodes_of(model), nodes_of(found)
    return "" if expected == actual else f"{actual} instead of {expected}"


def test_the_suite_is_built_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {case.name: case.model for case in collect_testcases(None)}
    problems = {name: problem(model) for name, model in models.items() if model is not None and is_plain(model)}
    assert len(problems) > 1500
    assert {name: text for name, text in problems.items() if text} == {}


CANNOT = {
    **dict.fromkeys(("CastMap", "DictVectorizer"), "it takes maps, of which onnx-ir has no type"),
    "Gradient": "it holds names of values, which are others in the model that is built again",
}


@pytest.mark.parametrize("revision", revisions(), ids=lambda revision: revision.name)
def test_each_revision_is_built_again(revision: Revision) -> None:
    if revision.schema.name in CANNOT:
        pytest.skip(CANNOT[revision.schema.name])
    problems = {}
    for case in cases(revision, TABLE[revision.key]):
        for form in ("fixed", "open"):
            model = build_model(case, form)
            if is_plain(model) and not revision.schema.deprecated:
                problems[f"{case.name} {form}"] = problem(model)
    assert {name: text for name, text in problems.items() if text} == {}
