"""Bodies of ONNX Runtime's operators that ONNX took over later, sometimes with small changes."""

from __future__ import annotations

from .body import BodyBuilder, Value, body, rank


@body("Trilu")
def Trilu(b: BodyBuilder, X: Value, k: Value | None, *, upper: int = 1) -> Value:
    return b.Trilu(X, k, upper=upper)


@body("Range")
def Range(b: BodyBuilder, start: Value, limit: Value, delta: Value | None) -> Value:
    """The bounds may be lists of one number; the step is 1 if not given."""
    step = b.number(1, start) if delta is None else delta
    return b.Range(*(value if rank(value) == 0 else b.Reshape(value, b.ints()) for value in (start, limit, step)))


@body("ExpandDims")
def ExpandDims(b: BodyBuilder, X: Value, axis: Value) -> Value:
    return b.Unsqueeze(X, b.Reshape(b.Cast(axis, to=7), b.ints(1)))


@body("GatherND")
def GatherND(b: BodyBuilder, data: Value, indices: Value) -> Value:
    return b.GatherND(data, b.Cast(indices, to=7))


@body("GridSample")
def GridSample(
    b: BodyBuilder,
    X: Value,
    Grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    """ONNX renamed two of the modes."""
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return b.GridSample(X, Grid, align_corners=align_corners, mode=renamed, padding_mode=padding_mode)


@body("Pad")
def Pad(b: BodyBuilder, data: Value, pads: Value, value: Value | None, *, mode: str = "constant") -> Value:
    """The pads may be a matrix of one row, and the value a list of one number."""
    amounts = pads if rank(pads) == 1 else b.Reshape(pads, b.ints(-1))
    fill = value if value is None or rank(value) == 0 else b.Reshape(value, b.ints())
    return b.Pad(data, amounts, fill, mode=mode)


@body("TorchEmbedding")
def TorchEmbedding(
    b: BodyBuilder, weight: Value, indices: Value, padding_idx: Value | None, scale_grad_by_freq: Value | None
) -> Value:
    """The inputs after the indices concern gradients only. The body follows the documentation, since ONNX Runtime's CPU
    build cannot run it."""
    return b.Gather(weight, indices)


@body("BiasDropout")
def BiasDropout(
    b: BodyBuilder,
    data: Value,
    bias: Value,
    residual: Value | None,
    ratio: Value | None,
    training_mode: Value | None,
    *,
    seed: int | None = None,
) -> list[Value | None]:
    """Follow the documentation, since ONNX Runtime's CPU build cannot run it."""
    dropped, mask = b.several(2, "Dropout", b.Add(data, bias), ratio, training_mode, seed=seed)
    return [dropped if residual is None else b.Add(dropped, residual), mask]


@body("SampleOp")
def SampleOp(b: BodyBuilder, X: Value) -> Value:
    return b.Identity(X)


@body("IsAllFinite")
def IsAllFinite(b: BodyBuilder, *inputs: Value, isinf_only: int = 0, isnan_only: int = 0) -> Value:
    """True if no element of any input is infinite or NaN. The body follows the documentation, since ONNX Runtime's CPU
    build cannot run it."""
    found = []
    for value in inputs:
        found += [] if isnan_only else [b.IsInf(value)]
        found += [] if isinf_only else [b.IsNaN(value)]
    counts = [b.ReduceMax(b.Cast(flags, to=6), keepdims=0) for flags in found]
    return b.Not(b.Cast(b.Max(*counts), to=9))
