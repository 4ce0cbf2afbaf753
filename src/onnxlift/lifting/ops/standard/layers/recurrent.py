"""RNN, GRU and LSTM, as layers of PyTorch or as kernels.

idioms/recurrent/ has recognised those that are layers of PyTorch; they are written at the end of this file (`nn.LSTM`
and the like). Everything else that ONNX has, like peepholes, other activations or sequences of different lengths, is a
kernel.

Opset history: 1 (with `output_sequence`, which only says whether Y is wanted), 3 (`linear_before_reset` of GRU), 7, 14
(`layout`), 22 (bfloat16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from onnxlift.ir.graph.marks import DOMAIN, USUAL_NAME
from onnxlift.ir.graph.packed_weights import unpacked_bias, unpacked_matrix
from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Expr, F, Local, Ref, nn, torch
from onnxlift.lifting.code.statements import Assign, Target
from onnxlift.lifting.ops import weight_shapes
from onnxlift.lifting.ops.arguments import attribute_number, trimmed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Constant, Tensor, size_of
from onnxlift.lifting.ops.registry import op

Strings = tuple[str, ...]
Floats = tuple[float, ...]

_NAMES = (None, "h", "c")
_PACKING = nn.utils.rnn

# The activation, and ONNX Runtime's defaults for alpha and beta.
_ACTIVATIONS: dict[str, tuple[Callable[..., Expr], Floats]] = {
    "relu": (lambda: torch.relu, ()),
    "tanh": (lambda: torch.tanh, ()),
    "sigmoid": (lambda: torch.sigmoid, ()),
    "softsign": (lambda: F.softsign, ()),
    "softplus": (lambda: F.softplus, ()),
    "leakyrelu": (kernel("leaky_relu"), (0.01,)),
    "elu": (kernel("elu"), (1.0,)),
    "thresholdedrelu": (kernel("thresholded_relu"), (1.0,)),
    "affine": (kernel("affine"), (1.0, 0.0)),
    "scaledtanh": (kernel("scaled_tanh"), (1.0, 1.0)),
    "hardsigmoid": (kernel("hard_sigmoid"), (0.2, 0.5)),
}

# For each direction, whether it runs backwards. "foward" is a misprint in the schema of the first GRU: its default.
_DIRECTIONS = {"forward": (False,), "foward": (False,), "reverse": (True,), "bidirectional": (False, True)}


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _layer_kind(name: str, **more: str) -> LayerKind:
    options = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
    shapes = weight_shapes.recurrent(_GATES[name])
    return LayerKind(name, signature("input_size", "hidden_size", **options, **more), family="recurrent", shapes=shapes)


def _cell_kind(name: str, **more: str) -> LayerKind:
    shapes = weight_shapes.recurrent_cell(_GATES[name.removesuffix("Cell")])
    return LayerKind(name, signature("input_size", "hidden_size", bias=True, **more), word="cell", shapes=shapes)


@op("LSTM", ignores=["hidden_size", "output_sequence"], layer=_layer_kind("LSTM"), weights=("W", "R", "B"))
def LSTM(
    n: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    P: Tensor | None,
    *,
    activations: Strings | None,
    activation_alpha: Floats | None,
    activation_beta: Floats | None,
    clip: float | None,
    direction: str,
    input_forget: int = 0,
    layout: int = 0,
) -> Result:
    inputs = trimmed(X, W, R, B, sequence_lens, initial_h, initial_c, P)
    options = _options(n, X, ("Sigmoid", "Tanh", "Tanh"))
    if input_forget:
        options["coupled"] = True
    return Unpack(kernel("onnx_lstm")(*inputs, **options), 3, names=_NAMES)


@op("GRU", ignores=["hidden_size", "output_sequence"], layer=_layer_kind("GRU"), weights=("W", "R", "B"))
def GRU(
    n: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    *,
    activations: Strings | None,
    activation_alpha: Floats | None,
    activation_beta: Floats | None,
    clip: float | None,
    direction: str,
    linear_before_reset: int = 0,
    layout: int = 0,
) -> Result:
    inputs = trimmed(X, W, R, B, sequence_lens, initial_h)
    options = _options(n, X, ("Sigmoid", "Tanh"))
    if linear_before_reset:
        options["linear_before_reset"] = True
    return Unpack(kernel("onnx_gru")(*inputs, **options), 2, names=_NAMES)


@op(
    "RNN",
    ignores=["hidden_size", "output_sequence"],
    layer=_layer_kind("RNN", nonlinearity="tanh"),
    weights=("W", "R", "B"),
)
def RNN(
    n: Node,
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    *,
    activations: Strings | None,
    activation_alpha: Floats | None,
    activation_beta: Floats | None,
    clip: float | None,
    direction: str,
    layout: int = 0,
) -> Result:
    inputs = trimmed(X, W, R, B, sequence_lens, initial_h)
    options = _options(n, X, ("Tanh",))
    return Unpack(kernel("onnx_rnn")(*inputs, **options), 2, names=_NAMES)


def _options(n: Node, x: Tensor, usual: Strings) -> dict[str, Any]:
    """Return arguments for the attributes that all three operators have, if they differ from the defaults."""
    attributes = n.attributes
    backwards = _DIRECTIONS[attributes["direction"].lower()]
    options: dict[str, Any] = {}
    if backwards != (False,):
        options["backwards"] = backwards
    standard = usual * len(backwards)
    names = tuple(attributes.get("activations") or standard)[: len(standard)]  # RNN's default has one too many
    if len(names) < len(standard):
        n.fail(f"it has {len(names)} activations, and takes {len(standard)}")
    if names != standard:
        options["activations"] = tuple(_activations(n, names, x))
    if attributes.get("clip"):
        options["clip"] = attribute_number(attributes["clip"], x)
    if attributes.get("layout"):
        options["batch_first"] = True
    return options


def _activations(n: Node, names: Strings, x: Tensor) -> list[Expr]:
    """Return the activations. The lists of alphas and betas have entries only for activations that take one."""
    alphas = list(n.attributes.get("activation_alpha") or ())
    betas = list(n.attributes.get("activation_beta") or ())
    written = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            n.fail(f"its activation is {name!r}")
        function, defaults = _ACTIVATIONS[name.lower()]
        given = [values.pop(0) if values else default for values, default in zip((alphas, betas), defaults)]  # noqa: B905
        written.append(function(*(attribute_number(value, x) for value in given)))
    return written


# The layers. Inputs and outputs are PyTorch's: see idioms/recurrent/recurrent.py.


@op("LSTM", domain=DOMAIN, layer="LSTM", weights=("inputs",))
@op("GRU", domain=DOMAIN, layer="GRU", weights=("inputs",))
@op("RNN", domain=DOMAIN, layer="RNN", weights=("inputs",))
def RecurrentLayer(
    n: Node,
    x: Tensor,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    *inputs: Tensor | None,
    hidden_size: int,
    bias: int = 0,
    unpacked: int = 0,
    bidirectional: int = 0,
    backwards: int = 0,
    batch_first: int = 0,
    nonlinearity: str = "",
    lengths: int = 0,
) -> Result:
    """`y, (h, c) = self.lstm(x)`. `backwards` is for ONNX's direction "reverse" alone, which PyTorch does not have.
    With `lengths`, x and y are packed sequences."""
    weights, sizes = (inputs[:-1], inputs[-1]) if lengths else (inputs, None)
    directions = 2 if bidirectional else 1
    read = _parameters if unpacked else _packed_parameters
    per_layer = directions * (4 if bias else 2) if unpacked else 3
    layers = [weights[i : i + per_layer] for i in range(0, len(weights), per_layer)]
    held: dict[str, Weight] = {}
    for number, layer_weights in enumerate(layers):
        held.update(read(n, number, directions, [w for w in layer_weights if isinstance(w, Constant)]))
    options = {"nonlinearity": nonlinearity} if nonlinearity else {}
    layer = n.layer(
        n.op_type,
        held,
        input_size=held["weight_ih_l0"].shape[1],
        hidden_size=hidden_size,
        num_layers=len(layers),
        bias=bool(bias),
        batch_first=bool(batch_first),
        bidirectional=bool(bidirectional),
        **options,
    )
    steps = 1 if batch_first else 0
    states = _initial_states(n.op_type, initial_h, initial_c)
    order: dict[str, Any] = {"batch_first": True} if batch_first else {}
    entering: Expr = x.flip(steps) if backwards else x
    if sizes is not None:
        entering = Local("packed")
        n.emit(Assign([entering], _PACKING.pack_padded_sequence(x, sizes.cpu(), **order, enforce_sorted=False)))
    result = layer(entering, *states)
    has_c = n.op_type == "LSTM" and (n.wants(1) or n.wants(2))
    count, form = (3, "{}, ({}, {})") if has_c else (2, None)
    if not (n.wants(0) and (backwards or lengths)):
        return Unpack(result, count, form, _NAMES)
    y = Local("packed" if lengths else "y")
    last = [Tensor(Ref(value), type_of(value)) if value.name else None for value in n.ir.outputs[1:]]
    targets: list[Target] = [y, *(Ref(value) if value.name else None for value in n.ir.outputs[1:count])]
    n.emit(Assign(targets, result, form=form))
    for value, name in zip(n.ir.outputs[1:], _NAMES[1:], strict=False):
        value.meta[USUAL_NAME] = name
    whole: Expr = y.flip(steps) if backwards else y
    if lengths:
        whole = _PACKING.pad_packed_sequence(y, **order, total_length=size_of(x, steps))[0]
    return [whole, *last]


def _initial_states(kind: str, h: Tensor | None, c: Tensor | None) -> list[Any]:
    if h is None and c is None:
        return []
    if kind != "LSTM":
        return [h]
    given = h if h is not None else c
    assert given is not None
    return [(h if h is not None else torch.zeros_like(given), c if c is not None else torch.zeros_like(given))]


def _names_of(layer: int, direction: int) -> list[str]:
    suffix = f"l{layer}_reverse" if direction else f"l{layer}"
    return [f"{name}_{suffix}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def _parameters(n: Node, layer: int, directions: int, weights: Sequence[Constant]) -> dict[str, Weight]:
    """Return the weights of one layer, which the model has in PyTorch's form."""
    each = len(weights) // directions
    held: dict[str, Weight] = {}
    for direction in range(directions):
        own = weights[each * direction : each * (direction + 1)]
        held.update(zip(_names_of(layer, direction), map(n.weight, own), strict=False))
    return held


def _packed_parameters(n: Node, layer: int, directions: int, weights: Sequence[Constant]) -> dict[str, Weight]:
    """Return the weights of one layer, taken out of W, R and B."""
    held: dict[str, Weight] = {}
    for direction in range(directions):
        own = []
        for packed in weights[:2]:
            rows, columns = (int(str(size)) for size in (packed.type.shape or ())[1:])
            own.append(n.weight(packed, partial(unpacked_matrix, n.op_type, direction), (rows, columns)))
        for packed in weights[2:]:
            rows = own[0].shape[0]
            own += [n.weight(packed, partial(unpacked_bias, n.op_type, direction, half), (rows,)) for half in (0, 1)]
        held.update(zip(_names_of(layer, direction), own, strict=False))
    return held


@op("LSTMCell", domain=DOMAIN, layer=_cell_kind("LSTMCell"), weights=("weights",))
def LSTMCell(n: Node, x: Tensor, h: Tensor | None, c: Tensor | None, *weights: Constant | None) -> Result:
    """One step of an LSTM: `h, c = self.cell(x, (h, c))`, or `self.cell(x)` for a state of zeros."""
    states = [] if h is None or c is None else [(h, c)]
    return Unpack(_cell(n, weights)(x, *states), 2, names=("h", "c"))


@op("GRUCell", domain=DOMAIN, layer=_cell_kind("GRUCell"), weights=("weights",))
@op("RNNCell", domain=DOMAIN, layer=_cell_kind("RNNCell", nonlinearity="tanh"), weights=("weights",))
def RecurrentCell(
    n: Node, x: Tensor, h: Tensor | None, *weights: Constant | None, nonlinearity: str = "tanh"
) -> Result:
    """One step of a GRU or a plain recurrent layer: `h = self.cell(x, h)`, or `self.cell(x)` for a state of zeros."""
    options = {"nonlinearity": nonlinearity} if n.op_type == "RNNCell" else {}
    return _cell(n, weights, **options)(x, *([] if h is None else [h]))


def _cell(n: Node, weights: Sequence[Constant | None], **options: str) -> Expr:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    held = {name: weight for name, weight in zip(names, weights, strict=False) if weight is not None}
    input_size, hidden_size = ((held[name].type.shape or (0, 0))[1] for name in names[:2])
    sizes = {"input_size": input_size, "hidden_size": hidden_size, "bias": "bias_ih" in held}
    return n.layer(n.op_type, held, **sizes, **options)
