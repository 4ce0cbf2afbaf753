"""The six networks of docs/building.md: exact, short, and what a person would have written once they are lifted."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import onnxlift
from models.round_trip import differences, export_again, free_sizes

from .networks import IMPORTS, SECTIONS, SHAPES, WEIGHTS, before, network, sample, weights_of

NAMES = list(SECTIONS)
SOURCES = Path(__file__).parent / "sources"


def lines(code: str) -> int:
    """Lines of code, without those that are empty or comments."""
    return len([line for line in code.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))])


def test_all_six_are_there() -> None:
    assert NAMES == list(WEIGHTS) == list(SHAPES)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_computes_exactly_what_the_helper_version_computes(name: str) -> None:
    theirs, ours = before(name), network(name)
    prefix = "linear." if name == "linear_regression" else ""
    ours.module.load_state_dict({k.removeprefix(prefix): array for k, array in weights_of(name, theirs).items()})
    # ONNX Runtime joins an addition and a norm only where it knows the sizes, as it does in ours, and rounds otherwise
    # then: so the nodes are compared as they are.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    sessions = [
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for model in (theirs.SerializeToString(), ours.model.to_bytes())
    ]
    for seed in (0, 1):
        array = sample(name, seed)
        (expected,), (got,) = (session.run(None, {"x": array}) for session in sessions)
        assert np.isfinite(expected).all() and expected.std() > 0
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_allclose(ours.model(x=array).popitem()[1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_takes_a_third_of_the_lines_and_as_many_as_the_page_says(name: str) -> None:
    text, code = SECTIONS[name]
    told = re.match(r"\n?(\d+) lines, for (\d+)", text)
    assert told is not None
    imports = lines(IMPORTS) - 2  # numpy is for the numbers of the page, and lifting is not building
    ours, theirs = lines(code) + imports, lines((Path(__file__).parent / "before" / f"{name}.py").read_text())
    assert (int(told[1]), int(told[2])) == (ours, theirs)
    assert 3 * ours <= theirs


@pytest.mark.parametrize("name", NAMES)
def test_a_network_lifts_to_its_own_tree(name: str, request: pytest.FixtureRequest) -> None:
    built = network(name)
    lifted = onnxlift.lift(built.model)
    prefix = "linear." if name == "linear_regression" else ""
    assert {f"{prefix}{key}": array.shape for key, array in built.module.state_dict().items()} == {
        key: array.shape for key, array in lifted.state_dict.items()
    }
    for key, array in built.module.state_dict().items():
        np.testing.assert_array_equal(lifted.state_dict[f"{prefix}{key}"], array)
    golden = SOURCES / f"{name}.py"
    classes = lifted.source[lifted.source.index("class ") : lifted.source.index("\n\n\nWEIGHTS = ")] + "\n"
    if request.config.getoption("--update-golden"):
        golden.write_text(classes, encoding="utf-8")
    assert classes == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_lifted_and_exported_again_it_lifts_to_the_same_source(name: str, tmp_path: Path) -> None:
    first, again = tmp_path / "first.onnx", tmp_path / "again" / "first.onnx"
    again.parent.mkdir()
    network(name).model.save(first)
    module = onnxlift.lift(first).module()
    array = sample(name)
    export_again(module, (torch.from_numpy(array),), free_sizes(first, False), again, first)
    assert differences(first, again, name) == []
    with torch.no_grad():
        expected = module(torch.from_numpy(array)).numpy()
    session = onnxruntime.InferenceSession(again, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": array})[0], expected, rtol=1e-4, atol=1e-5)
