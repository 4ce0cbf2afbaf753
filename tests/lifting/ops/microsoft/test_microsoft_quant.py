"""ONNX Runtime's quantised operators. Where its kernels fold scales into one factor, a result may be off by a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lifting.ops.checking import check
from lifting.ops.microsoft.operators import Array, node, normal, run

random = np.random.default_rng(5)
ONE_STEP = {"rtol": 0.0, "atol": 1.0}


def integers(dtype: type, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(number: float) -> Array:
    return np.asarray(number, np.float32)


def zero(number: int, dtype: type) -> Array:
    return np.asarray(number, dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_elementwise(op_type: str, dtype: type) -> None:
    inputs = {"a": integers(dtype, 2, 3, 4), "as": scale(0.03), "az": zero(7, dtype)}
    inputs |= {"b": integers(dtype, 3, 1), "bs": scale(0.07), "bz": zero(3, dtype)}
    inputs |= {"cs": scale(0.11), "cz": zero(5, dtype)}
    constants = ["as", "az", "bs", "bz", "cs", "cz"]
    check(node(op_type, " ".join(inputs)), inputs, constants=constants, **ONE_STEP)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op_type", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_activations(op_type: str, dtype: type) -> None:
    inputs = {"x": integers(dtype, 2, 3, 40), "xs": scale(0.03), "xz": zero(7, dtype)}
    inputs |= {"ys": scale(0.007), "yz": zero(5, dtype)}
    options = {"alpha": 0.3} if op_type == "QLinearLeakyRelu" else {}
    check(node(op_type, " ".join(inputs), **options), inputs, constants=["xs", "xz", "ys", "yz"])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (11, 1)])
def test_softmax(dtype: type, opset: int, axis: int) -> None:
    inputs = {"x": integers(dtype, 2, 3, 5), "xs": scale(0.03), "xz": zero(7, dtype)}
    inputs |= {"ys": scale(1 / 256), "yz": zero(0, dtype)}
    check(
        node("QLinearSoftmax", " ".join(inputs), opset=opset, axis=axis),
        inputs,
        constants=["xs", "xz", "ys", "yz"],
        **ONE_STEP,
    )


@pytest.mark.parametrize("last", [0, 1])
def test_average_pools(last: int) -> None:
    shape = (2, 7, 6, 3) if last else (2, 3, 7, 6)
    inputs = {"x": integers(np.uint8, *shape), "xs": scale(0.03), "xz": zero(7, np.uint8)}
    inputs |= {"ys": scale(0.02), "yz": zero(5, np.uint8)}
    constants = ["xs", "xz", "ys", "yz"]
    options = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "channels_last": last}
    for include in (0, 1):
        pool = node("QLinearAveragePool", " ".join(inputs), count_include_pad=include, **options)
        check(pool, inputs, constants=constants, **ONE_STEP)
    pool = node("QLinearGlobalAveragePool", " ".join(inputs), channels_last=last)
    check(pool, inputs, constants=constants, **ONE_STEP)


@pytest.mark.parametrize("last", [0, 1])
def test_conv(last: int) -> None:
    shape = (2, 7, 6, 3) if last else (2, 3, 7, 6)
    inputs = {"x": integers(np.uint8, *shape), "xs": scale(0.03), "xz": zero(120, np.uint8)}
    inputs |= {"w": integers(np.uint8, 4, 3, 3, 2), "ws": scale(0.01), "wz": zero(110, np.uint8)}
    inputs |= {"ys": scale(0.9), "yz": zero(100, np.uint8), "b": random.integers(-900, 900, 4).astype(np.int32)}
    options = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "channels_last": last}
    constants = [name for name in inputs if name != "x"]
    check(node("QLinearConv", " ".join(inputs), **options), inputs, constants=constants, **ONE_STEP)


@pytest.mark.parametrize("segments", [True, False])
def test_embeddings(segments: bool) -> None:
    width, tables = 8, {"word": 20, "place": 10, "kind": 2, "gamma": 0, "beta": 0}
    fed = {"ids": random.integers(0, 20, (2, 5)).astype(np.int32)}
    fed["seg"] = random.integers(0, 2, (2, 5)).astype(np.int32)
    for name, rows in tables.items():
        fed[name] = integers(np.uint8, *((rows, width) if rows else (width,)))
    fed["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
    fed |= {f"{name}_s": scale(0.01 + 0.01 * i) for i, name in enumerate(tables)}
    fed |= {f"{name}_z": zero(120 + i, np.uint8) for i, name in enumerate(tables)}
    left_out = set() if segments else {"seg", "kind", "kind_s", "kind_z"}
    names = " ".join("" if name in left_out else name for name in fed)
    fed = {name: array for name, array in fed.items() if name not in left_out}
    constants = [name for name in fed if name not in ("ids", "seg", "mask")]
    embed = node("QEmbedLayerNormalization", names, "y count", epsilon=1e-5)
    check(embed, fed, constants=constants, rtol=1e-4, atol=1e-4)


def test_concat_and_where() -> None:
    inputs = {"ys": scale(0.05), "yz": zero(4, np.uint8)}
    inputs |= {"a": integers(np.uint8, 2, 3), "as": scale(0.03), "az": zero(7, np.uint8)}
    inputs |= {"b": integers(np.uint8, 2, 5), "bs": scale(0.06), "bz": zero(1, np.uint8)}
    constants = ["ys", "yz", "as", "az", "bs", "bz"]
    check(node("QLinearConcat", " ".join(inputs), axis=1), inputs, constants=constants)
    inputs = {"c": random.random((2, 3)) < 0.5, "a": integers(np.uint8, 2, 3), **{k: inputs[k] for k in ("as", "az")}}
    inputs |= {"b": integers(np.uint8, 1, 3), "bs": scale(0.06), "bz": zero(1, np.uint8)}
    inputs |= {"ys": scale(0.05), "yz": zero(4, np.uint8)}
    check(node("QLinearWhere", " ".join(inputs)), inputs, constants=constants)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(quantised: bool, per_column: bool, transposed: int) -> None:
    b = integers(np.uint8, 4, 6) if transposed else integers(np.uint8, 6, 4)
    inputs = {"a": integers(np.uint8, 3, 6), "as": scale(0.03), "az": zero(120, np.uint8), "b": b}
    columns = {"bs": random.random(4).astype(np.float32), "bz": integers(np.uint8, 4)}
    inputs |= columns if per_column else {"bs": scale(0.02), "bz": zero(110, np.uint8)}
    inputs["c"] = random.integers(-5000, 5000, 4).astype(np.int32)
    if quantised:
        inputs |= {"ys": scale(0.9), "yz": zero(5, np.uint8)}
    constants = [name for name in inputs if name != "a"]
    gemm = node("QGemm", " ".join(inputs), alpha=1.0, transB=transposed)
    check(gemm, inputs, constants=constants, **(ONE_STEP if quantised else {}))


@pytest.mark.parametrize("per_column", [False, True])
def test_products_to_float(per_column: bool) -> None:
    scales = {"bs": random.random(4).astype(np.float32)} if per_column else {"bs": scale(0.02)}
    points = {"bz": integers(np.uint8, 4)} if per_column else {"bz": zero(110, np.uint8)}
    b, bias = integers(np.uint8, 6, 4), normal(4)
    inputs = {
        "a": integers(np.uint8, 2, 3, 6),
        "b": b,
        "as": scale(0.03),
        **scales,
        "az": zero(120, np.uint8),
        **points,
    }
    check(node("MatMulIntegerToFloat", " ".join([*inputs, "d"])), {**inputs, "d": bias}, constants=["b", "as", "az"])
    inputs = {"a": normal(2, 3, 6), "b": b, **scales, **points}
    source = check(node("DynamicQuantizeMatMul", " ".join([*inputs, "d"])), {**inputs, "d": bias}, constants=["b"])
    assert "dynamic_quantize(" in source
    check(node("DynamicQuantizeMatMul", "a b bs"), {**inputs}, constants=["b"])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantize_linear(dtype: type) -> None:
    x, one = normal(2, 3, 4), {"s": scale(0.02), "z": zero(5, dtype)}
    each = {"s": random.random(3).astype(np.float32) + 0.01, "z": random.integers(0, 9, 3).astype(dtype)}
    q = integers(dtype, 2, 3, 4)
    for given, options in ((one, {}), (each, {"axis": 1})):
        check(node("QuantizeLinear", "x s z", **options), {"x": x, **given})
        check(node("DequantizeLinear", "x s z", **options), {"x": q, **given})


def packed(numbers: Array, bits: int) -> Array:
    """Numbers of a few bits in bytes, along the last axis, the lowest first."""
    per_byte = 8 // bits
    rest = -numbers.shape[-1] % per_byte
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, rest)]).astype(np.uint8)
    split = padded.reshape(*numbers.shape[:-1], -1, per_byte)
    shifted = split << (np.arange(per_byte, dtype=np.uint8) * bits)
    return shifted.sum(-1).astype(np.uint8)  # type: ignore[no-any-return]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed", "float"])
@pytest.mark.parametrize("features", [96, 40])
def test_matmul_nbits(bits: int, zeros: str, features: int) -> None:
    outputs, block = 5, 32
    blocks = -(-features // block)
    numbers = random.integers(0, 2**bits, (outputs, blocks, block))
    scales = random.random((outputs, blocks)).astype(np.float32)
    inputs = {"a": normal(2, 3, features), "b": packed(numbers, bits), "s": scales}
    middle: Any = np.full((outputs, blocks), 2 ** (bits - 1))
    if zeros == "packed":
        middle = random.integers(0, 2**bits, (outputs, blocks))
        inputs["z"] = packed(middle, bits)
    if zeros == "float":
        middle = random.random((outputs, blocks)).astype(np.float32) * 2**bits
        inputs["z"] = middle
    weight = ((numbers - middle[..., None]) * scales[..., None]).reshape(outputs, -1)[:, :features]
    bias = normal(outputs)
    matmul = node("MatMulNBits", "a b s " + ("z" if "z" in inputs else "") + "  d", K=features, N=outputs, bits=bits,
                  block_size=block)  # fmt: skip
    expected = [(inputs["a"] @ weight.T + bias).astype(np.float32)]
    fed = {**inputs, "d": bias}
    check(matmul, fed, constants=[k for k in fed if k != "a"], expected=expected, rtol=1e-4, atol=1e-3)
    if bits == 4 and zeros != "float":
        check(matmul, fed, constants=[k for k in fed if k != "a"], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind: int) -> None:
    outputs, features, block = 6, 40, 16
    b = integers(np.uint8, outputs * features // 2)
    absmax = random.random(outputs * features // block).astype(np.float32)
    options = {"K": features, "N": outputs, "block_size": block, "quant_type": kind}
    fed = {"a": normal(2, 3, features), "b": b, "m": absmax}
    check(node("MatMulBnb4", "a b m", **options), fed, constants=["b", "m"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_block_quantized(bits: int, zeros: bool) -> None:
    rows, width, block = 7, 48, 16
    table = packed(random.integers(0, 2**bits, (rows, width)), bits)
    fed = {"t": table, "i": np.array([[0, 3, -1], [6, 2, 2]]), "s": random.random((rows, 3)).astype(np.float32)}
    if zeros:
        fed["z"] = packed(random.integers(0, 2**bits, (rows, 3)), bits)
    gather = node("GatherBlockQuantized", " ".join(fed), bits=bits, block_size=block)
    check(gather, fed, constants=["t", "s", "z"] if zeros else ["t", "s"])


@pytest.mark.parametrize("directions", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_lstm(directions: str, per_channel: bool) -> None:
    count, hidden, features = (2 if directions == "bidirectional" else 1), 4, 3
    shape = (count, 4 * hidden) if per_channel else (count,)
    fed = {"x": normal(5, 2, features), "w": integers(np.uint8, count, features, 4 * hidden)}
    fed |= {"r": integers(np.uint8, count, hidden, 4 * hidden), "b": normal(count, 8 * hidden)}
    fed |= {"l": np.array([5, 3], np.int32), "h": normal(count, 2, hidden), "c": normal(count, 2, hidden)}
    fed |= {"p": normal(count, 3 * hidden), "ws": random.random(shape).astype(np.float32) * 0.02 + 0.001}
    fed |= {"wz": np.full(shape, 128, np.uint8), "rs": random.random(shape).astype(np.float32) * 0.02 + 0.001}
    fed["rz"] = np.full(shape, 125, np.uint8)
    constants = ["w", "r", "ws", "wz", "rs", "rz"]
    options = {"direction": directions, "hidden_size": hidden}
    for left_out in ("", "l", "lhcp"):
        names = " ".join("" if name in left_out else name for name in fed)
        given = {name: array for name, array in fed.items() if name not in left_out or not name}
        lstm = node("DynamicQuantizeLSTM", names, "y yh yc", **options)
        check(lstm, given, constants=constants, rtol=1e-4, atol=1e-5)


def test_what_no_cpu_runs() -> None:
    a, b = integers(np.uint8, 2, 3), integers(np.uint8, 3)
    wide = (a.astype(np.int32) - 3) * (b.astype(np.int32) - 7)
    fed = {"a": a, "az": zero(3, np.uint8), "b": b, "bz": zero(7, np.uint8)}
    check(node("MulInteger", "a az b bz"), fed, expected=[wide.astype(np.int32)])
    total = a.astype(np.int32).sum(1, keepdims=True, dtype=np.int32)
    check(node("ReduceSumInteger", "a", axes=[1], keepdims=1), {"a": a}, expected=[total])
    fed = {"x": a, "xs": scale(0.1), "xz": zero(3, np.uint8), "ys": scale(0.05), "yz": zero(9, np.uint8)}
    mean = ((a.astype(np.float32) - 3) * np.float32(0.1)).mean(1)
    expected = np.clip(np.round(mean / np.float32(0.05)) + 9, 0, 255).astype(np.uint8)
    check(node("QLinearReduceMean", " ".join(fed), axes=[1], keepdims=0), fed, expected=[expected], **ONE_STEP)


def test_sixteen_bits() -> None:
    fed = {"a": integers(np.int16, 2, 3) // 64, "b": integers(np.int16, 3, 4) // 64}
    run("MatMulInteger16", fed)
