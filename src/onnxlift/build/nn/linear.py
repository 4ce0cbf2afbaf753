"""Linear, Embedding, Bilinear, Identity, Flatten, Unflatten and Dropout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

from onnxlift.build import init, op
from onnxlift.build.errors import at_the_users_line
from onnxlift.build.types import Array, Dtype
from onnxlift.build.value import Value
from onnxlift.ir.graph.types import INTEGERS

from .module import Layer, Module, check_input, positive
from .parameter import Parameter
from .sizes import sizes_of


def between(bound: float) -> init.Initialiser:
    """Return PyTorch's default for many weights: numbers between -bound and bound."""
    return init.uniform(-bound, bound)


class Linear(Layer):
    """y = x @ weight.T + bias, along the last axis."""

    @at_the_users_line
    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, dtype: Dtype | None = None) -> None:
        positive("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        default = between(1 / sqrt(in_features))
        self.weight = Parameter((out_features, in_features), dtype=dtype, init=default)
        self.bias = Parameter((out_features,), dtype=dtype, init=default) if bias else None

    def forward(self, input: Value) -> Value:
        """Return the linear map of the input."""
        check_input(self, input, -1, self.in_features, "in_features")
        return linear(input, self.weight, self.bias)


def linear(input: Value, weight: Value, bias: Value | None) -> Value:
    """Return input @ weight.T + bias: a Gemm if the input is a matrix."""
    if input.rank == 2:
        return op.Gemm(input, weight, bias, transB=1)
    made = input @ op.Transpose(weight, perm=[1, 0])
    return made if bias is None else made + bias


class Bilinear(Layer):
    """y = x1 @ weight[o] @ x2 + bias, for each output o."""

    @at_the_users_line
    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, *, dtype: Dtype | None = None
    ) -> None:
        positive("Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        default = between(1 / sqrt(in1_features))
        self.weight = Parameter((out_features, in1_features, in2_features), dtype=dtype, init=default)
        self.bias = Parameter((out_features,), dtype=dtype, init=default) if bias else None

    @at_the_users_line
    def __call__(self, input1: Value, input2: Value) -> Value:  # type: ignore[override]
        """Make the nodes of the layer, and return what it gives."""
        made: Value = Module.__call__(self, input1, input2)
        return made

    def forward(self, input1: Value, input2: Value) -> Value:
        """Return the bilinear map of the two inputs."""
        check_input(self, input1, -1, self.in1_features, "in1_features")
        check_input(self, input2, -1, self.in2_features, "in2_features")
        made = op.Einsum(input1, self.weight, input2, equation="...i,oij,...j->...o")
        return made if self.bias is None else made + self.bias


class Embedding(Layer):
    """A row of the weight for each number."""

    @at_the_users_line
    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, *, dtype: Dtype | None = None
    ) -> None:
        positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            self.refuse(f"padding_idx must be a row, from 0 to {num_embeddings - 1}.")
        self.weight = Parameter((num_embeddings, embedding_dim), dtype=dtype, init=_but_row(init.normal(), padding_idx))

    def forward(self, input: Value) -> Value:
        """Return the rows of these numbers."""
        if input.dtype is not None and input.dtype not in INTEGERS:
            self.refuse(f"its input is {input!r}, and must be of ints, which are numbers of rows.")
        return op.Gather(self.weight, input, axis=0)


def _but_row(made_by: init.Initialiser, row: int | None) -> init.Initialiser:
    """Return an initialiser that leaves one row zero."""
    if row is None:
        return made_by

    def fill(random: init.Random, shape: init.Shape, dtype: init.AnyDtype) -> Array:
        made = made_by.fill(random, shape, dtype)
        made[row] = 0
        return made

    return init.Initialiser(f"{made_by.text}, zeros in row {row}", fill)


class Identity(Layer):
    """Its input. Arguments are of no use."""

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def forward(self, input: Value) -> Value:
        """Return the input."""
        return input


class Dropout(Layer):
    """Its input: nothing is dropped when a model runs."""

    @at_the_users_line
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        self.p = p
        if not 0 <= p <= 1:
            self.refuse("p is a probability, from 0 to 1.")

    def forward(self, input: Value) -> Value:
        """Return the input."""
        return input


class Dropout1d(Dropout):
    """Its input: nothing is dropped when a model runs."""


class Dropout2d(Dropout):
    """Its input: nothing is dropped when a model runs."""


class Dropout3d(Dropout):
    """Its input: nothing is dropped when a model runs."""


class AlphaDropout(Dropout):
    """Its input: nothing is dropped when a model runs."""


class Flatten(Layer):
    """The axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Value) -> Value:
        """Return the input with fewer axes."""
        rank = input.rank
        if rank is None:
            if (self.start_dim, self.end_dim) == (1, -1):
                return op.Flatten(input, axis=1)
            self.refuse(f"its input is {input!r}, whose number of axes must be known.")
        start, end = (each + rank if each < 0 else each for each in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < max(rank, 1):
            self.refuse(f"its input is {input!r}, which has no axes {self.start_dim} to {self.end_dim}.")
        if start == end:
            return input
        if (start, end) == (1, rank - 1):
            return op.Flatten(input, axis=1)
        inner, after = sizes_of(input, start, end + 1), sizes_of(input, end + 1, rank)
        size = prod(each for each in inner if isinstance(each, int)) if all(isinstance(e, int) for e in inner) else -1
        return _reshape(input, [0] * start + [size], after)


def _reshape(input: Value, front: list[int], after: Sequence[int | str]) -> Value:
    """Reshape to these sizes; those that are open come from the input."""
    if all(isinstance(size, int) for size in after):
        return op.Reshape(input, [*front, *after])
    rest = op.Shape(input)[-len(after) :]
    return op.Reshape(input, op.Concat(front, rest, axis=0))


class Unflatten(Layer):
    """One axis as several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Value) -> Value:
        """Return the input with more axes."""
        rank = input.rank
        if rank is None:
            self.refuse(f"its input is {input!r}, whose number of axes must be known.")
        if not -rank <= self.dim < rank:
            self.refuse(f"its input is {input!r}, which has no axis {self.dim}.")
        axis = self.dim % rank
        return _reshape(input, [0] * axis + [*self.unflattened_size], sizes_of(input, axis + 1, rank))
