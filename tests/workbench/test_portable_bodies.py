"""`simplify --portable`: the large operators of ONNX Runtime, against its own numbers, at the opset of the model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
import pytest

from lifting.ops.checking import model_of
from lifting.ops.microsoft.operators import Array, node, normal
from lifting.ops.microsoft.test_microsoft_attention import GROUPED, grouped
from lifting.ops.microsoft.test_microsoft_misc import EXPERTS
from lifting.ops.microsoft.test_microsoft_quant import packed
from onnxlift.workbench.portable import PortableError
from onnxlift.workbench.simplify import simplify

from .running import operators, outputs_of

RANDOM = np.random.default_rng(3)


def integers(*shape: int) -> Array:
    return RANDOM.integers(0, 256, shape).astype(np.uint8)


def check(
    single: onnx.NodeProto,
    fed: dict[str, Array],
    constants: Collection[str] = (),
    *,
    opset: int,
    expected: list[Array] | None = None,
    outputs: slice = slice(None),
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> onnx.ModelProto:
    """Hold that the body of a node computes what ONNX Runtime does, or what is expected; return the model."""
    names = [name for name in single.input if name]
    model = model_of(single, {name: fed[name] for name in names}, opset, constants)
    feeds = {name: fed[name] for name in names if name not in constants}
    result = simplify(model, portable=True, verify=False).proto()
    assert "com.microsoft" not in str(result)
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [("", opset)]
    wanted = outputs_of(model, feeds)[outputs] if expected is None else expected
    for ours, theirs in zip(outputs_of(result, feeds)[outputs], wanted, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
    return result


OPSETS = pytest.mark.parametrize("opset", [13, 17, 23])


@OPSETS
@pytest.mark.parametrize(
    ("bits", "zeros", "features"),
    [(4, "none", 96), (4, "packed", 96), (4, "packed", 40), (4, "float", 40), (8, "packed", 40), (2, "packed", 96)],
)
def test_linear_layers_of_a_few_bits(bits: int, zeros: str, features: int, opset: int) -> None:
    outputs, block = 5, 32
    blocks = -(-features // block)
    numbers = RANDOM.integers(0, 2**bits, (outputs, blocks, block))
    scales = RANDOM.random((outputs, blocks)).astype(np.float32)
    fed = {"a": normal(2, 3, features), "b": packed(numbers, bits), "s": scales, "d": normal(outputs)}
    middle: Any = np.full((outputs, blocks), 2 ** (bits - 1))
    if zeros != "none":
        middle = RANDOM.integers(0, 2**bits, (outputs, blocks))
        fed["z"] = packed(middle, bits) if zeros == "packed" else middle.astype(np.float32)
    weight = ((numbers - middle[..., None]) * scales[..., None]).reshape(outputs, -1)[:, :features]
    names = f"a b s {'z' if 'z' in fed else ''}  d"
    single = node("MatMulNBits", names, K=features, N=outputs, bits=bits, block_size=block)
    expected = [(fed["a"] @ weight.T + fed["d"]).astype(np.float32)]
    constants = [name for name in fed if name != "a"]
    result = check(single, fed, constants, opset=opset, expected=expected, rtol=1e-4, atol=1e-3)
    if bits == 4 and zeros != "float":
        check(single, fed, constants, opset=opset, rtol=1e-4, atol=1e-3)  # ONNX Runtime's own numbers
    if opset >= 21 and zeros != "float":
        assert "DequantizeLinear" in operators(result)
        kinds = {tensor.data_type for tensor in result.graph.initializer}
        assert (onnx.TensorProto.UINT4 in kinds) == (bits == 4)


def test_weights_that_are_computed_or_in_another_order_stay() -> None:
    fed = {"a": normal(2, 32), "b": integers(4, 1, 16), "s": normal(4, 1), "z": integers(4, 1)}
    options = {"K": 32, "N": 4, "block_size": 32}
    with pytest.raises(PortableError, match="its weights, or their scales, are computed"):
        check(node("MatMulNBits", "a b s", **options), fed, ["s"], opset=21)
    fed["g"] = np.arange(32, dtype=np.int32)
    with pytest.raises(PortableError, match="in the order of g_idx"):
        check(node("MatMulNBits", "a b s z g", **options), fed, ["b", "s", "z", "g"], opset=21)
    with pytest.raises(PortableError, match="not packed as"):
        check(node("MatMulNBits", "a b s", **{**options, "N": 2}), {**fed, "s": normal(2, 1)}, ["b", "s"], opset=21)


@OPSETS
@pytest.mark.parametrize("options", EXPERTS.values(), ids=EXPERTS.keys())
def test_experts(options: dict[str, Any], opset: int) -> None:
    width, inner, experts = 6, 5, 4
    first = 2 * inner if options.get("swiglu_fusion") else inner
    fed = {"x": normal(2, 3, width), "r": normal(6, experts), "w1": normal(experts, first, width)}
    fed |= {"b1": normal(experts, first), "w2": normal(experts, width, inner), "b2": normal(experts, width)}
    check(node("MoE", "x r w1 b1 w2 b2", **options), fed, ["w1", "b1", "w2", "b2"], opset=opset)


@OPSETS
@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_experts(bits: int, opset: int) -> None:
    width, inner, experts = 32, 16, 4
    fed = {"x": normal(2, 3, width), "r": normal(6, experts), "b1": normal(experts, 2 * inner)}
    for name, rows, columns in (("1", 2 * inner, width), ("2", width, inner)):
        fed[f"w{name}"] = packed(RANDOM.integers(0, 2**bits, (experts, rows, columns)), bits)
        fed[f"s{name}"] = RANDOM.random((experts, rows)).astype(np.float32) * 0.02
    fed |= {"b2": normal(experts, width), "rw": RANDOM.random((6, experts)).astype(np.float32)}
    constants = [name for name in fed if name not in ("x", "r", "rw")]
    options = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "expert_weight_bits": bits}
    for names in ("x r w1 s1 b1 w2 s2 b2", "x r w1 s1 b1 w2 s2 b2       rw"):
        check(node("QMoE", names, **options), fed, constants, opset=opset, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("zeros", [False, True])
def test_experts_quantised_in_blocks(zeros: bool) -> None:
    width, inner, experts, block = 64, 32, 3, 32
    fed = {"x": normal(5, width), "r": normal(5, experts)}
    for name, rows, columns in (("1", inner, width), ("2", width, inner)):
        fed[f"w{name}"] = packed(RANDOM.integers(0, 16, (experts, rows, columns)), 4)
        fed[f"s{name}"] = RANDOM.random((experts, rows, columns // block)).astype(np.float32) * 0.02
        fed[f"z{name}"] = packed(RANDOM.integers(0, 16, (experts, rows, columns // block)), 4)
    names = "x r w1 s1  w2 s2     z1 z2" if zeros else "x r w1 s1  w2 s2"
    single = node("QMoE", names, block_size=block, k=2, activation_type="silu")
    constants = [name for name in fed if name not in "xr" and name in names.split()]
    check(single, fed, constants, opset=21, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("step", ["prompt", "token"])
@pytest.mark.parametrize("options", GROUPED.values(), ids=GROUPED.keys())
def test_queries_in_groups(options: dict[str, Any], step: str, opset: int) -> None:
    length, past = (6, 0) if step == "prompt" else (1, 5)
    for is_packed in (False, True):
        fed = grouped(2, length, past, is_packed)
        fed |= {"n": np.full(2, length + past - 1, np.int32), "t": np.asarray(length + past, np.int32)}
        names = [name if name in fed else "" for name in ("q", "k", "v", "pk", "pv", "n", "t")]
        if "do_rotary" in options:
            fed |= {"c": normal(20, 8), "s": normal(20, 8)}
            names += ["c", "s"]
        single = node("GroupQueryAttention", " ".join(names), "y key value", num_heads=4, kv_num_heads=2, **options)
        check(single, fed, opset=opset)


@pytest.mark.parametrize("opset", [17, 23])
def test_queries_in_groups_of_sequences_that_differ_in_length(opset: int) -> None:
    """What is put into the caches behind a sequence's end means nothing, so that only the first output is compared."""
    for room in (6, 10):
        fed = grouped(2, 1, room, False)
        fed |= {"n": np.array([6, 3], np.int32), "t": np.asarray(7, np.int32), "c": normal(20, 8), "s": normal(20, 8)}
        options = {"num_heads": 4, "kv_num_heads": 2}
        plain = node("GroupQueryAttention", "q k v pk pv n t", "y key value", **options)
        check(plain, fed, opset=opset, outputs=slice(1))
        turned = node("GroupQueryAttention", "q k v pk pv n t c s", "y key value", do_rotary=1, **options)
        check(turned, fed, opset=opset, outputs=slice(1))


def test_a_part_of_the_features_of_a_head_is_rotated() -> None:
    fed = {"q": normal(2, 3, 128), "k": normal(2, 3, 64), "v": normal(2, 3, 64), "c": normal(9, 8), "s": normal(9, 8)}
    fed |= {"n": np.array([2, 2], np.int32), "t": np.asarray(3, np.int32)}
    for interleaved in (0, 1):
        options = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": interleaved}
        check(node("GroupQueryAttention", "q k v   n t c s", "y key value", **options), fed, opset=23)


def test_queries_in_groups_with_a_bias_a_sink_and_no_past() -> None:
    fed = grouped(2, 4, 0, False)
    fed |= {"n": np.array([3, 3], np.int32), "t": np.asarray(4, np.int32), "a": normal(1, 4, 4, 4), "h": normal(4)}
    for names, outputs in (
        ("q k v   n t", "y key value"),
        ("q k v pk pv n t    a", "y"),
        ("q k v pk pv n t    a h", "y"),
    ):
        check(node("GroupQueryAttention", names, outputs, num_heads=4, kv_num_heads=2), fed, opset=23)


@pytest.mark.parametrize(
    ("direction", "per_channel", "opset"),
    [("forward", False, 13), ("reverse", True, 17), ("bidirectional", False, 23), ("bidirectional", True, 13)],
)
def test_recurrent_layers_of_bytes(direction: str, per_channel: bool, opset: int) -> None:
    count, hidden, features = (2 if direction == "bidirectional" else 1), 4, 3
    shape = (count, 4 * hidden) if per_channel else (count,)
    fed = {"x": normal(5, 2, features), "w": integers(count, features, 4 * hidden)}
    fed |= {"r": integers(count, hidden, 4 * hidden), "b": normal(count, 8 * hidden)}
    fed |= {"l": np.array([5, 3], np.int32), "h": normal(count, 2, hidden), "c": normal(count, 2, hidden)}
    fed |= {"p": normal(count, 3 * hidden), "ws": RANDOM.random(shape).astype(np.float32) * 0.02 + 0.001}
    fed |= {"wz": np.full(shape, 128, np.uint8), "rs": RANDOM.random(shape).astype(np.float32) * 0.02 + 0.001}
    fed["rz"] = np.full(shape, 125, np.uint8)
    constants = ["w", "r", "ws", "wz", "rs", "rz"]
    for left_out in ("", "l", "lhcp"):
        names = " ".join("" if name in left_out else name for name in fed)
        single = node("DynamicQuantizeLSTM", names, "y yh yc", direction=direction, hidden_size=hidden)
        check(single, fed, constants, opset=opset)
    names = " ".join("" if name in "lp" else name for name in fed)
    clipped = node("DynamicQuantizeLSTM", names, "y yh yc", direction=direction, hidden_size=hidden, clip=0.3)
    check(clipped, fed, constants, opset=opset)


@pytest.mark.parametrize(("scale", "zero_point"), [(0.25, 113), (0.5, 64), (0.25, 7)])
def test_means_of_bytes_that_are_half_way_between_two_steps(scale: float, zero_point: int) -> None:
    """ONNX Runtime adds the zero point before it rounds: where it is odd, halves go to the other side. The scales are
    powers of two, so that no sum is rounded."""
    fed = {"x": integers(2, 3, 8, 8), "a": np.array(scale, np.float32), "b": np.array(zero_point, np.uint8)}
    pool = node("QLinearAveragePool", "x a b a b", kernel_shape=[2, 2], strides=[2, 2])
    check(pool, fed, ["a", "b"], opset=17, rtol=0, atol=0)
    unknown = node("QLinearAveragePool", "x a b a b", kernel_shape=[2, 2], strides=[2, 2])
    check(unknown, fed, ["a"], opset=17, rtol=0, atol=0)
