"""The three ways to call an `nn.MultiheadAttention`, by the axes of its inputs and of its result.

    (seq, features)               one sequence: the layer itself adds an axis for the batch, and removes it again
    (batch, seq, features)        batch_first=True: the layer transposes its inputs, and transposes the result back
    (seq, batch, features)        as it computes

If one Unsqueeze, Transpose or Reshape gives each input its axes, and another takes them from the result again, these
nodes are the layer's own. All of them are, or none: the layer changes all of its inputs and its result, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.rewriting.idioms.parts.moved_axes import MOVES, Axis, Moved

_MAX_STEPS = 4
_LEADING = (("seq",), ("batch", "seq"), ("seq", "batch"))


@dataclass(frozen=True)
class Layout:
    """The inputs of a layer, the node that makes its result, and the axes that all of these have before the last."""

    sources: tuple[ir.Value, ...]
    last: ir.Node
    leading: tuple[str, ...]

    @property
    def is_batched(self) -> bool:
        return "batch" in self.leading

    @property
    def is_batch_first(self) -> bool:
        return self.leading == ("batch", "seq")


def find_layouts(
    edit: Edit, projected: Sequence[tuple[ir.Value, Moved]], output: ir.Node, joined: Moved
) -> Iterator[Layout]:
    """Yield the ways to call a layer that projects these values, those first that leave the least to do outside.

    Each value comes with its axes. `output` is the layer's last linear layer, and `joined` the axes of its input.
    """
    results = list(_results(edit, output, joined))
    for leading in _LEADING:
        axes = tuple((atom,) for atom in leading)
        sources = [_source(edit, x, moved, (*axes, ("in",))) for x, moved in projected]
        found = [source for source in sources if source is not None]
        last = [node for node, moved in results if moved.is_at((*axes, ("out",)))]
        if last and len(found) == len(sources):
            yield Layout(tuple(found), last[-1], leading)


def _source(edit: Edit, x: ir.Value, moved: Moved, axes: tuple[Axis, ...]) -> ir.Value | None:
    """Return `x`, or the value that a move made `x` of, whichever has these axes."""
    if moved.is_at(axes):
        return x
    node = made_by(edit, x, *MOVES)
    y = None if node is None else node.inputs[0]
    before = Moved(axes, moved.sizes)
    if node is None or y is None or shape_of(y) != before.shape(axes):
        return None
    after = before.after([node], x)
    return y if after is not None and after.is_at(moved.axes) else None


def _results(edit: Edit, output: ir.Node, joined: Moved) -> Iterator[tuple[ir.Node, Moved]]:
    """Yield the last linear layer, and the nodes after it that only move its result, with the axes of their outputs."""
    node: ir.Node | None = output
    moved: Moved | None = Moved((*joined.axes[:-1], ("out",)), joined.sizes)
    for _ in range(_MAX_STEPS):
        if node is None or moved is None:
            return
        yield node, moved
        node = only_reader(edit, node)
        if node is None or node.op_type not in MOVES:
            return
        moved = moved.after([node], node.outputs[0])


def only_reader(edit: Edit, node: ir.Node) -> ir.Node | None:
    """Return the only node that reads the result of `node`, if it is in this graph."""
    if not is_private(edit, node.outputs[0]):
        return None
    ((reader, _),) = node.outputs[0].uses()
    return reader if reader.graph is edit.graph else None
