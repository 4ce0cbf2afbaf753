"""Scripts make the same models again: single operators, random graphs, whole networks. benchmarks/build_script.py
takes all of them; here it is one in so many."""

from __future__ import annotations

import pytest

from .every import golden_models, problem, random_graphs, single_operators

EVERY = 24
WERE_WRONG = {
    213: "a function gives a constant that nothing reads",
    258: "a Scan says that it goes forward, as it would without",
    273: "a function calls an input abs",
    276: "an output has a line break in its name",
}
SEEDS = sorted({*range(0, 500, 36), *WERE_WRONG})
CONTROL = ("if", "if_seq", "if_opt", "loop11", "loop13_seq", "loop16_seq_none", "scan_sum", "scan9_multi_state")


def test_single_operators() -> None:
    models = dict(list(single_operators().items())[::EVERY])
    assert len(models) > 70
    assert {name: text for name, make in models.items() if (text := problem(make()))} == {}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    assert problem(single_operators()[f"test_{name}"]()) == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs(seed: int) -> None:
    assert problem(random_graphs(500)[f"seed {seed}"]()) == ""


@pytest.mark.parametrize("name", ["tiny_resnet", "bert_dynamo", "gpt2_script", "lstm_classifier", "beam_step"])
def test_networks(name: str) -> None:
    assert problem(golden_models()[name]()) == ""
