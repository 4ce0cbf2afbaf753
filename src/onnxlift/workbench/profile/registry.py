"""The table of cost functions: an operator has one, found by domain and name, in a file of its family in costs/.

    @cost("MatMul")
    def matmul(n: CostNode) -> Work:
        return Work(macs=n.output_size() * n.shape(0)[-1])

`Work` has the multiply-accumulates, and the operations beside them. Unless it says otherwise, a node reads all of its
inputs and writes all of its outputs. A function that cannot tell raises `NotKnownError`, with a reason that is shown.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from onnxlift.ir.graph.nodes import plain_domain

from .amount import Amount, exactly
from .formula import Size
from .node import CostNode


@dataclass(frozen=True)
class Work:
    """What one run of a node takes."""

    macs: Size = 0
    """Multiply-accumulates: a product that is added to a sum."""
    other: Size | Amount = 0
    """All other operations on numbers: additions, comparisons, exponentials, one each."""
    reads: Size | None = None
    """Bytes that it reads; None for all of its inputs."""
    writes: Size | None = None
    """Bytes that it writes; None for all of its outputs."""
    is_view: bool = False
    """True if its output is its first input under another shape: nothing is moved, and no memory is taken."""
    parameters: Size | None = None
    """The number of its parameters, where it is another than that of the elements in the file."""

    @property
    def flops(self) -> Amount:
        """All operations; a multiply-accumulate is two."""
        other = self.other if isinstance(self.other, Amount) else exactly(self.other)
        return exactly(self.macs * 2) + other


CostFunction = Callable[[CostNode], Work]


@dataclass(frozen=True)
class Cost:
    """A cost function, and what is known of the operator beside it.

    `weights` are the inputs that hold parameters; None for all constants of a floating-point type."""

    function: CostFunction
    weights: tuple[int, ...] | None = None


_TABLE: dict[tuple[str, str], Cost] = {}


def cost(
    *op_types: str, domain: str = "", weights: tuple[int, ...] | None = None
) -> Callable[[CostFunction], CostFunction]:
    """Declare the decorated function the cost of these operators."""

    def declare(function: CostFunction) -> CostFunction:
        for op_type in op_types:
            _TABLE[plain_domain(domain), op_type] = Cost(function, weights)
        return function

    return declare


_WEIGHTS: dict[tuple[str, str], tuple[int, ...]] = {}


def holds_weights(*op_types: str, places: tuple[int, ...], domain: str = "com.microsoft") -> None:
    """Say which inputs of an operator that is counted through its body hold parameters."""
    _WEIGHTS.update(dict.fromkeys(((domain, op_type) for op_type in op_types), places))


def weight_places(domain: str, op_type: str) -> tuple[int, ...] | None:
    """Return the inputs of an operator that hold parameters; None for all constants of a floating-point type."""
    found = find_cost(domain, op_type)
    return found.weights if found is not None else _WEIGHTS.get((domain, op_type))


@cache
def _load() -> None:
    from . import costs

    for found in pkgutil.iter_modules(costs.__path__):
        importlib.import_module(f"{costs.__name__}.{found.name}")


def find_cost(domain: str, op_type: str) -> Cost | None:
    """Return the cost of an operator; None if there is no function for it."""
    _load()
    return _TABLE.get((plain_domain(domain), op_type))


def costed_operators() -> set[tuple[str, str]]:
    """Return domain and name of all operators with a cost function."""
    _load()
    return set(_TABLE)
