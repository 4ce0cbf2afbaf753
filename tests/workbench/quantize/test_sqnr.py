"""Noise in decibels, and what has none to measure."""

from __future__ import annotations

import numpy as np
import pytest

from onnxlift.workbench.quantize.sqnr import Noise

SIGNAL = np.array([3.0, -4.0, 0.0], np.float32)


def noise(*pairs: tuple[object, object]) -> Noise:
    found = Noise()
    for expected, actual in pairs:
        found.add(expected, actual)
    return found


def test_it_adds_up_over_samples() -> None:
    found = noise((SIGNAL, SIGNAL + 0.5), (SIGNAL, SIGNAL))
    assert found.decibels == pytest.approx(10 * np.log10(50 / 0.75))
    assert found.to_dict()["largest"] == 0.5 and found.to_dict()["equal"] == 0.5


@pytest.mark.parametrize(
    ("expected", "actual", "state"),
    [
        (SIGNAL, SIGNAL, "exact"),
        (SIGNAL, SIGNAL * np.nan, "not finite"),
        (SIGNAL, np.array([3, np.inf, 0]), "not finite"),
        (SIGNAL, SIGNAL[:2], "other shape"),
        (SIGNAL[:0], SIGNAL[:0], "no numbers"),
        (SIGNAL * np.nan, SIGNAL * np.nan, "no numbers"),
        (["a"], ["a"], "no numbers"),
        (np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]), "exact"),
        (np.array([-np.inf, 1.0]), np.array([-np.inf, 1.5]), "measured"),
        (SIGNAL * 0, SIGNAL, "measured"),
    ],
)
def test_states(expected: object, actual: object, state: str) -> None:
    found = noise((expected, actual))
    assert found.state == state and (found.decibels is None) == (state != "measured")


def test_infinite_numbers_of_both_are_no_noise_and_no_signal() -> None:
    found = noise((np.array([-np.inf, 1.0]), np.array([-np.inf, 1.1])))
    assert found.decibels == pytest.approx(20, abs=0.01)


def test_whole_numbers_are_counted() -> None:
    found = noise((np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])))
    assert found.whole and found.to_dict()["equal"] == 0.75
