"""Measured times are joined to the rows of the nodes that they are of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.profile import Profile
from workbench.models import branches, functions, parsed

CONVOLUTION = (
    """g (float[n, 3, h, w] x) => (float[n, 4, a, b] y) { a = Conv<kernel_shape = [3, 3]>(x, k) y = Relu(a) }"""
)


@pytest.fixture(scope="module")
def fused() -> Profile:
    model = parsed(CONVOLUTION, k=np.ones((4, 3, 3, 3)))
    return onnxlift.profile(model, measure=True, runs=2, warmup=1, threads=1, dims={"n": 1})


def test_open_sizes_get_numbers_that_are_told(fused: Profile) -> None:
    measured = fused.measured
    assert measured is not None and measured.inputs["x"][0] == 1 and measured.runs == 2 and measured.threads == 1
    assert not fused.dimensions and fused.total.costs.macs.number
    assert "measured on    x (1, 3, " in str(fused) and "ONNX Runtime" in str(fused)


def test_a_node_that_was_fused_says_into_which(fused: Profile) -> None:
    convolution, relu = fused.nodes
    assert convolution.costs.seconds is not None and convolution.costs.seconds > 0
    assert relu.costs.seconds is None and relu.fused_into == convolution.name
    assert fused.total.costs.seconds == convolution.costs.seconds
    assert fused.to_dict()["nodes"][1]["fused_into"] == convolution.name


def test_as_written_every_node_has_a_time_of_its_own(tmp_path: Path) -> None:
    """Also a node in a function, and one in the file of a model with weights beside it."""
    report = onnxlift.profile(functions(), measure=True, runs=2, warmup=1, as_written=True)
    assert all(row.costs.seconds is not None and not row.fused_into for row in report.nodes)
    path = tmp_path / "model.onnx"
    onnx.save(parsed(CONVOLUTION, k=np.ones((4, 3, 3, 3))), path)
    report = onnxlift.profile(path, measure=True, runs=2, warmup=1, as_written=True, shapes={"x": (1, 3, 8, 8)})
    assert [row.costs.seconds is not None for row in report.nodes] == [True, True]
    assert "as written" in str(report) and report.svg(sort="time")


def test_nodes_in_branches_and_loops_have_times_if_they_ran() -> None:
    inputs = {"x": np.ones((2, 4), np.float32), "go": np.array(True), "trips": np.array(3)}
    report = onnxlift.profile(branches(), measure=True, runs=2, warmup=1, as_written=True, inputs=inputs)
    times = {(row.operator, row.place != ""): row.costs.seconds for row in report.nodes}
    assert times["Relu", True] is not None and times["Neg", False] is not None
    assert times["Neg", True] is None  # the branch that was not taken


def test_inputs_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(OnnxLiftError, match="x"):
        onnxlift.profile(branches(), measure=True, inputs={"x": np.ones((2, 5), np.float32)})
    with pytest.raises(OnnxLiftError, match="number of threads"):
        onnxlift.profile(branches(), measure=True, threads=0)
