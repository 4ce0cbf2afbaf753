"""Recurrent networks as ONNX defines them, where `nn.LSTM`, `nn.GRU` and `nn.RNN` do not go as far.

Weights come as ONNX packs them: `w` (directions, gates * hidden, input), `r` (directions, gates * hidden, hidden) and
`b` (directions, 2 * gates * hidden), the biases for `w` and then those for `r`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def pad_rows(x: Tensor, length: int) -> Tensor:
    """`x` with rows of zeros appended, so that there are `length`."""
    return torch.cat([x, x.new_zeros(length - x.shape[0], *x.shape[1:])])


def run_steps(
    cell: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: tuple[Tensor, ...],
    lengths: Tensor | None,
    backwards: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The first state after each step, and the states after the last one; 0 behind the end of a sequence."""
    outputs = []
    steps = list(enumerate(x.unbind()))
    for t, step in reversed(steps) if backwards else steps:
        new = cell(step, *states)
        if lengths is None:
            states = new
            outputs.append(new[0])
        else:
            running = (t < lengths).unsqueeze(1)
            states = tuple(torch.where(running, a, b) for a, b in zip(new, states, strict=True))
            outputs.append(torch.where(running, new[0], 0))
    if lengths is not None:
        states = tuple(torch.where((lengths > 0).unsqueeze(1), state, 0) for state in states)
    if backwards:
        outputs.reverse()
    return torch.stack(outputs) if outputs else states[0].new_empty(0, *states[0].shape), states


def run_directions(
    direction: Callable[..., tuple[Tensor, tuple[Tensor, ...]]],
    x: Tensor,
    states: Sequence[Tensor | None],
    hidden: int,
    backwards: Sequence[bool],
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Every direction over `x`, stacked as ONNX does: the outputs, and the last states."""
    if batch_first:
        x = x.transpose(0, 1)
        states = [None if s is None else s.transpose(0, 1) for s in states]
    results = []
    for i, back in enumerate(backwards):
        first = tuple(x.new_zeros(x.shape[1], hidden) if s is None else s[i] for s in states)
        results.append(direction(i, x, first, back))
    y = torch.stack([outputs for outputs, _ in results], 1)
    last = [torch.stack(each) for each in zip(*(final for _, final in results), strict=True)]
    if batch_first:
        return y.permute(2, 0, 1, 3), *(s.transpose(0, 1) for s in last)
    return y, *last


def limit(x: Tensor, clip: float | None) -> Tensor:
    """`x` within [-clip, clip]."""
    return x if clip is None else x.clamp(-clip, clip)


def onnx_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    backwards: Sequence[bool] = (False,),
    activations: Sequence[Callable[[Tensor], Tensor]] = (torch.sigmoid, torch.tanh, torch.tanh) * 2,
    clip: float | None = None,
    coupled: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """LSTM with gates i, o, f, c; `p` are the peepholes of i, o, f, and `coupled` makes the forget gate 1 - i."""
    hidden = r.shape[-1]

    def direction(i: int, x: Tensor, states: tuple[Tensor, ...], back: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        gate, inner, outer = activations[3 * i : 3 * i + 3]
        bias = None if b is None else b[i].unflatten(0, (2, -1)).sum(0)
        peep_i, peep_o, peep_f = (0, 0, 0) if p is None else p[i].chunk(3)

        def cell(step: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
            in_, out, forget, new = (step + h @ r[i].T).chunk(4, -1)
            in_ = gate(limit(in_ + peep_i * c, clip))
            forget = 1 - in_ if coupled else gate(limit(forget + peep_f * c, clip))
            c = forget * c + in_ * inner(limit(new, clip))
            return gate(limit(out + peep_o * c, clip)) * outer(c), c

        return run_steps(cell, F.linear(x, w[i], bias), states, lengths, back)

    return run_directions(direction, x, (h, c), hidden, backwards, batch_first)


def onnx_gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    backwards: Sequence[bool] = (False,),
    activations: Sequence[Callable[[Tensor], Tensor]] = (torch.sigmoid, torch.tanh) * 2,
    clip: float | None = None,
    linear_before_reset: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """GRU with gates z, r, h; the reset gate acts on the state, or with `linear_before_reset` on its projection."""
    hidden = r.shape[-1]

    def direction(i: int, x: Tensor, states: tuple[Tensor, ...], back: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        gate, inner = activations[2 * i : 2 * i + 2]
        gates_r, new_r = r[i].split((2 * hidden, hidden))
        bias_w, bias_r = (None, None) if b is None else b[i].chunk(2)
        gates_b, new_b = (None, None) if bias_r is None else bias_r.split((2 * hidden, hidden))

        def cell(step: Tensor, h: Tensor) -> tuple[Tensor]:
            gates, new = step.split((2 * hidden, hidden), -1)
            update, reset = gate(limit(gates + F.linear(h, gates_r, gates_b), clip)).chunk(2, -1)
            if linear_before_reset:
                past = reset * F.linear(h, new_r, new_b)
            else:
                past = F.linear(reset * h, new_r, new_b)
            return ((1 - update) * inner(limit(new + past, clip)) + update * h,)

        return run_steps(cell, F.linear(x, w[i], bias_w), states, lengths, back)

    return run_directions(direction, x, (h,), hidden, backwards, batch_first)


def onnx_rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    backwards: Sequence[bool] = (False,),
    activations: Sequence[Callable[[Tensor], Tensor]] = (torch.tanh,) * 2,
    clip: float | None = None,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """The plain recurrent network: one activation of the input and the state."""

    def direction(i: int, x: Tensor, states: tuple[Tensor, ...], back: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        bias = None if b is None else b[i].unflatten(0, (2, -1)).sum(0)

        def cell(step: Tensor, h: Tensor) -> tuple[Tensor]:
            return (activations[i](limit(step + h @ r[i].T, clip)),)

        return run_steps(cell, F.linear(x, w[i], bias), states, lengths, back)

    return run_directions(direction, x, (h,), r.shape[-1], backwards, batch_first)


def affine(alpha: float, beta: float) -> Callable[[Tensor], Tensor]:
    """x -> alpha * x + beta."""
    return lambda x: alpha * x + beta


def scaled_tanh(alpha: float, beta: float) -> Callable[[Tensor], Tensor]:
    """x -> alpha * tanh(beta * x)."""
    return lambda x: alpha * (beta * x).tanh()


def hard_sigmoid(alpha: float, beta: float) -> Callable[[Tensor], Tensor]:
    """x -> alpha * x + beta, cut to [0, 1]."""
    return lambda x: (alpha * x + beta).clamp(0, 1)


def leaky_relu(alpha: float) -> Callable[[Tensor], Tensor]:
    """x -> x, or alpha * x below 0."""
    return lambda x: F.leaky_relu(x, alpha)


def elu(alpha: float) -> Callable[[Tensor], Tensor]:
    """x -> x, or alpha * (exp(x) - 1) below 0."""
    return lambda x: F.elu(x, alpha)


def thresholded_relu(alpha: float) -> Callable[[Tensor], Tensor]:
    """x -> x, or 0 below alpha."""
    return lambda x: torch.where(x >= alpha, x, 0)
