"""Signals: Fourier transforms, windows, mel filters. ONNX stores complex numbers as pairs on a last axis of size 2."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, torch
from onnxlift.lifting.ops.arguments import changed
from onnxlift.lifting.ops.axes import from_front
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, data_type, torch_dtype
from onnxlift.lifting.ops.operand import Scalar, Tensor, size_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.math.cast import converted

# Name of PyTorch's function -> the weights of cos(0), cos(t), cos(2t), ...
WINDOWS: dict[str, tuple[float, ...]] = {
    "Hann": (0.5, 0.5),
    "Hamming": (25 / 46, 21 / 46),
    "Blackman": (0.42, 0.5, 0.08),
}
TRANSFORMED = (DataType.FLOAT, DataType.DOUBLE)  # types that PyTorch can transform on every device


def _register_window(name: str, weights: tuple[float, ...]) -> None:
    @op(f"{name}Window")
    def lower(n: Node, size: Scalar, *, output_datatype: int, periodic: int) -> Result:
        """The window is computed in double if the result is not float32. Integers are truncated, so a peak just below 1
        would become 0."""
        target = data_type(output_datatype)
        computed = DataType.FLOAT if target == DataType.FLOAT else DataType.DOUBLE
        if size.number is None or size.number < 2:  # for size 1, PyTorch always gives a 1
            window = kernel("cosine_window")(size, weights, bool(periodic), torch_dtype(computed), n.device)
        else:
            options: dict[str, Any] = {} if periodic else {"periodic": False}
            if name == "Hamming":  # PyTorch's defaults are rounded to 0.54 and 0.46
                options = {"periodic": bool(periodic), "alpha": weights[0], "beta": weights[1]}
            if computed == DataType.DOUBLE:
                options["dtype"] = torch_dtype(computed)
            window = getattr(torch, f"{name.lower()}_window")(size, **options, device=n.device)
        return window if target == computed else converted(window, target)


for _name, _weights in WINDOWS.items():
    _register_window(_name, _weights)


@op("DFT")
def DFT(
    n: Node, input: Tensor, dft_length: Scalar | None, axis: Scalar | None, *, inverse: int, onesided: int
) -> Result:
    """Until opset 19 the axis is an attribute (default 1), then an input (default -2)."""
    dim = Scalar(-2) if axis is None else axis
    parts, rank = input.type.dim(-1), input.type.rank
    if dim.number is not None and rank is not None and parts in (1, 2) and input.type.dtype in TRANSFORMED:
        return _transform(n, input, dft_length, from_front(int(dim.number), rank), bool(inverse), bool(onesided))
    given = [input, dim] if dft_length is None else [input, dim, dft_length]
    options = changed({"inverse": bool(inverse), "onesided": bool(onesided)}, inverse=False, onesided=False)
    return kernel("dft")(*given, **options)


def _transform(n: Node, x: Tensor, length: Scalar | None, dim: int, inverse: bool, onesided: bool) -> Expr:
    """Return the transform by PyTorch's own function, which works on complex numbers."""
    real = x.type.dim(-1) == 1
    if onesided and not inverse and not real:
        n.fail("it wants half of the frequencies of complex numbers, but only those of real numbers are symmetric")
    size = x.type.dim(dim)
    usual = None if not isinstance(size, int) else 2 * (size - 1) if inverse and onesided else size
    options: dict[str, Any] = {}
    if length is not None and (length.number is None or length.number != usual):
        options["n"] = length
    if dim != (x.type.rank or 0) - 2:
        options["dim"] = dim
    signal = x.squeeze(-1) if real else torch.view_as_complex(x.contiguous())
    if inverse and onesided:
        return torch.fft.irfft(signal, **options).unsqueeze(-1)
    result: Expr = getattr(torch.fft, "ifft" if inverse else "rfft" if onesided else "fft")(signal, **options)
    # The inverse transform of real numbers is a lazy conjugate in PyTorch, which `view_as_real` does not take.
    return torch.view_as_real(result.resolve_conj() if inverse and real else result)


@op("STFT")
def STFT(
    n: Node, signal: Tensor, frame_step: Scalar, window: Tensor | None, frame_length: Scalar | None, *, onesided: int
) -> Result:
    """(batch, time, 1 or 2) -> (batch, frame, frequency, 2). A window is as long as the frames. Real numbers may come
    as (batch, time), which ONNX Runtime accepts too."""
    is_flat = signal.type.rank == 2
    if window is not None and (is_flat or signal.type.dim(-1) == 1) and signal.type.dtype in TRANSFORMED:
        options = {"window": window, "center": False, "return_complex": True}
        if not onesided:
            options["onesided"] = False
        real = signal if is_flat else signal.squeeze(-1)
        spectrum = torch.stft(real, size_of(window, 0), frame_step, **options)
        return torch.view_as_real(spectrum.transpose(1, 2))
    given = {"window": window, "length": frame_length if window is None else None, "onesided": bool(onesided)}
    frames = signal.unsqueeze(-1) if is_flat else signal
    return kernel("stft")(frames, frame_step, **changed(given, window=None, length=None, onesided=True))


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
    matrix = kernel("mel_weight_matrix")(*sizes, n.device)
    target = data_type(output_datatype)
    return matrix if target == DataType.DOUBLE else converted(matrix, target)
