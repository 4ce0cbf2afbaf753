"""Judge the values of a model: what is a mismatch, and what is only rounding?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.walk import inner_nodes

from .compare import Comparison, Judgement, compare, describe, is_float
from .precision import find_precisions

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


class Judge:
    """All that values of a model are judged by: the user's tolerances, the precision in which they are computed, and
    `others`: results of the reference in which only the rounding is another, each with the reason."""

    def __init__(
        self,
        graph: ir.Graph,
        rtol: float | None,
        atol: float | None,
        precisions: Collection[ir.DataType | None] = (),
    ) -> None:
        """Judge values of `graph`. `precisions` are the types of most of its weights, in the file and as it is run."""
        self._by = Judgement(rtol, atol)
        types = {dtype for dtype in precisions if dtype is not None}
        self._is_converted = len(types) > 1
        self._precisions = find_precisions(graph, types if self._is_converted else ())
        self.others: list[tuple[str, Mapping[str, Any]]] = []

    @property
    def is_given(self) -> bool:
        """Tell whether the user says how far off a value may be. Then nothing else excuses a difference."""
        return self._by.is_given

    def compare(self, name: str, actual: Any, expected: Any) -> list[Comparison]:
        """Compare a value of the lifted model with that of the reference."""
        others = tuple((reason, values[name]) for reason, values in self.others if name in values)
        by = Judgement(self._by.rtol, self._by.atol, self._precisions.get(name), others)
        return compare(name, self._in_type_of(expected, actual), expected, by)

    def _in_type_of(self, expected: Any, actual: Any) -> Any:
        """Return a result in the type that it has in the file, if the model was lifted in another precision."""
        if self._is_converted and isinstance(actual, list) and isinstance(expected, list):
            pairs = zip(expected, actual, strict=False)
            return [*(self._in_type_of(one, other) for one, other in pairs), *actual[len(expected) :]]
        arrays = isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray)
        if not self._is_converted or not arrays or not (is_float(actual.dtype) and is_float(expected.dtype)):
            return actual
        with np.errstate(over="ignore"):
            return actual.astype(expected.dtype)

    def nudged(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs with each number changed in the last digit of the precision that the model computes in."""
        coarse = max(self._precisions.values(), key=_epsilon, default=None)
        return {name: _nudged(value, coarse) for name, value in inputs.items()}


def _epsilon(dtype: np.dtype[Any]) -> float:
    return 2.0**-8 if dtype == ml_dtypes.bfloat16 else float(np.finfo(dtype).eps)


def _nudged(value: Any, coarse: np.dtype[Any] | None) -> Any:
    if isinstance(value, list):
        return [_nudged(item, coarse) for item in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    step = max(_epsilon(value.dtype), 0.0 if coarse is None else _epsilon(coarse))
    signs = np.where(np.arange(value.size).reshape(value.shape) % 2, 1.0, -1.0)
    return (value * (1 + signs * step)).astype(value.dtype)


def compare_outputs(
    graph: ir.Graph, actual: Mapping[str, Any], expected: Mapping[str, Any], judge: Judge
) -> tuple[Comparison, ...]:
    """Compare all outputs of a graph. Of those that are random, only the type and the shape."""
    random = random_values(graph)
    comparisons: list[Comparison] = []
    for value in graph.outputs:
        name = value.name or ""
        if name in random:
            comparisons.append(_compare_form(name, actual[name], expected[name]))
        else:
            comparisons += judge.compare(name, actual[name], expected[name])
    return tuple(comparisons)


def _compare_form(name: str, actual: Any, expected: Any) -> Comparison:
    """Compare values that are random: only their type and shape can agree."""
    note = "random: only type and shape are compared"
    same = describe(actual) == describe(expected)
    problem = "" if same else f"is {describe(actual)}, and should be {describe(expected)}"
    return Comparison(name, getattr(actual, "dtype", np.dtype(object)).name, np.shape(actual), problem, note=note)


def random_values(graph: ir.Graph) -> set[str]:
    """Return the names of all values that depend on a random node."""
    names: set[str] = set()
    for node in graph:
        inner = list(inner_nodes(node))
        is_random = any(each.op_type in _RANDOM for each in (node, *inner))
        if is_random or any(
            value is not None and value.name in names for each in (node, *inner) for value in each.inputs
        ):
            names.update(value.name for value in node.outputs if value.name)
    return names
