"""The table of layer kinds: all that is known of a class of layers, of `torch.nn` or our own, in one place.

A kind is declared in the decorator of the operator that lifts to it, and nowhere else:

    @op("LayerNormalization", layer=LayerKind("LayerNorm", signature("normalized_shape", eps=1e-5), word="norm"),
        weights={"Scale": "weight", "B": "bias"})
    def LayerNormalization(n: Node, X: Tensor, Scale: Tensor, B: Tensor | None, *, axis: int, epsilon: float): ...

All other code asks this table about layers, and `layer_nodes.py` about nodes. The columns, and their uses:

    name        the class: `n.layer("LayerNorm", ...)` in operator functions, `nn.LayerNorm(...)` in the constructor
    signature   the constructor's parameters and their defaults; arguments at their default are not written
    word        the name of a layer that has none, as a member or a variable (`norm`, `conv1`, `bn_2`)
    family      the kind of thing that it does; the tree finds blocks by it, and it is part of class names. What rounds
                to small integers, or computes with them element by element, is called after what it does
    class_word  its part in the name of a class: a convolution, a batch norm and a ReLU are a `ConvBNReLU`
    channels    whether axis 1 of its input counts channels, and the axes behind it places; images are known by it
    function    the function of PyTorch that does the same without weights, and the arguments that both have, in the
                order of the function: `F.softplus(x, beta, threshold)` is a step of an `nn.Sequential`
    buffers     those of its weights that are in the state dict, but not trained
    steps       further buffers, which say what the integers of its weight stand for; no layer is named after them
    shapes      a function from the constructor's arguments to the shapes of the weights that it makes
                (`weight_shapes.py`), so that a mistake is found without torch; None if they are not known

The operator says which of its inputs are weights (`weights`, see `registry.op`), because several operators lift to one
kind and have its weights at different places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onnxlift.lifting import kernels

from .builtin import load_builtin
from .weight_shapes import ShapeRule

REQUIRED = object()
"""Stands for the default of a parameter that has none."""

Family = Literal["activation", "convolution", "embedding", "linear", "norm", "pool", "recurrent", "rounding", "other"]
Signature = Mapping[str, Any]


def signature(*required: str, **optional: Any) -> dict[str, Any]:
    """Return the parameters of a constructor, in order, with their defaults. The required ones come first."""
    return {**dict.fromkeys(required, REQUIRED), **optional}


@dataclass(frozen=True, eq=False)
class LayerKind:
    """One row of the table. The columns are described above."""

    name: str
    signature: Signature
    word: str = ""
    family: Family = "other"
    class_word: str = ""
    channels: bool = False
    function: tuple[str, ...] = ()
    buffers: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    shapes: ShapeRule | None = None

    def __post_init__(self) -> None:
        if not self.word:
            object.__setattr__(self, "word", self.name.lower().rstrip("0123456789"))

    @property
    def constructor(self) -> str:
        """The name to call to make a layer."""
        return self.name if self.name in kernels.layers() else f"nn.{self.name}"


def ranked(
    name: str,
    parameters: Signature,
    *,
    word: str,
    family: Family,
    class_word: str = "",
    buffers: frozenset[str] = frozenset(),
    shapes: Callable[[int], ShapeRule] | None = None,
) -> tuple[LayerKind, ...]:
    """Return the kinds for one, two and three axes behind the channels: `Conv1d`, `Conv2d`, `Conv3d`. `shapes` gets the
    number of axes."""
    return tuple(
        LayerKind(
            f"{name}{rank}d",
            parameters,
            word,
            family,
            class_word,
            channels=True,
            buffers=buffers,
            shapes=None if shapes is None else shapes(rank),
        )
        for rank in (1, 2, 3)
    )


def activation(name: str, function: str = "", **defaults: Any) -> LayerKind:
    """Return the kind of an activation, with the function that does the same and takes the same arguments."""
    form = (function, *defaults) if function else ()
    return LayerKind(name, signature(**defaults), family="activation", class_word=name, function=form)


_TABLE: dict[str, LayerKind] = {}
_BY_FUNCTION: dict[str, LayerKind] = {}


def declare(kind: LayerKind, *, replaces: bool) -> None:
    """Add a row to the table. A row that a user declares replaces an existing one; a built-in row does not."""
    if replaces or kind.name not in _TABLE:
        _TABLE[kind.name] = kind
        if kind.function:
            _BY_FUNCTION[kind.function[0]] = kind


def layer_kind(name: str) -> LayerKind:
    """Return the kind of this name; raise `LookupError` if there is none."""
    load_builtin()
    if name not in _TABLE:
        raise LookupError(
            f"there is no layer kind {name!r}: declare it beside the operator, "
            f"@op(..., layer=LayerKind({name!r}, signature(...)))"
        )
    return _TABLE[name]


def layer_kinds() -> list[LayerKind]:
    """Return all kinds, sorted by name."""
    load_builtin()
    return [_TABLE[name] for name in sorted(_TABLE)]


def kind_by_function(function: str) -> LayerKind | None:
    """Return the kind of a layer without weights that does the same as this function of PyTorch; None if there is
    none."""
    load_builtin()
    return _BY_FUNCTION.get(function)


def is_activation_function(function: str) -> bool:
    """Tell whether a function of PyTorch is an activation."""
    kind = kind_by_function(function)
    return kind is not None and kind.family == "activation"


def activation_word(function: str) -> str:
    """Return what an activation, given by its function, adds to the name of a class; an empty text for other
    functions."""
    kind = kind_by_function(function)
    return kind.class_word if kind is not None and kind.family == "activation" else ""
