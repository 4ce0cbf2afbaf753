"""Templates of layers: reductions, products, convolutions, pooling, normalisation, recurrence."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from fuzz.builder import Builder, UnsuitableError, Value
from fuzz.shapes import axis_of
from fuzz.sizes import ROOMY

REDUCTIONS = "Sum Mean Max Min Prod L1 L2 SumSquare LogSum LogSumExp".split()


def reduce(b: Builder) -> None:
    name = b.choose.choice([*REDUCTIONS, "Sum", "Mean", "Mean"])
    x = b.pick("f" if name not in ("Sum", "Max", "Min") else "ffi", ranks=range(5))
    if name == "Prod" and x.dtype == np.float16:
        raise UnsuitableError  # ONNX Runtime multiplies in float32, where nothing overflows on the way
    if name == "LogSum":
        x = b.one("Add", b.one("Abs", x), b.constant(np.asarray(0.5, x.dtype)))
    axes = b.choose.sample(range(x.rank), b.choose.randint(0, min(3, x.rank)))
    if b.opset >= 11:
        axes = [axis - x.rank if b.choose.random() < 0.4 else axis for axis in axes]
    keep = b.choose.choice([None, 0, 1])
    if b.opset < (13 if name == "Sum" else 18):
        b.one(f"Reduce{name}", x, axes=axes or None, keepdims=keep)
    elif axes:
        b.one(f"Reduce{name}", x, b.operand(axes, "axes"), keepdims=keep)
    else:
        b.one(f"Reduce{name}", x, keepdims=keep, noop_with_empty_axes=b.choose.choice([None, 0, 1]))


def arg_reduce(b: Builder) -> None:
    # Of the branches of an If one may give a single number, which has no axis; ONNX Runtime does not mind.
    chosen = {name for node in b.nodes if node.op_type == "If" for name in node.output}
    x = b.pick("fi", ranks=ROOMY, where=lambda v: v.name not in chosen)
    last = b.choose.choice([None, 0, 1]) if b.opset >= 12 else None
    b.one(
        b.choose.choice(["ArgMax", "ArgMin"]),
        x,
        axis=axis_of(b, x),
        keepdims=b.choose.choice([None, 0, 1]),
        select_last_index=last,
    )


def top_k(b: Builder) -> None:
    x = b.pick("f", ranks=ROOMY)
    axis = axis_of(b, x)
    k = b.choose.randint(1, x.shape[axis])
    if b.opset < 10:
        b.node("TopK", [x], 2, k=k, axis=axis)
    else:
        largest = b.choose.choice([None, 0, 1]) if b.opset >= 11 else None
        b.node("TopK", [x, b.operand([k], "k")], 2, axis=axis, largest=largest)


def cum_sum(b: Builder) -> None:
    x = b.pick("fi", ranks=ROOMY)
    flags = {name: b.choose.choice([None, 0, 1]) for name in ("exclusive", "reverse")}
    b.one("CumSum", x, b.operand(np.asarray(axis_of(b, x))), **flags)


def matmul(b: Builder) -> None:
    x = b.pick("f", ranks=ROOMY)
    if b.choose.random() < 0.3:
        y = b.pick("f", ranks=ROOMY, where=lambda v: v.dtype == x.dtype and x.shape[-1] == v.shape[-min(2, v.rank)])
        b.one("MatMul", x, y)
        return
    width = b.choose.choice([1, 3, 4, 6])
    shape = b.choose.choice([(x.shape[-1], width), (x.shape[-1], width), (x.shape[-1],), (2, 1, x.shape[-1], width)])
    if x.rank == 2 and b.choose.random() < 0.2:
        b.one("MatMul", b.weight((width, x.shape[0]), dtype=x.dtype), x)
    else:
        b.one("MatMul", x, b.weight(shape, dtype=x.dtype))


def gemm(b: Builder) -> None:
    x = b.pick("f", ranks=[2])
    trans_a, trans_b = (b.choose.choice([None, 0, 1]) for _ in range(2))
    inner = x.shape[0] if trans_a else x.shape[1]
    outer = x.shape[1] if trans_a else x.shape[0]
    width = b.choose.choice([1, 3, 4])
    inputs = [x, b.weight((width, inner) if trans_b else (inner, width), dtype=x.dtype)]
    if b.opset < 11 or b.choose.random() < 0.8:
        inputs.append(b.weight(b.choose.choice([(width,), (width,), (1, width), (1,), (outer, 1)]), "bias", x.dtype))
    scales = {name: b.choose.choice([None, None, 1.0, 0.5]) for name in ("alpha", "beta")}
    b.one("Gemm", *inputs, transA=trans_a, transB=trans_b, **scales)


def einsum(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: b.opset >= 12)
    letters = "ijk"[: x.rank]
    y = b.weight((x.shape[-1], 3), dtype=x.dtype)
    form = b.choose.choice([f"{letters},{letters[-1]}z->{letters[:-1]}z", f"...{letters[-1]},{letters[-1]}z->...z"])
    b.one("Einsum", x, y, equation=b.choose.choice([form, f"{letters},{letters[-1]}z->z{letters[:-1]}"]))


def einsum_alone(b: Builder) -> None:
    x = b.pick("f", ranks=[2], where=lambda v: b.opset >= 12)
    b.one("Einsum", x, equation=b.choose.choice(["ij->ji", "ij->i", "ij->j", "ij->", "ij"]))


def window(b: Builder, x: Value, *, dilated: bool) -> dict[str, Any]:
    """Kernel, strides, padding and dilation for the spatial axes of `x`."""
    rank = x.rank - 2
    kernel = [b.choose.randint(1, min(3, size)) for size in x.shape[2:]]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": b.choose.choice([None, [2] * rank, [1] * rank])}
    if dilated and b.choose.random() < 0.3:
        attributes["dilations"] = [b.choose.choice([1, 2]) for _ in range(rank)]
    roll = b.choose.random()
    if roll < 0.4:
        attributes["pads"] = [k // 2 for k in kernel] * 2
    elif roll < 0.6:
        attributes["pads"] = [b.choose.randint(0, k - 1) for k in kernel * 2]
    elif roll < 0.75:
        attributes["auto_pad"] = b.choose.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    pads = attributes.get("pads", [0] * (2 * rank))
    for axis, (size, k, dilation) in enumerate(
        zip(x.shape[2:], kernel, attributes.get("dilations", [1] * rank), strict=True)
    ):
        if (k - 1) * dilation >= size + pads[axis] + pads[axis + rank]:
            raise UnsuitableError  # of a window that fits nowhere ONNX Runtime makes one
    return attributes


def conv(b: Builder) -> Value:
    x = b.pick("f", ranks=[3, 4, 5], where=lambda v: v.dtype != np.float16)
    attributes = window(b, x, dilated=True)
    channels = x.shape[1]
    group = b.choose.choice([1, 1, channels, *(g for g in (2, 3) if channels % g == 0)])
    out = group * b.choose.choice([1, 2, 3])
    inputs = [x, b.weight((out, channels // group, *attributes["kernel_shape"]), dtype=x.dtype)]
    if b.choose.random() < 0.6:
        inputs.append(b.weight((out,), "bias", x.dtype))
    if b.choose.random() < 0.3:
        del attributes["kernel_shape"]
    return b.one("Conv", *inputs, group=b.choose.choice([None, 1]) if group == 1 else group, **attributes)


def conv_transpose(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4], where=lambda v: v.dtype != np.float16)
    attributes = window(b, x, dilated=True)
    rank, channels = x.rank - 2, x.shape[1]
    if attributes["strides"] == [2] * rank and 1 in attributes["kernel_shape"]:
        attributes.pop("auto_pad", None)  # which ONNX does not define then
    group = b.choose.choice([1, 1, channels])
    inputs = [x, b.weight((channels, b.choose.choice([1, 2]), *attributes["kernel_shape"]), dtype=x.dtype)]
    if b.choose.random() < 0.5:
        inputs.append(b.weight((inputs[1].shape[1] * group,), "bias", x.dtype))
    if attributes["strides"] == [2] * rank and b.choose.random() < 0.4:
        attributes["output_padding"] = [b.choose.choice([0, 1]) for _ in range(rank)]
    b.one("ConvTranspose", *inputs, group=group, **attributes)


def pool(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4, 5], where=lambda v: v.dtype == np.float32)
    op_type = b.choose.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"])
    attributes = window(b, x, dilated=op_type == "MaxPool" and b.opset >= 10)
    if op_type != "LpPool" and b.opset >= 10:
        attributes["ceil_mode"] = b.choose.choice([None, 0, 1])
    if attributes.get("auto_pad") == "VALID":
        attributes.pop("ceil_mode", None)  # which ONNX Runtime minds here, and ONNX does not
    elif attributes.get("auto_pad"):
        attributes.pop("dilations", None)  # which ONNX Runtime forgets here
    if op_type == "AveragePool":
        attributes["count_include_pad"] = b.choose.choice([None, 1])
    if op_type == "LpPool":
        attributes["p"] = b.choose.choice([None, 1, 2, 3])
    b.one(op_type, x, **attributes)


def global_pool(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4, 5], where=lambda v: v.dtype != np.float16)
    y = b.one(b.choose.choice(["GlobalAveragePool", "GlobalMaxPool"]), x)
    if b.choose.random() < 0.5:
        b.one("Flatten", y)


def batch_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3, 4], where=lambda v: v.dtype == np.float32)
    batch_norm_of(b, x)


def batch_norm_of(b: Builder, x: Value) -> Value:
    shape = (x.shape[1],)
    variance = b.constant((0.5 + b.data.random(shape)).astype(x.dtype), "running_var")
    scale, bias, mean = (b.weight(shape, role, x.dtype) for role in ("weight", "bias", "running_mean"))
    return b.one("BatchNormalization", x, scale, bias, mean, variance, epsilon=b.choose.choice([None, 1e-3]))


def instance_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4], where=lambda v: v.dtype == np.float32 and min(v.shape[2:]) > 1)
    weight, bias = (b.weight((x.shape[1],), role, x.dtype) for role in ("weight", "bias"))
    b.one("InstanceNormalization", x, weight, bias, epsilon=b.choose.choice([None, 1e-2]))


def layer_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3, 4], where=lambda v: v.dtype != np.float16)
    axis = axis_of(b, x)
    shape = x.shape[axis:]
    if b.choose.random() < 0.15:
        shape = (*[1] * (len(shape) - 1), shape[-1])
    inputs = [x, b.weight(shape, "weight", x.dtype)]
    if b.choose.random() < 0.7:
        inputs.append(b.weight(shape, "bias", x.dtype))
    b.one("LayerNormalization", *inputs, axis=axis, epsilon=b.choose.choice([None, 1e-3]))


def rms_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3, 4], where=lambda v: v.dtype != np.float16)
    axis = axis_of(b, x)
    b.one("RMSNormalization", x, b.weight(x.shape[axis:], "weight", x.dtype), axis=axis)


def group_norm(b: Builder) -> None:
    x = b.pick(
        "f", ranks=[3, 4], where=lambda v: v.dtype == np.float32 and v.shape[1] % 2 == 0 and prod(v.shape[2:]) > 1
    )
    weight, bias = (b.weight((x.shape[1],), role, x.dtype) for role in ("weight", "bias"))
    b.one("GroupNormalization", x, weight, bias, num_groups=b.choose.choice([1, 2, x.shape[1]]))


def other_norm(b: Builder) -> None:
    op_type = b.choose.choice(["LRN", "MeanVarianceNormalization", "LpNormalization"])
    x = b.pick("f", ranks=[4] if op_type != "LpNormalization" else ROOMY, where=lambda v: v.dtype == np.float32)
    if op_type == "LRN":
        b.one("LRN", x, size=b.choose.choice([1, 2, 3]), alpha=0.3, beta=b.choose.choice([None, 0.5]))
    elif op_type == "LpNormalization":
        b.one("LpNormalization", x, axis=axis_of(b, x), p=b.choose.choice([1, 2]))
    else:
        b.one(op_type, x, axes=b.choose.choice([None, [1, 2], [0, 2, 3]]))


def recurrent(b: Builder) -> None:
    x = b.pick("f", ranks=[3], where=lambda v: v.dtype == np.float32)
    op_type = b.choose.choice(["LSTM", "GRU", "RNN"])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
    direction = b.choose.choice(["forward", "reverse", "bidirectional"])
    directions, hidden = 2 if direction == "bidirectional" else 1, b.choose.choice([2, 3])
    length, batch, width = x.shape
    inputs: list[Value | None] = [x, b.weight((directions, gates * hidden, width), "W")]
    inputs.append(b.weight((directions, gates * hidden, hidden), "R"))
    inputs.append(b.weight((directions, 2 * gates * hidden), "B") if b.choose.random() < 0.8 else None)
    lengths = b.integers(1, length + 1, (batch,)).astype(np.int32)
    inputs.append(b.operand(lengths, "lengths") if b.choose.random() < 0.15 else None)
    if b.choose.random() < 0.4:
        for role in ("h0", "c0")[: 2 if op_type == "LSTM" else 1]:
            zeros = np.zeros((directions, batch, hidden), np.float32)
            inputs.append(b.constant(zeros, role) if b.choose.random() < 0.5 else b.weight(zeros.shape, role))
    extra = {"linear_before_reset": b.choose.choice([None, 0, 1])} if op_type == "GRU" else {}
    outputs = b.node(op_type, inputs, 3 if op_type == "LSTM" else 2, direction=direction, hidden_size=hidden, **extra)
    if b.choose.random() < 0.6:  # the way back to (length, batch, directions * hidden)
        y = b.one("Transpose", outputs[0], perm=[0, 2, 1, 3])
        b.one("Reshape", y, b.constant([0, 0, -1]))


def resize(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4], where=lambda v: v.dtype == np.float32)
    scales = [1.0, 1.0, *(b.choose.choice([2.0, 1.5, 0.5, 1.0]) for _ in x.shape[2:])]
    mode = b.choose.choice(["nearest", "linear"])
    if b.opset < 11:
        b.one(
            "Upsample" if b.opset == 9 else "Resize", x, b.operand(np.asarray(scales, np.float32), "scales"), mode=mode
        )
        return
    coordinates = b.choose.choice([None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    if coordinates == "align_corners":
        scales = [1.0 if s < 1 else np.ceil(s) for s in scales]  # the specification rounds sizes otherwise
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = b.choose.choice([None, "floor", "ceil", "round_prefer_ceil"])
    roi: Value | None = None if b.opset >= 13 else b.constant(np.zeros(0, np.float32), "roi")
    if b.choose.random() < 0.6:
        b.one("Resize", x, roi, b.operand(np.asarray(scales, np.float32), "scales"), **attributes)
        return
    sizes = [*x.shape[:2], *(max(1, int(n * s)) for n, s in zip(x.shape[2:], scales[2:], strict=True))]
    empty = None if b.opset >= 13 else b.constant(np.zeros(0, np.float32), "scales")
    b.one("Resize", x, roi, empty, b.operand(sizes, "sizes"), **attributes)


TEMPLATES = {
    reduce: (9, 6),
    arg_reduce: (9, 1),
    top_k: (9, 1),
    cum_sum: (11, 1),
    matmul: (9, 3),
    gemm: (9, 2),
    einsum: (12, 1),
    einsum_alone: (12, 1),
    conv: (9, 3),
    conv_transpose: (9, 1),
    pool: (9, 2),
    global_pool: (9, 1),
    batch_norm: (9, 2),
    instance_norm: (9, 1),
    layer_norm: (17, 2),
    rms_norm: (23, 1),
    group_norm: (21, 1),
    other_norm: (9, 1),
    recurrent: (9, 1),
    resize: (9, 1),
}
