"""What comes back of a module that was exported: a few architectures of the many in `benchmarks/fidelity.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import onnxlift
from models import Example
from models.architectures import ARCHITECTURES
from models.fidelity import QUICK_CHECKS, Stored, code_lines, is_there, measure
from models.network import EXPORTERS, Exporter, examples
from models.round_trip import differences, export_again, free_sizes

QUICK = ("cnn", "unet", "vit", "lstm", "resnet_unfolded", "convnext", "distilbert", "albert")
NETWORKS = {network.name: network for network in ARCHITECTURES}


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", QUICK)
def test_all_targets_are_met(name: str, exporter: Exporter, model_file: Callable[[Example], Path]) -> None:
    [example] = [e for e in examples([NETWORKS[name]]) if e.exporter == exporter]
    found = measure(NETWORKS[name], model_file(example), checks=QUICK_CHECKS)
    assert found.shortfalls == []


def test_layers_of_a_constant_are_there_after_a_round_trip(
    model_file: Callable[[Example], Path], tmp_path: Path
) -> None:
    """DeBERTa's attentions project its relative positions: a constant, if the exporter has normalised them."""
    network = NETWORKS["deberta"]
    [example] = [e for e in examples([network]) if e.exporter == "script"]
    path, again = model_file(example), tmp_path / "again.onnx"
    module = onnxlift.lift(path, name=network.name).module()
    inputs = [torch.from_numpy(array) for array in network.samples()[1].values()]
    export_again(module, inputs, free_sizes(path, network.recurrent), again, path)
    assert differences(path, again, network.name) == []


def test_enough_architectures_are_measured() -> None:
    assert len(ARCHITECTURES) == len(NETWORKS) >= 25


PARAMETER = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)


@pytest.mark.parametrize(
    ("stored", "is_named", "expected"),
    [
        (PARAMETER.T, False, True),
        (PARAMETER[None], False, False),
        (PARAMETER[None], True, True),
        (np.stack([PARAMETER, PARAMETER + 9]), False, True),
        (PARAMETER * 2, True, False),
    ],
    ids=["transposed", "without its name", "with its name", "packed", "folded"],
)
def test_what_nobody_could_recover_is_not_missing(stored: np.ndarray, is_named: bool, expected: bool) -> None:
    assert is_there(PARAMETER, [Stored(stored)], is_named) == expected


def test_lines_of_code_are_neither_blank_nor_prose() -> None:
    source = '''class A:
    """A docstring
    of two lines."""

    # a comment
    def f(self):  # another
        return g(
            1,
        )
'''
    assert code_lines(source) == 5
