"""What to write in place of what a value does not have: methods of PyTorch and numpy are operators here."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from .errors import BuildError, nearest
from .schemas import operators_of

_INSTEAD = {
    **dict.fromkeys(("T", "mT", "permute", "swapaxes"), "op.Transpose(x, perm=[...])"),
    **dict.fromkeys(("view", "ravel"), "op.Reshape(x, [...])"),
    **dict.fromkeys(
        ("astype", "to", "type_as", "float", "double", "half", "int", "long", "bool"), 'op.Cast(x, to="...")'
    ),
    **dict.fromkeys(("ndim", "dim"), "x.rank"),
    "size": "x.shape",
    "sum": "op.ReduceSum(x, axes)",
    "mean": "op.ReduceMean(x, axes)",
    "max": "op.ReduceMax(x, axes)",
    "min": "op.ReduceMin(x, axes)",
    "prod": "op.ReduceProd(x, axes)",
    "norm": "op.ReduceL2(x, axes)",
    "clamp": "op.Clip(x, ...)",
    "chunk": "op.Split(x, outputs=...)",
    "repeat": "op.Tile(x, [...])",
    "masked_fill": "op.Where(mask, number, x)",
    "save": "build.model(inputs, outputs).save(path)",
}
_REASONS = {
    "backward": "lift the model, and train it in PyTorch",
    "functional": "functions are operators, such as op.Relu",
    **dict.fromkeys(("numpy", "item", "tolist", "detach", "cpu"), "a model has numbers, when it is called"),
}


class UnknownNameError(BuildError, AttributeError):
    """There is nothing of this name. It is an AttributeError as well, so that `hasattr` works."""


def no_member(value: Any, name: str) -> UnknownNameError:
    """Return the error for an attribute that values do not have."""
    return UnknownNameError(f"{value!r} has no {name}{instead(name)}")


def unknown(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module of the builder does not have."""
    if name.startswith("_"):
        return AttributeError(f"module onnxlift.{module} has no attribute {name!r}")
    near = "" if name in {*_INSTEAD, *_REASONS} else nearest(name, known, f"{module}.")
    return UnknownNameError(f"there is no {module}.{name}{near or instead(name)}")


def instead(name: str) -> str:
    """Return `: write op.Relu(x).` for `relu`; only the end of the sentence if nothing comes to mind."""
    found = _INSTEAD.get(name)
    if found is None:
        plain = name.replace("_", "").lower()
        found = next((f"op.{each}" for each in operators_of("") if each.lower() == plain), None)
    if found is None:
        return f": {_REASONS[name]}." if name in _REASONS else "."
    return f": write {found}."


def call_it(given: Any) -> str:
    """Return what to say of a layer or an operator where a value belongs, which somebody forgot to call."""
    is_made_to_be_called = callable(given) and not isinstance(given, FunctionType)
    return ": call it, and take what it returns" if is_made_to_be_called else ""
