"""Bodies of ONNX Runtime's products and convolutions with an activation, a scale, a sum or a transposition fused into
them.

    FusedConv(X, W, B, Z, activation="Relu")   ->   Relu(Add(Conv(X, W, B), Z))
    FusedMatMul(A, B, transB=1, alpha=0.125)   ->   Mul(MatMul(A, Transpose(B)), 0.125)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .body import BodyBuilder, Value, body, rank

Ints = tuple[int, ...]
Floats = tuple[float, ...]

# The names of each activation's parameters, in the order in which ONNX Runtime lists them.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "HardSwish": (),
    "Gelu": (),
    "Elu": ("alpha",),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
}


def activated(b: BodyBuilder, x: Value, name: str | None, parameters: dict[str, float]) -> Value:
    """Return `x` after the named activation; give up if it does not have these parameters."""
    if not name:
        return x
    if name not in _ACTIVATIONS or not parameters.keys() <= set(_ACTIVATIONS[name]):
        b.fail(f"its activation is {name} with {', '.join(parameters) or 'no parameters'}")
    return b.several(1, name, x, **parameters)[0]


def _after_conv(b: BodyBuilder, x: Value, name: str | None, parameters: Floats | None, like: Value) -> Value:
    if name == "Clip" and parameters is not None and len(parameters) == 2:
        return b.Clip(x, *(b.number(limit, like) for limit in parameters))
    names = _ACTIVATIONS.get(name or "", ())
    if len(parameters or ()) > len(names):
        b.fail(f"its activation {name} has {len(parameters or ())} parameters")
    return activated(b, x, name, dict(zip(names, parameters or (), strict=False)))


@body("FusedConv", "NhwcConv", "NhwcFusedConv")
def FusedConv(
    b: BodyBuilder,
    X: Value,
    W: Value,
    B: Value | None,
    Z: Value | None,
    *,
    activation: str | None = None,
    activation_params: Floats | None = None,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    """The operators whose names begin with Nhwc have the channels of X, Z and the result as the last axis. W has ONNX's
    usual layout, except in NhwcConv: there ONNX Runtime's optimiser, which writes it, moves the channels to the end of
    W too, whatever the documentation says. ONNX Runtime's CPU build can run neither."""
    nhwc = b.node.op_type.startswith("Nhwc")
    if b.node.op_type == "NhwcConv":
        W = channels_first(b, W)
    window = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape}
    y = b.Conv(channels_first(b, X) if nhwc else X, W, *_given(B), **window, group=group, pads=pads, strides=strides)
    y = channels_last(b, y, rank(X)) if nhwc else y
    return _after_conv(b, y if Z is None else b.Add(y, Z), activation, activation_params, X)


@body("NhwcMaxPool")
def NhwcMaxPool(
    b: BodyBuilder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Value:
    window = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape}
    y = b.MaxPool(channels_first(b, x), **window, ceil_mode=ceil_mode, pads=pads, strides=strides)
    return channels_last(b, y, rank(x))


def channels_first(b: BodyBuilder, x: Value) -> Value:
    """Return `x` with its last axis moved behind the batch."""
    axes = rank(x)
    if axes is None:
        b.fail("the rank of its input is not known")
    return b.transposed(x, [0, axes - 1, *range(1, axes - 1)])


def channels_last(b: BodyBuilder, x: Value, axes: int | None) -> Value:
    """Return `x`, which has `axes` axes, with the one behind the batch moved to the end."""
    return b.Transpose(x, perm=[0, *range(2, axes or 0), 1])


@body("FusedGemm")
def FusedGemm(
    b: BodyBuilder,
    A: Value,
    B: Value,
    C: Value | None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    y = b.Gemm(A, B, *_given(C), alpha=alpha, beta=beta, transA=transA, transB=transB)
    return activated(b, y, activation, _named(activation_alpha, activation_beta, activation_gamma))


def _named(alpha: float | None, beta: float | None, gamma: float | None) -> dict[str, float]:
    named = {"alpha": alpha, "beta": beta, "gamma": gamma}
    return {name: value for name, value in named.items() if value is not None}


def _given(*inputs: Value | None) -> Sequence[Value]:
    return [value for value in inputs if value is not None]


@body("FusedMatMul", "TransposeMatMul")
def FusedMatMul(
    b: BodyBuilder,
    A: Value,
    B: Value,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """The product times `alpha`. Transposing the batch moves the first axis in front of the last one."""
    y = b.MatMul(_transposed(b, A, transA, transBatchA), _transposed(b, B, transB, transBatchB))
    return y if alpha == 1 else b.Mul(y, b.number(alpha, A))


def _transposed(b: BodyBuilder, x: Value, matrix: int, batch: int) -> Value:
    axes = rank(x)
    if not (matrix or batch) or axes == 1:
        return x
    if axes is None:
        if batch:
            b.fail("the rank of its input is not known")
        return b.Einsum(x, equation="...ij->...ji")
    order = [*range(1, axes - 1), 0, axes - 1] if batch else list(range(axes))
    if matrix:
        order[-2:] = reversed(order[-2:])
    return b.Transpose(x, perm=order)


@body("FusedMatMulActivation")
def FusedMatMulActivation(
    b: BodyBuilder,
    A: Value,
    B: Value,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    product = {"transA": transA, "transB": transB, "transBatchA": transBatchA, "transBatchB": transBatchB}
    y = FusedMatMul(b, A, B, alpha=alpha, **product)
    if activation in ("Softmax", "LogSoftmax"):
        return b.several(1, activation, y, axis=activation_axis)[0]
    return activated(b, y, activation, _named(activation_alpha, activation_beta, activation_gamma))


@body("GemmFastGelu")
def GemmFastGelu(b: BodyBuilder, X: Value, W: Value, bias: Value | None) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return FastGelu(b, b.MatMul(X, W), bias)


@body("Gelu")
def Gelu(b: BodyBuilder, X: Value) -> Value:
    return b.Gelu(X)


@body("BiasGelu")
def BiasGelu(b: BodyBuilder, A: Value, B: Value) -> Value:
    return b.Gelu(b.Add(A, B))


@body("FastGelu")
def FastGelu(b: BodyBuilder, X: Value, bias: Value | None) -> Value:
    """The approximation by tanh."""
    return b.Gelu(X if bias is None else b.Add(X, bias), approximate="tanh")


@body("QuickGelu")
def QuickGelu(b: BodyBuilder, X: Value, *, alpha: float = float(np.float32(1.702))) -> Value:
    return b.Mul(X, b.Sigmoid(X if alpha == 1 else b.Mul(X, b.number(alpha, X))))


@body("BiasAdd")
def BiasAdd(b: BodyBuilder, X: Value, bias: Value, skip: Value) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    return b.Add(b.Add(X, bias), skip)


@body("BiasSplitGelu")
def BiasSplitGelu(b: BodyBuilder, X: Value, bias: Value) -> Value:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    left, right = b.several(2, "Split", b.Add(X, bias), axis=-1, num_outputs=2)
    return b.Mul(left, b.Gelu(right))


@body("BiasSoftmax")
def BiasSoftmax(b: BodyBuilder, data: Value, bias: Value, *, axis: int = 1, is_inner_broadcast: int) -> Value:
    """The softmax goes over all axes from `axis` on. The bias lacks axes in front of `axis` (inner) or in front of all
    axes (outer); in both cases it broadcasts. The body follows the documentation, since ONNX Runtime's CPU build cannot
    run it."""
    axes = rank(data)
    if axes is None or rank(bias) != axes:
        b.fail("its bias does not have as many axes as its data")
    if axis % axes != axes - 1:
        b.fail("it is over more than the last axis")
    return b.Softmax(b.Add(data, bias), axis=-1)
