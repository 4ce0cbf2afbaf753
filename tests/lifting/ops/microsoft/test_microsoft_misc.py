"""The other operators of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lifting.ops.checking import check
from lifting.ops.microsoft.operators import Array, node, normal, run
from lifting.ops.microsoft.test_microsoft_quant import packed

random = np.random.default_rng(8)


def test_renamed_by_onnx() -> None:
    run("Trilu", {"x": normal(2, 4, 5)})
    run("Trilu", {"x": normal(2, 4, 5), "k": np.asarray(-1)}, "k", upper=0)
    run("Range", {"a": np.asarray([2], np.float32), "b": np.asarray([9.5], np.float32)}, "a b")
    run("Range", {"a": np.asarray(9), "b": np.asarray(1), "c": np.asarray(-3)}, "a b c")
    run("ExpandDims", {"x": normal(2, 3), "a": np.asarray(-2, np.int32)}, "a")
    run("GatherND", {"x": normal(2, 3, 4), "i": np.array([[0, 2], [1, 0]], np.int32)})
    run("Pad", {"x": normal(2, 3), "p": np.array([0, 2, 1, 1]), "v": np.asarray([0.5], np.float32)}, "p")
    run("SampleOp", {"x": normal(2, 3)})


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str) -> None:
    fed = {"x": normal(2, 3, 5, 4), "g": random.uniform(-1.2, 1.2, (2, 6, 3, 2)).astype(np.float32)}
    check(node("GridSample", "x g", mode=mode, align_corners=1), fed, rtol=1e-4, atol=1e-5)


def test_matrices() -> None:
    x = normal(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)
    check(node("Inverse", "x"), {"x": x}, rtol=1e-4, atol=1e-5)
    for metric in ("euclidean", "sqeuclidean"):
        fed = {"a": normal(5, 3), "b": normal(4, 3)}
        check(node("CDist", "a b", metric=metric), fed, rtol=1e-4, atol=1e-5)


def test_unique_keeps_the_order() -> None:
    x = np.array([2, 1, 1, 3, 4, 3, 9, -1, 2], np.float32)
    check(node("Unique", "x", "y i n"), {"x": x}, dynamic=True)


@pytest.mark.parametrize("dim", [-1, 1])
def test_unfold(dim: int) -> None:
    run("UnfoldTensor", {"x": normal(2, 7, 9)}, dim=dim, size=3, step=2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 5)])
def test_crop_and_resize(mode: str, size: tuple[int, int]) -> None:
    fed = {"x": normal(2, 3, 6, 7), "r": random.uniform(-0.2, 1.2, (4, 4)).astype(np.float32)}
    fed |= {"i": np.array([0, 1, 1, 0], np.int32), "s": np.array(size, np.int32)}
    crop = node("CropAndResize", "x r i s", mode=mode, extrapolation_value=0.25)
    check(crop, fed, constants=["s"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_conv_transpose_with_dynamic_pads(known: bool) -> None:
    fed = {"x": normal(2, 3, 5, 4), "w": normal(3, 2, 3, 3), "p": np.array([1, 0, 2, 1]), "b": normal(2)}
    options = {"kernel_shape": [3, 3], "strides": [2, 1]}
    check(
        node("ConvTransposeWithDynamicPads", "x w p b", **options),
        fed,
        constants=["p"] if known else [],
        rtol=1e-4,
        atol=1e-5,
    )


def test_spectra() -> None:
    x = normal(2, 3, 8)
    spectrum = np.fft.rfft(x)
    parts = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    check(node("Rfft", "x", normalized=0, onesided=1, signal_ndim=1), {"x": x}, expected=[parts], atol=1e-5)
    check(node("Irfft", "x", normalized=0, onesided=1, signal_ndim=1), {"x": parts}, expected=[x], atol=1e-5)
    a, b = normal(2, 3, 2), normal(3, 2)
    for op_type, other in (("ComplexMul", b[..., 0] + 1j * b[..., 1]), ("ComplexMulConj", b[..., 0] - 1j * b[..., 1])):
        product = (a[..., 0] + 1j * a[..., 1]) * other
        expected = np.stack([product.real, product.imag], -1).astype(np.float32)
        check(node(op_type, "a b"), {"a": a, "b": b}, expected=[expected])


def test_what_no_cpu_runs() -> None:
    x, bias = normal(2, 3), normal(3)
    check(node("BiasDropout", "x b r"), {"x": x, "b": bias, "r": x * 2}, expected=[x + bias + x * 2])
    table = normal(5, 3)
    check(node("TorchEmbedding", "w i"), {"w": table, "i": np.array([4, 0])}, constants=["w"], expected=[table[[4, 0]]])
    bad = np.array([1, np.inf], np.float32)
    check(node("IsAllFinite", "x y", "z"), {"x": x, "y": bad}, expected=[np.asarray(False)])
    check(node("IsAllFinite", "x y", "z", isnan_only=1), {"x": x, "y": bad}, expected=[np.asarray(True)])


EXPERTS: dict[str, dict[str, Any]] = {
    "relu": {},
    "gelu of two": {"activation_type": "gelu", "k": 2},
    "silu, normalised": {"activation_type": "silu", "k": 2, "normalize_routing_weights": 1},
    "interleaved": {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0},
    "limited": {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 0.5, "k": 2},
}


@pytest.mark.parametrize("options", EXPERTS.values(), ids=EXPERTS.keys())
def test_experts(options: dict[str, Any]) -> None:
    width, inner, experts = 6, 5, 4
    first = 2 * inner if options.get("swiglu_fusion") else inner
    fed = {"x": normal(2, 3, width), "r": normal(6, experts), "w1": normal(experts, first, width)}
    fed |= {"b1": normal(experts, first), "w2": normal(experts, width, inner), "b2": normal(experts, width)}
    check(node("MoE", "x r w1 b1 w2 b2", **options), fed, constants=["w1", "b1", "w2", "b2"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("options", EXPERTS.values(), ids=EXPERTS.keys())
def test_quantised_experts(options: dict[str, Any], bits: int) -> None:
    width, inner, experts = 32, 16, 4
    first = 2 * inner if options.get("swiglu_fusion") else inner

    def weight(rows: int, columns: int) -> tuple[Array, Array]:
        numbers = random.integers(0, 2**bits, (experts, rows, columns))
        return packed(numbers, bits), random.random((experts, rows)).astype(np.float32) * 0.02

    (w1, s1), (w2, s2) = weight(first, width), weight(width, inner)
    fed = {"x": normal(2, 3, width), "r": normal(6, experts), "w1": w1, "s1": s1, "b1": normal(experts, first)}
    fed |= {"w2": w2, "s2": s2, "b2": normal(experts, width)}
    constants = ["w1", "s1", "b1", "w2", "s2", "b2"]
    quantised = node("QMoE", "x r w1 s1 b1 w2 s2 b2", expert_weight_bits=bits, **options)
    check(quantised, fed, constants=constants, rtol=1e-3, atol=1e-3)
    fed["rw"] = random.random((6, experts)).astype(np.float32)
    weighted = node("QMoE", "x r w1 s1 b1 w2 s2 b2       rw", expert_weight_bits=bits, **options)
    check(weighted, fed, constants=constants, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("zeros", [False, True])
def test_experts_quantised_in_blocks(zeros: bool) -> None:
    width, inner, experts, block = 64, 32, 3, 32
    fed = {"x": normal(5, width), "r": normal(5, experts)}
    for name, rows, columns in (("1", inner, width), ("2", width, inner)):
        fed[f"w{name}"] = packed(random.integers(0, 16, (experts, rows, columns)), 4)
        fed[f"s{name}"] = random.random((experts, rows, columns // block)).astype(np.float32) * 0.02
        fed[f"z{name}"] = packed(random.integers(0, 16, (experts, rows, columns // block)), 4)
    names = "x r w1 s1  w2 s2     z1 z2" if zeros else "x r w1 s1  w2 s2"
    fed = {name: array for name, array in fed.items() if name in names.split()}
    quantised = node("QMoE", names, block_size=block, k=2, activation_type="silu")
    check(quantised, fed, constants=[name for name in fed if name not in "xr"], rtol=1e-3, atol=1e-3)
