"""Follow the axes of a tensor that is reshaped, transposed and taken apart.

A tensor starts as a list of *atoms*: axes that are never split further, each with a name and a size. After some moves,
each of its axes is a tuple of atoms, the outermost first:

    (batch, seq, 3 * heads * features)                  [(batch,), (seq,), (part, head, feature)]
    Reshape to (batch, seq, 3, heads * features)        [(batch,), (seq,), (part,), (head, feature)]
    Gather(axis=2, index 1)                             [(batch,), (seq,), (head, feature)], part = 1
    Concat with something else along the axis of seq    the same axes, seq is longer

So if two chains of nodes lead to the same axes, they move every element to the same place, however they are spelled. An
atom of size 1 may stand anywhere: moving it moves no element. Where the older exporter has written a number for a
symbolic size, the atom has that number as its size from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import made_by
from onnxlift.ir.graph.axes import axis_of, permutation, static_slice
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import Dim, Shape, shape_of, static_elements
from onnxlift.ir.inference import symbolic

MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Split")
_MAX_MOVES = 16

Axis = tuple[str, ...]


@dataclass(frozen=True)
class Appended:
    """A value that was appended to a tensor along one atom, and the tensor `to` which it was appended."""

    value: ir.Value
    atom: str
    length: int
    to: Moved


@dataclass(frozen=True)
class Moved:
    """A tensor after some moves: its axes, the index that was taken of some atoms, and the values appended to it."""

    axes: tuple[Axis, ...]
    sizes: Mapping[str, Dim]
    taken: Mapping[str, int] = field(default_factory=dict)
    appended: tuple[Appended, ...] = ()

    def is_at(self, axes: Sequence[Axis]) -> bool:
        """Tell whether the tensor has these axes, apart from atoms of size 1."""
        mine, others = ([self.large(axis) for axis in some] for some in (self.axes, axes))
        return mine == others

    def shape(self, axes: Sequence[Axis]) -> Shape | None:
        """Return the shape of a tensor with these axes."""
        sizes = [symbolic.product(self.sizes[atom] for atom in axis) for axis in axes]
        return None if None in sizes else tuple(size for size in sizes if size is not None)

    def after(self, nodes: Sequence[ir.Node], last: ir.Value) -> Moved | None:
        """Return the tensor after these nodes, one after the other; `last` is the output of the last node to follow."""
        moved: Moved | None = self
        for node, following in zip(nodes, [*nodes[1:], None], strict=True):
            output = last if following is None else following.inputs[0]
            moved = None if moved is None or output is None else moved._after(node, output)
        return moved

    def large(self, axis: Axis) -> Axis:
        """Return the atoms of an axis that have more than one element."""
        return tuple(atom for atom in axis if self.sizes[atom] != 1)

    def _after(self, node: ir.Node, output: ir.Value) -> Moved | None:
        match node.op_type:
            case "Transpose":
                order = permutation(node)
                return None if order is None else replace(self, axes=tuple(self.axes[i] for i in order))
            case "Gather":
                index = static_elements(node.inputs[1])
                scalar = shape_of(node.inputs[1]) == ()
                return self._without(node, index[0]) if index is not None and scalar else None
            case "Split":
                return self._split(node, output)
            case "Slice":
                return self._slice(node, output)
            case "Concat":
                return self._longer(node)
        return self._regrouped(shape_of(output))

    def _regrouped(self, shape: Shape | None) -> Moved | None:
        """Return the tensor with the same atoms in the same order, grouped into axes of these sizes."""
        if shape is None:
            return None
        implied = self._implied(shape)
        if implied:
            return replace(self, sizes={**self.sizes, **implied})._regrouped(shape)
        atoms = [atom for axis in self.axes for atom in axis]
        axes: list[Axis] = []
        for size in shape:
            axis: list[str] = []
            product: Dim | None = 1
            if atoms and self.sizes[atoms[0]] == 1:
                axis.append(atoms.pop(0))  # most likely the axis of size 1 that is meant here
            while product != size:
                if not atoms or product is None:
                    return None
                axis.append(atoms.pop(0))
                product = symbolic.multiply(product, self.sizes[axis[-1]])
            axes.append(tuple(axis))
        return None if self.large(tuple(atoms)) else replace(self, axes=tuple(axes))

    def _implied(self, shape: Shape) -> dict[str, int]:
        """Return the number that an exporter took for the symbolic size of an atom.

        It is the only one that a reshape to numbers allows.
        """
        atoms = [atom for axis in self.axes for atom in axis]
        count = symbolic.product(shape)
        for atom in atoms:
            others = symbolic.product(self.sizes[other] for other in atoms if other != atom)
            if isinstance(self.sizes[atom], str) and others and count is not None:
                size = symbolic.divide_exactly(count, others)
                if isinstance(size, int):
                    return {atom: size}
        return {}

    def _without(self, node: ir.Node, index: int) -> Moved | None:
        """Return the tensor after one index of an axis was taken; the axis must be a single atom."""
        axis = axis_of(node, len(self.axes))
        if axis is None or len(self.large(self.axes[axis])) != 1:
            return None
        (atom,) = self.large(self.axes[axis])
        size = self.sizes[atom]
        if not isinstance(size, int) or not -size <= index < size:
            return None
        axes = self.axes[:axis] + self.axes[axis + 1 :]
        return replace(self, axes=axes, taken={**self.taken, atom: index % size})

    def _split(self, node: ir.Node, output: ir.Value) -> Moved | None:
        """Return the tensor as this output of a Split, if the outputs before it have the same shape."""
        axis, index, shape = attribute(node, "axis", 0), node.outputs.index(output), shape_of(output)
        if not isinstance(axis, int) or any(shape_of(other) != shape for other in node.outputs[:index]):
            return None
        return self._part(axis, index, shape)

    def _slice(self, node: ir.Node, output: ir.Value) -> Moved | None:
        cut, shape = static_slice(node), shape_of(output)
        if cut is None or shape is None or cut[2] != (1,):
            return None
        (start,), (axis,), _ = cut
        width = shape[axis]
        if not isinstance(width, int) or width == 0 or start < 0 or start % width:
            return None
        return self._part(axis, start // width, shape)

    def _part(self, axis: int, index: int, shape: Shape | None) -> Moved | None:
        """Return the tensor after one index of the outermost atom of an axis was taken.

        The part must have exactly the size of the axis's other atoms.
        """
        if shape is None or not self.large(self.axes[axis]):
            return None
        axis %= len(self.axes)
        first, *rest = self.large(self.axes[axis])
        if not isinstance(self.sizes[first], int) or symbolic.product(self.sizes[atom] for atom in rest) != shape[axis]:
            return None
        axes = (*self.axes[:axis], tuple(rest), *self.axes[axis + 1 :])
        return replace(self, axes=axes, taken={**self.taken, first: index})

    def _longer(self, node: ir.Node) -> Moved | None:
        """Return the tensor after something was appended along an axis that is a single atom."""
        axis, other = attribute(node, "axis", 0), node.inputs[-1]
        shape = shape_of(other)
        if len(node.inputs) != 2 or other is None or shape is None or not isinstance(axis, int):
            return None
        atoms, length = self.axes[axis], shape[axis]
        size = symbolic.add(self.sizes[atoms[0]], length) if len(atoms) == 1 else None
        if not isinstance(length, int) or size is None:
            return None
        appended = Appended(other, atoms[0], length, self)
        return replace(self, sizes={**self.sizes, atoms[0]: size}, appended=(*self.appended, appended))


def moves_to(edit: Edit, value: ir.Value | None, *also: str) -> list[ir.Node]:
    """Return the nodes that make `value` by moving elements, in their order; operators in `also` count, too."""
    nodes: list[ir.Node] = []
    while len(nodes) < _MAX_MOVES:
        node = made_by(edit, value, *MOVES, *also)
        if node is None:
            break
        nodes.insert(0, node)
        value = node.inputs[0]
    return nodes
