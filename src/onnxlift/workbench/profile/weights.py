"""The constants that a node reads: how many parameters are in each, and the bytes that it takes as it is stored."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS, INTEGERS
from onnxlift.ir.origin.tensors import origin_of

from .formula import Size, Sum, is_known
from .node import bytes_of, elements_in
from .registry import Work, weight_places

Weights = dict[Hashable, tuple[Size, Size]]
"""A constant, or a node that holds numbers in its attributes -> its parameters, and its bytes."""


def weights_of(node: ir.Node, work: Work | None) -> Weights:
    """Return the constants that a node reads.

    Parameters are floating-point constants, and arrays of integers of at most 8 bits, but for constants of the code,
    which exporters keep in nodes. Of operators on quantised weights, they are the inputs that hold these, and neither
    scales nor zero points."""
    places = weight_places(node.domain, node.op_type)
    found: Weights = {}
    for index, value in enumerate(node.inputs):
        if value is None or value in found or not value.is_initializer() or value.is_graph_input():
            continue
        may_count = index in places if places is not None else may_hold_parameters(value)
        is_parameter = may_count and not (value.const_value is not None and origin_of(value).is_constant)
        stored = bytes_of(value)
        found[value] = (elements_in(value) if is_parameter else 0, stored if is_known(stored) else 0)
    told = None if work is None else work.parameters
    if told is None:
        return found
    if places is None:
        return found | {node: (told, told * 4)}
    holders = [node.inputs[index] for index in places if index < len(node.inputs)]
    first = next((value for value in holders if value in found), None)
    if first is None:
        return found
    counted = {value: (0 if value in holders else each[0], each[1]) for value, each in found.items()}
    return counted | {first: (told, found[first][1])}


def may_hold_parameters(value: ir.Value) -> bool:
    """Tell whether the type of a constant is one that parameters have."""
    if value.dtype in FLOATS:
        return True
    is_array = value.shape is not None and len(value.shape) > 1
    return value.dtype in INTEGERS and value.dtype.bitwidth <= 8 and is_array


def added(weights: Iterable[Mapping[Hashable, tuple[Size, Size]]]) -> tuple[Size, Size]:
    """Return the parameters and the bytes of several sets of constants. What is in two of them counts once."""
    every: Weights = {}
    for each in weights:
        every.update(each)
    parameters, stored = Sum(), Sum()
    for count, size in every.values():
        parameters.add(count)
        stored.add(size)
    return parameters.size, stored.size
