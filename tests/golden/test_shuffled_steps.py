"""The order of steps is what they declare: any other order that keeps it gives the same text."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

import onnxlift
from models import Example
from onnxlift import pipeline
from onnxlift.pipeline import STAGES

SEEDS = (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffled_steps_give_the_same_text(
    seed: int, example: Example, path: Path, lifted: onnxlift.Lifted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def priority(name: str) -> int:
        return zlib.crc32(f"{seed} {name}".encode())

    tables = {id(stage): stage.shuffled(priority) for stage in STAGES}
    for name, value in vars(pipeline).copy().items():
        if id(value) in tables:
            monkeypatch.setattr(pipeline, name, tables[id(value)])
    shuffled = onnxlift.lift(path, name=example.model)
    assert shuffled.source == lifted.source
    assert [*shuffled.state_dict] == [*lifted.state_dict]
    assert shuffled.report.restless == ()
