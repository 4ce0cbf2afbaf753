"""Operators of ai.onnx.ml.

- LabelEncoder: 1 (`classes_strings`), 2 (keys and values of any kind), 4 (tensors of them; of equal keys the last one
  counts, before that the first)

Ensembles of trees are in tree_ensembles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ..step import Result, Step, Value, adapter

ML = "ai.onnx.ml"
_KINDS = ("strings", "int64s", "floats")


@adapter("LabelEncoder", 1, 2, ML)
def classes_become_keys_and_values(s: Step, X: Value, *, classes_strings: tuple[str, ...] | None) -> Result:
    """A string stands for its place among the classes, and a number for the class in that place."""
    classes = list(classes_strings or ())
    places = list(range(len(classes)))
    if s.dtype(X) == ir.DataType.STRING:
        return s.again(classes_strings=None, keys_strings=classes, values_int64s=places)
    return s.again(classes_strings=None, keys_int64s=places, values_strings=classes)


@adapter("LabelEncoder", 2, 1, ML)
def keys_and_values_become_classes(s: Step, X: Value) -> Result:
    keys, values = _listed(s, "keys"), _listed(s, "values")
    pairs = {"keys_strings": keys, "values_int64s": values} if s.dtype(X) == ir.DataType.STRING else {}
    pairs = pairs or {"keys_int64s": values, "values_strings": keys}
    names = {name for name in s.node.attributes if name.startswith(("keys_", "values_"))}
    strings, places = (keys, values) if s.dtype(X) == ir.DataType.STRING else (values, keys)
    if names != set(pairs) or list(places) != list(range(len(places))):
        s.refuse("only strings and their places are known before opset 2 of ai.onnx.ml")
    gone = dict.fromkeys([*names, "default_float"])
    return s.again(**gone, classes_strings=list(strings))


@adapter("LabelEncoder", 2, 4, ML)
def first_of_equal_keys(s: Step) -> Result:
    return _without_repetition(s, last=False)


@adapter("LabelEncoder", 4, 2, ML)
def last_of_equal_keys(s: Step) -> Result:
    """Tensors become lists, if there are lists of their type."""
    for part in ("keys", "values"):
        tensor = s.node.attributes.get(f"{part}_tensor")
        if tensor is not None:
            kind, items = _as_list(s, tensor.as_tensor())
            s.again(**{f"{part}_tensor": None, f"{part}_{kind}": items})
    default = s.node.attributes.get("default_tensor")
    if default is not None:
        kind, items = _as_list(s, default.as_tensor())
        name = {"strings": "default_string", "int64s": "default_int64", "floats": "default_float"}[kind]
        s.again(**{"default_tensor": None, name: items[0]})
    return _without_repetition(s, last=True)


def _as_list(s: Step, tensor: ir.TensorProtocol) -> tuple[str, list[Any]]:
    kinds = {ir.DataType.STRING: "strings", ir.DataType.INT64: "int64s", ir.DataType.FLOAT: "floats"}
    if tensor.dtype not in kinds:
        s.refuse(f"keys and values of type {tensor.dtype.name.lower()} are not known before opset 4 of ai.onnx.ml")
    items = np.asarray(tensor.numpy()).reshape(-1).tolist()
    return kinds[tensor.dtype], [item.decode() if isinstance(item, bytes) else item for item in items]


def _without_repetition(s: Step, *, last: bool) -> Result:
    keys, values = _listed(s, "keys"), _listed(s, "values")
    if len(set(keys)) == len(keys) or len(keys) != len(values):
        return s.again()
    pairs = list(zip(keys, values, strict=True))
    kept = dict(pairs if last else reversed(pairs))
    kept = {key: kept[key] for key in dict.fromkeys(keys)}
    return s.again(**{_name(s, "keys"): list(kept), _name(s, "values"): list(kept.values())})


def _name(s: Step, part: str) -> str:
    return next(f"{part}_{kind}" for kind in _KINDS if f"{part}_{kind}" in s.node.attributes)


def _listed(s: Step, part: str) -> Sequence[Any]:
    for kind in _KINDS:
        attribute = s.node.attributes.get(f"{part}_{kind}")
        if attribute is not None:
            return list(attribute.value)
    return []
