"""Open a model for a profile: functions inlined, constants in one place, sizes named, types inferred.

Open sizes of inputs become symbols that formulas can be written with. One without a name is called after its input and
its axis (`x_0`); one whose name is no word, such as `batch-size`, loses what is none (`batch_size`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnxlift.errors import LoadError
from onnxlift.ir.graph.types import shape_of
from onnxlift.ir.graph.walk import all_nodes, regions
from onnxlift.ir.inference import symbolic
from onnxlift.ir.inference.infer import infer, is_invented_size
from onnxlift.ir.load import load
from onnxlift.rewriting.normal_form import constant_nodes, expand_operators, inline_functions
from onnxlift.workbench.inspect.nodes import has_numbers
from onnxlift.workbench.sizes import fix_sizes

from .settling import settle_sizes

_NAMELESS = frozenset({"", "?", "-1", "None", "unk"})
_LONGEST_PLACE = 16


@dataclass
class Opened:
    """A model that can be counted."""

    model: ir.Model
    symbols: dict[str, str] = field(default_factory=dict)
    """The open sizes of the inputs, by their symbols in formulas: what they are, for people."""
    notes: list[str] = field(default_factory=list)
    has_data: bool = True
    """False if the numbers of some weights are not there."""
    has_changed: bool = False
    """True if functions were inlined, or a size that is fixed has another name in the file."""


def open_for_profile(source: Any, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]) -> Opened:
    """Return the model in `source` with these sizes fixed, and all types inferred."""
    source = source.read() if hasattr(source, "read") else source  # it may be read twice
    opened = _opened(source)
    model = opened.model
    names = _name_sizes(model)
    fix_sizes(model, shapes, {names.get(name, name): size for name, size in dims.items()})
    opened.has_changed = bool(model.functions) or any(name in names or name in names.values() for name in dims)
    inline_functions.run(model)
    constant_nodes.run(model)
    infer(model)
    if any(node.op_type == "SequenceMap" and not node.domain for node in all_nodes(model.graph)):
        expand_operators.run(model, supported=lambda domain, op_type: (domain, op_type) != ("", "SequenceMap"))
    if opened.has_data:
        settle_sizes(model)
    _describe_symbols(opened, names)
    return opened


def _opened(source: Any) -> Opened:
    try:
        return Opened(load(source, faithful=True))
    except LoadError as error:
        try:
            opened = Opened(load(source, with_data=False, faithful=True), has_data=False)
        except LoadError:
            raise error from None
        reason = str(error).partition("\n")[0].rstrip(".:")
        opened.notes.append(f"counted without the numbers of the weights: {reason}")
        for region in regions(opened.model):
            for value in region.graph.initializers.values():
                if value.const_value is not None and not has_numbers(value.const_value):
                    tensor = value.const_value
                    value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
                    value.const_value = None
        return opened


def _name_sizes(model: ir.Model) -> dict[str, str]:
    """Give every open size of an input a name that formulas can be written with; return the new names by the old."""
    taken = {str(size) for value in model.graph.inputs for size in shape_of(value) or () if isinstance(size, str)}
    names: dict[str, str] = {}
    for value in model.graph.inputs:
        shape = shape_of(value)
        if shape is None or all(isinstance(size, int) and size >= 0 for size in shape):
            continue
        sizes: list[int | str] = []
        for axis, size in enumerate(shape):
            if isinstance(size, int) and size >= 0:
                sizes.append(size)
                continue
            own = "" if size is None or size in _NAMELESS or isinstance(size, int) else size
            if own and not is_invented_size(own) and symbolic.terms_of(own) is not None:
                sizes.append(own)
                continue
            if own not in names or not own:
                wanted = _word(own) if own and not is_invented_size(own) else _place(value, axis)
                name = _fresh(wanted, taken)
                taken.add(name)
                names[own or name] = name
                sizes.append(name)
            else:
                sizes.append(names[own])
        value.shape = ir.Shape(sizes)
    return names


def _place(value: ir.Value, axis: int) -> str:
    """Return a name for a size that has none: by its place, `x_0`, or `n` if that would be long in a formula."""
    name = _word(f"{value.name}_{axis}")
    return name if len(name) <= _LONGEST_PLACE else "n"


def _word(text: str) -> str:
    word = re.sub(r"\W+", "_", text[:60], flags=re.ASCII).strip("_")
    return word if word and not word[0].isdigit() else f"n_{word}".rstrip("_")


def _fresh(name: str, taken: set[str]) -> str:
    fresh, number = name, 2
    while fresh in taken:
        fresh, number = f"{name}_{number}", number + 1
    return fresh


def _describe_symbols(opened: Opened, names: Mapping[str, str]) -> None:
    """Say where each open size is, for whoever reads a formula."""
    old = {new: before for before, new in names.items() if before != new}
    for value in opened.model.graph.inputs:
        for axis, size in enumerate(shape_of(value) or ()):
            if isinstance(size, str) and size.isidentifier() and not is_invented_size(size):
                before = f", which the model calls {old[size]!r}" if size in old else ""
                opened.symbols.setdefault(size, f"axis {axis} of input {value.name!r}{before}")
