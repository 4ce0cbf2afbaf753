"""What an exporter has computed ahead of time from a parameter that the file still has is computed from it again.

    Mul(x, onnx::Mul_162), which is 1 - time_mix_k   ->   Mul(x, Sub(1, time_mix_k))

for 1 - p, 1 + p, -p, exp(p), -exp(p), sigmoid(p), 1 - sigmoid(p), p * c and p / c. A parameter that is used as it is
and in some arithmetic besides (`x * mix + shifted * (1 - mix)`) would train by the first of its uses only: the other
one is a constant, which stays what it is.

It applies to a constant without a name of its own that has the numbers of this arithmetic, all of them: bit by bit, or
to the last bits where libraries differ in them (exp, sigmoid). The parameter is the one that the newer exporter notes
beside the constant; or else one of the same size that the module which reads the constant reads, too, and the only one
with these numbers. A constant may have axes of one entry that the parameter lacks.

Not if the parameter has fewer than `FEWEST` different numbers: ones are one minus zeros in every model that nobody has
trained. A single number must be one that training gives, of more than `ROUND` digits, and is not taken for the factor
of another: that would always do. Nor if the constant is the copy of a parameter: that is not arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np
import onnx_ir as ir

from ..ir.exported import folded_from
from ..ir.metadata import FOLDED_FROM, NAME_SCOPES, string_list
from ..ir.node_view import shape_of
from ..ir.scopes import constant
from ..ir.types import DataType
from .edit import Array, Edit, has_generated_name, is_parameter, sweep

FEWEST = 4
ROUND = 5
MOST_CANDIDATES = 16  # of one size in one module
_LARGEST = 1 << 16
_LAST_BITS = 4

_ONE = np.float32(1)


@dataclass(frozen=True)
class _Formula:
    """The operators that follow one another, the numbers that they give, and the number that stands beside them."""

    operators: tuple[str, ...]
    compute: Callable[[Array], Array]
    is_exact: bool = True
    about_one: bool = False  # whether it is inexact by the last bits of numbers about one, whatever the result
    number: np.float32 = _ONE


def _exponential(array: Array) -> Array:
    return np.exp(array.astype(np.float64)).astype(np.float32)


def _sigmoid(array: Array) -> Array:
    return (1 / (1 + np.exp(-array.astype(np.float64)))).astype(np.float32)


_FORMULAS = (
    _Formula(("Sub",), lambda array: _ONE - array),
    _Formula(("Add",), lambda array: _ONE + array),
    _Formula(("Neg",), np.negative),
    _Formula(("Exp",), _exponential, is_exact=False),
    _Formula(("Exp", "Neg"), lambda array: -_exponential(array), is_exact=False),
    _Formula(("Sigmoid",), _sigmoid, is_exact=False),
    _Formula(("Sigmoid", "Sub"), lambda array: _ONE - _sigmoid(array), is_exact=False, about_one=True),
)

_Sizes = tuple[int, ...]  # those that are not one


@dataclass
class _Parameters:
    """The parameters of a model by the module that reads them and their size."""

    graph: ir.Graph
    sizes: set[_Sizes]
    _read: dict[tuple[str, _Sizes], list[ir.Value]] = field(default_factory=dict)
    _arrays: dict[ir.Value, Array | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in self.graph.initializers.values():
            if _is_candidate(value) and _long(value) in self.sizes:
                for module in dict.fromkeys(_module(node) for node, _ in value.uses()):
                    self._read.setdefault((module, _long(value)), []).append(value)

    def candidates(self, folded: ir.Value) -> Iterable[ir.Value]:
        """What a constant may be computed from."""
        if FOLDED_FROM in folded.metadata_props:
            noted = [self.graph.initializers.get(name) for name in folded_from(folded)]
            return [value for value in noted if value is not None and _is_candidate(value)]
        modules = dict.fromkeys(_module(node) for node, _ in folded.uses())
        groups = [self._read.get((module, _long(folded)), []) for module in modules]
        if sum(map(len, groups)) > MOST_CANDIDATES:
            return ()
        return dict.fromkeys(value for group in groups for value in group)

    def numbers(self, value: ir.Value) -> Array | None:
        """The numbers of a parameter, if they are of many kinds."""
        if value not in self._arrays:
            tensor = constant(value)
            array = tensor.numpy().reshape(-1) if tensor is not None else np.empty(0, np.float32)
            self._arrays[value] = array if np.isfinite(array).all() and _is_telling(array) else None
        return self._arrays[value]


def run(model: ir.Model) -> int:
    """Compute such constants of the main graph again; gives how many."""
    nameless = [value for value in model.graph.initializers.values() if _is_small(value) and _is_nameless(value)]
    parameters = _Parameters(model.graph, {_long(value) for value in nameless})
    found: dict[ir.Value, tuple[ir.Value, _Formula]] = {}
    for value in nameless:
        matches = list(_matches(value, parameters))
        if len(matches) == 1:
            found[value] = matches[0]

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            if value in found:
                node.replace_input_with(place, _computed(edit, node, value, *found[value]))

    if found:
        sweep(model, visit)
    return len(found)


def _matches(folded: ir.Value, parameters: _Parameters) -> Iterator[tuple[ir.Value, _Formula]]:
    tensor = constant(folded)
    assert tensor is not None
    array = tensor.numpy().reshape(-1)
    for parameter in parameters.candidates(folded):
        if len(shape_of(parameter) or ()) != len(shape_of(folded) or ()) and 1 in (shape_of(parameter) or ()):
            continue
        numbers = parameters.numbers(parameter) if _long(parameter) == _long(folded) else None
        if numbers is None or np.array_equal(numbers, array):
            continue
        formulas = (*_FORMULAS, *(_scaled(numbers, array) if len(numbers) > 1 else ()))
        formula = next((formula for formula in formulas if _has_numbers(formula, numbers, array)), None)
        if formula is not None:
            yield parameter, formula


def _is_telling(numbers: Array) -> bool:
    """Whether it is no accident if other numbers can be computed from these."""
    if len(numbers) == 1:
        return len(np.format_float_scientific(numbers[0]).partition("e")[0].strip("-").replace(".", "")) > ROUND
    return len(np.unique(np.abs(numbers))) >= FEWEST


def _scaled(numbers: Array, array: Array) -> Iterator[_Formula]:
    """The products with a number, and the quotients, that could be meant: the number is told by the largest entry."""
    (a, b), (c, d) = numbers[:2].tolist(), array[:2].tolist()
    if abs(a * d - b * c) > 1e-5 * abs(a * d):  # no factor, as nearly always
        return
    largest = np.abs(numbers).argmax()
    factor = np.float64(array[largest]) / np.float64(numbers[largest])
    if factor == 0:
        return
    products = [_Formula(("Mul",), partial(np.multiply, c), number=c) for c in _around(factor)]
    quotients = [_Formula(("Div",), partial(_divided, c), number=c) for c in _around(1 / factor)]
    # The number that an author would have written is the shorter one.
    yield from sorted((*products, *quotients), key=lambda formula: len(str(formula.number)))


def _divided(number: np.float32, array: Array) -> Array:
    return array / number


def _around(number: np.float64) -> list[np.float32]:
    if not np.finfo(np.float32).tiny < abs(number) < np.finfo(np.float32).max:
        return []
    nearest = np.float32(number)
    return [nearest, np.nextafter(nearest, np.float32(np.inf)), np.nextafter(nearest, np.float32(-np.inf))]


def _has_numbers(formula: _Formula, numbers: Array, array: Array) -> bool:
    """Whether the formula makes `array` of `numbers`. The first few decide nearly always."""
    with np.errstate(all="ignore"):
        for part in (slice(0, FEWEST), slice(None)):
            result = formula.compute(numbers[part])
            if formula.is_exact:
                if result.tobytes() != array[part].tobytes():
                    return False
                continue
            size = np.ones_like(result) if formula.about_one else np.abs(result)
            if not (np.abs(result - array[part]) <= _LAST_BITS * np.spacing(size)).all():
                return False
    return True


def _computed(edit: Edit, node: ir.Node, folded: ir.Value, parameter: ir.Value, formula: _Formula) -> ir.Value:
    """The numbers of `folded` as new nodes in front of `node` compute them."""
    value, shape, name = parameter, shape_of(folded) or (), folded.name or "folded"
    if len(shape_of(parameter) or ()) != len(shape):
        axes, attributes = edit.axes(node, [axis for axis, size in enumerate(shape) if size == 1])
        value = edit.insert(node, "Unsqueeze", [value, *axes], attributes, like=value, shape=shape, name=f"{name}.axes")
    for operator in formula.operators:
        number = edit.constant("number", np.array(formula.number, np.float32)) if operator in _OF_TWO else None
        inputs = [number, value] if operator == "Sub" else [value, number][: 1 + (number is not None)]
        value = edit.insert(node, operator, inputs, like=folded, shape=shape, name=name)
    return value


_OF_TWO = frozenset({"Sub", "Add", "Mul", "Div"})


def _is_small(value: ir.Value) -> bool:
    shape = shape_of(value)
    sizes = [size for size in shape or () if isinstance(size, int)]
    return (
        value.dtype == DataType.FLOAT
        and shape is not None
        and 1 <= prod(sizes) <= _LARGEST
        and constant(value) is not None
    )


def _is_candidate(value: ir.Value) -> bool:
    return _is_small(value) and is_parameter(value) and not _is_nameless(value)


def _is_nameless(value: ir.Value) -> bool:
    return FOLDED_FROM in value.metadata_props or has_generated_name(value)


def _long(value: ir.Value) -> _Sizes:
    return tuple(size for size in shape_of(value) or () if isinstance(size, int) and size != 1)


def _module(node: ir.Node) -> str:
    """The module that a node is in, as its exporter tells."""
    scopes = string_list(node.metadata_props.get(NAME_SCOPES))
    return scopes[-2] if scopes is not None and len(scopes) > 1 else (node.name or "").rpartition("/")[0]
