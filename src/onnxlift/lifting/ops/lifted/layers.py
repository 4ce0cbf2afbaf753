"""The operators of the domain `onnxlift`, which stand for what the idioms recognise (see idioms/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.code.expr import Expr, F, Name, either, torch
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number, changed, compact
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, activation, signature
from onnxlift.lifting.ops.layers import turned
from onnxlift.lifting.ops.node import TRAINS, Node, Result, Unpack
from onnxlift.lifting.ops.operand import Constant, Tensor, size_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.layers.attention import attend
from onnxlift.lifting.ops.standard.layers.norm import LayerNormalization, RMSNormalization, rms_eps


@op(
    "Linear",
    domain=DOMAIN,
    layer=LayerKind(
        "Linear",
        signature("in_features", "out_features", bias=True),
        family="linear",
        shapes=weight_shapes.linear,
    ),
    weights={"weight": "weight", "bias": "bias"},
)
def Linear(n: Node, x: Tensor, weight: Constant, bias: Constant | None, *, transposed: int = 0) -> Result:
    """`x @ weight (+ bias)` with a constant matrix. `transposed` if it is stored as in PyTorch, (out, in)."""
    rows, columns = _sizes(weight)
    out_features, in_features = (rows, columns) if transposed else (columns, rows)
    held = weight if transposed else n.weight(weight, turned, (out_features, in_features))
    row = None if bias is None else n.vector(bias)
    return n.layer(
        "Linear",
        {"weight": held, "bias": row},
        in_features=in_features,
        out_features=out_features,
        bias=bias is not None,
    )(x)


@op("BareLinear", domain=DOMAIN)
def BareLinear(n: Node, x: Tensor, weight: Tensor, bias: Tensor | None) -> Result:
    """A product with a matrix, stored as (out, in), that belongs to no layer."""
    return F.linear(x, weight) if bias is None else F.linear(x, weight, bias)


@op(
    "Bilinear",
    domain=DOMAIN,
    layer=LayerKind(
        "Bilinear",
        signature("in1_features", "in2_features", "out_features", bias=True),
        shapes=weight_shapes.bilinear,
    ),
    weights={"weight": "weight", "bias": "bias"},
)
def Bilinear(n: Node, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None, *, as_held: int) -> Result:
    """`x @ weight[i] @ y` for each output i. The weight is (out, first, second) if it is stored as in PyTorch
    (`as_held`), else (first, out, second), perhaps with the last two axes merged."""
    if not isinstance(weight, Constant) or not isinstance(bias, Constant | None):
        return F.bilinear(x, y, weight) if bias is None else F.bilinear(x, y, weight, bias)
    first, second = (int(vector.type.dim(-1) or 0) for vector in (x, y))
    out = (weight.type.size or 0) // (first * second)
    turned = n.weight(weight, lambda a: a.reshape(first, out, second).swapaxes(0, 1), (out, first, second))
    sizes = {"in1_features": first, "in2_features": second, "out_features": out, "bias": bias is not None}
    return n.layer("Bilinear", {"weight": weight if as_held else turned, "bias": bias}, **sizes)(x, y)


@op("Parameter", domain=DOMAIN)
def Parameter(n: Node, value: Tensor) -> Result:
    """A parameter of the module itself. It is a tensor like any other, not a constant that a layer could hold."""
    return Tensor(value._expr, value.type)


@op("BarePRelu", domain=DOMAIN)
def BarePRelu(n: Node, x: Tensor, slope: Tensor) -> Result:
    """A leaky ReLU with one slope, or one for each channel, that belongs to no layer."""
    return F.prelu(x, slope)


@op("Stack", domain=DOMAIN)
def Stack(n: Node, *parts: Tensor, axis: int) -> Result:
    """The parts along a new axis."""
    rank = None if parts[0].type.rank is None else parts[0].type.rank + 1
    place = as_written(axis, rank)
    return torch.stack(parts, place) if place else torch.stack(parts)


@op(
    "Embedding",
    domain=DOMAIN,
    layer=LayerKind(
        "Embedding",
        signature("num_embeddings", "embedding_dim", padding_idx=None),
        family="embedding",
        shapes=weight_shapes.embedding,
    ),
    weights={"table": "weight"},
)
def Embedding(n: Node, table: Tensor, indices: Tensor) -> Result:
    """Rows of a table by indices that cannot be negative."""
    if not isinstance(table, Constant):
        return F.embedding(indices, table)
    rows, width = _sizes(table)
    return n.layer("Embedding", {"weight": table}, num_embeddings=rows, embedding_dim=width)(indices)


@op("EmbeddingTable", domain=DOMAIN, layer="Embedding", weights=("table",))
def EmbeddingTable(n: Node, table: Constant) -> Result:
    """All rows of an embedding."""
    rows, width = _sizes(table)
    return n.layer("Embedding", {"weight": table}, num_embeddings=rows, embedding_dim=width).weight


@op("LayerNorm", domain=DOMAIN, layer="LayerNorm", weights={"weight": "weight", "bias": "bias"})
def LayerNorm(n: Node, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, axis: int, epsilon: float) -> Result:
    """Layer normalisation of the axes from `axis` (negative) on. Unlike ONNX's own it may have no weight."""
    if weight is not None:
        return LayerNormalization(n, x, weight, bias, axis=axis, epsilon=epsilon, stash_type=1)
    return F.layer_norm(x, _last_axes(x, axis), **changed({"eps": attribute_number(epsilon, x)}, eps=1e-5))


@op("RMSNorm", domain=DOMAIN, layer="RMSNorm", weights={"weight": "weight"})
def RMSNorm(n: Node, x: Tensor, weight: Tensor | None, *, axis: int, epsilon: float) -> Result:
    """`x / sqrt(mean(x ** 2) + epsilon)`, the mean over the axes from `axis` (negative) on, times the weight."""
    if weight is not None:
        return RMSNormalization(n, x, weight, axis=axis, epsilon=epsilon)
    return F.rms_norm(x, _last_axes(x, axis), **rms_eps(epsilon, x))


@op("GroupNorm", domain=DOMAIN, layer="GroupNorm", weights={"weight": "weight", "bias": "bias"})
def GroupNorm(
    n: Node, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, num_groups: int, epsilon: float
) -> Result:
    """Group normalisation; weight and bias have one number for each channel."""
    eps = attribute_number(epsilon, x)
    if not isinstance(weight, Constant) or not isinstance(bias, Constant):
        bare = [w for w in (weight, bias) if w is not None]
        return F.group_norm(x, num_groups, *bare, **changed({"eps": eps}, eps=1e-5))
    channels = weight.type.size or 0
    weights = {"weight": n.vector(weight), "bias": n.vector(bias)}
    return n.layer("GroupNorm", weights, num_groups=num_groups, num_channels=channels, eps=eps)(x)


@op("InstanceNorm", domain=DOMAIN, layer="InstanceNorm2d")
def InstanceNorm(n: Node, x: Tensor, *, epsilon: float) -> Result:
    """Instance normalisation without weights."""
    layer = f"InstanceNorm{(x.type.rank or 4) - 2}d"
    return n.layer(layer, {}, num_features=x.type.dim(1), eps=attribute_number(epsilon, x))(x)


@op("TrackedInstanceNorm", domain=DOMAIN, layer="InstanceNorm2d", weights=("weight", "bias", "mean", "var"))
def TrackedInstanceNorm(
    n: Node,
    x: Tensor,
    weight: Constant | None,
    bias: Constant | None,
    mean: Constant,
    var: Constant,
    *,
    epsilon: float,
    momentum: float,
) -> Result:
    """Instance normalisation by known statistics, with both weight and bias or neither."""
    weights = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": var}
    options = {"eps": attribute_number(epsilon, x), "momentum": round(1 - attribute_number(momentum, x), 7)}
    sizes = {"num_features": mean.type.size, "affine": weight is not None, "track_running_stats": True}
    return n.layer(f"InstanceNorm{(x.type.rank or 4) - 2}d", weights, **sizes, **options)(x)


@op("BatchNorm", domain=DOMAIN, layer="BatchNorm2d", weights={"mean": "running_mean", "var": "running_var"})
def BatchNorm(n: Node, x: Tensor, mean: Tensor, var: Tensor, *, epsilon: float, momentum: float) -> Result:
    """Batch normalisation by known statistics, without weights."""
    if not isinstance(mean, Constant) or not isinstance(var, Constant):
        return F.batch_norm(x, mean, var, **changed({"eps": attribute_number(epsilon, x)}, eps=1e-5))
    layer, statistics = f"BatchNorm{max((x.type.rank or 4) - 2, 1)}d", {"running_mean": mean, "running_var": var}
    options = {"eps": attribute_number(epsilon, x), "momentum": round(1 - attribute_number(momentum, x), 7)}
    return n.layer(layer, statistics, num_features=mean.type.size, affine=False, **options)(x)


@op("BatchStatisticsNorm", domain=DOMAIN, layer="BatchNorm2d", weights=("weight", "bias"))
def BatchStatisticsNorm(
    n: Node, x: Tensor, weight: Constant | None, bias: Constant | None, *, channels: int, epsilon: float
) -> Result:
    """Batch normalisation by the statistics of the batch, in eval mode too, with both weight and bias or neither."""
    weights = {name: each for name, each in (("weight", weight), ("bias", bias)) if each is not None}
    options = {"eps": attribute_number(epsilon, x), "affine": bool(weights), "track_running_stats": False}
    return n.layer(f"BatchNorm{max((x.type.rank or 4) - 2, 1)}d", weights, num_features=channels, **options)(x)


@op("Gelu", domain=DOMAIN, layer="GELU")
def Gelu(n: Node, x: Tensor, *, approximate: str = "none") -> Result:
    return F.gelu(x, **changed({"approximate": approximate}, approximate="none"))


@op("SiLU", domain=DOMAIN, layer=activation("SiLU", "silu"))
def SiLU(n: Node, x: Tensor) -> Result:
    return F.silu(x)


@op("Mish", domain=DOMAIN, layer="Mish")
def Mish(n: Node, x: Tensor) -> Result:
    return F.mish(x)


@op("HardSwish", domain=DOMAIN, layer="Hardswish")
def HardSwish(n: Node, x: Tensor) -> Result:
    return F.hardswish(x)


@op("ReLU6", domain=DOMAIN, layer=activation("ReLU6", "relu6"))
def ReLU6(n: Node, x: Tensor) -> Result:
    return F.relu6(x)


@op("Tanhshrink", domain=DOMAIN, layer=activation("Tanhshrink", "tanhshrink"))
def Tanhshrink(n: Node, x: Tensor) -> Result:
    return F.tanhshrink(x)


@op("GLU", domain=DOMAIN, layer=LayerKind("GLU", signature(dim=-1), function=("glu", "dim")))
def GLU(n: Node, x: Tensor, *, axis: int) -> Result:
    """The first half of x along the axis, times the sigmoid of the second."""
    return F.glu(x, **changed({"dim": _counted_back(x, axis)}, dim=-1))


@op("Softplus", domain=DOMAIN, layer="Softplus")
def Softplus(n: Node, x: Tensor, *, beta: float, threshold: float) -> Result:
    """`log(1 + exp(beta * x)) / beta`, or x itself where `beta * x` is above the threshold."""
    options = {"beta": attribute_number(beta, x), "threshold": attribute_number(threshold, x)}
    return F.softplus(x, **changed(options, beta=1, threshold=20))


@op("Normalize", domain=DOMAIN)
def Normalize(n: Node, x: Tensor, *, axis: int, epsilon: float, p: int = 2) -> Result:
    """x divided by its length along the axis, or by epsilon where it is shorter."""
    return F.normalize(x, **changed({"p": p, "dim": axis, "eps": attribute_number(epsilon, x)}, p=2, dim=1, eps=1e-12))


@op("CosineSimilarity", domain=DOMAIN)
def CosineSimilarity(n: Node, x: Tensor, y: Tensor, *, axis: int, epsilon: float) -> Result:
    """The cosine of the angle between vectors along the axis."""
    options = {"dim": as_written(axis, x.type.rank), "eps": attribute_number(epsilon, x)}
    return F.cosine_similarity(x, y, **changed(options, dim=1, eps=1e-8))


@op("PairwiseDistance", domain=DOMAIN)
def PairwiseDistance(n: Node, x: Tensor, y: Tensor, *, p: int, keepdims: int) -> Result:
    """The distance between vectors along the last axis."""
    return F.pairwise_distance(x, y, **changed({"p": p, "keepdim": bool(keepdims)}, p=2, keepdim=False))


@op("AdaptiveAvgPool", domain=DOMAIN, layer="AdaptiveAvgPool2d")
def AdaptiveAvgPool(n: Node, x: Tensor, *, sizes: tuple[int, ...]) -> Result:
    """Means over windows of the last axes. `sizes` is the number of windows along each of them."""
    return n.layer(f"AdaptiveAvgPool{len(sizes)}d", output_size=compact(sizes))(x)


@op("NearestExact", domain=DOMAIN)
def NearestExact(n: Node, x: Tensor, *, sizes: tuple[int, ...]) -> Result:
    """x in another size, where each element is the nearest one of x. If the scale is a whole number, it is written
    instead of the size."""
    scales = [size / int(x.type.dim(axis) or size) for axis, size in enumerate(sizes, 2)]
    whole = all(scale.is_integer() for scale in scales) and len(set(scales)) == 1
    target = {"scale_factor": int(scales[0])} if whole else {"size": compact(tuple(sizes))}
    return F.interpolate(x, **target, mode="nearest-exact")


@op("Windows", domain=DOMAIN)
def Windows(n: Node, x: Tensor, *, size: int, step: int) -> Result:
    """All windows of `size` elements of the last axis. The elements of a window are in a new axis."""
    return x.unfold(-1, size, step)


@op("Unfold", domain=DOMAIN)
def Unfold(
    n: Node,
    x: Tensor,
    *,
    kernel_size: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> Result:
    """All windows of an image as columns."""
    options = {"dilation": compact(dilation), "padding": compact(padding), "stride": compact(stride)}
    return F.unfold(x, compact(kernel_size), **changed(options, dilation=1, padding=0, stride=1))


@op("RepeatInterleave", domain=DOMAIN)
def RepeatInterleave(n: Node, x: Tensor, *, axis: int, repeats: int) -> Result:
    """Each element along the axis, `repeats` times in a row."""
    return x.repeat_interleave(repeats, axis)


@op("OptionalSqueeze", domain=DOMAIN)
def OptionalSqueeze(n: Node, x: Tensor, *, axis: int) -> Result:
    """`x` without the axis if that has one element, as PyTorch's `squeeze` does."""
    return x.squeeze(axis)


@op("PixelUnshuffle", domain=DOMAIN, layer="PixelUnshuffle")
def PixelUnshuffle(n: Node, x: Tensor, *, size: int) -> Result:
    """Blocks of `size` by `size` pixels as channels."""
    return F.pixel_unshuffle(x, size)


@op("CircularPad", domain=DOMAIN)
def CircularPad(n: Node, x: Tensor, *, pads: Sequence[int], mode: str) -> Result:
    """`pads` are in ONNX's order: first the begins of all axes, then the ends. PyTorch's order begins with the last
    axis."""
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    pairs = [(begins[axis], ends[axis]) for axis in range(len(begins) - 1, 1, -1)]
    return F.pad(x, tuple(size for pair in pairs for size in pair), mode="circular")


@op("Roll", domain=DOMAIN)
def Roll(n: Node, x: Tensor, *, shifts: Sequence[int], axes: Sequence[int]) -> Result:
    """The elements moved along the axes, by one shift for each axis."""
    return x.roll(shifts[0], axes[0]) if len(axes) == 1 else x.roll(tuple(shifts), tuple(axes))


@op("Unbind", domain=DOMAIN)
def Unbind(n: Node, x: Tensor, *, axis: int) -> Result:
    """Every entry along the axis, without that axis."""
    return Unpack(x.unbind(*([as_written(axis, x.type.rank)] if axis else [])), len(n.ir.outputs))


@op("Meshgrid", domain=DOMAIN)
def Meshgrid(n: Node, rows: Tensor, columns: Tensor) -> Result:
    """The coordinates of all places of a grid."""
    return Unpack(torch.meshgrid(rows, columns, indexing="ij"), 2)


@op("Attention", domain=DOMAIN)
def Attention(
    n: Node,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    *,
    scale: float | None = None,
    is_causal: int = 0,
    enable_gqa: int = 0,
    dropout: float = 0.0,
    trains: int = 0,
) -> Result:
    """`softmax(q @ k.T * scale + mask) @ v`. The default scale is one over the root of the number of features. A
    boolean mask says which scores count. With `enable_gqa` a head of k and v serves several heads of q. In train mode
    the share `dropout` of the probabilities is dropped."""
    if trains:
        n.warn(TRAINS)
    options: dict[str, Any] = {
        "attn_mask": mask,
        "dropout_p": either(Name("self").training, attribute_number(dropout, q), 0.0) if dropout else 0.0,
        "is_causal": bool(is_causal),
        "scale": None if scale is None else attribute_number(scale, q),
        "enable_gqa": bool(enable_gqa),
    }
    defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
    return attend(q, k, v, q.type.dtype, changed(options, **defaults))


@op("SplitHeads", domain=DOMAIN)
def SplitHeads(n: Node, x: Tensor) -> Result:
    """(batch, length, features) as a single head of all features: (batch, length, 1, features)."""
    return x.unflatten(-1, (1, size_of(x, 2)))


@op("MergeHeads", domain=DOMAIN)
def MergeHeads(n: Node, x: Tensor) -> Result:
    """(batch, length, heads, features) with the last two axes merged again."""
    return x.flatten(2)


@op("WindowMask", domain=DOMAIN)
def WindowMask(n: Node, mask: Tensor, q: Tensor, bias: Tensor | None) -> Result:
    """A mask with an entry for each window of an image, plus a bias that all windows share, repeated for all images of
    a batch."""
    windows = mask.shape[0]
    for_all_heads = mask.unsqueeze(1) if mask.type.rank == 3 else mask
    return (for_all_heads if bias is None else bias + for_all_heads).repeat(size_of(q, 0) // windows, 1, 1, 1)


@op("Rotary", domain=DOMAIN)
def Rotary(n: Node, x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int = 0) -> Result:
    """Rotary position embedding: `x * cos + rotate_half(x) * sin`. If `interleaved`, neighbours are exchanged instead
    of halves."""
    return kernel("apply_rotary_interleaved" if interleaved else "apply_rotary")(x, cos, sin)


def _counted_back(x: Tensor, axis: int) -> int:
    """Return -1 for the last axis, and any other one as it is."""
    return -1 if x.type.rank is not None and axis == x.type.rank - 1 else axis


def _sizes(matrix: Constant) -> tuple[int, int]:
    rows, columns = (size for size in matrix.type.shape or () if isinstance(size, int))
    return rows, columns


def _last_axes(x: Tensor, axis: int) -> Any:
    """Return the sizes of the axes from `axis` on, as numbers where they are known."""
    sizes = [x.type.dim(a) for a in range(axis, 0)]
    return tuple(sizes) if all(isinstance(size, int) for size in sizes) else x.shape[axis:]


@op("Index", domain=DOMAIN)
def Index(n: Node, data: Tensor, *indices: Tensor, axes: Sequence[int] = ()) -> Result:
    """`data[a, b]`: one index array for each of the axes (by default the first ones). The arrays broadcast with one
    another."""
    arrays = dict(zip(axes or range(len(indices)), indices, strict=True))
    return data[tuple(arrays.get(axis, slice(None)) for axis in range(max(arrays) + 1))]


@op("Variance", domain=DOMAIN)
def Variance(n: Node, x: Tensor, *, axes: Sequence[int], keepdims: int, unbiased: int = 0, root: int = 0) -> Result:
    """The variance over the axes, or its root. `unbiased` divides by one less than the number of elements."""
    every = len(axes) == x.type.rank and not keepdims
    written = tuple(as_written(axis, x.type.rank) for axis in axes)
    options = changed({"unbiased": bool(unbiased), "keepdim": bool(keepdims)}, unbiased=True, keepdim=False)
    arguments = [] if every else [written[0] if len(written) == 1 else written]
    return x.std(*arguments, **options) if root else x.var(*arguments, **options)


@op("Any", "All", domain=DOMAIN)
def AnyOrAll(n: Node, mask: Tensor, *, axes: Sequence[int], keepdims: int) -> Result:
    """True where any (or all) of the booleans along the axes are true."""
    every = len(axes) == mask.type.rank and not keepdims
    written = tuple(as_written(axis, mask.type.rank) for axis in axes)
    arguments = [] if every else [written[0] if len(written) == 1 else written]
    function: Expr = mask.any if n.op_type == "Any" else mask.all
    return function(*arguments, **changed({"keepdim": bool(keepdims)}, keepdim=False))


@op("SpatialMean", domain=DOMAIN)
def SpatialMean(n: Node, x: Tensor, *, axes: Sequence[int] = ()) -> Result:
    """The mean over these axes, or over all but batch and channels."""
    space = tuple(axes or range(2, x.type.rank or 4))
    return x.mean(space if len(space) > 1 else space[0])
