"""Compute a constant from a parameter again, if an exporter computed it ahead of time and the file has the parameter.

    MatMul(x, c), c the transpose of embed.weight              ->   MatMul(x, Transpose(embed.weight))
    MatMul(x, c), c the transposed rows 2 to 6 of fc.weight    ->   MatMul(x, Transpose(Slice(fc.weight, 2, 7)))
    Mul(x, onnx::Mul_162), which is 1 - time_mix_k             ->   Mul(x, Sub(1, time_mix_k))
    Add(x, onnx::Add_9), row 3 of embed.weight                 ->   Add(x, Gather(embed.weight, 3))

The constant may be a part of a parameter (`number_views.py`), its numbers put through a function (`formulas.py`), or
both. Without this step, only the direct use of the parameter would train it. The constant would be a parameter of its
own, which drifts away in training, or a fixed number.

It applies to a constant without a name of its own, if all its numbers are those. The parameter is the one that the
newer exporter notes beside the constant. If there is no note, it is the nearest parameter that the module which reads
the constant can have computed it from (`stored_parameters.py`); for a function it must also be the only one. The
transpose of a matrix, or of some of its rows, is recognised in any product: an output head that shares the embedding's
matrix is a layer of its own.

It does not apply if the constant has fewer than `FEWEST` different numbers. In an untrained model, ones are always one
minus some zeros, and a part of any other ones. A single number must look trained, with more than `ROUND` digits. It is
never taken for a part of a tensor, nor for another number times a factor: some factor always fits. It does not apply to
a plain copy of a parameter either, since nothing was computed.

The bias of a layer follows its matrix: if a product reads some rows of the matrix, then the constant added to it is
taken for the same rows of the bias if it equals them, whatever the numbers. And if a function reads the matrix of a
layer too, `F.linear(x, self.fc.weight)`, the matrix is stored again as PyTorch holds it, and transposed for both
readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import prod

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.restoring.numbers.formulas import AS_IT_IS, FORMULAS, OF_TWO, Formula, scaled
from onnxlift.rewriting.restoring.numbers.number_views import Pick, View, find_view
from onnxlift.rewriting.restoring.numbers.stored_parameters import (
    Parameter,
    Sizes,
    StoredParameters,
    few,
    fits,
    long_sizes,
    numbers_of,
    sizes_of,
)
from onnxlift.rewriting.restoring.numbers.trained import FEWEST, ROUND, SAMPLE, digits, looks_trained
from onnxlift.stages import step

_TRAINED = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})
_FRONT = -(2**63)  # how Slice writes an end before the first element

_Origin = tuple[Parameter, View, Formula]
_Use = tuple[ir.Node, int]


@step(
    "folded-parameters",
    after={
        "folded-sums": "other constants may be computed from the weight that it restores",
        "folded-functions": "other constants may be computed from the parameter that it restores",
    },
)
def run(model: ir.Model) -> int:
    """Compute these constants of the main graph again; return how many."""
    nameless = [value for value in model.graph.initializers.values() if _is_possible(value)]
    if not nameless:
        return 0
    parameters = StoredParameters(model.graph)
    found = {value: origin for value in nameless if (origin := _origin(value, parameters)) is not None}
    biases = {use: origin for value in found for use, origin in _biases(value, found[value], parameters)}
    borrowed = {copy: found for found in parameters.read_by_functions() for copy in found.copies}

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs) if node.graph is model.graph else ():
            if value in borrowed:
                borrowed[value].restore(edit)
                edit.changes += 1
            origin = biases.get((node, place)) or (found.get(value) if value is not None else None)
            if origin is not None and (edit.opset(node) >= 10 or not origin[1].is_cut):
                node.replace_input_with(place, _computed(edit, node, place, origin))
                edit.changes += 1

    return sweep(model, visit) if found or borrowed else 0


def _is_possible(value: ir.Value) -> bool:
    tensor = constant(value)
    return tensor is not None and value.dtype in _TRAINED and origin_of(value).has_lost_its_name and tensor.size > 0


def _origin(value: ir.Value, parameters: StoredParameters) -> _Origin | None:
    """Return the parameter that a constant was computed from, and how; None if there is none."""
    if origin_of(value).is_computed:
        noted = [found for found in parameters.noted(value) if not found.is_stored_as(value)]
        return _part(value, noted) or _arithmetic(value, noted)
    if prod(sizes_of(value)) < FEWEST and not _is_telling(numbers_of(value)):
        return None
    for near in parameters.near(value):
        others = _others(value, near)
        alike = [found for found in others if long_sizes(found.shape) == long_sizes(sizes_of(value))]
        longer = [found for found in others if _has_rows(found.shape, sizes_of(value))]
        found = _part(value, others, _is_trained) or _arithmetic(value, few(alike)) or _arithmetic(value, few(longer))
        if found is not None:
            return found
    return (
        _part(value, _others(value, parameters.turned_elsewhere(value)), _is_trained)
        or _part(value, parameters.with_columns_of(value) if _is_multiplied_with(value) else (), _is_of_rows)
        or _arithmetic(value, _others(value, parameters.alike_elsewhere(value)))
    )


def _others(value: ir.Value, candidates: list[Parameter]) -> list[Parameter]:
    return [found for found in candidates if not found.is_stored_as(value)]


def _part(
    value: ir.Value,
    candidates: Iterable[Parameter],
    is_meant: Callable[[Parameter, View, Array], bool] = lambda *found: True,
) -> _Origin | None:
    """Return the first candidate that the constant is a part of."""
    array: Array | None = None
    for parameter in candidates:
        if parameter.stored.dtype != value.dtype or not fits(sizes_of(value), parameter.shape):
            continue
        array = numbers_of(value) if array is None else array
        view = find_view(array, parameter.array) if array.size > 1 else None
        if view is not None and _is_telling(array) and is_meant(parameter, view, array):
            return parameter, view, AS_IT_IS
    return None


def _arithmetic(value: ir.Value, candidates: Iterable[Parameter]) -> _Origin | None:
    """Return the candidate that the constant is computed from by a formula, if it is the only one."""
    matches: list[_Origin] = []
    array = numbers_of(value)
    for parameter in candidates if value.dtype == DataType.FLOAT else ():
        if parameter.stored.dtype != value.dtype or not fits(sizes_of(value), parameter.shape):
            continue
        numbers = parameter.array
        if _find(array, numbers, AS_IT_IS) is not None or not _is_telling(numbers):
            continue
        formulas = chain(FORMULAS, scaled(numbers, array))
        views = ((view, formula) for formula in formulas if (view := _find(array, numbers, formula)) is not None)
        if (found := next(views, None)) is not None:
            matches.append((parameter, *found))
    return matches[0] if len(matches) == 1 else None


def _find(array: Array, numbers: Array, formula: Formula) -> View | None:
    """Return the view that gives `array` after the formula. A single number is not looked for among many."""
    if array.size == 1 < numbers.size:
        return None
    return find_view(array, numbers, formula.gives)


def _has_rows(whole: Sizes, part: Sizes) -> bool:
    """Tell whether a matrix of sizes `part` can be some rows or columns of one of sizes `whole`."""
    return len(whole) == len(part) == 2 and whole != part and fits(part, whole) and not {*whole}.isdisjoint(part)


def _is_telling(numbers: Array) -> bool:
    """Tell whether the numbers are distinctive: a match with other numbers cannot be an accident."""
    if numbers.size == 1:
        return digits(numbers.flat[0]) > ROUND
    samples = (numbers.flat[:SAMPLE], numbers)  # the first row of an embedding may be zeros, for padding
    return any(len(np.unique(np.abs(some))) >= FEWEST for some in samples)


def _is_trained(parameter: Parameter, view: View, part: Array) -> bool:
    """Tell whether the view is more than a copy of the parameter, and, if it is cut, the numbers look trained.
    Positions or halves do not: people write such numbers into many models."""
    if not view.is_cut:
        return parameter.is_turned or not view.is_all
    return looks_trained(part)


def _is_of_rows(parameter: Parameter, view: View, part: Array) -> bool:
    """Tell whether the matrix is some consecutive rows of the parameter, or is transposed, or both."""
    rows, columns = view.picks
    return columns == slice(None) and isinstance(rows, slice) and rows.step is None and not view.is_all


def _is_multiplied_with(value: ir.Value) -> bool:
    return len(sizes_of(value)) == 2 and any(is_standard(n, "MatMul", "Gemm") and i == 1 for n, i in value.uses())


def _biases(value: ir.Value, origin: _Origin, parameters: StoredParameters) -> Iterator[tuple[_Use, _Origin]]:
    """Yield the places where the same rows of a layer's bias are added to a product with rows of its matrix."""
    parameter, view, formula = origin
    bias = parameters.by_key.get(f"{parameter.owner}.bias")
    if bias is None or not parameter.key.endswith(".weight") or len(bias.shape) != 1 or len(parameter.shape) != 2:
        return
    rows = View(view.picks[:1], (0,))
    for node, place in value.uses():
        readers = [*node.outputs[0].uses()]
        if is_standard(node, "MatMul") and place == 1 and len(readers) == 1 and is_standard(readers[0][0], "Add"):
            node, place = readers[0][0], 1 - readers[0][1]
        elif is_standard(node, "Gemm") and place == 1 and len(node.inputs) > 2:
            place = 2
        else:
            continue
        added = node.inputs[place]
        if added is None or not _is_possible(added) or added.dtype != bias.stored.dtype or added is bias.stored:
            continue
        numbers, expected = rows.of(bias.array), numbers_of(added)
        for way in (AS_IT_IS, formula):
            if numbers.shape == expected.shape and way.gives(numbers, expected).all():
                yield (node, place), (bias, rows, way)
                break


def _computed(edit: Edit, node: ir.Node, place: int, origin: _Origin) -> ir.Value:
    """Insert nodes before `node` that compute the constant from its parameter; return their result."""
    parameter, view, formula = origin
    value = _picked(edit, node, parameter.restore(edit), view.picks)
    turned = attribute(node, "transB", 0)
    if is_standard(node, "Gemm") and place == 1 and view.is_turned and turned is not None:
        node.attributes["transB"] = ir.AttrInt64("transB", int(not turned))
        return _put_through(edit, node, value, formula)
    if not view.is_turned:
        return _put_through(edit, node, _moved(edit, node, value, view), formula)
    return _moved(edit, node, _put_through(edit, node, value, formula), view)


def _picked(edit: Edit, node: ir.Node, value: ir.Value, picks: tuple[Pick, ...]) -> ir.Value:
    """Insert the nodes that take what the view picks along each axis; return their result."""
    shape, name = sizes_of(value), f"{value.name}.part"
    cuts = {
        a: pick.indices(shape[a]) for a, pick in enumerate(picks) if isinstance(pick, slice) and pick != slice(None)
    }
    if cuts:
        starts, ends, steps = zip(*cuts.values(), strict=True)
        numbers = [starts, [end if end >= 0 else _FRONT for end in ends], list(cuts), steps]
        bounds = [edit.constant("bounds", np.array(row)) for row in numbers[: 3 if {*steps} == {1} else 4]]
        shape = tuple(len(range(*cuts[axis])) if axis in cuts else size for axis, size in enumerate(shape))
        value = edit.insert(node, "Slice", [value, *bounds], like=value, shape=shape, name=name)
    for axis, pick in reversed([*enumerate(picks)]):
        if not isinstance(pick, slice):
            indices = np.array(pick, np.int64)
            inputs = [value, edit.constant("index", indices)]
            shape = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
            along = [ir.AttrInt64("axis", axis)]
            value = edit.insert(node, "Gather", inputs, along, like=value, shape=shape, name=name)
    return value


def _moved(edit: Edit, node: ir.Node, value: ir.Value, view: View) -> ir.Value:
    """Insert the nodes that put the axes in the order of the view and add its new ones; return their result."""
    shape = [sizes_of(value)[axis] for axis in view.order]
    if view.is_turned:
        order = [ir.AttrInt64s("perm", view.order)]
        value = edit.insert(node, "Transpose", [value], order, like=value, shape=shape, name=f"{value.name}.T")
    if view.new_axes:
        axes, attributes = edit.axes(node, view.new_axes)
        for axis in view.new_axes:
            shape.insert(axis, 1)
        inputs, name = [value, *axes], f"{value.name}.axes"
        value = edit.insert(node, "Unsqueeze", inputs, attributes, like=value, shape=shape, name=name)
    return value


def _put_through(edit: Edit, node: ir.Node, value: ir.Value, formula: Formula) -> ir.Value:
    for operator in formula.operators:
        number = edit.constant("number", np.array(formula.number, np.float32)) if operator in OF_TWO else None
        inputs = [number, value] if operator == "Sub" else [value, number][: 1 + (number is not None)]
        value = edit.insert(node, operator, inputs, like=value, shape=sizes_of(value), name=f"{value.name}.{operator}")
    return value
