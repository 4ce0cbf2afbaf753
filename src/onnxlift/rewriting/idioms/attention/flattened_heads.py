"""Matrix products with batch and heads merged into one axis get an axis for each.

    Reshape(MatMul(Reshape(q, (b * h, n, d)), Reshape(k, (b * h, d, m))), (b, h, n, m))   ->   MatMul(q, k)

q and k have the axes (b, h, ...). For years attention was written like this, with `torch.bmm`: BART, OPT, BLOOM, CLIP.
Between the first Reshape and the last there may be, in any order: a Transpose of the last two axes, a Cast, a Softmax
over the last axis, a Mul or Div by a number, and an Add, whose other operand gets a Reshape of its own if it needs one.

Not if another node reads a value in between, or if batches and heads are not the same everywhere. Sound because all
these operators treat each matrix by itself, however the matrices are counted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by, number_beside
from onnxlift.ir.graph.axes import permutation
from onnxlift.ir.graph.shapes import Shape, shape_of
from onnxlift.rewriting.idioms.attention.parts.scores import softmax_of_scores
from onnxlift.rewriting.simplifying import reshapes, transposes
from onnxlift.stages import step

Recipe = Callable[[], ir.Value]
"""Inserts the nodes that compute a value with two axes instead of its first one, and returns the new value."""

_STEPS = ("MatMul", "Transpose", "Softmax", "Cast", "Mul", "Div", "Add")
_MOST_NODES = 16


@step(
    "flattened-heads",
    after={
        "einsum": "it looks for products of matrices",
        "linear": "a product with a parameter is a layer and no part of an attention",
        "shifted-softmax": "it looks for a plain softmax",
    },
)
def run(model: ir.Model) -> int:
    """Give batches and heads an axis each; return how many results have them."""
    count = sweep(model, {"Reshape": _visit})
    if count:  # the new moves may undo others: an added mask may have had both axes before, the keys were transposed
        for tidy in (transposes, reshapes):
            tidy.run(model)
    return count


def _visit(edit: Edit, node: ir.Node) -> None:
    flat, shape, of_flat = node.inputs[0], shape_of(node.outputs[0]), shape_of(node.inputs[0])
    if flat is None or shape is None or of_flat is None or of_flat[1:] != shape[2:]:
        return
    apart = _Apart(edit, node, shape[:2])
    recipe = apart.step(flat)
    if recipe is not None and any(each.op_type == "MatMul" for each in apart.old):
        edit.bypass(node, recipe())
        drop_unused(edit, apart.old)


class _Apart:
    """Recipes for values whose first axis becomes the two `leading` axes.

    `old` are the nodes that they replace, the last ones first.
    """

    def __init__(self, edit: Edit, place: ir.Node, leading: Shape) -> None:
        self.edit = edit
        self.place = place
        self.leading = leading
        self.old: list[ir.Node] = []

    def recipe(self, value: ir.Value | None) -> Recipe | None:
        """Return a recipe for the value with both axes: the value from before they were merged, or the same
        computation.
        """
        flattened = made_by(self.edit, value, "Reshape")
        whole = None if flattened is None else flattened.inputs[0]
        if flattened is None or whole is None:
            return self.step(value)
        self.old.append(flattened)
        return (lambda: whole) if shape_of(whole) == self._shape(value) else None

    def step(self, value: ir.Value | None) -> Recipe | None:
        """Return a recipe that computes the value with both axes."""
        node, shape = made_by(self.edit, value, *_STEPS), self._shape(value)
        if node is None or value is None or shape is None:
            return None
        if not is_private(self.edit, value) or len(self.old) >= _MOST_NODES:
            return None
        self.old.append(node)
        attributes = list(node.attributes.values())
        inputs: list[Recipe | None] = []
        match node.op_type:
            case "MatMul":
                inputs = [self.recipe(operand) for operand in node.inputs]
            case "Add":
                found = [(self.recipe(operand), operand) for operand in node.inputs]
                inputs = [self._cut(operand, value) if recipe is None else recipe for recipe, operand in found]
            case "Transpose" if tuple(permutation(node) or ()) == (0, 2, 1):
                inputs, attributes = [self.recipe(node.inputs[0])], [ir.AttrInt64s("perm", (0, 1, 3, 2))]
            case "Softmax" if softmax_of_scores(self.edit, value) is not None:
                inputs, attributes = [self.recipe(node.inputs[0])], [ir.AttrInt64("axis", 3)]
            case "Cast":
                inputs = [self.recipe(node.inputs[0])]
            case "Mul" | "Div" if (factor := node.inputs[1]) is not None and number_beside(*node.inputs) is not None:
                inputs = [self.recipe(node.inputs[0]), lambda: factor]
        recipes = [recipe for recipe in inputs if recipe is not None]
        if not recipes or len(recipes) != len(inputs):
            return None
        return lambda: self.edit.insert(
            self.place,
            node.op_type,
            [recipe() for recipe in recipes],
            attributes,
            like=value,
            shape=shape,
            name=str(value.name),
            beside=node,
        )

    def _cut(self, value: ir.Value | None, like: ir.Value) -> Recipe | None:
        """Return a recipe that splits the first axis of `value`, if it counts as many matrices as that of `like`."""
        shape, counted, (_, heads) = self._shape(value), shape_of(like), self.leading
        if value is None or shape is None or counted is None or not isinstance(heads, int):
            return None
        return (lambda: self._reshaped(value, heads, shape)) if counted[:1] == (shape_of(value) or ())[:1] else None

    def _reshaped(self, value: ir.Value, heads: int, shape: Shape) -> ir.Value:
        name, integers = f"{value.name}.heads", ir.Value(type=ir.TensorType(ir.DataType.INT64))

        def insert(op_type: str, *inputs: ir.Value, like: ir.Value = integers, shape: Shape) -> ir.Value:
            options = [ir.AttrInt64("axis", 0)] if op_type in ("Gather", "Concat") else []
            return self.edit.insert(
                self.place, op_type, inputs, options, like=like, shape=shape, name=name, shared=True
            )

        last, front = (self.edit.constant(name, np.array(numbers)) for numbers in ([1, 2], [-1, heads]))
        sizes = insert("Gather", insert("Shape", value, shape=(3,)), last, shape=(2,))
        return insert("Reshape", value, insert("Concat", front, sizes, shape=(4,)), like=value, shape=shape)

    def _shape(self, value: ir.Value | None) -> Shape | None:
        """Return the shape of a value with both axes, if it has three axes now."""
        shape = shape_of(value)
        return (*self.leading, *shape[1:]) if shape is not None and len(shape) == 3 else None
