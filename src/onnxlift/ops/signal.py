"""Signals: Fourier transforms, windows, mel filters."""

from __future__ import annotations

from typing import Any

from ..code.expr import Expr, torch
from ..ir.types import DataType
from .arguments import changed
from .cast import converted
from .kernel import kernel
from .node import Node, Result, data_type
from .operand import Scalar, Tensor
from .registry import op

# Name of PyTorch's function -> the weights of cos(0), cos(t), cos(2t), ...
WINDOWS: dict[str, tuple[float, ...]] = {
    "Hann": (0.5, 0.5),
    "Hamming": (25 / 46, 21 / 46),
    "Blackman": (0.42, 0.5, 0.08),
}


def _register_window(name: str, weights: tuple[float, ...]) -> None:
    @op(f"{name}Window")
    def lower(n: Node, size: Scalar, *, output_datatype: int, periodic: int) -> Result:
        target = data_type(output_datatype)
        if size.number is None or size.number < 2:  # of 1, PyTorch gives always a 1
            return _in(kernel("cosine_window")(size, weights, bool(periodic), n.device), target)
        options: dict[str, Any] = {} if periodic else {"periodic": False}
        if name == "Hamming":  # where PyTorch rounds to 0.54 and 0.46
            options |= {"alpha": weights[0], "beta": weights[1]}
        function: Expr = getattr(torch, f"{name.lower()}_window")
        if target == DataType.DOUBLE:
            return function(size, **options, dtype=torch.float64, device=n.device)
        return _in(function(size, **options, device=n.device), target)


def _in(x: Expr, target: DataType) -> Expr:
    """`x`, which is float32, in another type."""
    return x if target == DataType.FLOAT else converted(x, target)


for _name, _weights in WINDOWS.items():
    _register_window(_name, _weights)


@op("DFT")
def DFT(
    n: Node, input: Tensor, dft_length: Scalar | None, axis: Scalar | None, *, inverse: int, onesided: int
) -> Result:
    """The axis is an attribute until opset 19 (1 by default) and an input since (-2 by default)."""
    given: list[Any] = [input, -2 if axis is None else axis]
    if dft_length is not None:
        given.append(dft_length)
    options = changed({"inverse": bool(inverse), "onesided": bool(onesided)}, inverse=False, onesided=False)
    return kernel("dft")(*given, **options)


@op("STFT")
def STFT(
    n: Node, signal: Tensor, frame_step: Scalar, window: Tensor | None, frame_length: Scalar | None, *, onesided: int
) -> Result:
    options = {"window": window, "length": frame_length if window is None else None, "onesided": bool(onesided)}
    return kernel("stft")(signal, frame_step, **changed(options, window=None, length=None, onesided=True))


@op("MelWeightMatrix")
def MelWeightMatrix(
    n: Node,
    num_mel_bins: Scalar,
    dft_length: Scalar,
    sample_rate: Scalar,
    lower_edge_hertz: Scalar,
    upper_edge_hertz: Scalar,
    *,
    output_datatype: int,
) -> Result:
    sizes = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    return _in(kernel("mel_weight_matrix")(*sizes, n.device), data_type(output_datatype))
