"""Templates of operators that move and pick elements."""

from __future__ import annotations

from math import prod

import numpy as np

from fuzz.builder import Builder, UnsuitableError, Value
from fuzz.sizes import ANY, ROOMY, target, unsqueeze_at


def axis_of(b: Builder, x: Value, lowest_opset_for_negative: int = 11) -> int:
    if x.rank == 0:
        raise UnsuitableError
    axis = b.choose.randrange(x.rank)
    return axis - x.rank if b.opset >= lowest_opset_for_negative and b.choose.random() < 0.4 else axis


def factorised(b: Builder, size: int) -> list[int]:
    """Sizes whose product is `size`."""
    sizes: list[int] = []
    while size > 1 and len(sizes) < 4 and b.choose.random() < 0.8:
        factor = b.choose.choice([d for d in range(1, size + 1) if size % d == 0])
        sizes.append(factor)
        size //= factor
    sizes.append(size)
    b.choose.shuffle(sizes)
    return sizes


def reshape(b: Builder) -> None:
    x = b.pick(ANY)
    sizes = factorised(b, prod(x.shape)) if b.choose.random() < 0.6 else list(x.shape)
    if b.choose.random() < 0.3:
        b.choose.shuffle(sizes)
    for index, size in enumerate(sizes):
        if index < x.rank and x.shape[index] == size and b.choose.random() < 0.3:
            sizes[index] = 0
    if sizes and b.choose.random() < 0.5 and prod(x.shape):
        sizes[b.choose.randrange(len(sizes))] = -1
    b.one("Reshape", x, target(b, x, sizes))


def reshape_twice(b: Builder) -> None:
    """Split an axis, transpose, and join again: heads of attention, shuffled channels."""
    x = b.pick("f", ranks=[2, 3, 4], where=lambda v: any(n in (4, 6, 8) for n in v.shape))
    axis = b.choose.choice([i for i, n in enumerate(x.shape) if n in (4, 6, 8)])
    split = [*x.shape[:axis], 2, x.shape[axis] // 2, *x.shape[axis + 1 :]]
    y = b.one("Reshape", x, target(b, x, split))
    order = list(range(y.rank))
    b.choose.shuffle(order)
    z = b.one("Transpose", y, perm=order)
    b.one("Reshape", z, target(b, x, x.shape))


def flatten(b: Builder) -> None:
    x = b.pick(ANY)
    b.one("Flatten", x, axis=b.choose.choice([None, *range(-x.rank if b.opset >= 11 else 0, x.rank + 1)]))


def transpose(b: Builder) -> None:
    x = b.pick(ANY)
    for _ in range(b.choose.choice([1, 1, 2])):
        order = list(range(x.rank))
        b.choose.shuffle(order)
        x = b.one("Transpose", x, perm=b.choose.choice([None, order or None, order or None]))


def squeeze(b: Builder) -> None:
    x = b.pick(ANY, where=lambda v: 1 in v.shape)
    ones = [axis for axis, n in enumerate(x.shape) if n == 1]
    axes = sorted(b.choose.sample(ones, b.choose.randint(1, len(ones))))
    if b.choose.random() < 0.2:
        if any(isinstance(dim, str) for graph_input in b.inputs for dim in graph_input.dims):
            raise UnsuitableError  # for other sizes there would be other axes, which later nodes may not have
        b.one("Squeeze", x)
    elif b.opset < 13:
        b.one("Squeeze", x, axes=axes)
    else:
        b.one("Squeeze", x, b.operand(axes, "axes"))


def unsqueeze(b: Builder) -> None:
    x = b.pick(ANY, ranks=range(4))
    count = b.choose.choice([1, 1, 2])
    axes = b.choose.sample(range(x.rank + count), count)
    if b.opset >= 11 and b.choose.random() < 0.4:
        axes = [axis - x.rank - count for axis in axes]
    unsqueeze_at(b, x, axes)


def expand(b: Builder) -> None:
    x = b.pick(ANY, ranks=range(5))
    sizes = [b.choose.choice([1, n]) if n != 1 else b.choose.choice([1, 2, 3]) for n in x.shape]
    if b.choose.random() < 0.3:
        sizes = [b.choose.choice([1, 2]), *sizes]
    b.one("Expand", x, target(b, x, sizes))


def tile(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    b.one("Tile", x, b.operand([b.choose.choice([1, 1, 2, 3]) for _ in x.shape], "repeats"))


def concat(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axis = axis_of(b, x)
    position = axis % x.rank

    def joins(y: Value) -> bool:
        same = [n for i, n in enumerate(y.shape) if i != position] == [
            n for i, n in enumerate(x.shape) if i != position
        ]
        return y.dtype == x.dtype and y.rank == x.rank and same

    parts = [x, *(b.pick(x.kind, where=joins) for _ in range(b.choose.choice([0, 1, 1, 2])))]
    if b.choose.random() < 0.4:
        shape = list(x.shape)
        shape[position] = b.choose.choice([1, 2])
        parts.append(b.operand(b.like(x, shape)))
    b.choose.shuffle(parts)
    b.one("Concat", *parts, axis=axis)


def split(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axis = axis_of(b, x)
    size = x.shape[axis]
    if size < 2:
        raise UnsuitableError
    even = [n for n in range(2, 5) if size % n == 0]
    if even and b.choose.random() < 0.5:
        count = b.choose.choice(even)
        extra = {"num_outputs": count} if b.opset >= 18 else {}
        b.node("Split", [x], count, axis=axis, **extra)
        return
    first = b.choose.randint(1, size - 1)
    sizes = [first, size - first]
    if b.opset < 13:
        b.node("Split", [x], 2, axis=axis, split=sizes)
    else:
        b.node("Split", [x, b.operand(sizes, "split")], 2, axis=axis)


def slice_(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axes = b.choose.sample(range(x.rank), b.choose.randint(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        start = b.choose.randint(-size, size - 1) if size else 0
        step = b.choose.choice([1, 1, 1, 2, -1, -2]) if b.opset >= 10 else 1
        beyond = 2**63 - 1 if step > 0 else -(2**63) + 1
        starts.append(start if step > 0 or b.choose.random() < 0.7 else 2**31)
        ends.append(b.choose.choice([beyond, size if step > 0 else -size - 1, b.choose.randint(-size, size)]))
        steps.append(step)
    if b.opset < 10:
        b.one("Slice", x, axes=axes, starts=starts, ends=ends)
        return
    inputs = [b.operand(starts, "starts"), b.operand(ends, "ends")]
    if axes != list(range(x.rank)) or steps != [1] * len(axes) or b.choose.random() < 0.5:
        inputs.append(b.operand([a - x.rank if b.choose.random() < 0.3 else a for a in axes], "axes"))
        inputs += [b.operand(steps, "steps")] if set(steps) != {1} or b.choose.random() < 0.5 else []
    b.one("Slice", x, *inputs)


def gather(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axis = axis_of(b, x)
    size = x.shape[axis]
    shape = b.choose.choice([(), (), (1,), (2,), (3,), (2, 2), (size,)])
    indices = b.integers(-size if b.opset >= 11 else 0, size, shape)
    if len(shape) == 1 and b.choose.random() < 0.3:
        indices = np.arange(shape[0]) % size
    b.one("Gather", x, b.operand(indices.astype(b.choose.choice([np.int64, np.int32])), "indices"), axis=axis)


def gather_elements(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axis = axis_of(b, x)
    shape = [b.choose.randint(1, n) for n in x.shape]
    b.one("GatherElements", x, b.operand(b.integers(-x.shape[axis], x.shape[axis], shape), "indices"), axis=axis)


def gather_nd(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    depth = b.choose.randint(1, x.rank)
    indices = np.stack([b.integers(-n, n, (3,)) for n in x.shape[:depth]], axis=-1)
    b.one("GatherND", x, b.operand(indices, "indices"))


def scatter_elements(b: Builder) -> None:
    x = b.pick("fi", ranks=ROOMY)
    axis = axis_of(b, x)
    shape = [b.choose.randint(1, n) for n in x.shape]
    ranks = b.data.random(shape).argsort(axis)  # no index twice, since the order of writing is open
    reduction = b.choose.choice([None, "none", "add", "mul"]) if b.opset >= 16 else None
    b.one(
        "ScatterElements" if b.opset >= 11 else "Scatter",
        x,
        b.operand(ranks, "indices"),
        b.operand(b.like(x, shape)),
        axis=axis,
        reduction=reduction,
    )


def scatter_nd(b: Builder) -> None:
    x = b.pick("fi", ranks=ROOMY)
    rows = b.data.permutation(x.shape[0])[: b.choose.randint(1, x.shape[0])][:, None]
    reduction = b.choose.choice([None, "add", "mul"]) if b.opset >= 16 else None
    updates = b.operand(b.like(x, (len(rows), *x.shape[1:])))
    b.one("ScatterND", x, b.operand(rows, "indices"), updates, reduction=reduction)


def pad(b: Builder) -> None:
    x = b.pick("fi" if b.opset >= 11 else "f", ranks=ROOMY)
    mode = b.choose.choice([None, "constant", "constant", "reflect", "edge", *(["wrap"] if b.opset >= 19 else [])])
    most = 2 if mode in (None, "constant", "edge") else max(0, min(x.shape) - 1)
    least = -1 if mode in (None, "constant") and min(x.shape) > 2 and b.choose.random() < 0.2 else 0
    used = [b.choose.random() < 0.6 for _ in x.shape] * 2
    pads = [b.choose.randint(least, min(most, 2)) if u else 0 for u in used]
    value = b.choose.choice([None, 0.0, 1.5, -2.0])
    if b.opset < 11:
        b.one("Pad", x, mode=mode, pads=pads, value=value)
    elif value is None or mode not in (None, "constant"):
        b.one("Pad", x, b.operand(pads, "pads"), mode=mode)
    else:
        b.one("Pad", x, b.operand(pads, "pads"), b.operand(np.asarray(value).astype(x.dtype)), mode=mode)


def one_hot(b: Builder) -> None:
    depth = b.choose.randint(2, 5)
    indices = b.operand(b.integers(-depth, depth, b.choose.choice([(3,), (2, 3)])), "indices")
    values = b.operand(np.asarray([0.0, 1.0], b.float_type))
    b.one("OneHot", indices, b.operand(np.asarray(depth)), values, axis=b.choose.choice([None, 0, 1, -1]))


def non_zero(b: Builder) -> None:
    b.one("NonZero", b.pick("bi", ranks=[1, 2, 3]))


def compress(b: Builder) -> None:
    x = b.pick(ANY, ranks=ROOMY)
    axis = axis_of(b, x)
    b.one("Compress", x, b.operand(b.data.random(x.shape[axis]) < 0.6, "mask"), axis=axis)


def trilu(b: Builder) -> None:
    x = b.pick("fib", ranks=[2, 3, 4])
    k = [b.operand(np.asarray(b.choose.choice([-1, 0, 1, 2])))] if b.choose.random() < 0.6 else []
    b.one("Trilu", x, *k, upper=b.choose.choice([None, 0, 1]))


def eye_like(b: Builder) -> None:
    b.one("EyeLike", b.pick("fi", ranks=[2]), k=b.choose.choice([None, 1, -1]), dtype=b.choose.choice([None, 1, 7]))


def depth_and_space(b: Builder) -> None:
    if b.choose.random() < 0.5:
        x = b.pick("f", ranks=[4], where=lambda v: v.shape[1] % 4 == 0)
        mode = b.choose.choice([None, "DCR", "CRD"]) if b.opset >= 11 else None
        b.one("DepthToSpace", x, blocksize=2, mode=mode)
    else:
        x = b.pick("f", ranks=[4], where=lambda v: v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
        b.one("SpaceToDepth", x, blocksize=2)


def reverse_sequence(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: b.opset >= 10)
    batch = b.choose.choice([0, 1])
    lengths = b.operand(b.integers(1, x.shape[1 - batch] + 1, (x.shape[batch],)), "lengths")
    b.one("ReverseSequence", x, lengths, batch_axis=batch, time_axis=1 - batch)


TEMPLATES = {
    reshape: (9, 5),
    reshape_twice: (9, 3),
    flatten: (9, 1),
    transpose: (9, 3),
    squeeze: (9, 2),
    unsqueeze: (9, 2),
    expand: (9, 2),
    tile: (9, 1),
    concat: (9, 3),
    split: (9, 2),
    slice_: (9, 3),
    gather: (9, 3),
    gather_elements: (11, 1),
    gather_nd: (11, 1),
    scatter_elements: (9, 1),
    scatter_nd: (11, 1),
    pad: (9, 2),
    one_hot: (11, 1),
    non_zero: (9, 1),
    compress: (9, 1),
    trilu: (14, 1),
    eye_like: (9, 1),
    depth_and_space: (9, 1),
    reverse_sequence: (10, 1),
}
