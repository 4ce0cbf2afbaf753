"""Templates of several nodes that idioms look for, each with the small variations that change what they mean."""

from __future__ import annotations

from math import prod

import numpy as np

from fuzz.builder import Builder, UnsuitableError, Value
from fuzz.elementwise import partner
from fuzz.layers import batch_norm_of, conv
from fuzz.sizes import size_value, target


def scalar(b: Builder, value: float, like: Value) -> Value:
    shape = b.choose.choice([(), (), (1,)])
    return b.constant(np.full(shape, value, like.dtype))


def reduce_mean(b: Builder, x: Value, axes: list[int], keep: int = 1) -> Value:
    if b.opset < 18:
        return b.one("ReduceMean", x, axes=axes, keepdims=keep)
    return b.one("ReduceMean", x, b.constant(axes), keepdims=keep)


def commuted(b: Builder, op_type: str, x: Value, y: Value) -> Value:
    return b.one(op_type, *((x, y) if b.choose.random() < 0.7 else (y, x)))


def linear_of(b: Builder, x: Value, width: int) -> Value:
    if b.choose.random() < 0.3:  # a weight that is transposed in the graph
        weight = b.one("Transpose", b.weight((width, x.shape[-1]), dtype=x.dtype), perm=[1, 0])
    else:
        weight = b.weight((x.shape[-1], width), dtype=x.dtype)
    y = b.one("MatMul", x, weight)
    if b.choose.random() < 0.75:
        shape = b.choose.choice(
            [(width,), (width,), (width,), (1, width), (1,), (), (y.shape[-2] if y.rank > 1 else 1, 1)]
        )
        y = commuted(b, "Add", y, b.weight(shape, "bias", x.dtype))
    return y


def linear(b: Builder) -> None:
    linear_of(b, b.pick("f", ranks=[1, 2, 3, 4]), b.choose.choice([1, 3, 4, 6]))


def mlp(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3])
    hidden = linear_of(b, x, b.choose.choice([4, 8]))
    activated = b.one(b.choose.choice(["Relu", "Tanh", "Sigmoid", "Softplus"]), hidden)
    y = linear_of(b, activated, x.shape[-1])
    if b.choose.random() < 0.6:
        commuted(b, "Add", x, y)


def decomposed_layer_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3, 4], where=lambda v: v.dtype != np.float16)
    axes = b.choose.choice([[-1] if b.opset >= 11 else [x.rank - 1], [x.rank - 1], [x.rank - 2, x.rank - 1], [1]])
    centred = b.one("Sub", x, reduce_mean(b, x, axes))
    if b.choose.random() < 0.5:
        square = b.one("Pow", centred, scalar(b, b.choose.choice([2.0, 2.0, 2.0, 4.0]), x))
    else:
        other = centred if b.choose.random() < 0.6 else b.one("Sub", x, reduce_mean(b, x, axes))
        square = b.one("Mul", centred, other)
    variance = commuted(b, "Add", reduce_mean(b, square, axes), scalar(b, b.choose.choice([1e-5, 1e-3, 0.1]), x))
    root = b.one("Sqrt", variance)
    y = b.one("Div", centred, root) if b.choose.random() < 0.7 else b.one("Mul", centred, b.one("Reciprocal", root))
    shape = b.choose.choice([x.shape[min(a % x.rank for a in axes) :], (x.shape[-1],), (1,), x.shape])
    if b.choose.random() < 0.8:
        y = commuted(b, "Mul", y, b.weight(shape, "weight", x.dtype))
    if b.choose.random() < 0.7:
        commuted(b, "Add", y, b.weight(shape, "bias", x.dtype))


def decomposed_rms_norm(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype != np.float16)
    square = b.one("Pow", x, scalar(b, 2.0, x)) if b.choose.random() < 0.6 else b.one("Mul", x, x)
    axis = b.choose.choice([x.rank - 1, x.rank - 1, 1])
    mean = commuted(b, "Add", reduce_mean(b, square, [axis]), scalar(b, b.choose.choice([1e-6, 0.01]), x))
    root = b.one("Sqrt", mean)
    y = b.one("Div", x, root) if b.choose.random() < 0.4 else commuted(b, "Mul", x, b.one("Reciprocal", root))
    commuted(b, "Mul", b.weight(b.choose.choice([(x.shape[-1],), (1,), x.shape]), "weight", x.dtype), y)


def decomposed_gelu(b: Builder) -> None:
    x = b.pick("f", where=lambda v: v.dtype != np.float16)
    if b.choose.random() < 0.6:
        inner = b.one("Erf", b.one("Div", x, scalar(b, b.choose.choice([2**0.5, 2**0.5, 1.4]), x)))
    else:
        cube = b.one("Pow", x, scalar(b, 3.0, x))
        polynomial = b.one("Add", x, commuted(b, "Mul", cube, scalar(b, 0.044715, x)))
        inner = b.one("Tanh", commuted(b, "Mul", polynomial, scalar(b, (2 / np.pi) ** 0.5, x)))
    gate = commuted(b, "Add", inner, scalar(b, 1.0, x))
    half = scalar(b, b.choose.choice([0.5, 0.5, 0.25]), x)
    if b.choose.random() < 0.5:
        commuted(b, "Mul", commuted(b, "Mul", x, gate), half)
    else:
        commuted(b, "Mul", commuted(b, "Mul", x, half), gate)


def gate(b: Builder) -> None:
    """x * sigmoid(x), with x or something else."""
    x = b.pick("f")
    inner = b.one(b.choose.choice(["Sigmoid", "HardSigmoid", "Tanh"]), x)
    commuted(b, "Mul", x if b.choose.random() < 0.7 else partner(b, x), inner)


def conv_block(b: Builder) -> None:
    y = conv(b)
    if y.dtype == np.float32:
        y = batch_norm_of(b, y)
    b.one(b.choose.choice(["Relu", "Sigmoid", "LeakyRelu"]), y)


def reshaped_group_norm(b: Builder) -> None:
    x = b.pick(
        "f", ranks=[3, 4], where=lambda v: v.dtype == np.float32 and v.shape[1] % 2 == 0 and prod(v.shape[2:]) > 1
    )
    groups = b.choose.choice([2, x.shape[1]])
    y = b.one("Reshape", x, b.constant([0, groups, -1]))
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    weight = b.constant(ones) if b.choose.random() < 0.7 else b.weight((groups,))
    y = b.one("InstanceNormalization", y, weight, b.constant(zeros), epsilon=1e-5)
    y = b.one("Reshape", y, b.one("Shape", x))
    shape = (x.shape[1], *[1] * (x.rank - 2))
    y = commuted(b, "Mul", y, b.weight(b.choose.choice([shape, (1, *shape), (1,)]), "weight"))
    commuted(b, "Add", y, b.weight(shape, "bias"))


def attention(b: Builder) -> None:
    x = b.pick("f", ranks=[3], where=lambda v: v.shape[-1] % 2 == 0 and v.dtype != np.float16)
    batch, length, width = x.shape
    heads = 2
    context = x if b.choose.random() < 0.7 else b.pick("f", ranks=[3], where=lambda v: _like_context(v, x))

    def split(source: Value, role: str, order: list[int]) -> Value:
        b.names.scope = [*scope, role]
        y = linear_of(b, source, width)
        b.names.scope = scope
        if b.choose.random() < 0.5:
            shape = b.constant([0, 0, heads, width // heads])
        else:
            parts = [
                size_value(b, source, 0),
                size_value(b, source, 1),
                b.constant([heads]),
                b.constant([width // heads]),
            ]
            shape = b.one("Concat", *parts, axis=0)
        return b.one("Transpose", b.one("Reshape", y, shape), perm=order)

    scope = b.names.scope
    usual = [0, 2, 1, 3]
    query = split(x, "q", usual)
    keys = split(context, "k", [0, 2, 3, 1]) if b.choose.random() < 0.5 else split(context, "k", usual)
    if keys.shape[-2] != width // heads or (keys.shape == query.shape and b.choose.random() < 0.5):
        keys = b.one("Transpose", keys, perm=[0, 1, 3, 2])
    values = split(context, "v", usual)
    scale = (width // heads) ** 0.5 if b.choose.random() < 0.7 else 1.7
    where_scaled = b.choose.choice(["query", "both", "scores", "scores", "none"])
    if where_scaled in ("query", "both"):
        root = scale if where_scaled == "query" else scale**0.5
        query = b.one("Div", query, scalar(b, root, x))
        keys = b.one("Mul", keys, scalar(b, 1 / root, x)) if where_scaled == "both" else keys
    scores = b.one("MatMul", query, keys)
    if where_scaled == "scores":
        scores = b.one(
            *(
                ("Div", scores, scalar(b, scale, x))
                if b.choose.random() < 0.5
                else ("Mul", scores, scalar(b, 1 / scale, x))
            )
        )
    scores = masked(b, scores)
    weights = b.one(
        "Softmax", scores, axis=b.choose.choice([3, 3, -1 if b.opset >= 11 else 3, 2 if b.opset >= 13 else 3])
    )
    mixed = b.one("MatMul", weights, values)
    joined = b.one("Transpose", mixed, perm=b.choose.choice([usual, usual, [0, 1, 2, 3]]))
    linear_of(b, b.one("Reshape", joined, target(b, x, (batch, length, width))), width)


def _like_context(value: Value, x: Value) -> bool:
    return value.dtype == x.dtype and value.shape[0] == x.shape[0]


def masked(b: Builder, scores: Value) -> Value:
    """Attention scores with one of the masks that exporters write."""
    roll = b.choose.random()
    shape = (*b.choose.choice([(), (1, 1), (scores.shape[0], 1)]), *scores.shape[-2:])
    if roll < 0.35:
        return scores
    if roll < 0.6:
        return commuted(b, "Add", scores, b.operand(b.floats(shape, scores.dtype), "mask"))
    keep = b.data.random(shape) < 0.7
    keep[..., 0] = True
    mask = b.operand(keep, "mask")
    low = scalar(b, b.choose.choice([-1e4, -100.0]), scores)
    if roll < 0.8:
        return b.one("Where", mask, scores, low)
    kept = b.one("Cast", mask, to=1 if scores.dtype == np.float32 else 11)
    penalty = b.one("Mul", b.one("Sub", scalar(b, 1.0, scores), kept), low)
    return b.one("Add", scores, penalty)


def embedding(b: Builder) -> None:
    rows, width = b.choose.choice([5, 7]), b.choose.choice([4, 6])
    table = b.weight((rows, width))
    indices = b.operand(b.integers(0, rows, b.choose.choice([(2, 3), (4,), ()])), "input_ids")
    y = b.one("Gather", table, indices, axis=b.choose.choice([None, 0]))
    if b.choose.random() < 0.4:  # a tied head
        head = b.one("Transpose", table, perm=[1, 0])
        b.one("MatMul", y, head)


def global_mean(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4])
    y = reduce_mean(
        b, x, b.choose.choice([[2, 3][: x.rank - 2], [-1] if b.opset >= 11 else [2]]), b.choose.choice([0, 1])
    )
    if y.rank > 2:
        b.one("Flatten", y)


def affine_chain(b: Builder) -> None:
    """Constants that meet: (x * a) * c + d, which folding and sharing may join."""
    x = b.pick("f")
    for _ in range(b.choose.randint(2, 4)):
        x = commuted(b, b.choose.choice(["Mul", "Add"]), x, scalar(b, b.choose.choice([2.0, 0.5, 1.0, 0.0, -1.5]), x))


def same_twice(b: Builder) -> None:
    """Equal nodes, of which one is enough, unless they only look alike."""
    x = b.pick("f", ranks=[1, 2, 3, 4])
    op_type = b.choose.choice(["Relu", "Softmax", "Transpose", "Exp"])
    first = b.one(op_type, x)
    second = b.one(op_type, x, **({"axis": 0} if op_type == "Softmax" and b.choose.random() < 0.5 else {}))
    if first.shape != second.shape:
        raise UnsuitableError
    b.one("Sub", first, second)


TEMPLATES = {
    linear: (9, 4),
    mlp: (9, 2),
    decomposed_layer_norm: (9, 3),
    decomposed_rms_norm: (9, 2),
    decomposed_gelu: (9, 2),
    gate: (9, 2),
    conv_block: (9, 2),
    reshaped_group_norm: (9, 1),
    attention: (9, 3),
    embedding: (9, 1),
    global_mean: (9, 1),
    affine_chain: (9, 1),
    same_twice: (9, 1),
}
