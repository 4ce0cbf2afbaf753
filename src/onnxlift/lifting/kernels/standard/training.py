"""Gradients, and steps of optimisers as ONNX defines them."""

import torch
from torch import Tensor


def variable(x: Tensor) -> Tensor:
    """`x` as something to differentiate by, still connected with what it comes from, if that is differentiated too."""
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def adagrad_step(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    squares: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The new value of `x` and the new sum of squared gradients."""
    gradient = norm_coefficient * x + gradient
    squares = squares + gradient * gradient
    rate = (rate / (1 + count * decay_factor)).to(x.dtype)
    return x - rate * gradient / (squares.sqrt() + epsilon), squares


def adam_step(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    mean: Tensor,
    squares: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """The new value of `x` and the new running means of gradients and squared gradients. Before the first step
    (`count` 0), these are not corrected for their bias."""
    gradient = norm_coefficient * x + gradient
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * (gradient * gradient)
    steps = count.double()  # in float32, little would be left of 1 - beta
    corrected = rate * (1 - beta**steps).sqrt() / (1 - alpha**steps)
    rate = torch.where(count > 0, corrected, rate).to(x.dtype)
    return (1 - norm_coefficient_post) * (x - rate * (mean / (squares.sqrt() + epsilon))), mean, squares


def momentum_step(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    velocity: Tensor,
    alpha: float,
    beta: float,
    norm_coefficient: float = 0.0,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """The new value of `x` and the new momentum. In the first step (`count` 0) the gradient counts fully."""
    gradient = norm_coefficient * x + gradient
    velocity = alpha * velocity + torch.where(count > 0, beta, 1.0).to(x.dtype) * gradient
    return x - rate.to(x.dtype) * (gradient + alpha * velocity if nesterov else velocity), velocity
