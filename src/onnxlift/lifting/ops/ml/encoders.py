"""Encode categories and labels as numbers and back. Maps are Python dicts, and sequences of maps are lists of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Expr, F, builtin, equal
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, torch_dtype
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op

from .scores import Array, labels_of, table, texts

ML = "ai.onnx.ml"
LARGEST_MAP = 2**24
_CASTS = {"TO_FLOAT": DataType.FLOAT, "TO_INT64": DataType.INT64}


@op("LabelEncoder", domain=ML)
def LabelEncoder(n: Node, X: Tensor, **attributes: Any) -> Result:
    """Each element is looked up among the keys; an unknown one gets the default.

    In ai.onnx.ml 1 a string stands for its place in `classes_strings`. From 4 on, the last of equal keys counts.
    """
    if n.opset < 2:
        places = np.arange(len(attributes["classes_strings"] or ()))
        return _mapped(n, X, places, attributes["classes_strings"])
    keys, values = _given(n, "keys"), _given(n, "values")
    default = attributes.get("default_tensor")
    if default is not None:
        fallback = default.numpy().reshape(-1)[0]
        fallback = fallback.decode("utf-8", "surrogateescape") if isinstance(fallback, bytes) else fallback
    elif values.dtype == object:
        fallback = attributes["default_string"]
    else:
        fallback = attributes["default_float"] if values.dtype.kind == "f" else attributes["default_int64"]
    if len(keys) != len(values) or not len(keys):
        n.fail(f"it has {len(keys)} keys for {len(values)} values")
    return _looked_up(n, X, keys, values, fallback, last=n.opset >= 4)


@op("CategoryMapper", domain=ML)
def CategoryMapper(
    n: Node, X: Tensor, *, cats_int64s: tuple[int, ...], cats_strings: tuple[str, ...], **_: Any
) -> Result:
    """Strings to numbers, or numbers to strings, by one list of pairs."""
    return _mapped(n, X, np.asarray(cats_int64s or (), np.int64), cats_strings)


def _mapped(n: Node, x: Tensor, numbers: Array, strings: tuple[str, ...] | None) -> Result:
    """Return the numbers for strings or the strings for numbers, as the type of the input asks."""
    names = np.array(strings or (), object)
    if len(names) != len(numbers) or not len(names):
        n.fail(f"it has {len(names)} strings for {len(numbers)} numbers")
    if x.type.dtype == DataType.STRING:
        return _looked_up(n, x, names, numbers, n.attributes["default_int64"], last=True)
    return _looked_up(n, x, numbers, names, n.attributes["default_string"], last=True)


def _looked_up(n: Node, x: Tensor, keys: Array, values: Array, default: Any, last: bool) -> Expr:
    """Return the value that belongs to each element. The table has the values in the order of the sorted keys, then the
    default, and then the value of a NaN key, if there is one: NaN cannot be found by comparing."""
    if (x.type.dtype == DataType.STRING) != (keys.dtype == object):
        n.fail("its keys are not of the element type of its input")
    order = _sorted_places(keys, last)
    ordered = [*values[order].tolist(), default]
    if keys.dtype == object:
        places = kernel("find_strings")(x, tuple(keys[order].tolist()))
    else:
        places = kernel("find_numbers")(x, table("keys", keys[order].astype(_numpy(x, keys))))
        nan = np.flatnonzero(keys != keys)
        if len(nan):
            ordered.append(values[nan[-1 if last else 0]].item())
            places = places.masked_fill(x.isnan(), len(ordered) - 1)
    if values.dtype == object:
        return kernel("take_strings")(texts(n, ordered), places)
    return table("values", np.array(ordered).astype(values.dtype))[places]


def _sorted_places(keys: Array, last: bool) -> Array:
    """Return the places of the keys in ascending order, without NaN. Of equal keys, take the last (or the first, unless
    `last`)."""
    numbered = list(enumerate(keys.tolist()))
    place = {key: i for i, key in (numbered if last else reversed(numbered))}
    known = sorted(place) if keys.dtype == object else sorted(key for key in place if key == key)
    return np.array([place[key] for key in known], np.int64)


def _given(n: Node, kind: str) -> Array:
    """Return the keys or the values, which the node has in one of several attributes."""
    suffixes = {"tensor": None, "strings": object, "int64s": np.int64, "floats": np.float32}
    given = {s: n.attributes[f"{kind}_{s}"] for s in suffixes if n.attributes.get(f"{kind}_{s}") not in (None, ())}
    if len(given) != 1:
        n.fail(f"it has {len(given)} lists of {kind}")
    ((suffix, found),) = given.items()
    if not isinstance(found, ir.TensorProtocol):
        return np.array(found, suffixes[suffix])
    array: Array = found.numpy().reshape(-1)
    if found.dtype != DataType.STRING:
        return array
    return np.array([text.decode("utf-8", "surrogateescape") for text in array.tolist()], object)


def _numpy(x: Tensor, keys: Array) -> Any:
    """Return the element type in which keys are compared."""
    return keys.dtype if x.type.dtype is None else x.type.dtype.numpy()


@op("OneHotEncoder", domain=ML)
def OneHotEncoder(
    n: Node, X: Tensor, *, cats_int64s: tuple[int, ...] | None, cats_strings: tuple[str, ...] | None, zeros: int
) -> Result:
    """A new last axis with a one at the place of the category. An unknown category gives zeros, or an error unless
    `zeros`."""
    categories = labels_of(n, cats_int64s, cats_strings)
    if len(set(categories)) != len(categories) or not categories:
        n.fail("it has no categories, or one of them twice")
    if (X.type.dtype == DataType.STRING) != isinstance(categories[0], str):
        n.fail("its categories are not of the element type of its input")
    if isinstance(categories[0], str):
        places = kernel("find_strings")(X, categories)
        if not zeros:
            return F.one_hot(places, len(categories)).float()  # fails for a string that is not found
        return F.one_hot(places, len(categories) + 1)[..., :-1].float()
    x = X if X.type.is_integer else X.long()
    matches = equal(x.unsqueeze(-1), table("categories", np.asarray(categories, np.int64)))
    return matches.float() if zeros else kernel("all_known")(matches)


@op("ZipMap", domain=ML)
def ZipMap(
    n: Node, X: Tensor, *, classlabels_int64s: tuple[int, ...] | None, classlabels_strings: tuple[str, ...] | None
) -> Result:
    labels = labels_of(n, classlabels_int64s, classlabels_strings)
    if not labels:
        n.fail("it has no keys")
    return kernel("zip_map")(X, labels)


@op("CastMap", domain=ML)
def CastMap(n: Node, X: Tensor, *, cast_to: str, map_form: str, max_map: int) -> Result:
    """The values of a map in the order of its keys (DENSE), or each at the place that its key gives (SPARSE)."""
    if map_form not in ("DENSE", "SPARSE") or not 0 <= max_map <= LARGEST_MAP:
        n.fail(f"it casts to the form {map_form} of {max_map} entries")
    keys = [builtin("range")(max_map)] if map_form == "SPARSE" else []
    if cast_to == "TO_STRING":
        return kernel("map_to_strings")(X, *keys)
    if cast_to not in _CASTS:
        n.fail(f"it casts to {cast_to}")
    return kernel("map_to_tensor")(X, torch_dtype(_CASTS[cast_to]), *keys)


@op("DictVectorizer", domain=ML)
def DictVectorizer(
    n: Node, X: Tensor, *, int64_vocabulary: tuple[int, ...] | None, string_vocabulary: tuple[str, ...] | None
) -> Result:
    """The values of a map as one row, at the places of their keys in the vocabulary."""
    words = labels_of(n, int64_vocabulary, string_vocabulary)
    dtype = X.type.dtype if X.type.kind == "map" else n.output.dtype
    if not words:
        n.fail("it has no vocabulary")
    if dtype == DataType.STRING:
        return kernel("vectorize_string_map")(X, words)
    return kernel("vectorize_map")(X, words, torch_dtype(dtype))
