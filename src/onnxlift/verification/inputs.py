"""Make a value for each input of a model.

Values that the user gives are used. The others are made up: from the declared types, the sizes that the user asks for,
and the roles of the inputs (see `roles`). The same seed gives the same values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.errors import VerifyError
from onnxlift.ir.graph.types import Dim, ValueType, shape_text, type_of
from onnxlift.ir.inference.infer import is_invented_size

from .fitting import fit_sizes, size_in, symbols_in
from .roles import InputRole, find_role

Array = np.ndarray[Any, Any]

MAX_BYTES = 1 << 30
DEFAULT_SIZE = 2
# The sizes differ from one another, so that a mix-up of axes does not go unnoticed.
_SIZES_BY_NAME = (
    (re.compile(r"batch|^n$|^b$"), 2),
    (re.compile(r"past|cache"), 5),
    (re.compile(r"seq|len|token|time|step|^s$|^t$"), 7),
    (re.compile(r"height|width|image|^h$|^w$"), 64),
)
_SIZES_BY_RANK = {3: 32, 4: 64, 5: 16}
"""Rank -> unknown sizes from the third axis on, if the model convolves: it would refuse images of 2 x 2."""
_SEQUENCE_LENGTH = 2


def make_inputs(
    graph: ir.Graph,
    *,
    given: Mapping[str, Any] | Sequence[Any] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    types: Mapping[str, ValueType] | None = None,
    number: int | None = None,
) -> dict[str, Any]:
    """Return a value for every input of the graph, in their order.

    Values that are `given` (by name, or in order) are used, converted to the type of the input if needed. `types` are
    types of inputs to take instead of those in the graph. `number` is the number that inputs of one integer are, if
    the model may compute sizes from them."""
    values = _by_name(graph, given)
    sizes = choose_sizes(graph, given=values, shapes=shapes, dims=dims)
    random = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for value in graph.inputs:
        name = value.name or ""
        kind = type_of(value)
        if types and name in types:
            kind = replace(kind, dtype=types[name].dtype)
        own = made[name] = _make(
            value, kind, sizes, random, (shapes or {}).get(name), number
        )  # made even if it is given, so that the random values of the other inputs do not depend on that
        if name in values:
            made[name] = _fit(name, values[name], kind, own)
    return made


def single_integers(graph: ir.Graph) -> list[str]:
    """Return the inputs that are one integer, from which a model may compute sizes: the height of an image, say."""
    return [value.name or "" for value in graph.inputs if _is_single_integer(type_of(value), find_role(value))]


def _is_single_integer(kind: ValueType, role: InputRole) -> bool:
    return kind.kind == "tensor" and kind.shape == () and kind.is_integer and role.kind in ("", "size")


def choose_sizes(
    graph: ir.Graph,
    *,
    given: Mapping[str, Any] | Sequence[Any] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Sizes:
    """Return the sizes of the inputs: those that the user gives, and for the others some that suit the model."""
    sizes = Sizes(graph, dims or {})
    for name, shape in (shapes or {}).items():
        sizes.bind(_find(graph, name), tuple(shape))
    for name, value in _by_name(graph, given).items():
        if isinstance(value, np.ndarray):
            sizes.bind(_find(graph, name), value.shape)
    sizes.choose(graph)
    return sizes


class Sizes:
    """The sizes of named dimensions: those that the user asks for, those of given inputs, and defaults for the rest."""

    def __init__(self, graph: ir.Graph, dims: Mapping[str, int]) -> None:
        names = {d for value in graph.inputs for d in type_of(value).shape or () if isinstance(d, str)}
        words = {word for name in names for word in re.findall(r"[^\W\d]\w*", name)}
        unknown = sorted(dims.keys() - names - words)
        if unknown:
            said = sorted(name for name in names if not is_invented_size(name))
            known = (
                f"they are {', '.join(said)}" if said else "they have no names: give the shape of an input (--shape)"
            )
            raise VerifyError(f"no input has a dimension named {', '.join(unknown)}; {known}.")
        self.known = dict(dims)
        self.chosen: dict[str, int] = {}  # those that nobody has given
        shapes = [type_of(value).shape or () for value in graph.inputs]
        self.leading = {dim for shape in shapes for dim in shape[:1] if isinstance(dim, str)}
        self.convolves = any(word in node.op_type for word in ("Conv", "MaxPool", "AveragePool") for node in graph)

    def bind(self, value: ir.Value, shape: tuple[int, ...]) -> None:
        """Learn the sizes of an input's named dimensions from the shape that it will have."""
        declared = type_of(value).shape
        if declared is None:
            return
        if len(declared) != len(shape):
            raise VerifyError(
                f"input {value.name!r} has {len(declared)} dimensions, {shape_text(declared)}, and not {len(shape)}."
            )
        for wanted, size in zip(declared, shape, strict=True):
            if isinstance(wanted, int) and wanted != size:
                text = f"input {value.name!r} is declared as {shape_text(declared)}, which {shape} does not fit."
                raise VerifyError(text)
            if isinstance(wanted, str) and self.known.setdefault(wanted, size) != size:
                which = "a dimension without a name" if is_invented_size(wanted) else f"dimension {wanted!r}"
                raise VerifyError(f"{which} cannot be both {self.known[wanted]} and {size}.")

    def choose(self, graph: ir.Graph) -> None:
        """Choose the sizes that are still open: those that their names suggest, changed to what the model needs."""
        start: dict[str, int] = {}
        for value in graph.inputs:
            shape = type_of(value).shape or ()
            for axis, dim in enumerate(shape):
                for symbol in symbols_in(dim):
                    place = (axis, len(shape)) if symbol == dim else (0, 0)
                    start.setdefault(symbol, self.size(symbol, *place))
        fitted = fit_sizes(graph, {**start, **self.known}, self.known)
        self.chosen = {name: size for name, size in fitted.items() if name not in self.known}
        self.known = fitted

    def shape(self, kind: ValueType) -> tuple[int, ...]:
        declared = kind.shape or ()
        return tuple(self.size(dim, axis, len(declared)) for axis, dim in enumerate(declared))

    def size(self, dim: Dim, axis: int, rank: int) -> int:
        if isinstance(dim, int):
            return dim
        if isinstance(dim, str):
            if dim in self.known:
                return self.known[dim]
            total = size_in(dim, self.known)
            if total is not None:
                return max(0, total)
            for pattern, size in _SIZES_BY_NAME:
                if pattern.search(dim.lower()):
                    return size
        if self.convolves and axis >= 2:
            return _SIZES_BY_RANK.get(rank, DEFAULT_SIZE)
        return DEFAULT_SIZE


def _make(
    value: ir.Value,
    kind: ValueType,
    sizes: Sizes,
    random: np.random.Generator,
    shape: Iterable[int] | None,
    number: int | None,
) -> Any:
    size = tuple(shape) if shape is not None else sizes.shape(kind)
    if kind.dtype is None:
        raise VerifyError(f"input {value.name!r} has no type that a value could be made for: pass it (--input).")
    if math.prod(size) * max(1, kind.dtype.itemsize if kind.dtype != ir.DataType.STRING else 8) > MAX_BYTES:
        raise VerifyError(f"input {value.name!r} would have shape {size}: choose smaller sizes (--shape, --dim).")
    if kind.kind == "sequence":
        return [_tensor(kind, size, InputRole(), random) for _ in range(_SEQUENCE_LENGTH)]
    role = find_role(value)
    made = _tensor(kind, size, role, random)  # in any case, so that the other random values do not depend on it
    if number is not None and _is_single_integer(kind, role):
        limits = ir.DataType(kind.dtype)
        return np.asarray(min(number, int(limits.max)), made.dtype)
    return made


def _tensor(kind: ValueType, shape: tuple[int, ...], role: InputRole, random: np.random.Generator) -> Array:
    assert kind.dtype is not None
    if kind.dtype == ir.DataType.STRING:
        words = np.array(["lift", "Onnx", "a b", "", "ünïcode", "42"], dtype=object)
        return np.asarray(random.choice(words, shape), dtype=object).reshape(shape)
    dtype = kind.dtype.numpy()
    if kind.is_bool or role.kind == "mask":
        return _mask(shape, random).astype(dtype)
    if kind.is_integer:
        return _integers(kind, shape, role, random).astype(dtype)
    values = random.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return np.asarray(values).astype(dtype)


def _mask(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Make a mask of zeros and ones. The first in each row is a one: a row of zeros would have no defined result."""
    mask = np.asarray(random.random(shape) < 0.7)
    if mask.ndim == 0:
        return np.asarray(True)
    mask[..., :1] = True
    return mask


def _integers(kind: ValueType, shape: tuple[int, ...], role: InputRole, random: np.random.Generator) -> Array:
    longest = shape[-1] if shape else DEFAULT_SIZE
    match role.kind:
        case "position":
            positions = np.broadcast_to(np.arange(longest), shape)
            return positions % role.bound if role.bound else positions
        case "length":
            return random.integers(1, max(1, role.bound or longest), shape, endpoint=True)
        case "size":
            return random.integers(1, 4, shape, endpoint=True)
        case "index":
            return random.integers(0, max(1, role.bound or DEFAULT_SIZE), shape)
    assert kind.dtype is not None
    if kind.dtype.bitwidth <= 8:  # images and quantised data use the whole range
        limits = ir.DataType(kind.dtype)
        bits = limits.bitwidth
        low, high = (0, 2**bits) if kind.dtype.name.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        return random.integers(low, high, shape)
    return random.integers(0, 10, shape)


def _by_name(graph: ir.Graph, given: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        for name in given:
            _find(graph, name)
        return dict(given)
    names = [value.name or "" for value in graph.inputs]
    if len(given) > len(names):
        raise VerifyError(f"{len(given)} inputs are given, and the model has {len(names)}.")
    return dict(zip(names, given, strict=False))


def _find(graph: ir.Graph, name: str) -> ir.Value:
    for value in graph.inputs:
        if value.name == name:
            return value
    names = ", ".join(value.name or "" for value in graph.inputs) or "none"
    raise VerifyError(f"the model has no input named {name!r}; its inputs are {names}.")


def _fit(name: str, value: Any, kind: ValueType, like: Any) -> Any:
    """Convert a given value to the element type of the input.

    A number is converted within its group only: bool, integers, or floats and complex. (Types of ml_dtypes are in no
    group, and are converted to and from any type.)"""
    if value is None and kind.kind == "optional":
        return None
    if isinstance(like, list):
        if not isinstance(value, list | tuple):
            raise VerifyError(f"input {name!r} is a sequence: pass a list of arrays.")
        return [_fit(name, item, ValueType(kind.dtype, kind.shape), like[0] if like else item) for item in value]
    array = np.asarray(value)
    if kind.dtype == ir.DataType.STRING:
        return array.astype(object)
    assert kind.dtype is not None
    wanted = kind.dtype.numpy()
    if array.dtype != wanted:
        groups = ("b", "iu", "fc")
        same = any(array.dtype.kind in group and wanted.kind in group for group in groups)
        if not same and array.dtype.kind not in "V" and wanted.kind not in "V":
            raise VerifyError(f"input {name!r} is {kind.dtype.name.lower()}, and {array.dtype.name} is given.")
        array = array.astype(wanted)
    return array
