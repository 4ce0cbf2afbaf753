"""Normalisations that `torch.nn.functional` cannot say."""

import torch
from torch import Tensor
from torch.nn import functional as F


def batch_norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    """Batch normalisation with statistics and weights of any floating-point types, computed in the widest."""
    shape = (-1, *[1] * (x.ndim - 2))
    scale, bias, mean, var = (t.view(shape) for t in (scale, bias, mean, var))
    return ((x - mean) * (var + eps).rsqrt() * scale + bias).to(x.dtype)


def batch_norm_everywhere(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    """Batch normalisation with statistics and weights for every place of the input, not for every channel."""
    shape = x.shape[1:]
    scale, bias, mean, var = (t.view(shape) for t in (scale, bias, mean, var))
    return (x - mean) * (var + eps).rsqrt() * scale + bias


def batch_norm_training(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float, momentum: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalisation with the statistics of the batch, and the running ones updated (with the biased variance,
    `momentum` being the share of the old)."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    wide = x if x.dtype == torch.float64 else x.float()
    batch_var, batch_mean = torch.var_mean(wide, axes, correction=0)
    new_mean = (mean * momentum + batch_mean * (1 - momentum)).to(mean.dtype)
    new_var = (var * momentum + batch_var * (1 - momentum)).to(var.dtype)
    shape = (-1, *[1] * (x.ndim - 2))
    y = (wide - batch_mean.view(shape)) * (batch_var + eps).rsqrt().view(shape)
    return (y * scale.view(shape) + bias.view(shape)).to(x.dtype), new_mean, new_var


def batch_norm_training_saved(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float, momentum: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `batch_norm_training`, with the statistics of the batch as well."""
    y, new_mean, new_var = batch_norm_training(x, scale, bias, mean, var, eps, momentum)
    batch_var, batch_mean = torch.var_mean(x, [axis for axis in range(x.ndim) if axis != 1], correction=0)
    return y, new_mean, new_var, batch_mean, batch_var


def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalisation of each channel of each sample, also where it has a single element."""
    shape = (-1, *[1] * (x.ndim - 2))
    y = F.layer_norm(x.reshape(*x.shape[:2], -1), (x.shape[2:].numel(),), eps=eps).view_as(x)
    return y * scale.view(shape) + bias.view(shape)


def layer_norm_stats(
    x: Tensor, scale: Tensor, bias: Tensor | None, axis: int, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer normalisation from `axis` on, with the mean and the inverse standard deviation that it used."""
    wide = x if x.dtype == torch.float64 else x.to(dtype)
    axes = list(range(axis % x.ndim, x.ndim))
    var, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
    inverse = (var + eps).rsqrt()
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return y if bias is None else y + bias, mean.to(dtype), inverse.to(dtype)


def local_response_norm(x: Tensor, size: int, alpha: float, beta: float, bias: float) -> Tensor:
    """Division by a power of the energy in a window of `size` channels, an even one reaching further forward."""
    energy = F.pad(x.square().movedim(1, -1), ((size - 1) // 2, size // 2)).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (bias + alpha / size * energy) ** beta


def mean_variance_norm(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """x - mean over the standard deviation, both over `axes`; 1e-9 keeps a constant x from dividing by zero."""
    var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (var.sqrt() + 1e-9)
