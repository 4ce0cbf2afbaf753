"""DynamicQuantizeLSTM of ONNX Runtime: an LSTM with quantised weights.

    DynamicQuantizeLSTM(X, W, R, ..)   ->   a product of quantised numbers for all steps, and a Scan over the steps

What is multiplied is quantised to the range that it has: the whole input once, the state in each step. So the steps
cannot be ONNX's LSTM, and are written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .body import BodyBuilder, GraphBuilder, Value, body

Floats = tuple[float, ...]
USUAL = ("sigmoid", "tanh", "tanh")
FLOAT, INT64 = 1, 7


@body("DynamicQuantizeLSTM")
def DynamicQuantizeLSTM(
    b: BodyBuilder,
    X: Value,
    W: Value,
    R: Value,
    B: Value | None,
    sequence_lens: Value | None,
    initial_h: Value | None,
    initial_c: Value | None,
    P: Value | None,
    W_scale: Value,
    W_zero_point: Value,
    R_scale: Value,
    R_zero_point: Value,
    *,
    activation_alpha: Floats | None = None,
    activation_beta: Floats | None = None,
    activations: tuple[str, ...] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int,
    input_forget: int = 0,
) -> list[Value | None]:
    """The weights are (directions, features, 4 * hidden), with the gates i, o, f, c side by side."""
    if activations and tuple(each.lower() for each in activations) not in (USUAL, USUAL * 2):
        b.fail("other activations than the usual")
    backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if backwards is None:
        b.fail(f"its direction is {direction!r}")
    lengths = None if sequence_lens is None else b.Cast(sequence_lens, to=INT64)
    results: list[list[Value]] = []
    for place, is_backwards in enumerate(backwards):

        def of(value: Value, place: int = place) -> Value:
            """Return the part of one direction."""
            return b.Gather(value, b.constant(np.asarray(place)), axis=0)

        gates = _product(b, X, of(W), of(W_scale), of(W_zero_point))
        if B is not None:
            gates = b.Add(gates, b.ReduceSum(b.Reshape(of(B), b.ints(2, -1)), b.ints(0), keepdims=0))
        if is_backwards:
            gates = _reversed(b, gates, lengths)
        sizes = b.Concat(b.Shape(X, start=1, end=2), b.ints(hidden_size), axis=0)
        nothing = b.Expand(b.constant(np.asarray(0, np.float32)), sizes)
        states = [nothing if each is None else of(each) for each in (initial_h, initial_c)]
        cell = _Cell(
            weights=(of(R), of(R_scale), of(R_zero_point)),
            peepholes=None if P is None else b.several(3, "Split", of(P), axis=0, num_outputs=3),
            lengths=lengths,
            clip=clip,
            is_coupled=bool(input_forget),
        )
        ys, last_h, last_c = _scan(b, gates, states, cell)
        results.append([_reversed(b, ys, lengths) if is_backwards else ys, last_h, last_c])
    y = b.Concat(*(b.Unsqueeze(each[0], b.ints(1)) for each in results), axis=1)
    last = [b.Concat(*(b.Unsqueeze(each[place], b.ints(0)) for each in results), axis=0) for place in (1, 2)]
    return [y, *last]


def _product(b: BodyBuilder, x: Value, weight: Value, scale: Value, zero_point: Value) -> Value:
    """Return `x @ weight` for a quantised weight, with x quantised to the range that it has."""
    numbers, step, zero = b.several(3, "DynamicQuantizeLinear", x)
    total = b.Cast(b.MatMulInteger(numbers, weight, zero, zero_point), to=FLOAT)
    return b.Mul(total, b.Mul(step, scale))


def _reversed(b: BodyBuilder, x: Value, lengths: Value | None) -> Value:
    """Return each sequence of (steps, batch, features) the other way round; what is behind its end stays there."""
    if lengths is None:
        return b.Slice(x, b.ints(-1), b.ints(np.iinfo(np.int64).min), b.ints(0), b.ints(-1))
    return b.ReverseSequence(x, lengths, time_axis=0, batch_axis=1)


class _Cell:
    """One step, with what is the same in all steps of a direction."""

    def __init__(
        self,
        weights: tuple[Value, Value, Value],
        peepholes: Sequence[Value] | None,
        lengths: Value | None,
        clip: float | None,
        is_coupled: bool,
    ) -> None:
        self.weights = weights
        self.peepholes = peepholes
        self.lengths = lengths
        self.clip = clip
        self.is_coupled = is_coupled

    def step(self, g: GraphBuilder, gates: Value, h: Value, c: Value) -> tuple[Value, Value]:
        """Return the next states."""

        def gate(x: Value, peephole: int, cell: Value) -> Value:
            if self.peepholes is not None:
                x = g.Add(x, g.Mul(self.peepholes[peephole], cell))
            return g.Sigmoid(self._within(g, x))

        whole = g.Add(gates, _product(g, h, *self.weights))
        to_in, to_out, to_forget, to_new = g.several(4, "Split", whole, axis=-1, num_outputs=4)
        in_ = gate(to_in, 0, c)
        one = g.constant(np.asarray(1, np.float32))
        forget = g.Sub(one, in_) if self.is_coupled else gate(to_forget, 2, c)
        c = g.Add(g.Mul(forget, c), g.Mul(in_, g.Tanh(self._within(g, to_new))))
        return g.Mul(gate(to_out, 1, c), g.Tanh(c)), c

    def _within(self, g: GraphBuilder, x: Value) -> Value:
        if not self.clip:
            return x
        low, high = (g.constant(np.asarray(limit, np.float32)) for limit in (-self.clip, self.clip))
        return g.Clip(x, low, high)


def _scan(b: BodyBuilder, gates: Value, states: Sequence[Value], cell: _Cell) -> list[Value]:
    """Return the outputs of all steps, and the last states. Behind the end of a sequence, outputs and states are 0."""
    if cell.lengths is None:
        g = b.inside(["h", "c", "gates"])
        h, c = cell.step(g, g.own[2], g.own[0], g.own[1])
        body = g.graph(h, c, g.Identity(h))
        last_h, last_c, ys = b.several(3, "Scan", *states, gates, body=body, num_scan_inputs=1)
        return [ys, last_h, last_c]
    zero, one = (b.constant(np.asarray(number)) for number in (0, 1))
    times = b.Range(zero, b.Squeeze(b.Shape(gates, start=0, end=1)), one)
    g = b.inside(["h", "c", "last_h", "last_c", "gates", "t"])
    h, c, last_h, last_c, own, t = g.own
    new_h, new_c = cell.step(g, own, h, c)
    running = g.Unsqueeze(g.Less(t, cell.lengths), g.ints(1))
    nothing = g.constant(np.asarray(0, np.float32))
    new_h, new_c = g.Where(running, new_h, nothing), g.Where(running, new_c, nothing)
    last_h, last_c = g.Where(running, new_h, last_h), g.Where(running, new_c, last_c)
    body = g.graph(new_h, new_c, last_h, last_c, g.Identity(new_h))
    *_, last_h, last_c, ys = b.several(5, "Scan", *states, *states, gates, times, body=body, num_scan_inputs=2)
    return [ys, last_h, last_c]
