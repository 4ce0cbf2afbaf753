"""All idioms together."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.load import load
from rewriting.idioms.recognising import parse
from rewriting.running_stages import normalise, recognise


def recognised(*without: str) -> tuple[list[str], dict[str, int]]:
    """The stages that were told of, and how often each idiom was found."""
    body = "a, b = Split <axis = 1, num_outputs = 2> (x) s = Sigmoid(b) y = Mul(a, s)"
    model = load(parse(f"g (float[batch, 8] x) => (float[batch, 4] y) {{ {body} }}"))
    normalise(model)
    stages: list[str] = []

    def note(name: str, model: ir.Model) -> None:
        stages.append(name)

    return stages, recognise(model, without, note)


def test_stages_are_those_that_changed_something() -> None:
    stages, counts = recognised()
    assert stages == ["glu"] == [name for name, count in counts.items() if count]


def test_idioms_can_be_left_out() -> None:
    stages, counts = recognised("glu")
    assert stages == [] and "glu" not in counts
