"""Fourier transforms, windows and mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

NODE = helper.make_node
WINDOWS = ["HannWindow", "HammingWindow", "BlackmanWindow"]
NOISE = ("test_dft_inverse", "test_dft_inverse_opset19")  # see tests/conformance


@pytest.mark.parametrize(
    "case", [c for c in official_cases("DFT", "STFT", "MelWeightMatrix", *WINDOWS, alone=True) if c.id not in NOISE]
)
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("op", WINDOWS)
@pytest.mark.parametrize("size", [1, 2, 7, 10])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("constants", [(), ("size",)])
def test_windows(op: str, size: int, periodic: int, constants: tuple[str, ...]) -> None:
    if size == 1 and not periodic:
        return  # divides by zero
    node = NODE(op, ["size"], ["y"], periodic=periodic)
    check(node, {"size": np.int64(size)}, opset=17, constants=constants, rtol=1e-4, reference=True)


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32])
def test_types_of_windows(kind: int) -> None:
    node = NODE("HannWindow", ["size"], ["y"], output_datatype=kind)
    exact = np.sin(np.arange(10) * np.pi / 10) ** 2
    expected = exact.astype(helper.tensor_dtype_to_np_dtype(kind))
    check(node, {"size": np.int64(10)}, opset=17, constants=["size"], rtol=1e-3, expected=[expected])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
@pytest.mark.parametrize("length", [None, 3, 9])
@pytest.mark.parametrize("inverse", [0, 1])
def test_dft(dtype: Any, width: int, axis: int, length: int | None, inverse: int) -> None:
    inputs = {"x": rand(4, 5, 6, width, dtype=dtype)}
    if length is not None:
        inputs["length"] = np.int64(length)
    old = NODE("DFT", list(inputs), ["y"], axis=axis, inverse=inverse)
    check(old, inputs, opset=17, reference=True, rtol=1e-4, atol=1e-5)
    new = NODE("DFT", ["x", "length" if length is not None else "", "axis"], ["y"], inverse=inverse)
    inputs["axis"] = np.int64(axis)
    for constants, dynamic in ((("axis",), False), ((), True)):
        check(new, inputs, opset=20, constants=constants, dynamic=dynamic, reference=True, rtol=1e-4, atol=1e-5)


def test_whole_peak_of_a_window() -> None:
    """Integers are truncated: a peak of 0.99999994 would be lost."""
    for size in range(2, 40, 2):
        node = NODE("HannWindow", ["size"], ["y"], output_datatype=TensorProto.INT32)
        expected = np.zeros(size, np.int32)
        expected[size // 2] = 1
        check(node, {"size": np.int64(size)}, opset=17, constants=["size"], expected=[expected])


@pytest.mark.parametrize(
    ("names", "attributes", "written"),
    [
        (["x"], {}, "torch.view_as_real(torch.fft.fft(x.squeeze(-1)))"),
        (["x"], {"onesided": 1}, "torch.view_as_real(torch.fft.rfft(x.squeeze(-1)))"),
        (["x", "length", "axis"], {"onesided": 1}, "torch.fft.rfft(x.squeeze(-1), n=5, dim=0)"),
        (["z"], {"inverse": 1, "onesided": 1}, "torch.fft.irfft(torch.view_as_complex(z.contiguous())).unsqueeze(-1)"),
    ],
)
def test_reads_well(names: list[str], attributes: dict[str, int], written: str) -> None:
    given = {"x": rand(4, 9, 1), "z": rand(4, 9, 2), "length": np.int64(5), "axis": np.int64(0)}
    inputs = {name: given[name] for name in names}
    node = NODE("DFT", names, ["y"], **attributes)
    assert written in check(node, inputs, opset=20, constants=names[1:], reference=True, atol=1e-5)


def test_half_of_complex_frequencies() -> None:
    model = model_of(NODE("DFT", ["x"], ["y"], onesided=1), {"x": rand(2, 7, 2)}, 20)
    with pytest.raises(onnxlift.InvalidModelError, match="one-sided DFT requires real input"):
        onnxlift.lift(model)


def test_one_side_and_back() -> None:
    check(NODE("DFT", ["x"], ["y"], onesided=1), {"x": rand(2, 7, 1)}, opset=20, reference=True, atol=1e-5)
    back = NODE("DFT", ["x", "length"], ["y"], onesided=1, inverse=1)
    check(back, {"x": rand(2, 4, 2), "length": np.int64(7)}, opset=20, reference=True, atol=1e-5)
    check(NODE("DFT", ["x"], ["y"], onesided=1, inverse=1), {"x": rand(2, 4, 2)}, opset=20, reference=True, atol=1e-5)


@pytest.mark.parametrize(
    "names", [["x", "step", "window"], ["x", "step", "", "length"], ["x", "step", "window", "length"]]
)
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("step", [3, 4])
def test_stft(names: list[str], onesided: int, step: int) -> None:
    given = {"x": rand(2, 21, 1), "step": np.int64(step), "window": rand(6), "length": np.int64(6)}
    inputs = {name: given[name] for name in names if name}
    node = NODE("STFT", names, ["y"], onesided=onesided)
    for dynamic in (False, True):
        check(node, inputs, opset=17, reference=True, dynamic=dynamic, atol=1e-5)


@pytest.mark.parametrize("names", [["x", "step", "window"], ["x", "step", "", "length"]])
def test_stft_of_signals_without_a_last_axis(names: list[str]) -> None:
    given = {"x": rand(2, 21), "step": np.int64(4), "window": rand(6), "length": np.int64(6)}
    inputs = {name: given[name] for name in names if name}
    for dynamic in (False, True):
        check(NODE("STFT", names, ["y"]), inputs, opset=17, reference=False, dynamic=dynamic, atol=1e-5)


def test_stft_of_complex_numbers() -> None:
    inputs = {"x": rand(2, 21, 2), "step": np.int64(5), "window": rand(6)}
    check(NODE("STFT", list(inputs), ["y"], onesided=0), inputs, opset=17, reference=True, atol=1e-5)


@pytest.mark.parametrize(
    ("bins", "length", "rate", "low", "high"), [(8, 16, 8192, 0, 4096), (40, 512, 16000, 80, 7600)]
)
def test_mel(bins: int, length: int, rate: int, low: float, high: float) -> None:
    inputs = {
        "bins": np.int64(bins),
        "length": np.int64(length),
        "rate": np.int64(rate),
        "low": np.float32(low),
        "high": np.float32(high),
    }
    node = NODE("MelWeightMatrix", list(inputs), ["y"])
    for constants in ((), list(inputs)):
        check(node, inputs, opset=17, constants=constants, reference=True)
