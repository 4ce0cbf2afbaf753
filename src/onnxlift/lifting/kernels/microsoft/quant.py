"""Weights of a few bits, as ONNX Runtime packs them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def unpack_bits(packed: Tensor, bits: int) -> Tensor:
    """The numbers of so many bits in each byte of the last axis, the lowest bits first."""
    if bits == 8:
        return packed
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    return (packed[..., None] >> shifts & 2**bits - 1).flatten(-2)


def dequantize_blocks(
    packed: Tensor, scales: Tensor, zero_points: Tensor | None = None, bits: int = 4, features: int | None = None
) -> Tensor:
    """The weight of a linear layer, of shape (outputs, features), from (outputs, blocks, bytes): each block of a row
    has a scale and a zero point of its own."""
    numbers = unpack_bits(packed, bits)
    rows, blocks = packed.shape[:2]
    zero: Tensor | int = 2 ** (bits - 1)
    if zero_points is not None and zero_points.dtype == torch.uint8:
        zero = unpack_bits(zero_points.reshape(rows, -1), bits)[:, :blocks, None]
    elif zero_points is not None:
        zero = zero_points.reshape(rows, blocks, 1)
    return ((numbers.to(scales.dtype) - zero) * scales.reshape(rows, blocks, 1)).flatten(1)[:, :features]


def dequantize_bnb4(
    packed: Tensor, absmax: Tensor, outputs: int, features: int, block_size: int, nf4: bool = True
) -> Tensor:
    """The weight of a linear layer, (outputs, features), from numbers of 4 bits of bitsandbytes: steps of NF4 or FP4
    between minus and plus the largest of each block. The high bits of a byte come first."""
    fp4 = (0.0, 0.005208333333, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
    steps = torch.tensor([*fp4, *(-step for step in fp4)], dtype=absmax.dtype, device=absmax.device)
    if nf4:
        negative = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635)
        small = (-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725)
        positive = (0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941)
        steps = steps.new_tensor([*negative, *small, *positive, 0.7229568362236023, 1.0])
    numbers = torch.stack([packed >> 4, packed & 15], -1).flatten()[: outputs * features]
    scales = absmax.repeat_interleave(block_size)[: outputs * features]
    return (steps[numbers.long()] * scales).view(outputs, features)


def gather_block_quantized(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    zero: int = 0,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """`indices` along one axis of a table, each block of which along another axis has a scale and a zero point. What
    lies outside of the table is 0."""
    gather_axis, quantize_axis = gather_axis % data.ndim, quantize_axis % data.ndim
    size = data.shape[gather_axis]
    outside = (indices < -size) | (indices >= size)
    picked = torch.where(outside, 0, indices)
    index: tuple[slice | Tensor, ...] = (*[slice(None)] * gather_axis, picked)
    axis = quantize_axis + indices.ndim - 1 if quantize_axis > gather_axis else quantize_axis
    length = data.shape[quantize_axis]

    def rows(table: Tensor) -> Tensor:
        return table[index].repeat_interleave(block_size, axis).narrow(axis, 0, length)

    numbers = data[index].to(scales.dtype) - (zero if zero_points is None else rows(zero_points))
    outside = outside.view(*outside.shape, *[1] * (data.ndim - gather_axis - 1))
    return torch.where(outside, 0, numbers * rows(scales))


def linear_dynamic(x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """`x @ weight` for a quantised weight (features, outputs), with x quantised to the range that it has."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    step = torch.where(high > low, (high - low) / 255, 1.0)
    zero = (-low / step).clamp(0, 255).round()
    numbers = ((x / step).round() + zero).clamp(0, 255)
    total = (numbers.double() - zero) @ (weight.double() - zero_point)
    return total.float() * (step * scale)


def dynamic_quantize_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    backwards: Sequence[bool] = (False,),
    clip: float | None = None,
    coupled: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """LSTM with gates i, o, f, c and quantised weights (directions, features, gates * hidden). The whole input, and the
    states at each step, are quantised to the range that they have. `p` are peepholes; `coupled` makes the forget gate
    1 - i. Behind the end of a sequence the output is 0."""

    def within(gate: Tensor) -> Tensor:
        return gate if clip is None else gate.clamp(-clip, clip)

    results = []
    for i, back in enumerate(backwards):
        inputs = linear_dynamic(x, w[i], w_scale[i], w_zero[i])
        if b is not None:
            inputs = inputs + b[i].unflatten(0, (2, -1)).sum(0)
        if back:
            inputs = reverse_sequences(inputs, lengths)
        h_i = x.new_zeros(x.shape[1], r.shape[1]) if h is None else h[i]
        c_i = torch.zeros_like(h_i) if c is None else c[i]
        last_h, last_c = h_i, c_i
        peep_i, peep_o, peep_f = (0, 0, 0) if p is None else p[i].chunk(3)
        outputs = []
        for t, step in enumerate(inputs.unbind()):
            in_, out, forget, new = (step + linear_dynamic(h_i, r[i], r_scale[i], r_zero[i])).chunk(4, -1)
            in_ = within(in_ + peep_i * c_i).sigmoid()
            forget = 1 - in_ if coupled else within(forget + peep_f * c_i).sigmoid()
            c_i = forget * c_i + in_ * within(new).tanh()
            h_i = within(out + peep_o * c_i).sigmoid() * c_i.tanh()
            if lengths is not None:
                running = (t < lengths).unsqueeze(1)
                h_i, c_i = torch.where(running, h_i, 0), torch.where(running, c_i, 0)
                last_h, last_c = torch.where(running, h_i, last_h), torch.where(running, c_i, last_c)
            else:
                last_h, last_c = h_i, c_i
            outputs.append(h_i)
        y = torch.stack(outputs)
        results.append((reverse_sequences(y, lengths) if back else y, last_h, last_c))
    ys, hs, cs = (torch.stack(each) for each in zip(*results, strict=True))
    return ys.transpose(0, 1), hs, cs


def reverse_sequences(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Each sequence of (steps, batch, features) the other way round; what is behind its end stays there."""
    if lengths is None:
        return x.flip(0)
    step = torch.arange(x.shape[0], device=x.device)[:, None]
    place = torch.where(step < lengths, lengths - 1 - step, step).long()
    return x.gather(0, place[..., None].expand_as(x))


def dequantize_experts(packed: Tensor, scales: Tensor, zero_points: Tensor | None = None, bits: int = 4) -> Tensor:
    """The weights (experts, outputs, features) of a layer of each expert from (experts, outputs, bytes). A scale, and a
    zero point, is for a row (experts, outputs), or for a block of it (experts, outputs, blocks)."""
    numbers = unpack_bits(packed, bits)
    by_row = scales.ndim == 2
    scale = scales[..., None] if by_row else scales.repeat_interleave(numbers.shape[-1] // scales.shape[-1], -1)
    zero: Tensor | int = 2 ** (bits - 1)
    if zero_points is not None:
        zero = unpack_bits(zero_points, bits)[..., : scales.shape[-1]]
        zero = zero[..., None] if by_row else zero.repeat_interleave(numbers.shape[-1] // scales.shape[-1], -1)
    return (numbers.to(scale.dtype) - zero) * scale


def experts_weights(logits: Tensor, k: int, normalized: bool, weights: Tensor | None = None) -> Tensor:
    """Return how much each expert counts for each token, (tokens, experts): 0 but for the k with the largest logits."""
    chosen = logits.topk(k, -1)
    if weights is not None:
        values = weights.gather(-1, chosen.indices)
        values = values / values.sum(-1, keepdim=True) if normalized else values
    elif normalized:
        values = chosen.values.softmax(-1)
    else:
        values = logits.softmax(-1).gather(-1, chosen.indices)
    return torch.zeros_like(logits).scatter(-1, chosen.indices, values)


def swiglu(gate: Tensor, linear: Tensor, alpha: float, beta: float, limit: float | None) -> Tensor:
    """`gate * sigmoid(alpha * gate) * (linear + beta)`, both within the limit."""
    if limit is not None:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    return gate * (alpha * gate).sigmoid() * (linear + beta)


def expert_activation(x: Tensor, name: str) -> Tensor:
    """The activation of this name; ONNX Runtime approximates GELU by tanh here."""
    if name == "gelu":
        return F.gelu(x, approximate="tanh")
    return x if name == "identity" else F.silu(x) if name == "silu" else F.relu(x)


def mixture_of_experts(
    x: Tensor,
    weights: Tensor,
    fc1: Tensor,
    bias1: Tensor | None,
    fc2: Tensor,
    bias2: Tensor | None = None,
    fc3: Tensor | None = None,
    bias3: Tensor | None = None,
    activation: str = "relu",
    interleaved: bool | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float | None = None,
) -> Tensor:
    """The experts' two-layer networks, summed with their weights (tokens, experts). With `swiglu` the gate and what it
    multiplies are one after the other in the first layer, `interleaved`, or come from layers of their own."""
    tokens = x.flatten(0, -2)
    result = torch.zeros_like(tokens)
    for expert in range(fc1.shape[0]):
        y = F.linear(tokens, fc1[expert], None if bias1 is None else bias1[expert])
        other = None
        if fc3 is not None:
            other = F.linear(tokens, fc3[expert], None if bias3 is None else bias3[expert])
        if activation == "swiglu":
            if other is None:
                y, other = (y[..., 0::2], y[..., 1::2]) if interleaved else y.chunk(2, -1)
            y = swiglu(y, other, alpha, beta, limit)
        else:
            y = expert_activation(y, activation)
            y = y if other is None else y * other
        y = F.linear(y, fc2[expert], None if bias2 is None else bias2[expert])
        result = result + weights[:, expert, None] * y
    return result.view_as(x)
