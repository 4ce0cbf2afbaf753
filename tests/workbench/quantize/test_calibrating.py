"""Ranges found sample by sample are those that ONNX Runtime finds with all samples at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

from onnxlift.workbench.quantize.calibrating import BINS, QUANTIZED_BINS, Ranges, find_ranges
from onnxlift.workbench.quantize.engine import out_of_range, saturates

from .networks import convnet, samples

OP_TYPES = ["Conv"]
GROWING = [{"x": sample["x"] * factor} for sample, factor in zip(samples(4), (0.1, 1, 3, 2), strict=True)]


class AllAtOnce:
    def __init__(self) -> None:
        self.rest = iter(GROWING)

    def get_next(self) -> object:
        return next(self.rest, None)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrating") / "model.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(convnet()), path)
    return path


def expected_ranges(model: Path, method: str) -> Ranges:
    options = {"symmetric": False, "percentile": 99.0}
    if method in BINS:
        options |= {"num_bins": BINS[method], "num_quantized_bins": QUANTIZED_BINS}
    kind = CalibrationMethod["MinMax" if method == "minmax" else method.capitalize()]
    calibrator = create_calibrator(
        model, OP_TYPES, str(model.with_name("theirs.onnx")), calibrate_method=kind, extra_options=options
    )
    calibrator.collect_data(AllAtOnce())
    return {
        name: (np.asarray(entry.range_value[0]).item(), np.asarray(entry.range_value[1]).item())
        for name, entry in calibrator.compute_data().items()
    }


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile", "distribution"])
def test_one_by_one_is_as_good_as_all_at_once(model: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, count = find_ranges(model, lambda: iter(GROWING), OP_TYPES, method, 99.0, False)
    expected = expected_ranges(model, method)
    assert count == 4 and found.keys() == expected.keys() == {"x", "a", "b", "c"}
    for name, bounds in expected.items():
        np.testing.assert_allclose(found[name], bounds, rtol=1e-6, err_msg=name)
    capsys.readouterr()  # ONNX Runtime prints


def test_a_first_sample_of_almost_nothing_takes_no_memory(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = [{"x": np.full((1, 3, 8, 8), 1e-30, np.float32)}, *GROWING]
    found, _ = find_ranges(model, lambda: iter(tiny), ["Conv"], "percentile", 100.0, False)
    assert found["x"][1] == pytest.approx(max(float(sample["x"].max()) for sample in GROWING), rel=1e-3)
    capsys.readouterr()


def test_nodes_with_infinite_values_are_found(model: Path) -> None:
    proto = onnx.load(model)
    for number, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}{number}"
    assert out_of_range(proto, {"x": (0, 1), "b": (0, float("inf"))}) == ["Relu1", "Conv2"]
    assert out_of_range(proto, {"y": (-3.4e38, 1), "b": (0, 1)}) == ["Gemm6"]


def test_whether_this_processor_saturates_is_tried() -> None:
    assert saturates() in (True, False)
