"""Infer output shapes with symbolic sizes, for the operators where ONNX's own inference would lose them.

A rule gets a `NodeView` and returns the shape of the first output. If it raises `Unknown`, ONNX's inference is asked.
`DTYPES` has, for each operator, a function that returns the element type of the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

import onnx_ir as ir

from onnxlift.ir.graph.shapes import Dim, Element, Shape

from . import slicing, symbolic, window_rules
from .element_rules import shape_slice
from .node_view import NodeView, Unknown

Rule = Callable[[NodeView], Shape]


def _same(n: NodeView) -> Shape:
    return n.shape()


def _broadcast(n: NodeView) -> Shape:
    if n.attribute("broadcast", 0):
        return n.shape()  # opset 6 and earlier: the second input is broadcast to the first
    return broadcast_shapes((n.shape(i) for i in range(len(n.inputs))), n.fresh)


def broadcast_shapes(shapes: Iterable[Shape], fresh: Callable[[], str]) -> Shape:
    """Return the shape to which all `shapes` are broadcast. A size that is not expressible gets a `fresh` name."""
    result: Shape = ()
    for shape in shapes:
        if shape == result:
            continue
        dims: list[Dim] = []
        for a, b in zip_longest(reversed(result), reversed(shape), fillvalue=1):
            dim = symbolic.broadcast(a, b)
            dims.append(fresh() if dim is None else dim)
        result = tuple(reversed(dims))
    return result


def _shape(n: NodeView) -> Shape:
    return (len(n.shape()[shape_slice(n)]),)


def _scalar(n: NodeView) -> Shape:
    return ()


def _gather(n: NodeView) -> Shape:
    data, indices = n.shape(0), n.shape(1)
    axis = n.axis("axis", len(data), 0)
    return data[:axis] + indices + data[axis + 1 :]


def _second(n: NodeView) -> Shape:
    return n.shape(1)


def _transpose(n: NodeView) -> Shape:
    shape = n.shape()
    permutation = n.attribute("perm", None) or tuple(reversed(range(len(shape))))
    if sorted(permutation) != list(range(len(shape))):
        raise Unknown
    return tuple(shape[i] for i in permutation)


def _unsqueeze(n: NodeView) -> Shape:
    shape, axes = n.shape(), n.ints("axes", 1)
    rank = len(shape) + len(axes)
    if any(not -rank <= axis < rank for axis in axes):
        raise Unknown
    places = {axis % rank for axis in axes}
    if len(places) != len(axes):
        raise Unknown
    rest = iter(shape)
    return tuple(1 if i in places else next(rest) for i in range(rank))


def _squeeze(n: NodeView) -> Shape:
    shape, axes = n.shape(), n.ints("axes", 1, None)
    if axes is None:
        if not all(isinstance(dim, int) for dim in shape):
            raise Unknown  # only the run shows whether a symbolic size is 1
        return tuple(dim for dim in shape if dim != 1)
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise Unknown
    gone = {axis % len(shape) for axis in axes}
    return tuple(dim for i, dim in enumerate(shape) if i not in gone)


def _flatten(n: NodeView) -> Shape:
    shape, axis = n.shape(), n.attribute("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise Unknown
    axis = axis % len(shape) if axis < 0 else axis
    return n.known(symbolic.product(shape[:axis])), n.known(symbolic.product(shape[axis:]))


def _concat(n: NodeView) -> Shape:
    shapes = [n.shape(i) for i in range(len(n.inputs))]
    rank = len(shapes[0])
    axis = n.axis("axis", rank)
    if any(len(shape) != rank for shape in shapes):
        raise Unknown
    total: Dim | None = 0
    for shape in shapes:
        total = None if total is None else symbolic.add(total, shape[axis])
    # Along the other axes all inputs must agree at run time, so a number in any of their shapes is the size of all.
    agreed = [next((dim for dim in dims if isinstance(dim, int)), dims[0]) for dims in zip(*shapes, strict=True)]
    return tuple(n.known(total) if i == axis else dim for i, dim in enumerate(agreed))


def _reshape(n: NodeView) -> Shape:
    target: tuple[Element, ...] = n.elements(1) if n.has(1) else n.attribute("shape")
    source = n.inputs[0]
    shape = n.shape() if source is not None and source.shape is not None else None
    result: list[Dim | None] = []
    for i, size in enumerate(target):
        if size == 0 and not n.attribute("allowzero", 0):
            result.append(shape[i] if shape is not None and i < len(shape) else None)
        else:
            result.append(size)
    inferred = [i for i, dim in enumerate(result) if dim is None or dim == -1]
    if len(inferred) == 1 and shape is not None:
        result[inferred[0]] = _quotient(shape, [dim for i, dim in enumerate(result) if i != inferred[0]])
    if shape is not None and any(isinstance(size, str) for size in target):
        result = _unfrozen(shape, result)
    return tuple(n.fresh() if dim is None or dim == -1 else dim for dim in result)


def _unfrozen(source: Shape, target: list[Dim | None]) -> list[Dim | None]:
    """Return the target with the name of a size in the place of a number that the exporter has frozen.

    `(seq, batch, 32)` has as many elements as `(5, 4 * batch, 8)` only if `seq` is 5, so the target is
    `(seq, 4 * batch, 8)`."""
    for i, (name, size) in enumerate(zip(source, target, strict=False)):
        if (
            isinstance(name, str)
            and isinstance(size, int)
            and _quotient(source, [*target[:i], *target[i + 1 :]]) == name
        ):
            return [*target[:i], name, *target[i + 1 :]]
    return target


def _quotient(total: Shape, known: list[Dim | None]) -> Dim | None:
    """Return the product of `total`, divided by the product of `known`; None if that is not known to be exact."""
    numerator, denominator = Counter(total), Counter(dim for dim in known if dim is not None)
    shared = numerator & denominator
    if 0 in denominator:
        return None
    above = symbolic.product((numerator - shared).elements())
    below = symbolic.product((denominator - shared).elements())
    return None if above is None or below is None else symbolic.divide_exactly(above, below)


def _expand(n: NodeView) -> Shape:
    target = tuple(n.fresh() if size is None else size for size in n.elements(1))
    return broadcast_shapes((n.shape(), target), n.fresh)


def _sizes(elements: Iterable[Element], n: NodeView) -> Shape:
    return tuple(n.fresh() if size is None else size for size in elements)


def _constant_of_shape(n: NodeView) -> Shape:
    return _sizes(n.elements(0), n)


def _tile(n: NodeView) -> Shape:
    shape, repeats = n.shape(), n.elements(1)
    if n.opset < 6 or len(shape) != len(repeats):
        raise Unknown
    return tuple(
        n.known(None if times is None else symbolic.multiply(dim, times))
        for dim, times in zip(shape, repeats, strict=True)
    )


def _range(n: NodeView) -> Shape:
    start, limit, step = (n.elements(i)[0] for i in range(3))
    if start is None or limit is None or step is None:
        return (n.fresh(),)
    if step == 1:
        span = symbolic.subtract(limit, start)
        length = None if span is None else n.at_least_zero(span)
        return (n.known(length),)
    if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int) and step:
        return (max(0, -((start - limit) // step)),)
    return (n.fresh(),)


def _pad(n: NodeView) -> Shape:
    shape, pads = n.shape(), n.elements(1) if n.has(1) else n.attribute("pads")
    axes = n.ints("axes", 3, tuple(range(len(shape))))
    if len(pads) != 2 * len(axes) or any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise Unknown
    result: list[Dim] = list(shape)
    for axis, before, after in zip(axes, pads, pads[len(axes) :], strict=False):
        both = None if before is None or after is None else symbolic.add(before, after)
        result[axis] = n.known(None if both is None else symbolic.add(shape[axis], both))
    return tuple(result)


def _matmul(n: NodeView) -> Shape:
    a, b = n.shape(0), n.shape(1)
    if not a or not b:
        raise Unknown
    batch = broadcast_shapes((a[:-2], b[:-2]), n.fresh)
    return batch + (a[-2:-1] if len(a) > 1 else ()) + (b[-1:] if len(b) > 1 else ())


def _gemm(n: NodeView) -> Shape:
    a, b = n.shape(0), n.shape(1)
    if len(a) != 2 or len(b) != 2:
        raise Unknown
    return a[1 if n.attribute("transA", 0) else 0], b[0 if n.attribute("transB", 0) else 1]


def _resize(n: NodeView) -> Shape:
    if n.opset < 11 or n.attribute("axes", None) is not None:
        raise Unknown
    shape = n.shape()
    if n.has(3) and n.attribute("keep_aspect_ratio_policy", "stretch") == "stretch":
        sizes = n.elements(3)
        if len(sizes) != len(shape):
            raise Unknown
        return _sizes(sizes, n)
    tensor = n.inputs[2].const_value if n.has(2) and n.inputs[2] is not None else None
    if tensor is None or tensor.size != len(shape):
        raise Unknown
    scales = tensor.numpy().reshape(-1).tolist()
    return tuple(n.known(_scaled(dim, scale)) for dim, scale in zip(shape, scales, strict=True))


def _scaled(dim: Dim, scale: float) -> Dim | None:
    if scale == 1:
        return dim
    if isinstance(dim, int):
        return int(dim * scale)
    return symbolic.multiply(dim, int(scale)) if scale == int(scale) else None


def _reduction(n: NodeView) -> Shape:
    shape, kept = n.shape(), n.attribute("keepdims", 1)
    try:
        axes = n.ints("axes", 1, ())
    except Unknown:
        if not kept:
            raise
        return tuple(n.fresh() for _ in shape)  # at least the rank is known
    if not axes:
        axes = () if n.attribute("noop_with_empty_axes", 0) else tuple(range(len(shape)))
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise Unknown
    reduced = {axis % len(shape) for axis in axes}
    return tuple(1 if i in reduced else dim for i, dim in enumerate(shape) if kept or i not in reduced)


def _attention(n: NodeView) -> Shape:
    query, value = n.shape(0), n.shape(2)
    if len(query) == 4:
        return (*query[:3], value[3])
    head = symbolic.divide_exactly(value[2], n.attribute("kv_num_heads"))
    return (*query[:2], n.known(None if head is None else symbolic.multiply(head, n.attribute("q_num_heads"))))


def split(n: NodeView) -> list[Shape]:
    """Return the shapes of all outputs of a Split."""
    shape, count = n.shape(), len(n.node.outputs)
    axis = n.axis("axis", len(shape), 0)
    sizes: Sequence[Element]
    if n.has(1):
        sizes = n.elements(1)
    else:
        sizes = n.attribute("split", None) or _equal_parts(shape[axis], count)
    if len(sizes) != count:
        raise Unknown
    return [(*shape[:axis], n.known(size), *shape[axis + 1 :]) for size in sizes]


def _equal_parts(total: Dim, count: int) -> Sequence[Element]:
    """Return the sizes of `count` parts of `total`. They are equal, but the last is smaller if there is a remainder."""
    if isinstance(total, int):
        part = -(-total // count)
        return [max(0, min(part, total - i * part)) for i in range(count)]
    return [symbolic.divide_exactly(total, count)] * count


def same_rank(n: NodeView) -> Shape:
    """Return a shape of the input's rank with all sizes unknown, for operators that keep the rank."""
    return tuple(n.fresh() for _ in n.shape())


def _nonzero(n: NodeView) -> Shape:
    return len(n.shape()), n.fresh()


def _words(text: str) -> list[str]:
    return text.split()


_UNARY = _words(
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Clip Cos Cosh CumSum Elu Erf Exp Floor Gelu "
    "GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization LRN LeakyRelu Log LogSoftmax "
    "LpNormalization MeanVarianceNormalization Mish Neg Not PRelu Reciprocal Relu Round ScatterElements ScatterND "
    "Selu Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu"
)
_REDUCTIONS = _words(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
_NUMERIC = _words("Add Sub Mul Div Mod Pow Max Min Mean Sum BitShift BitwiseAnd BitwiseOr BitwiseXor")
_TO_BOOL = _words("Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor")
BROADCASTING = frozenset({*_NUMERIC, *_TO_BOOL, "Where"})
"""The elementwise operators that broadcast all of their inputs."""

RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, _same),
    **dict.fromkeys(BROADCASTING, _broadcast),
    **dict.fromkeys(("Cast", "IsNaN", "IsInf"), _same),
    "STFT": window_rules.fourier_frames,
    "Shape": _shape,
    "Size": _scalar,
    "Gather": _gather,
    "GatherElements": _second,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Flatten": _flatten,
    "Concat": _concat,
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Tile": _tile,
    "Range": _range,
    "Slice": slicing.slice_shape,
    "Pad": _pad,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Resize": _resize,
    "NonZero": _nonzero,
    "Attention": _attention,
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "Conv": window_rules.convolution,
    "ConvInteger": window_rules.convolution,
    "QLinearConv": lambda n: window_rules.convolution(n, 3),
    "ConvTranspose": window_rules.transposed_convolution,
    "MaxPool": window_rules.pool,
    "AveragePool": window_rules.pool,
    "LpPool": window_rules.pool,
    "GlobalAveragePool": window_rules.global_pool,
    "GlobalMaxPool": window_rules.global_pool,
}

KEEPS_RANK = frozenset(
    _words("AveragePool CenterCropPad Conv ConvInteger ConvTranspose MaxPool Pad Resize Slice Tile Upsample")
)
"""Operators whose first output has the rank of the first input, even if nothing else is known."""


def _first(n: NodeView) -> ir.DataType:
    return n.dtype(0)


def _cast_dtype(n: NodeView) -> ir.DataType:
    to = n.attribute("to")
    if not isinstance(to, int):
        raise Unknown  # in opset 5 and earlier, `to` is the name of the type
    return ir.DataType(to)


def _fill_dtype(n: NodeView) -> ir.DataType:
    value = n.attribute("value", None)
    return ir.DataType.FLOAT if value is None else ir.DataType(value.dtype)


DTYPES: dict[str, Callable[[NodeView], ir.DataType]] = {
    **dict.fromkeys(RULES, _first),
    **dict.fromkeys((*_TO_BOOL, "IsNaN", "IsInf"), lambda n: ir.DataType.BOOL),
    **dict.fromkeys(("Shape", "Size", "NonZero"), lambda n: ir.DataType.INT64),
    "Where": lambda n: n.dtype(1),
    "ConvInteger": lambda n: ir.DataType.INT32,
    "QLinearConv": lambda n: n.dtype(7),
    "Cast": _cast_dtype,
    "ConstantOfShape": _fill_dtype,
}
