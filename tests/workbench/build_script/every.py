"""The models that scripts are tried on, and what is wrong with the script of one.

benchmarks/build_script.py takes all of them, the tests beside this file one in so many.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test.case.node import collect_testcases

import onnxlift
from fuzz.generate import generate
from models.every import EXAMPLES

Make = Callable[[], onnx.ModelProto]


@cache
def single_operators() -> Mapping[str, Make]:
    """Return the models of ONNX's own suite, by the names of their cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
        found = {case.name: case.model for case in collect_testcases(None)}
    return {name: partial(_same, model) for name, model in found.items() if model is not None}


def _same(model: onnx.ModelProto) -> onnx.ModelProto:
    return model


def random_graphs(count: int) -> Mapping[str, Make]:
    """Return the first random graphs of benchmarks/fuzz.py, by their seeds."""
    return {f"seed {seed}": partial(_generated, seed) for seed in range(count)}


def _generated(seed: int) -> onnx.ModelProto:
    return generate(seed).model


def golden_models() -> Mapping[str, Make]:
    """Return the models whose lifted sources tests/golden holds."""
    return {example.name: example.build for example in EXAMPLES}


def problem(model: onnx.ModelProto) -> str:
    """Return how the model differs from the one that its script writes; an empty text if `diff` finds them the same.

    Files are written and read as a user does it, and not only what is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net_build.py"
        report = onnxlift.build_script(model)
        if not report:
            return str(report)
        report.save(path)
        names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
        difference = onnxlift.diff(model, path.with_suffix(".onnx"))
        return "" if difference else str(difference)
