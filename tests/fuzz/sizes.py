"""Templates of computing with sizes: what exporters write where a program said `x.shape[0] * 2`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import numpy_helper

from fuzz.builder import Builder, UnsuitableError, Value
from fuzz.elementwise import partner

ANY = "fib"
ROOMY = range(1, 5)


def size_value(b: Builder, x: Value, axis: int) -> Value:
    """One size of `x` as exporters compute it: a scalar, or a list of one."""
    roll = b.choose.random()
    if b.opset >= 15 and roll < 0.3:
        return b.one("Shape", x, start=axis, end=axis + 1)
    shape = b.one("Shape", x)
    if roll < 0.6:
        scalar = b.one("Gather", shape, b.constant(np.asarray(axis)), axis=0)
        return unsqueeze_at(b, scalar, [0])
    if b.opset >= 10 and roll < 0.8:
        return b.one("Slice", shape, b.constant([axis]), b.constant([axis + 1]), b.constant([0]))
    return b.one("Gather", shape, b.constant([axis]), axis=0)


def unsqueeze_at(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    if b.opset < 13:
        return b.one("Unsqueeze", x, axes=list(axes))
    return b.one("Unsqueeze", x, b.operand(list(axes), "axes"))


def target(b: Builder, x: Value, sizes: Sequence[int]) -> Value:
    """The shape `sizes` for something made of `x`: a constant, or concatenated from sizes of `x` where it can be."""
    if b.choose.random() < 0.5:
        return b.operand(list(sizes), "shape")
    parts = []
    for size in sizes:
        axes = [axis for axis, n in enumerate(x.shape) if n == size]
        if axes and b.choose.random() < 0.7:
            parts.append(size_value(b, x, b.choose.choice(axes)))
        elif len(b.pool) and size > 1 and size % 2 == 0 and size // 2 in x.shape and b.choose.random() < 0.5:
            half = size_value(b, x, x.shape.index(size // 2))
            parts.append(b.one("Mul", half, b.constant([2])))
        else:
            parts.append(b.constant([size]))
    return b.one("Concat", *parts, axis=0)


def slice_to_size(b: Builder) -> None:
    """x[:, : y.shape[1]], whose bounds come from a shape."""
    if b.opset < 10:
        raise UnsuitableError
    x, y = b.pick(ANY, ranks=ROOMY), b.pick(ANY, ranks=ROOMY)
    axis = b.choose.randrange(x.rank)
    size = size_value(b, y, b.choose.randrange(y.rank))
    start, end = (b.constant([0]), size) if b.choose.random() < 0.6 else (b.one("Sub", size, b.constant([1])), size)
    b.one("Slice", x, start, end, b.constant([axis]))


def expand_to_other(b: Builder) -> None:
    x = b.pick("f", where=lambda v: v.rank > 0)
    small = b.operand(b.like(x, [n if b.choose.random() < 0.5 else 1 for n in x.shape]))
    b.one("Expand", small, b.one("Shape", x))


def shape(b: Builder) -> None:
    x = b.pick(ANY)
    if b.opset >= 15 and b.choose.random() < 0.4:
        b.one("Shape", x, start=b.choose.choice([None, 1, -2]), end=b.choose.choice([None, -1, 2]))
    else:
        b.one(b.choose.choice(["Shape", "Shape", "Size"]), x)


def shape_arithmetic(b: Builder) -> None:
    """Sizes added, multiplied, compared and cast, as exporters leave them."""
    x = b.pick(ANY, ranks=ROOMY)
    size = size_value(b, x, b.choose.randrange(x.rank))
    for _ in range(b.choose.randint(1, 3)):
        op_type = b.choose.choice(["Add", "Sub", "Mul", "Div", "Cast", "Concat", "Neg", "Floor", "Compare", "Sqrt"])
        if op_type == "Cast":
            size = b.one("Cast", b.one("Cast", size, to=1), to=7)
        elif op_type == "Concat":
            size = b.one("Concat", size, b.operand(b.integers(1, 4, (1,))), axis=0)
        elif op_type == "Neg":
            size = b.one("Neg", size)
        elif op_type == "Floor":
            half = b.one("Div", b.one("Cast", size, to=1), b.constant(np.float32(2)))
            size = b.one("Cast", b.one(b.choose.choice(["Floor", "Ceil"]), half), to=7)
        elif op_type == "Sqrt":
            b.one("Mul", b.pick("f", where=lambda v: v.dtype == np.float32), b.one("Sqrt", b.one("Cast", size, to=1)))
        elif op_type == "Compare":
            b.one(b.choose.choice(["Equal", "Greater", "Less"]), size, b.operand(b.integers(0, 5)))
        else:
            size = b.one(op_type, size, b.operand(b.integers(1, 4, b.choose.choice([(), (1,)]))))


def shape_program(b: Builder) -> None:
    """A list of sizes that is computed on as exporters do, and used as one."""
    x = b.pick(ANY, ranks=ROOMY)
    sizes = b.one("Shape", x)
    for _ in range(b.choose.randint(1, 4)):
        step = b.choose.choice(SHAPE_STEPS)
        sizes = step(b, sizes)
        if sizes.rank != 1 or not sizes.shape[0]:
            raise UnsuitableError
    use = b.choose.choice(["ConstantOfShape", "Expand", "Reshape", "none"])
    if use == "ConstantOfShape":
        b.one(use, sizes)
    elif use == "Expand":
        b.one(use, b.constant(b.floats()), sizes)
    elif use == "Reshape":
        b.one(use, b.one("Expand", b.constant(b.floats()), sizes), b.constant([-1]))


def _reversed_sizes(b: Builder, sizes: Value) -> Value:
    if b.opset < 10:
        raise UnsuitableError
    return b.one("Slice", sizes, b.constant([-1]), b.constant([-(2**31)]), b.constant([0]), b.constant([-1]))


def _chosen_sizes(b: Builder, sizes: Value) -> Value:
    indices = b.integers(-len(sizes.array) if b.opset >= 11 else 0, len(sizes.array), (b.choose.randint(1, 3),))
    return b.one("Gather", sizes, b.operand(indices, "indices"), axis=0)


def _replaced_ones(b: Builder, sizes: Value) -> Value:
    """Where(sizes == c, something, sizes), which PyTorch's exporter writes for every `expand`."""
    if b.opset < 11:
        raise UnsuitableError
    ones = b.one("ConstantOfShape", b.one("Shape", sizes), value=numpy_helper.from_array(np.asarray([2])))
    is_equal = b.one("Equal", sizes, b.constant(np.asarray(sizes.array[0])))
    return b.one("Where", is_equal, *((ones, sizes) if b.choose.random() < 0.5 else (sizes, ones)))


def _scattered_size(b: Builder, sizes: Value) -> Value:
    if b.opset < 11:
        raise UnsuitableError
    at = b.choose.randrange(len(sizes.array))
    if b.choose.random() < 0.5:
        return b.one("ScatterElements", sizes, b.constant([at]), b.constant([3]))
    return b.one("ScatterND", sizes, b.constant([[at]]), b.constant([3]))


def _product(b: Builder, sizes: Value) -> Value:
    attributes = {"axes": [0]} if b.opset < 18 and b.choose.random() < 0.5 else {}
    name = b.choose.choice(["ReduceProd", "ReduceMax", "ReduceMin"])
    if name != "ReduceProd" and b.opset < 12:
        raise UnsuitableError
    return b.one(name, sizes, keepdims=1, **attributes)


def _bounded(b: Builder, sizes: Value) -> Value:
    if b.opset < 12:
        raise UnsuitableError
    return b.one(b.choose.choice(["Min", "Max"]), sizes, b.operand(b.choose.choice([np.asarray(3), np.asarray([2])])))


def _joined(b: Builder, sizes: Value) -> Value:
    other = size_value(b, b.pick(ANY, ranks=ROOMY), 0)
    return b.one("Concat", *((sizes, other) if b.choose.random() < 0.5 else (other, sizes)), axis=0)


def _calculated(b: Builder, sizes: Value) -> Value:
    op_type = b.choose.choice(["Add", "Mul", "Div", *(["Mod"] if b.opset >= 10 else [])])
    shape = b.choose.choice([(), (1,), sizes.shape])
    y = b.one(op_type, sizes, b.operand(b.integers(1, 4, shape)))
    return b.one("Add", y, b.constant([1])) if b.choose.random() < 0.5 else y


def _through_floats(b: Builder, sizes: Value) -> Value:
    half = b.one("Mul", b.one("Cast", sizes, to=1), b.constant(np.float32(b.choose.choice([0.5, 1.5, 2.0]))))
    rounding = b.choose.choice(["Floor", "Ceil", "Identity"])
    return b.one("Cast", b.one(rounding, half), to=7)


def _split_first(b: Builder, sizes: Value) -> Value:
    first = b.one("Gather", sizes, b.constant(np.asarray(0)), axis=0)
    if b.opset < 13:
        return b.one("Unsqueeze", b.one("Add", first, b.constant(np.asarray(1))), axes=[0])
    return b.one("Reshape", b.one("Add", first, b.constant(np.asarray(1))), b.constant([1]))


SHAPE_STEPS = (
    _reversed_sizes,
    _chosen_sizes,
    _replaced_ones,
    _scattered_size,
    _product,
    _bounded,
    _joined,
    _calculated,
    _through_floats,
    _split_first,
)


def constant_of_shape(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    value = b.choose.choice(
        [None, np.full(1, 1.5, np.float32), np.full(1, 3), np.full(1, True), np.zeros(1, np.float32)]
    )
    tensor = None if value is None else numpy_helper.from_array(value)
    source = b.one("Shape", x) if b.choose.random() < 0.6 else target(b, x, b.choose.sample(x.shape, len(x.shape)))
    b.one("ConstantOfShape", source, value=tensor)


def range_(b: Builder) -> None:
    if b.opset < 11:
        raise UnsuitableError
    x = b.pick(ANY, ranks=ROOMY)
    if b.choose.random() < 0.25:
        limits = [b.operand(np.asarray(v, np.float32)) for v in (-1.0, 2.0, 0.5)]
        b.one("Range", *limits)
        return
    size = b.one("Gather", b.one("Shape", x), b.constant(np.asarray(b.choose.randrange(x.rank))), axis=0)
    zero, one = b.constant(np.asarray(b.choose.choice([0, 0, -2]))), b.operand(np.asarray(b.choose.choice([1, 1, 2])))
    steps = b.one("Range", zero, size, one)
    if b.choose.random() < 0.5:
        b.one("Unsqueeze", steps, axes=[0]) if b.opset < 13 else b.one("Unsqueeze", steps, b.constant([0]))


def mask_from_lengths(b: Builder) -> None:
    """arange(n)[None] < lengths[:, None], as padding masks are made."""
    if b.opset < 11:
        raise UnsuitableError
    x = b.pick("f", ranks=[2, 3])
    size = b.one("Gather", b.one("Shape", x), b.constant(np.asarray(1)), axis=0)
    steps = b.one("Range", b.constant(np.asarray(0)), size, b.constant(np.asarray(1)))
    lengths = b.operand(b.integers(0, x.shape[1] + 1, (x.shape[0], 1)), "lengths")
    b.one("Where", b.one("Less", steps, lengths), *(partner(b, x, pooled=1) for _ in range(2)))


TEMPLATES = {
    expand_to_other: (9, 1),
    slice_to_size: (10, 2),
    shape: (9, 2),
    shape_arithmetic: (9, 3),
    shape_program: (9, 4),
    constant_of_shape: (9, 2),
    range_: (11, 2),
    mask_from_lengths: (11, 1),
}
