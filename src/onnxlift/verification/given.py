"""What the user says about the inputs of a model, and the inputs that are made from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import ValueType

from .children.child import ChildError
from .compare import describe
from .files import read_inputs
from .inputs import Sizes, choose_sizes, make_inputs, single_integers
from .refusals import blame_inputs, other_numbers, other_sizes

Inputs = Mapping[str, Any] | Sequence[Any] | str | os.PathLike[str] | None
"""The forms in which inputs may be given: arrays by name or in order, files, or nothing."""


@dataclass(frozen=True)
class Given:
    """What the user says about the inputs: values, shapes, sizes of named dimensions, and the seed for the rest."""

    values: Mapping[str, Any] | Sequence[Any]
    shapes: Mapping[str, Sequence[int]] | None
    dims: Mapping[str, int]
    seed: int

    def make(
        self,
        graph: ir.Graph,
        types: Mapping[str, ValueType] | None = None,
        sizes: Mapping[str, int] | None = None,
        number: int | None = None,
    ) -> dict[str, Any]:
        """Return the inputs of a graph, in the `types` that they have in the file, if these are others.

        `sizes` are for those that nobody has given, and `number` for inputs of one integer."""
        dims = {**(sizes or {}), **self.dims}
        return make_inputs(
            graph, given=self.values, shapes=self.shapes, dims=dims, seed=self.seed, types=types, number=number
        )

    def sizes(self, graph: ir.Graph) -> Sizes:
        """Return the sizes of the inputs, with those that we chose."""
        return choose_sizes(graph, given=self.values, shapes=self.shapes, dims=self.dims)

    def others(self, graph: ir.Graph, types: Mapping[str, ValueType] | None = None) -> Iterator[dict[str, Any]]:
        """Yield other inputs than `make` gives, as far as we chose them: in other sizes, then with other numbers in
        inputs that are one integer."""
        sizes = self.sizes(graph)
        for other in other_sizes(sizes.chosen, sizes.leading):
            yield self.make(graph, types, other)
        if set(single_integers(graph)) - self._named(graph):
            for other, number in other_numbers(sizes.chosen, sizes.leading):
                yield self.make(graph, types, other, number)

    def _named(self, graph: ir.Graph) -> set[str]:
        """Return the names of the inputs whose values are given."""
        if isinstance(self.values, Mapping):
            return set(self.values)
        return {value.name or "" for value in graph.inputs[: len(self.values)]}

    def taken_by(self, graph: ir.Graph, run: Callable[[Mapping[str, Any]], Any], innocent: str = "") -> dict[str, Any]:
        """Return inputs that the model takes: those that `make` gives, or others if `run` refuses them.

        The sizes that we chose are changed until `run` raises no ChildError any more that says that it refused; after
        them, the numbers of inputs that are one integer. If it refuses all, the error tells what was tried, and that it
        is not the fault of `innocent`."""
        values = self.make(graph)
        refused = _refusal(run, values)
        if refused is None:
            return values
        tried = [_described(values)]
        for values in self.others(graph):
            if _refusal(run, values) is None:
                return values
            tried.append(_described(values))
        raise blame_inputs(refused, tried, list(values), bool(self.sizes(graph).chosen), innocent)


def _refusal(run: Callable[[Mapping[str, Any]], Any], values: Mapping[str, Any]) -> ChildError | None:
    """Return the error of a run that refuses these inputs; None if it takes them."""
    try:
        run(values)
    except ChildError as error:
        if not error.refused:
            raise
        return error
    return None


def _described(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {describe(value)}" for name, value in values.items())


def read_given(inputs: Inputs) -> Mapping[str, Any] | Sequence[Any]:
    """Return the inputs that the user gives, read from files if they are paths."""
    if inputs is None:
        return ()
    if isinstance(inputs, str | os.PathLike):
        return read_inputs([Path(inputs)])
    if not isinstance(inputs, Mapping) and inputs and all(isinstance(item, str | os.PathLike) for item in inputs):
        return read_inputs([Path(item) for item in inputs])
    return inputs
