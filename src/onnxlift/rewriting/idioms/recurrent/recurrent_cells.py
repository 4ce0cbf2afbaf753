"""One step of a recurrent layer, spelled out by the exporter, is a cell.

    gates = Linear(h) + Linear(x)
    RNN    Tanh(gates), or Relu(gates)                                          ->   RNNCell(x, h)
    LSTM   i, f, g, o = Split(gates)
           c' = Sigmoid(f) * c + Sigmoid(i) * Tanh(g)
           h' = Sigmoid(o) * Tanh(c')                                           ->   h', c' = LSTMCell(x, h, c)
    GRU    hr, hz, hn = Split(Linear(h)); ir, iz, in = Split(Linear(x))
           n = Tanh(in + hn * Sigmoid(hr + ir))
           h' = (h - n) * Sigmoid(hz + iz) + n                                  ->   GRUCell(x, h)

The results are `nn.RNNCell`, `nn.LSTMCell` and `nn.GRUCell`. Sums and products may have either order. The two weights
must be called `weight_ih` and `weight_hh`, as in PyTorch's cells: an author who wrote two linear layers gets these
back. Both have a bias, or neither has. All weights have the sizes of the cell, and x, h and the results have the same
number of rows. So nothing is broadcast, and the parts of the gates are equally large.

Before the first step the state may be zeros. Then c in the LSTM, and the h of `h - n` in the GRU, may be the number 0
or zeros of their own. If all these are constants, the cell starts without a state (see restoring/first_steps.py). Not
if another node reads a value in between, except h' and c'. Sound because these are the definitions of the cells in
PyTorch; the order of roundings differs.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_filler, is_private, is_zeros, made_by
from onnxlift.ir.graph.constants import constant, number
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.stages import step

_IH, _HH = "weight_ih", "weight_hh"

Pair = tuple[ir.Value, ir.Value]
Nodes = list[ir.Node]
Inputs = tuple[ir.Value, ir.Value, list[ir.Value | None]]
"""The input of a cell, its state, and its weights."""


@step("recurrent-cells", after={"linear": "the gates of a cell are linear layers"})
def run(model: ir.Model) -> int:
    """Recognise the cells of recurrent layers; return how many."""
    return sweep(model, {"Mul": _lstm, "Add": _gru, ("Tanh", "Relu"): _rnn})


def _lstm(edit: Edit, node: ir.Node) -> None:
    for (output, cell), out_nodes in _products(edit, node, "Sigmoid", "Tanh"):
        update = made_by(edit, cell, "Add")
        for kept, added in both_orders(update) if update is not None else ():
            forget, write = made_by(edit, kept, "Mul"), made_by(edit, added, "Mul")
            if forget is None or write is None or not (is_private(edit, kept) and is_private(edit, added)):
                continue
            for (entered, candidate), in_nodes in _products(edit, write, "Sigmoid", "Tanh"):
                for (forgotten, memory), gate in _gated(edit, forget, "Sigmoid"):
                    split = _split(edit, [entered, forgotten, candidate, output])
                    linear = _linears(edit, split.inputs[0], gates=4) if split is not None else None
                    if split is None or linear is None or update is None:
                        continue
                    (x, h, weights), linears = linear
                    memory = h if _is_zero_too(edit, memory, h) else memory
                    if {shape_of(memory), shape_of(cell)} != {shape_of(h)}:
                        continue
                    states = (None, None) if memory is h and is_filler(h, 0) else (h, memory)
                    edit.join([node, update], "LSTMCell", [x, *states, *weights], before=update, domain=DOMAIN)
                    drop_unused(edit, [*out_nodes, forget, write, *in_nodes, gate, split, *linears])
                    return


def _gru(edit: Edit, node: ir.Node) -> None:
    for moved, new in both_orders(node):
        candidate, product = made_by(edit, new, "Tanh"), made_by(edit, moved, "Mul")
        if candidate is None or product is None or not is_private(edit, moved) or not is_private(edit, new, readers=2):
            continue
        for (update, move), update_gate in _gated(edit, product, "Sigmoid"):
            change = made_by(edit, move, "Sub")
            if change is None or change.inputs[1] is not new or not is_private(edit, move):
                continue
            found = _gru_gates(edit, candidate.inputs[0], update)
            if found is None:
                continue
            (x, h, weights), nodes = found
            is_state = h is change.inputs[0] or _is_zero_too(edit, change.inputs[0], h)
            if is_state and shape_of(node.outputs[0]) == shape_of(h):
                edit.replace(node, "GRUCell", [x, None if is_filler(h, 0) else h, *weights], domain=DOMAIN)
                drop_unused(edit, [product, change, update_gate, candidate, *nodes])
                return


def _gru_gates(edit: Edit, new: ir.Value | None, update: ir.Value) -> tuple[Inputs, Nodes] | None:
    """Return the inputs of a GRU cell, found from the inputs of its candidate (`new`) and of its update gate."""
    total = made_by(edit, new, "Add")
    if total is None or not is_private(edit, new):
        return None
    for input_new, reset_part in both_orders(total):
        product = made_by(edit, reset_part, "Mul")
        for (reset, hidden_new), gate in _gated(edit, product, "Sigmoid") if is_private(edit, reset_part) else ():
            sums = made_by(edit, reset, "Add"), made_by(edit, update, "Add")
            if sums[0] is None or sums[1] is None or not (is_private(edit, reset) and is_private(edit, update)):
                continue
            for of_hidden, of_input in _orders([sums[0], sums[1]]):
                splits = _split(edit, [*of_hidden, hidden_new]), _split(edit, [*of_input, input_new])
                if splits[0] is None or splits[1] is None or product is None:
                    continue
                found = _cell_inputs(edit, splits[0].inputs[0], splits[1].inputs[0], gates=3)
                if found is not None:
                    return found[0], [total, product, gate, sums[0], sums[1], splits[0], splits[1], *found[1]]
    return None


def _orders(sums: Nodes) -> Iterator[tuple[tuple[ir.Value, ...], tuple[ir.Value, ...]]]:
    """Yield the hidden operands and the input operands of some sums, in both orders (the same one in all sums)."""
    for which in (0, 1):
        operands = [[*both_orders(each)][which] for each in sums]
        yield tuple(first for first, _ in operands), tuple(second for _, second in operands)


def _rnn(edit: Edit, node: ir.Node) -> None:
    found = _linears(edit, node.inputs[0], gates=1)
    if found is not None:
        (x, h, weights), nodes = found
        options = [ir.AttrString("nonlinearity", node.op_type.lower())]
        edit.replace(node, "RNNCell", [x, None if is_filler(h, 0) else h, *weights], options, domain=DOMAIN)
        drop_unused(edit, nodes)


def _products(edit: Edit, node: ir.Node, left: str, right: str) -> Iterator[tuple[Pair, Nodes]]:
    """Yield the inputs of the two activations that a product multiplies, and these activations."""
    for first, second in both_orders(node):
        nodes = made_by(edit, first, left), made_by(edit, second, right)
        if nodes[0] is None or nodes[1] is None or not (is_private(edit, first) and is_private(edit, second)):
            continue
        if nodes[0].inputs[0] is not None and nodes[1].inputs[0] is not None:
            yield (nodes[0].inputs[0], nodes[1].inputs[0]), [nodes[0], nodes[1]]


def _gated(edit: Edit, node: ir.Node | None, activation: str) -> Iterator[tuple[Pair, ir.Node]]:
    """Yield the input of the activation that a product multiplies, the other factor, and the activation."""
    for gate, value in both_orders(node) if node is not None else ():
        found = made_by(edit, gate, activation)
        if found is not None and found.inputs[0] is not None and is_private(edit, gate):
            yield (found.inputs[0], value), found


def _split(edit: Edit, values: list[ir.Value]) -> ir.Node | None:
    """Return the Split whose outputs are exactly these values."""
    split = made_by(edit, values[0], "Split")
    if split is None or [*split.outputs] != values:
        return None
    return split if all(is_private(edit, value) for value in values) else None


def _linears(edit: Edit, value: ir.Value | None, gates: int) -> tuple[Inputs, Nodes] | None:
    """Return the inputs of the two linear layers whose sum is `value`, and the nodes in between."""
    total = made_by(edit, value, "Add")
    if total is None or not is_private(edit, value):
        return None
    for of_hidden, of_input in both_orders(total):
        found = _cell_inputs(edit, of_hidden, of_input, gates)
        if found is not None:
            return found[0], [total, *found[1]]
    return None


def _cell_inputs(
    edit: Edit, of_hidden: ir.Value | None, of_input: ir.Value | None, gates: int
) -> tuple[Inputs, Nodes] | None:
    """Return the inputs of a cell with so many gates, and its two linear layers, if these make the two values."""
    hh, ih = (made_by(edit, value, "Linear", domain=DOMAIN) for value in (of_hidden, of_input))
    if hh is None or ih is None or not all(is_private(edit, layer.outputs[0]) for layer in (hh, ih)):
        return None
    (h, weight_hh, bias_hh), (x, weight_ih, bias_ih) = ((*layer.inputs, None)[:3] for layer in (hh, ih))
    if x is None or h is None or not (_is_called(weight_ih, _IH) and _is_called(weight_hh, _HH)):
        return None
    if not all(attribute(layer, "transposed", 0) for layer in (hh, ih)):
        return None
    match shape_of(x), shape_of(weight_ih), shape_of(weight_hh):
        case (rows, _), (width, _), (_, int(hidden)):
            bias = None if bias_ih is None else (width,)
            sizes = [shape_of(value) for value in (h, weight_hh, bias_ih, bias_hh)]
            if width == gates * hidden and sizes == [(rows, hidden), (width, hidden), bias, bias]:
                return (x, h, [weight_ih, weight_hh, bias_ih, bias_hh]), [hh, ih]
    return None


def _is_called(weight: ir.Value | None, role: str) -> bool:
    return weight is not None and str(weight.name).endswith(role)


def _is_zero_too(edit: Edit, value: ir.Value | None, state: ir.Value) -> bool:
    """Tell whether the state is zeros, and `value` stands for the same: the number 0, or zeros of its own."""
    is_computed = value is not None and origin_of(value).is_computed and is_zeros(edit, value)
    return (number(value) == 0 or is_filler(value, 0) or is_computed) and _is_zero(edit, state)


def _is_zero(edit: Edit, value: ir.Value) -> bool:
    """Tell whether the value is a tensor of zeros, and no parameter: the state before the first step."""
    return is_zeros(edit, value) if constant(value) is None else is_filler(value, 0)
