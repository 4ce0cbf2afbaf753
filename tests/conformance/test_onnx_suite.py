"""ONNX's own suite: every case through the lifted source, compared by the suite's own runner with its own tolerances.

No case is left out. What cannot pass is expected to fail, and named below with what proves that it cannot; if one of
them passes after all, that is an error too. (Not by luck, though: what is drawn at random is drawn anew a few times.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx.backend.test import BackendTest

from onnxlift.backend import OnnxLift

# Case -> why no backend can pass it honestly.
CANNOT_PASS = {
    **dict.fromkeys(
        [
            "test_bernoulli",
            "test_bernoulli_double",
            "test_bernoulli_double_expanded",
            "test_bernoulli_expanded",
            "test_bernoulli_seed",
            "test_bernoulli_seed_expanded",
        ],
        "the expected value is what numpy's global generator drew; ONNX does not say how to draw",
    ),
    **dict.fromkeys(
        ["test_dft_inverse", "test_dft_inverse_opset19"],
        "1.9e-7 is expected where the exact value is 0, which we give, and the tolerance 1e-7: numpy's rounding",
    ),
}
DRAWS = 20


class Lifted(OnnxLift):
    """What cannot be lifted shall fail, and not be skipped."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        return True


class Suite(BackendTest):
    """The suite, which compares each element of a sequence like an output, and how many there are. (The runner takes
    an element for a sequence itself: it fails at those without axes, even if it is given what it expects.)"""

    @classmethod
    def assert_similar_outputs(
        cls, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None = None
    ) -> None:
        for expected, actual in zip(ref_outputs, outputs, strict=True):
            if isinstance(expected, list):
                cls.assert_similar_outputs(expected, actual, rtol, atol, model_dir)
            else:
                super().assert_similar_outputs([expected], [actual], rtol, atol, model_dir)


def cases() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
        groups = Suite(Lifted, __name__).test_cases
    for group in groups.values():
        for function, run in vars(group).items():
            name = function.removesuffix("_cpu")
            if function.startswith("test_") and name != function:
                reason = CANNOT_PASS.get(name)
                marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
                yield pytest.param(run, 1 if reason is None else DRAWS, id=name, marks=marks)


@pytest.mark.parametrize(("run", "draws"), cases())
def test_case(run: Callable[[Any], None], draws: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))  # where the runner writes inputs that it makes up
    for seed in range(draws):
        torch.manual_seed(seed)
        run(None)


def test_every_exception_is_a_case() -> None:
    names = {parameter.id for parameter in cases()}
    assert names.issuperset(CANNOT_PASS)
