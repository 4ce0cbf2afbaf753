"""Poolings: PyTorch's layers (`nn.MaxPool2d`) where they mean the same, kernels for other pads and dilations.

ONNX and PyTorch agree on ceil_mode: a last window may reach over the end, if it starts before the pads of the end.
"""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F, builtin, torch
from onnxlift.lifting.ops.arguments import changed, compact, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import ranked, signature
from onnxlift.lifting.ops.node import Node, Result, Unpack, torch_dtype
from onnxlift.lifting.ops.operand import Dims, Tensor, size_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.window import Ints, Window, empty_result, window

LOWEST = {DataType.INT8: -128, DataType.UINT8: 0}


@op(
    "MaxPool",
    layer=ranked(
        "MaxPool",
        signature("kernel_size", stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False),
        word="pool",
        family="pool",
    ),
)
def MaxPool(
    n: Node,
    X: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None,
    storage_order: int = 0,
    strides: Ints | None,
) -> Result:
    own = window(n, X, kernel_shape, strides, dilations, pads, auto_pad)
    ceil = bool(ceil_mode) and auto_pad in ("", "NOTSET")
    if n.wants(1):
        options = changed({"ceil_mode": ceil, "column_major": bool(storage_order)}, ceil_mode=False, column_major=False)
        return Unpack(kernel("max_pool_with_indices")(X, **_described(X, own), **options), 2)
    if (empty := empty_result(n, X)) is not None:
        return empty
    if _fits_torch(own):
        options = {"padding": compact(own.begin or ()), "dilation": compact(own.dilation), "ceil_mode": ceil}
        return _called(n.layer(f"MaxPool{own.rank}d", **_kernel_and_stride(own), **options), X, X)
    if own.rank <= 3 and not ceil:
        lowest = LOWEST.get(X.type.dtype or DataType.FLOAT, float("-inf"))
        layer = n.layer(f"MaxPool{own.rank}d", **_kernel_and_stride(own), dilation=compact(own.dilation))
        return _called(layer, own.pad(X, lowest), X)
    return kernel("max_pool")(X, **_described(X, own), **changed({"ceil_mode": ceil}, ceil_mode=False))


@op(
    "AveragePool",
    layer=ranked(
        "AvgPool",
        signature("kernel_size", stride=None, padding=0, ceil_mode=False, count_include_pad=True),
        word="pool",
        family="pool",
    ),
)
def AveragePool(
    n: Node,
    X: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    own = window(n, X, kernel_shape, strides, dilations, pads, auto_pad)
    ceil, include = bool(ceil_mode) and auto_pad in ("", "NOTSET"), bool(count_include_pad)
    if (empty := empty_result(n, X)) is not None:
        return empty
    if _fits_torch(own) and set(own.dilation) == {1}:
        options: dict[str, Any] = {"padding": compact(own.begin or ()), "ceil_mode": ceil}
        if own.padded:
            options["count_include_pad"] = include
        return n.layer(f"AvgPool{own.rank}d", **_kernel_and_stride(own), **options)(X)
    options = changed({"ceil_mode": ceil, "count_include_pad": include}, ceil_mode=False, count_include_pad=False)
    return kernel("average_pool")(X, **_described(X, own), **options)


@op("LpPool")
def LpPool(
    n: Node,
    X: Tensor,
    *,
    auto_pad: str,
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    p: float = 2,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    """`F.lp_pool2d` raises to the power without taking the absolute value first. That is right for even powers only."""
    own = window(n, X, kernel_shape, strides, dilations, pads, auto_pad)
    ceil = bool(ceil_mode) and auto_pad in ("", "NOTSET")
    p = int(p) if p == int(p) else p
    if (empty := empty_result(n, X)) is not None:
        return empty
    if _fits_torch(own) and not own.padded and not ceil and set(own.dilation) == {1} and p % 2 == 0:
        function: Expr = getattr(F, f"lp_pool{own.rank}d")
        stride = changed({"stride": own.stride}, stride=own.kernel)
        return function(X, p, compact(own.kernel), **{name: compact(value) for name, value in stride.items()})
    return kernel("lp_pool")(X, p, **_described(X, own), **changed({"ceil_mode": ceil}, ceil_mode=False))


def _called(layer: Any, x: Expr, like: Tensor) -> Expr:
    """Return a max pooling of `x`, in floats if it is of bytes: of these PyTorch counts the places in a byte, and
    refuses an image of more. Sound because float32 has every byte."""
    if like.type.dtype not in LOWEST:
        return layer(x)  # type: ignore[no-any-return]
    return layer(x.float()).to(torch_dtype(like.type.dtype))  # type: ignore[no-any-return]


def _fits_torch(own: Window) -> bool:
    """Tell whether PyTorch has the pooling: over 1 to 3 axes, with equal pads before and after, of at most half the
    kernel."""
    if own.rank > 3 or own.begin is None or not own.symmetric:
        return False
    return all(p <= k // 2 for p, k in zip(own.begin, own.kernel, strict=True))


def _kernel_and_stride(own: Window) -> dict[str, Any]:
    """Return the arguments for kernel and stride. PyTorch's default for the stride is the size of the kernel."""
    return {"kernel_size": compact(own.kernel), "stride": None if own.stride == own.kernel else compact(own.stride)}


def _described(x: Tensor, own: Window) -> dict[str, Any]:
    """Return the window as arguments of the kernels. Pads that depend on the input's size are computed when the model
    runs."""
    if own.begin is not None:
        return {**own.sizes, "pads": (own.begin, own.end)}
    upper = changed({"upper": own.upper}, upper=True)
    return {**own.sizes, "pads": kernel("same_pads")(x, **own.sizes, **upper)}


def _spatial(n: Node, x: Tensor) -> Any:
    """Return the axes after batch and channels, to reduce over; None if there are none."""
    if x.type.rank is None:
        return builtin("tuple")(builtin("range")(2, x.ndim))
    if x.type.rank < 2:
        n.fail(f"its input has {x.type.rank} axes; it needs batch and channels")
    axes = tuple(range(2, x.type.rank))
    return axes[0] if len(axes) == 1 else axes or None


@op("GlobalAveragePool", layer=ranked("AdaptiveAvgPool", signature("output_size"), word="pool", family="pool"))
def GlobalAveragePool(n: Node, X: Tensor) -> Result:
    axes = _spatial(n, X)
    return X if axes is None else X.mean(axes, keepdim=True)


@op("GlobalMaxPool", layer=ranked("AdaptiveMaxPool", signature("output_size"), word="pool", family="pool"))
def GlobalMaxPool(n: Node, X: Tensor) -> Result:
    axes = _spatial(n, X)
    return X if axes is None else X.amax(axes, keepdim=True)


@op("GlobalLpPool")
def GlobalLpPool(n: Node, X: Tensor, *, p: float) -> Result:
    axes = _spatial(n, X)
    if axes is None:
        return X.abs()
    return torch.linalg.vector_norm(X, int(p) if p == int(p) else p, axes, keepdim=True)


@op("MaxUnpool")
def MaxUnpool(
    n: Node,
    X: Tensor,
    I: Tensor,  # noqa: E741
    output_shape: Dims | None,
    *,
    kernel_shape: Ints,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    """The indices refer to the shape that undoes the pooling; `output_shape` only extends that shape at the end."""
    own = window(n, X, kernel_shape, strides, None, pads, None)
    pads = pads or (0,) * (2 * own.rank)
    sizes: list[Any] = []
    for axis, (k, s) in enumerate(zip(own.kernel, own.stride, strict=True)):
        size = size_of(X, axis + 2)
        known = size.number
        change = k - s - pads[axis] - pads[axis + own.rank]  # the size is (size - 1) * s + k without the pads
        sizes.append(known * s + change if known is not None else _plus(size * s if s > 1 else size, change))
    return kernel("max_unpool")(*trimmed(X, I, tuple(sizes), output_shape))


def _plus(size: Expr, change: int) -> Expr:
    if change == 0:
        return size
    return size + change if change > 0 else size - -change
