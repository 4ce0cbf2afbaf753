"""Layer normalisation as ONNX's operator, with ones and zeros where the layer has no weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse, simplified

NORM = "y = LayerNormalization <axis = -2, epsilon = 1e-4> (x, w, val_2)"


def model(body: str = NORM, more: str = "", **known: Data) -> onnx.ModelProto:
    numbers: dict[str, Data] = {
        "w": (4, 6),
        "val_1": np.ones((4, 6), np.float32),
        "val_2": np.zeros((4, 6), np.float32),
    } | known
    used = {name: value for name, value in numbers.items() if f"{name})" in body or f"{name}," in body}
    return parse(f"g (float[batch, 4, 6] x) => (float[batch, 4, 6] y{more}) {{ {body} }}", **used)


@pytest.mark.parametrize(
    ("body", "known", "inputs"),
    [
        (NORM, {}, ["x", "w"]),
        (NORM.replace("w,", "val_1,"), {}, ["x"]),
        (NORM.replace("w, val_2", "val_1"), {}, ["x"]),
        (NORM.replace("w,", "val_1,"), {"val_1": np.ones(6, np.float32)}, ["x"]),
        (NORM, {"w": (4, 1), "val_2": np.zeros(1, np.float32)}, ["x", "w"]),
    ],
    ids=["no bias", "neither", "no third input", "ones of another shape", "a weight of another shape"],
)
def test_what_an_exporter_made_is_left_out(body: str, known: dict[str, Data], inputs: list[str]) -> None:
    assert found(model(body, **known)) == ["onnxlift.LayerNorm"]
    (norm,) = simplified(model(body, **known)).graph
    assert [value.name for value in norm.inputs if value is not None] == inputs


@pytest.mark.parametrize(
    ("old", "new"),
    [("w, val_2", "w, val_1"), ("w, val_2", "w"), ("w, val_2", "val_1, b")],
    ids=["ones as bias", "no bias anyway", "a bias"],
)
def test_what_is_there_stays(old: str, new: str) -> None:
    assert found(model(NORM.replace(old, new), b=(4, 6))) == ["LayerNormalization"]


def test_statistics_that_are_read_stay() -> None:
    body = NORM.replace("y =", "y, m =").replace("w,", "val_1,")
    assert found(model(body, ", float[batch, 1, 1] m")) == ["LayerNormalization"]


def test_statistics_of_another_precision_stay() -> None:
    body = NORM.replace("axis", "stash_type = 11, axis").replace("w,", "val_1,")
    assert [node.op_type for node in simplified(model(body)).graph] == ["LayerNormalization"]
