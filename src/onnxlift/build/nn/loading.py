"""Load a state dict: all that does not fit is told in one message, and nothing is changed then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxlift.build.errors import BuildError, nearest
from onnxlift.build.types import Array, dtype_text
from onnxlift.errors import LoadError

from .parameter import castable, to_array

if TYPE_CHECKING:
    from .module import Module

_MOST = 8


def load(module: Module, source: Mapping[str, Any] | str | os.PathLike[str], strict: bool) -> None:
    """Take the numbers of `source`, or raise a BuildError that says what is missing, unexpected, or of other shapes."""
    given = _read(source)
    weights = dict(module.named_weights(repeated=True))
    missing = [key for key in weights if key not in given]
    # Nothing computes with what PyTorch's BatchNorm counts in training.
    unexpected = [key for key in given if key not in weights and not key.endswith("num_batches_tracked")]
    arrays: dict[str, Array] = {}
    others: list[str] = []
    for key in weights.keys() & given.keys() if len(weights) else ():
        array, wanted = to_array(given[key]()), weights[key]
        arrays[key] = array
        if array.shape != wanted.shape:
            others.append(f"{key} is {array.shape}, and must be {wanted.shape}")
        elif not castable(array, wanted.dtype):
            others.append(f"{key} is {array.dtype}, and must be {dtype_text(wanted.dtype)}")
    told = []
    if strict and missing:
        told.append(f"missing are {_listed(missing)}")
    if strict and unexpected:
        told.append(f"unexpected are {_listed(unexpected)}{_hint(missing, unexpected)}")
    if others:
        told.append(f"of other shapes or types: {_listed(sorted(others))}")
    if told:
        raise BuildError(f"the state dict does not fit {type(module).__name__}: {'; '.join(told)}.")
    for key, array in arrays.items():
        weights[key].load(np.asarray(array))


def _read(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Callable[[], Any]]:
    if isinstance(source, Mapping):
        return {str(key): (lambda value=value: value) for key, value in source.items()}  # type: ignore[misc]
    if not isinstance(source, str | os.PathLike):
        raise BuildError(f"the state dict is {type(source).__name__}, and must be a dict or the path of a safetensors.")
    from onnxlift.workbench.update.given import PICKLED, read_weights

    if os.fspath(source).endswith(PICKLED):
        raise BuildError(
            f"{os.fspath(source)!r} is a file of torch, which only torch can read: give what torch.load returns, or "
            "save it as safetensors."
        )
    try:
        found = read_weights(source)
    except LoadError as error:
        raise BuildError(str(error)) from None
    return {key: (lambda key=key: found.array(key)) for key in found}  # type: ignore[misc]


def _listed(keys: Iterable[str]) -> str:
    found = list(keys)
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"{', '.join(found[:_MOST])}{more}"


def _hint(missing: list[str], unexpected: list[str]) -> str:
    """Say what would make the names fit: another name, or none in front of all of them."""
    front = {key.removesuffix(wanted) for key in unexpected for wanted in missing if key.endswith(f".{wanted}")}
    if len(front) == 1 and len(unexpected) == len(missing) > 0:
        return f" (all begin with {next(iter(front))!r}: take it away)"
    if len(unexpected) == 1:
        return nearest(unexpected[0], missing).replace("; did you mean ", " (is it ").replace("?", "?)")
    return ""
