"""Properties of extract, expose and merge on random graphs and on the example models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from fuzz.generate import generate
from fuzz.runtime import RefusedError
from models import Example
from models.every import EXAMPLES
from onnxlift.errors import OnnxLiftError
from onnxlift.verification.inputs import make_inputs
from onnxlift.workbench.expose import expose
from onnxlift.workbench.extract import extract
from onnxlift.workbench.merge import merge
from onnxlift.workbench.report import open_model
from workbench.cutting import Values, assert_equal, inputs_of, outputs_of, random_cut, run


def check(model: onnx.ModelProto, feeds: Values, seed: int) -> None:
    expected = run(model, feeds)
    inside = expose(model, all=True, verify=False)
    back = extract(inside, to=outputs_of(model), verify=False).proto()
    assert_equal(run(back, feeds), expected)
    same = extract(model, from_=inputs_of(model), to=outputs_of(model), verify=False).proto()
    assert (inputs_of(same), outputs_of(same)) == (inputs_of(model), outputs_of(model))
    assert_equal(run(same, feeds), expected)
    cut = random_cut(model, seed)
    if cut is None:
        return
    crossing, later = cut
    ready = [name for name in outputs_of(model) if name not in later]
    first = extract(model, to=[*crossing, *ready], verify=False)
    second = extract(model, from_=crossing, to=later, verify=False)
    whole = merge(first, second, keep=True, verify=False).proto()
    assert_equal(run(whole, feeds), expected)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_can_be_cut_and_joined_again(seed: int) -> None:
    case = generate(seed)
    try:
        check(case.model, dict(case.feeds[0]), seed)
    except RefusedError as error:
        if "No corresponding Numpy type" not in str(error):  # bfloat16 inside
            raise
    except OnnxLiftError as error:
        if "nothing tells the type" not in str(error):  # SequenceMap
            raise


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_models_can_be_cut_and_joined_again(example: Example, model_file: Callable[[Example], Path]) -> None:
    model = onnx.load(model_file(example))
    check(model, make_inputs(open_model(model).graph), seed=len(model.graph.node))
