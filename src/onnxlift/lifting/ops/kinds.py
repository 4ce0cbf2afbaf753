"""The table of layer kinds: all that is known of a class of layers, of `torch.nn` or our own, in one place.

A kind is declared in the file of the operator that lifts to it, in the operator's own decorator, and nowhere else:

    @op("LayerNormalization", layer=LayerKind("LayerNorm", signature("normalized_shape", eps=1e-5), word="norm"),
        weights={"Scale": "weight", "B": "bias"})
    def LayerNormalization(n: Node, X: Tensor, Scale: Tensor, B: Tensor | None, *, axis: int, epsilon: float): ...

Everybody else asks this table about layers, and `layer_nodes.py` about nodes. The columns, and who asks for them:

name        the class: `n.layer("LayerNorm", ...)` in operator functions, `nn.LayerNorm(...)` in the constructor
signature   parameters of the constructor and their defaults: what is at its default is not written
word        what a layer is called that nobody named, as a member or a variable (`norm`, `conv1`, `bn_2`)
family      what kind of thing it does: the tree finds blocks by that, and class names tell it
class_word  what it adds to the name of a class: a convolution, a batch norm and a ReLU are a `ConvBNReLU`
channels    whether axis 1 of its input counts channels, and what follows are places: images are known by that
function    the function of PyTorch that does the same without weights, and the arguments that both have, in the order
            of the function: `F.softplus(x, beta, threshold)` is a step of an `nn.Sequential`
buffers     those of its weights that are not trained, but in the state dict
steps       further buffers, that say what the integers of its weight stand for: they name no layer

Which inputs of an operator are weights is said by the operator (`weights`, see `registry.op`): several operators lift
to one kind, and hold its weights at different places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onnxlift.lifting import kernels

from .builtin import load_builtin

REQUIRED = object()
"""Stands for the default of a parameter that has none."""

Family = Literal["activation", "convolution", "embedding", "linear", "norm", "pool", "recurrent", "other"]
Signature = Mapping[str, Any]


def signature(*required: str, **optional: Any) -> dict[str, Any]:
    """Return the parameters of a constructor, in its order, with their defaults; the required ones come first."""
    return {**dict.fromkeys(required, REQUIRED), **optional}


@dataclass(frozen=True, eq=False)
class LayerKind:
    """One row of the table; the columns are described above."""

    name: str
    signature: Signature
    word: str = ""
    family: Family = "other"
    class_word: str = ""
    channels: bool = False
    function: tuple[str, ...] = ()
    buffers: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.word:
            object.__setattr__(self, "word", self.name.lower().rstrip("0123456789"))

    @property
    def constructor(self) -> str:
        """What is called to make one."""
        return self.name if self.name in kernels.layers() else f"nn.{self.name}"


def ranked(
    name: str,
    parameters: Signature,
    *,
    word: str,
    family: Family,
    class_word: str = "",
    buffers: frozenset[str] = frozenset(),
) -> tuple[LayerKind, ...]:
    """Return the kinds of layers that PyTorch has for one, two and three axes behind the channels: `Conv1d`, ..."""
    return tuple(
        LayerKind(f"{name}{rank}d", parameters, word, family, class_word, channels=True, buffers=buffers)
        for rank in (1, 2, 3)
    )


def activation(name: str, function: str = "", **defaults: Any) -> LayerKind:
    """Return the kind of an activation, with the function that does the same and takes the same arguments."""
    form = (function, *defaults) if function else ()
    return LayerKind(name, signature(**defaults), family="activation", class_word=name, function=form)


_TABLE: dict[str, LayerKind] = {}
_BY_FUNCTION: dict[str, LayerKind] = {}


def declare(kind: LayerKind, *, replaces: bool) -> None:
    """Add a row to the table. What a user declares replaces what is there; what is built in does not."""
    if replaces or kind.name not in _TABLE:
        _TABLE[kind.name] = kind
        if kind.function:
            _BY_FUNCTION[kind.function[0]] = kind


def layer_kind(name: str) -> LayerKind:
    """Return the kind of this name."""
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
    """Return the kind of layers, without weights, that does the same as this function of PyTorch."""
    load_builtin()
    return _BY_FUNCTION.get(function)


def is_activation_function(function: str) -> bool:
    """Tell whether a function of PyTorch is an activation."""
    kind = kind_by_function(function)
    return kind is not None and kind.family == "activation"


def activation_word(function: str) -> str:
    """Return what an activation adds to the name of a class, by the function that computes it: nothing for others."""
    kind = kind_by_function(function)
    return kind.class_word if kind is not None and kind.family == "activation" else ""
