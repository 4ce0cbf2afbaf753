"""What holds for any operations on any model: undo, redo, scripts and JSON give the same bytes; failures are errors."""

from __future__ import annotations

import random

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.generate import generate
from onnxlift.workbench import edit
from workbench.edit.random_operations import bytes_or_none, do_randomly
from workbench.models import branches, chain, functions

PROPERTY = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
HANDMADE = (branches, chain, functions)


def model_of(seed: int) -> onnx.ModelProto:
    return HANDMADE[seed // 4 % 3]() if seed % 4 == 0 else generate(seed).model


@PROPERTY
@given(st.integers(0, 100_000))
def test_undone_operations_leave_the_bytes_as_they_were(seed: int) -> None:
    m = edit.open(model_of(seed))
    before = bytes_or_none(m)
    choose = random.Random(seed)
    done = list(do_randomly(choose, m, 12))
    after = bytes_or_none(m)
    assert list(m.operations) == done
    m.undo(len(done))
    assert bytes_or_none(m) == before is not None
    m.redo(len(done))
    assert bytes_or_none(m) == after


@PROPERTY
@given(st.integers(0, 100_000))
def test_script_and_json_do_the_same_again(seed: int) -> None:
    model = model_of(seed)
    m = edit.open(model)
    list(do_randomly(random.Random(seed), m, 12))
    saved = bytes_or_none(m)
    by_script = edit.open(model)
    exec(m.script(), {"m": by_script})
    assert bytes_or_none(by_script) == saved
    by_json = edit.open(model)
    for operation in edit.parse_operations(m.to_json()):
        by_json.do(operation)
    assert by_json.operations == m.operations
    assert bytes_or_none(by_json) == saved


@PROPERTY
@given(st.integers(0, 100_000))
def test_what_is_valid_for_us_is_valid_for_onnx(seed: int) -> None:
    model = model_of(seed)
    m = edit.open(model)
    list(do_randomly(random.Random(seed), m, 5))
    saved = bytes_or_none(m)
    if saved is None:
        assert m.problems()
    elif is_valid(model.SerializeToString()) and all(m.type(name).shape is not None for name in m.outputs):
        assert is_valid(saved)


def is_valid(model: bytes) -> bool:
    """Whether ONNX's checker takes a model: it refuses outputs without a shape, for example."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True
