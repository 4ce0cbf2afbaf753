"""Numbers for parameters: He, Glorot, orthogonal and others, from a seed, the same bytes each time.

    layer.weight.init = init.kaiming_normal()          # how one parameter gets its numbers
    net.initialise({"*.weight": init.xavier_uniform()}, seed=7)
    with init.seed(7): net = Net()                     # the seed of all parameters that are made inside

An initialiser is called with a shape, a seed and a name. The numbers depend on nothing else, so another layer in a
network changes no other weights. Weights have the axes of PyTorch: outputs, inputs, and then the kernel.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onnxlift.errors import LoadError

from . import state
from .errors import BuildError, at_the_users_line, nearest
from .types import Array

Mode = Literal["fan_in", "fan_out", "fan_avg"]
Shape = tuple[int, ...]
Random = np.random.Generator
AnyDtype = np.dtype[Any]


@dataclass(frozen=True)
class Initialiser:
    """Makes the numbers of a parameter. `text` is how it was written; `fill` takes a generator, a shape and a type."""

    text: str
    fill: Callable[[Random, Shape, AnyDtype], Array]

    def __call__(self, shape: Sequence[int], *, seed: int = 0, name: str = "", dtype: Any = np.float32) -> Array:
        """Return an array of this shape. The same seed and name give the same bytes."""
        wanted = np.dtype(dtype)
        # Generators give float32 and float64. Shorter floats are rounded, so that they have the same numbers.
        wide = wanted if wanted == np.float64 or wanted.kind in "iub" else np.dtype(np.float32)
        made = self.fill(generator(seed, name), tuple(shape), wide)
        return np.ascontiguousarray(made.astype(wanted, copy=False))

    def __repr__(self) -> str:
        return f"init.{self.text}"


def generator(seed: int, name: str) -> Random:
    """Return the random numbers that belong to this seed and this name."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def seed(number: int) -> state.Context:
    """Let parameters made within a `with` have this seed: `with init.seed(7): net = Net()`. Else it is 0."""
    check_seed(number)
    return state.seeded(number)


@at_the_users_line
def check_seed(number: Any) -> None:
    """Raise a BuildError unless this can be a seed."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise BuildError(f"the seed is {number!r}, and must be a whole number.")


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Return how many inputs an output has, and how many outputs an input: `fan_in` and `fan_out`."""
    if len(shape) < 2:
        raise BuildError(f"a parameter {tuple(shape)} has no inputs and outputs: it takes two axes or more.")
    kernel = prod(shape[2:])
    return shape[1] * kernel, shape[0] * kernel


_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return by what a nonlinearity makes numbers smaller: sqrt(2) of "relu", 5/3 of "tanh"."""
    if nonlinearity == "leaky_relu":
        return sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        known = [*_GAINS, "leaky_relu"]
        told = nearest(str(nonlinearity), known) or f": there are {', '.join(known)}."
        raise BuildError(f"there is no gain of {nonlinearity!r}{told}")
    return _GAINS[nonlinearity]


def _fan(shape: Shape, mode: Mode) -> float:
    fan_in, fan_out = fans(shape)
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]


def _check_mode(mode: str) -> None:
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise BuildError(f'the mode is {mode!r}, and must be "fan_in", "fan_out" or "fan_avg".')


def _uniform(random: Random, shape: Shape, dtype: AnyDtype, low: float, high: float) -> Array:
    _check_float(dtype)
    made: Array = random.random(shape, dtype=dtype) * dtype.type(high - low) + dtype.type(low)
    return made


def _normal(random: Random, shape: Shape, dtype: AnyDtype, mean: float, std: float) -> Array:
    _check_float(dtype)
    made: Array = random.standard_normal(shape, dtype=dtype) * dtype.type(std) + dtype.type(mean)
    return made


def _check_float(dtype: AnyDtype) -> None:
    if dtype.kind != "f":
        raise BuildError(f"random numbers are floats, and the parameter is {dtype}.")


def _bounded(text: str, bound: Callable[[Shape], float]) -> Initialiser:
    def fill(random: Random, shape: Shape, dtype: AnyDtype) -> Array:
        limit = bound(shape)
        return _uniform(random, shape, dtype, -limit, limit)

    return Initialiser(text, fill)


def _spread(text: str, std: Callable[[Shape], float]) -> Initialiser:
    return Initialiser(text, lambda random, shape, dtype: _normal(random, shape, dtype, 0.0, std(shape)))


def _written(name: str, **given: Any) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})"


@at_the_users_line
def uniform(a: float = 0.0, b: float = 1.0) -> Initialiser:
    """Numbers between `a` and `b`."""
    if not a <= b:
        raise BuildError(f"the bounds are {a} and {b}: the first must not be larger.")
    return Initialiser(_written("uniform", a=a, b=b), lambda random, shape, dtype: _uniform(random, shape, dtype, a, b))


@at_the_users_line
def normal(mean: float = 0.0, std: float = 1.0) -> Initialiser:
    """Numbers around `mean` with the standard deviation `std`."""
    _check_std(std)
    return Initialiser(
        _written("normal", mean=mean, std=std), lambda random, shape, dtype: _normal(random, shape, dtype, mean, std)
    )


@at_the_users_line
def trunc_normal(mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Initialiser:
    """Numbers of `normal` that lie between `a` and `b`; others are drawn again."""
    _check_std(std)
    if not a < b:
        raise BuildError(f"the bounds are {a} and {b}: the first must be smaller.")
    if b < mean - 8 * std or a > mean + 8 * std:
        raise BuildError(f"no numbers of mean {mean} and std {std} lie between {a} and {b}.")

    def fill(random: Random, shape: Shape, dtype: AnyDtype) -> Array:
        return _truncated(random, shape, dtype, mean, std, a, b)

    return Initialiser(_written("trunc_normal", mean=mean, std=std, a=a, b=b), fill)


truncated_normal = trunc_normal


def _check_std(std: float) -> None:
    if not std >= 0:
        raise BuildError(f"the standard deviation is {std!r}, and must not be negative.")


_MOST_DRAWS = 100


def _truncated(random: Random, shape: Shape, dtype: AnyDtype, mean: float, std: float, a: float, b: float) -> Array:
    made = _normal(random, shape, dtype, mean, std).reshape(-1)
    for _ in range(_MOST_DRAWS):
        outside = np.flatnonzero((made < a) | (made > b))
        if not len(outside):
            break
        made[outside] = _normal(random, (len(outside),), dtype, mean, std)
    return np.clip(made, a, b).reshape(shape)  # what a tail so far out still misses


@at_the_users_line
def constant(value: float) -> Initialiser:
    """The same number everywhere."""
    if not isinstance(value, int | float | np.generic):
        raise BuildError(f"the constant is {value!r}, and must be a number.")
    return Initialiser(f"constant({value!r})", lambda _, shape, dtype: np.full(shape, value, dtype))


def zeros() -> Initialiser:
    """Zeros."""
    return Initialiser("zeros()", lambda _, shape, dtype: np.zeros(shape, dtype))


def ones() -> Initialiser:
    """Ones."""
    return Initialiser("ones()", lambda _, shape, dtype: np.ones(shape, dtype))


@at_the_users_line
def kaiming_uniform(a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu") -> Initialiser:
    """He's numbers between -b and b, where b = gain * sqrt(3 / fan). `a` is the slope of a leaky ReLU."""
    gain = calculate_gain(nonlinearity, a)
    _check_mode(mode)
    text = _written("kaiming_uniform", a=a, mode=mode, nonlinearity=nonlinearity)
    return _bounded(text, lambda shape: gain * sqrt(3.0 / max(1, _fan(shape, mode))))


@at_the_users_line
def kaiming_normal(a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu") -> Initialiser:
    """He's numbers with the standard deviation gain / sqrt(fan). `a` is the slope of a leaky ReLU."""
    gain = calculate_gain(nonlinearity, a)
    _check_mode(mode)
    text = _written("kaiming_normal", a=a, mode=mode, nonlinearity=nonlinearity)
    return _spread(text, lambda shape: gain / sqrt(max(1, _fan(shape, mode))))


he_uniform, he_normal = kaiming_uniform, kaiming_normal


def xavier_uniform(gain: float = 1.0) -> Initialiser:
    """Glorot's numbers between -b and b, where b = gain * sqrt(6 / (fan_in + fan_out))."""
    return _bounded(
        _written("xavier_uniform", gain=gain), lambda shape: gain * sqrt(3.0 / max(0.5, _fan(shape, "fan_avg")))
    )


def xavier_normal(gain: float = 1.0) -> Initialiser:
    """Glorot's numbers with the standard deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return _spread(_written("xavier_normal", gain=gain), lambda shape: gain / sqrt(max(0.5, _fan(shape, "fan_avg"))))


glorot_uniform, glorot_normal = xavier_uniform, xavier_normal


def lecun_uniform() -> Initialiser:
    """LeCun's numbers between -b and b, where b = sqrt(3 / fan_in)."""
    return _bounded("lecun_uniform()", lambda shape: sqrt(3.0 / max(1, _fan(shape, "fan_in"))))


def lecun_normal() -> Initialiser:
    """LeCun's numbers with the standard deviation 1 / sqrt(fan_in)."""
    return _spread("lecun_normal()", lambda shape: 1.0 / sqrt(max(1, _fan(shape, "fan_in"))))


def orthogonal(gain: float = 1.0) -> Initialiser:
    """A matrix of the first axis by all others whose rows, or columns if there are more rows, are orthogonal.

    The bytes are the same wherever LAPACK's are."""

    def fill(random: Random, shape: Shape, dtype: AnyDtype) -> Array:
        fans(shape)  # two axes or more
        _check_float(dtype)
        rows, columns = shape[0], prod(shape[1:])
        drawn = random.standard_normal((max(rows, columns), min(rows, columns)), dtype=dtype)
        q, r = np.linalg.qr(drawn)
        q = q * np.where(np.diagonal(r) < 0, dtype.type(-1), dtype.type(1))  # each orthogonal matrix is as likely
        return np.asarray((q.T if rows < columns else q).reshape(shape) * dtype.type(gain))

    return Initialiser(_written("orthogonal", gain=gain), fill)


def from_array(array: Any) -> Initialiser:
    """The numbers of an array, whose shape must be that of the parameter."""
    given = np.asarray(array)
    return _given(f"from_array({given.dtype} {given.shape})", "the array", lambda: given)


@at_the_users_line
def from_file(path: str | os.PathLike[str]) -> Initialiser:
    """The numbers of a file: `weights.npy`, or a tensor of a safetensors file, `model.safetensors:fc1.weight`."""
    text = os.fspath(path)
    name, colon, key = text.rpartition(".safetensors:")
    if not colon and not text.endswith(".npy"):
        raise BuildError(f"{text!r} is no file of numbers: give NAME.npy or NAME.safetensors:KEY.")
    file = Path(f"{name}.safetensors" if colon else text)
    if not file.is_file():
        raise BuildError(f"there is no file {str(file)!r}.")
    if not colon:
        return _given(_written("from_file", path=text), text, lambda: np.load(file, mmap_mode="r", allow_pickle=False))
    from onnxlift.workbench.update.given import read_weights

    try:
        weights = read_weights(file)
    except LoadError as error:
        raise BuildError(f"{error}") from None
    if key not in weights:
        raise BuildError(f"{file} has no tensor {key!r}{nearest(key, weights)}")
    return _given(_written("from_file", path=text), text, lambda: weights.array(key))


def _given(text: str, what: str, read: Callable[[], Array]) -> Initialiser:
    def fill(_: Random, shape: Shape, dtype: AnyDtype) -> Array:
        found = read()
        if found.shape != shape:
            raise BuildError(f"{what} is {found.shape}, and the parameter is {shape}.")
        return found.astype(dtype)

    return Initialiser(text, fill)
