"""Fourier transforms, windows and mel filters. Complex numbers are pairs (real, imaginary) on the last axis."""

import math

import torch
from torch import Tensor


def dft(x: Tensor, dim: int, length: int | None = None, inverse: bool = False, onesided: bool = False) -> Tensor:
    """The discrete Fourier transform along `dim` of real numbers (a last axis of 1) or complex ones (of 2), cut or
    filled with zeros to `length`. `onesided`: only the first half of the frequencies, or from these back to reals."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    signal = wide[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(wide.contiguous())
    dim = dim if dim >= 0 else dim + 1  # there is one axis less
    if inverse and onesided:
        return torch.fft.irfft(signal, length, dim)[..., None].to(x.dtype)
    transform = torch.fft.ifft if inverse else torch.fft.rfft if onesided else torch.fft.fft
    return torch.view_as_real(transform(signal, length, dim).resolve_conj()).to(x.dtype)


def stft(
    x: Tensor, step: int, window: Tensor | None = None, length: int | None = None, onesided: bool = True
) -> Tensor:
    """The Fourier transforms of the frames of (batch, time, 1 or 2), which start every `step` and are as long as the
    window, or `length`: (batch, frame, frequency, 2)."""
    if length is None:
        length = x.shape[1] if window is None else window.shape[0]
    frames = x.unfold(1, length, step).mT
    if window is not None:
        frames = frames * window[:, None]
    return dft(frames, 2, onesided=onesided)


def cosine_window(
    size: int, weights: tuple[float, ...], periodic: bool, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """`weights[0] - weights[1] * cos(t) + weights[2] * cos(2 * t)`, as `t` goes round once."""
    angle = torch.arange(size, dtype=dtype, device=device) * (2 * math.pi) / (size if periodic else size - 1)
    terms = [(-1) ** i * weight * torch.cos(i * angle) for i, weight in enumerate(weights)]
    return torch.stack(terms).sum(0)


def mel_weight_matrix(
    bins: int, dft_length: int, sample_rate: int, low: float, high: float, device: torch.device
) -> Tensor:
    """(frequencies of the transform, mel bins): triangles over neighbouring points that are evenly spaced in mel."""
    scale = 2595 / math.log(10)
    low, high = (scale * math.log1p(hertz / 700) for hertz in (low, high))
    mel = torch.arange(bins + 2, dtype=torch.float64, device=device) * ((high - low) / (bins + 2)) + low
    points = torch.floor((dft_length + 1) * 700 * torch.expm1(mel / scale) / sample_rate)
    left, centre, right = points[:-2], points[1:-1], points[2:]
    frequency = torch.arange(dft_length // 2 + 1, device=device)[:, None]
    rising = torch.where(centre > left, (frequency - left) / (centre - left), 1.0)
    falling = (right - frequency) / (right - centre)
    matrix = torch.where((frequency >= left) & (frequency <= centre), rising, 0.0)
    return torch.where((frequency >= centre) & (frequency < right), falling, matrix)
