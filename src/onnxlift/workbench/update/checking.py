"""Hold the given weights against those of the lifted model: the same keys, shapes and types."""

from __future__ import annotations

from collections.abc import Mapping

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.layers import Array
from onnxlift.lifting.text.weights import stored_dtype

from .given import Given
from .traced import same_bits

COUNTER = "num_batches_tracked"
"""What PyTorch's batch norms count while they train. ONNX has no such number, and no result depends on it."""
MOST_SHOWN = 8


class WeightsError(OnnxLiftError):
    """The given weights are not those of the model."""


def matched(given: Given, entries: Mapping[str, Entry], ties: Mapping[str, str]) -> dict[str, str]:
    """Return which given weight each entry of the state dict gets, by key.

    A weight that several keys share may be given under one of them, or all. Raises WeightsError, which lists all that
    does not fit."""
    expected = {key: entry for key, entry in entries.items() if entry.persistent}
    groups: dict[str, list[str]] = {}
    for key in expected:
        groups.setdefault(ties.get(key, key), []).append(key)
    found = {owner: [key for key in keys if key in given] for owner, keys in groups.items()}
    unexpected = [key for key in given if key not in expected and key.rpartition(".")[2] != COUNTER]
    missing = [owner for owner, keys in found.items() if not keys]
    complaints = [*_listed("missing", missing), *_listed("not in the model", unexpected)]
    shapes, types, apart = [], [], []
    for owner, keys in found.items():
        for key in keys:
            header, entry = given.header(key), expected[owner]
            tensor = entry.weight.value.const_value
            assert tensor is not None
            wanted = stored_dtype(tensor.dtype)
            if header.shape != entry.weight.shape:
                shapes.append(f"{quote(key)} is {list(header.shape)}, in the model {list(entry.weight.shape)}")
            elif header.dtype != wanted:
                types.append(f"{quote(key)} is {header.dtype}, in the model {wanted}")
            elif key != keys[0] and not same_bits(given.array(key), given.array(keys[0])):
                apart.append(f"{quote(key)} and {quote(keys[0])}")
    complaints += [
        *_listed("other shapes", shapes),
        *_listed("other types", types),
        *_listed("one weight in the model, and different here", apart),
    ]
    if complaints:
        raise WeightsError(
            "the weights are not those of this model: "
            + "; ".join(complaints)
            + ". Give the state dict of the lifted model, trained; if it was lifted with options (another dtype, a "
            "structure, skipped passes), give these as well."
        )
    return {owner: keys[0] for owner, keys in found.items()}


def changed(given: Given, matches: Mapping[str, str], entries: Mapping[str, Entry]) -> list[str]:
    """Return the keys whose numbers differ from those of the model."""
    return [owner for owner, key in matches.items() if not same_bits(given.array(key), stored_array(entries[owner]))]


def stored_array(entry: Entry) -> Array:
    """Return the numbers of an entry in the type in which lifted code holds them."""
    array = entry.weight.array()
    tensor = entry.weight.value.const_value
    assert tensor is not None
    return array.astype(stored_dtype(tensor.dtype), copy=False)


def _listed(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = f" and {len(items) - MOST_SHOWN} more" if len(items) > MOST_SHOWN else ""
    return [f"{title}: {', '.join(items[:MOST_SHOWN])}{more}"]
