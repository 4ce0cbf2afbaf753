"""Where the axes of a tensor go when it is reshaped, transposed and taken apart.

A tensor starts as a list of *atoms*, axes that are never split further, each with a name and a size. An axis of what
becomes of it is a tuple of atoms, the outermost first:

    (batch, seq, 3 * heads * features)                  [(batch,), (seq,), (part, head, feature)]
    Reshape to (batch, seq, 3, heads * features)        [(batch,), (seq,), (part,), (head, feature)]
    Gather(axis=2, index 1)                             [(batch,), (seq,), (head, feature)], part = 1

So two chains of such nodes that lead to the same axes move every element to the same place, however they are spelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ..ir import symbolic
from ..ir.node_view import Shape, shape_of, static_elements, static_slice
from ..ir.symbolic import Dim
from ..passes.edit import Edit, attribute
from ..passes.transposes import permutation
from .match import made_by

MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Split")
_MAX_MOVES = 12

Axis = tuple[str, ...]


@dataclass(frozen=True)
class Moved:
    """A tensor as it was moved: its axes, and which index of which atoms was taken."""

    axes: tuple[Axis, ...]
    sizes: Mapping[str, Dim]
    taken: Mapping[str, int] = field(default_factory=dict)

    def after(self, nodes: Sequence[ir.Node], last: ir.Value) -> Moved | None:
        """What the nodes, one after the other, make of it; `last` is which output of the last one is meant."""
        moved: Moved | None = self
        for node, following in zip(nodes, [*nodes[1:], None], strict=True):
            output = last if following is None else following.inputs[0]
            moved = None if moved is None or output is None else moved._after(node, output)
        return moved

    def _after(self, node: ir.Node, output: ir.Value) -> Moved | None:
        match node.op_type:
            case "Transpose":
                order = permutation(node)
                return None if order is None else Moved(tuple(self.axes[i] for i in order), self.sizes, self.taken)
            case "Gather":
                index = static_elements(node.inputs[1])
                scalar = shape_of(node.inputs[1]) == ()
                return self._without(node, index[0]) if index is not None and scalar else None
            case "Split":
                return self._part(node, output, node.outputs.index(output))
            case "Slice":
                return self._slice(node, output)
        return self._regrouped(shape_of(output))

    def _regrouped(self, shape: Shape | None) -> Moved | None:
        """The same atoms in their order, as many for each axis as give its size."""
        atoms = [atom for axis in self.axes for atom in axis]
        axes: list[Axis] = []
        for size in shape or ():
            axis: list[str] = []
            product: Dim | None = 1
            while product != size:
                if not atoms or product is None:
                    return None
                axis.append(atoms.pop(0))
                product = symbolic.multiply(product, self.sizes[axis[-1]])
            axes.append(tuple(axis))
        return Moved(tuple(axes), self.sizes, self.taken) if shape is not None and not atoms else None

    def _without(self, node: ir.Node, index: int) -> Moved | None:
        """One index of an axis that is a single atom."""
        axis = attribute(node, "axis", 0)
        if not isinstance(axis, int) or len(self.axes[axis]) != 1:
            return None
        axis %= len(self.axes)
        (atom,) = self.axes[axis]
        size = self.sizes[atom]
        if not isinstance(size, int) or not -size <= index < size:
            return None
        return Moved(self.axes[:axis] + self.axes[axis + 1 :], self.sizes, {**self.taken, atom: index % size})

    def _part(self, node: ir.Node, output: ir.Value, index: int, axis: int | None = None) -> Moved | None:
        """One index of the outermost atom of an axis: the whole of the other atoms, if `output` is as large."""
        axis = attribute(node, "axis", 0) if axis is None else axis
        shape = shape_of(output)
        if not isinstance(axis, int) or shape is None or not self.axes[axis]:
            return None
        axis %= len(self.axes)
        first, *rest = self.axes[axis]
        if symbolic.product(self.sizes[atom] for atom in rest) != shape[axis]:
            return None
        if not 0 <= index < (size if isinstance(size := self.sizes[first], int) else 0):
            return None
        axes = (*self.axes[:axis], tuple(rest), *self.axes[axis + 1 :])
        return Moved(axes, self.sizes, {**self.taken, first: index})

    def _slice(self, node: ir.Node, output: ir.Value) -> Moved | None:
        cut, shape = static_slice(node), shape_of(output)
        if cut is None or shape is None or len(cut[0]) != 1 or cut[2] != (1,):
            return None
        (start,), (axis,), _ = cut
        width = shape[axis]
        if not isinstance(width, int) or width == 0 or start < 0 or start % width:
            return None
        return self._part(node, output, start // width, axis)


def moves_to(edit: Edit, value: ir.Value | None, source: ir.Value | None = None) -> list[ir.Node]:
    """The nodes that move elements and make `value`, in their order; from `source` on, if that is on the way."""
    nodes: list[ir.Node] = []
    while value is not source and len(nodes) < _MAX_MOVES:
        node = made_by(edit, value, *MOVES)
        if node is None:
            break
        nodes.insert(0, node)
        value = node.inputs[0]
    return nodes
