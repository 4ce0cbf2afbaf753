"""Scripts make the same models again: single operators, random graphs, whole networks. benchmarks/build_script.py
takes all of them; here it is one in so many."""

from __future__ import annotations

import warnings
from functools import cache

import onnx
import pytest
from onnx.backend.test.case.node import collect_testcases

import onnxlift
from fuzz.generate import generate
from models.every import EXAMPLES

EVERY = 24
SEEDS = range(0, 500, 36)


@cache
def suite() -> dict[str, onnx.ModelProto]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {case.name: case.model for case in collect_testcases(None)}
    return {name: model for name, model in models.items() if model is not None}


def problem(model: object) -> str:
    """What is wrong with the script of a model; an empty text if nothing is."""
    report = onnxlift.build_script(model)
    return "" if report else str(report)


def test_single_operators() -> None:
    models = dict(list(suite().items())[::EVERY])
    assert len(models) > 70
    assert {name: text for name, model in models.items() if (text := problem(model))} == {}


CONTROL = ("if", "if_seq", "if_opt", "loop11", "loop13_seq", "loop16_seq_none", "scan_sum", "scan9_multi_state")


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    assert problem(suite()[f"test_{name}"]) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(seed: int) -> None:
    assert problem(generate(seed).model) == ""


@pytest.mark.parametrize("name", ["tiny_resnet", "bert_dynamo", "gpt2_script", "lstm_classifier", "beam_step"])
def test_networks(name: str) -> None:
    example = next(each for each in EXAMPLES if each.name == name)
    assert problem(example.build()) == ""
