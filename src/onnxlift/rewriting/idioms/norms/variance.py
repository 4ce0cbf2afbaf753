"""Variances and standard deviations, spelled out, are one function.

    d = x - ReduceMean(x, axes)
    ReduceMean(d ** 2, axes)                        ->   Variance(x, axes)                    x.var(1, unbiased=False)
    Variance(x, axes) * n / (n - 1)                 ->   Variance(x, axes, unbiased=1)        x.var(1)
    Sqrt(Variance(x, axes))                         ->   Variance(x, axes, root=1)            x.std(1)
    Reshape(Variance(x, axes)), to axes of size 1   ->   Variance(x, axes, keepdims=1)        x.var(1, keepdim=True)

The square may be a product or a Pow. The first mean keeps its axes, and both means are taken over the same axes. The
numbers are float32 or float64. n is the number of elements that are averaged, and must be known.

Not if another node reads a value in between or d: code that divides d by the deviation is a normalisation, and needs d
again. An exception is a variance with the factor n / (n - 1), which nobody writes by hand: then d may have other
readers, and stays for them, as in `(x - x.mean(1)) / x.std(1)`. Sound because these are the definitions; the order of
roundings differs.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import DOMAIN, divided_by_number, drop_unused, is_private, made_by, with_number
from onnxlift.ir.graph.axes import axes_of
from onnxlift.ir.graph.constants import number
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.inference.symbolic import product
from onnxlift.stages import step


@step("variance", after={"layer-norm": "the variance inside a layer norm is a part of it"})
def run(model: ir.Model) -> int:
    """Recognise variances; return how many rewrites that took."""
    return sweep(
        model,
        {
            "ReduceMean": _variance,
            "Div": _unbiased,
            ("Reshape", "Unsqueeze"): _kept,
            "Sqrt": _root,
        },
    )


def _root(edit: Edit, node: ir.Node) -> None:
    inner = made_by(edit, node.inputs[0], "Variance", domain=DOMAIN)
    if inner is not None and "root" not in inner.attributes and is_private(edit, node.inputs[0]):
        options = [*inner.attributes.values(), ir.AttrInt64("root", 1)]
        edit.replace(node, "Variance", inner.inputs, options, domain=DOMAIN)
        drop_unused(edit, [inner])


def _variance(edit: Edit, node: ir.Node) -> None:
    square, axes = made_by(edit, node.inputs[0], "Mul", "Pow"), _axes(node)
    if square is None or not axes or not is_private(edit, node.inputs[0]):
        return
    centred, other = square.inputs
    is_square = centred is other if square.op_type == "Mul" else number(other) == 2
    difference = made_by(edit, centred, "Sub")
    if not is_square or difference is None:
        return
    x, average = difference.inputs
    mean = made_by(edit, average, "ReduceMean")
    if x is None or mean is None or mean.inputs[0] is not x or _axes(mean) != axes:
        return
    if rank(square.outputs[0]) != rank(x):
        return  # an exponent with more axes
    is_alone = is_private(edit, centred, 2 if square.op_type == "Mul" else 1) and is_private(edit, average)
    if not is_alone and not _is_corrected(edit, node.outputs[0]):
        return
    keeps = [attribute(each, "keepdims", 1) for each in (mean, node)]
    if keeps[0] == 1 and keeps[1] is not None and x.dtype in (DataType.FLOAT, DataType.DOUBLE):
        options = [ir.AttrInt64s("axes", axes), ir.AttrInt64("keepdims", keeps[1])]
        edit.replace(node, "Variance", [x], options, domain=DOMAIN)
        drop_unused(edit, [square, difference, mean])


def _is_corrected(edit: Edit, mean: ir.Value) -> bool:
    """Tell whether a mean is only multiplied by a number n and then divided by n - 1."""
    if not is_private(edit, mean):
        return False
    ((multiply, _),) = mean.uses()
    factors = with_number(multiply) if is_standard(multiply, "Mul") else None
    if factors is None or not is_private(edit, multiply.outputs[0]):
        return False
    ((user, _),) = multiply.outputs[0].uses()
    quotient = divided_by_number(user) if is_standard(user, "Div") else None
    return quotient is not None and quotient[1] == factors[1] - 1


def _unbiased(edit: Edit, node: ir.Node) -> None:
    quotient = divided_by_number(node)
    multiply = made_by(edit, quotient[0], "Mul") if quotient is not None else None
    factors = with_number(multiply) if multiply is not None else None
    if quotient is None or multiply is None or factors is None or not is_private(edit, quotient[0]):
        return
    (value, count), less = factors, quotient[1]
    inner = made_by(edit, value, "Variance", domain=DOMAIN)
    if inner is None or not is_private(edit, value) or {"unbiased", "root"} & inner.attributes.keys():
        return
    shape = shape_of(inner.inputs[0])
    if shape is not None and product(shape[axis] for axis in inner.attributes["axes"].as_ints()) == count == less + 1:
        options = [*inner.attributes.values(), ir.AttrInt64("unbiased", 1)]
        edit.replace(node, "Variance", inner.inputs, options, domain=DOMAIN)
        drop_unused(edit, [multiply, inner])


def _kept(edit: Edit, node: ir.Node) -> None:
    """Let the variance keep its axes if a Reshape or Unsqueeze puts them back with size 1."""
    inner = made_by(edit, node.inputs[0], "Variance", domain=DOMAIN)
    shape = shape_of(inner.inputs[0]) if inner is not None else None
    if inner is None or shape is None or not is_private(edit, node.inputs[0]):
        return
    axes = inner.attributes["axes"].as_ints()
    if shape_of(node.outputs[0]) == tuple(1 if axis in axes else size for axis, size in enumerate(shape)):
        options = dict(inner.attributes) | {"keepdims": ir.AttrInt64("keepdims", 1)}
        edit.replace(node, "Variance", inner.inputs, options.values(), domain=DOMAIN)
        drop_unused(edit, [inner])


def _axes(node: ir.Node) -> list[int] | None:
    """Return the axes that a ReduceMean averages, counted from the front and sorted, if they are known."""
    shape = shape_of(node.inputs[0])
    axes = axes_of(node)
    return None if not axes or shape is None else sorted(axis % len(shape) for axis in axes)
