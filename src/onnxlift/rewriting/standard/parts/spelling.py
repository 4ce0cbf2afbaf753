"""Run an idiom for the sake of a file: what it recognises becomes an operator of ONNX, or stays as it was.

    Div(d, Sqrt(...)) ...  ── idiom ─▶  onnxlift::LayerNorm(x)  ── spelling ─▶  LayerNormalization(x, ones)

A spelling is a function that gets the node of the idiom, and returns the operator with its inputs and attributes, or
None if there is none for this use. It is asked only at opsets that have the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import Region, regions
from onnxlift.stages import Step

from .memory import Memory, Remembered

_FEWEST = 2
"""One node in the place of one other gains nothing."""


@dataclass(frozen=True)
class Standard:
    """An operator of ONNX with its inputs and attributes. Attributes that are None are left out."""

    op_type: str
    inputs: Sequence[ir.Value | None]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Recognised:
    """A node that an idiom has made, and what it made it from."""

    edit: Edit
    node: ir.Node
    replaced: frozenset[str]
    """The operators that it stands for."""
    opset: int
    """The opset that these are of."""

    def input(self, index: int) -> ir.Value | None:
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def option(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute."""
        return attribute(self.node, name, default)

    def filled(self, number: float, shape: Sequence[int | str | None], like: ir.Value) -> ir.Value | None:
        """Return a constant of one number everywhere; None if a size or the element type is not known."""
        sizes = [size for size in shape if isinstance(size, int)]
        if like.dtype is None or len(sizes) < len(shape):
            return None
        name = f"{self.node.outputs[0].name}.{'ones' if number else 'zeros'}"
        return self.edit.constant(name, np.full(sizes, number, like.dtype.numpy()))


Spelling = Callable[[Recognised], Standard | None]
Spellings = Mapping[str, tuple[int, Spelling]]
"""The operator of an idiom -> the opset that has ONNX's operator, and the function that spells it."""


def fuse(model: ir.Model, idiom: Step, spellings: Spellings) -> int:
    """Run an idiom, and write what it recognises as operators of ONNX; return how many.

    What an idiom makes of ONNX's own operators counts as well. What has no spelling is put back."""
    opset = model.opset_imports.get("", 1)
    if spellings and all(since > opset for since, _ in spellings.values()):
        return 0
    memory = Memory(model)
    if not idiom(model):
        return 0
    memory.look(model)
    names = Names(model)
    return sum(_spell_all(region, names, memory, spellings) for region in list(regions(model)))


def _spell_all(region: Region, names: Names, memory: Memory, spellings: Spellings) -> int:
    edit = Edit(region, names)
    changes = 0
    for node in list(region.graph):
        if node.domain != DOMAIN:
            changes += memory.is_new(node)
            continue
        stands_for = memory.replaced_by(node)
        standard = _spelled(edit, node, stands_for, spellings) if len(stands_for) >= _FEWEST else None
        if standard is None:
            memory.restore(edit, node)
            continue
        given = [ir.convenience.convert_attribute(k, v) for k, v in standard.attributes.items() if v is not None]
        edit.replace(node, standard.op_type, list(standard.inputs), given, domain="")
        changes += 1
    edit.finish()
    return changes


def _spelled(edit: Edit, node: ir.Node, stands_for: Sequence[Remembered], spellings: Spellings) -> Standard | None:
    since, spell = spellings.get(node.op_type, (0, None))
    opset = max(edit.opset(was.node) for was in stands_for)
    if spell is None or opset < since:
        return None
    standard = spell(Recognised(edit, node, frozenset(was.node.op_type for was in stands_for), opset))
    return standard if standard is not None and _takes(standard, opset) else None


def _takes(standard: Standard, opset: int) -> bool:
    """Tell whether the operator takes inputs of these types."""
    schema = schema_for("", standard.op_type, opset)
    if schema is None:
        return False
    return all(
        value is None or (value.dtype is not None and _type_name(value.dtype) in formal.types)
        for value, formal in zip(standard.inputs, schema.inputs, strict=False)
    )


def _type_name(dtype: ir.DataType) -> str:
    names = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}
    return f"tensor({names.get(dtype, dtype.name.lower())})"
