"""An einsum that multiplies matrices is a product of matrices.

    Einsum("bij,bjk->bik", a, b)   ->   MatMul(a, b)
    Einsum("bid,bjd->bij", a, b)   ->   MatMul(a, Transpose(b, swap the last two))

Both operands are floating-point. One letter is summed over, and each term has each letter once. The order of the other
letters needs no transpose, except of the second operand: `a @ b.mT` is shorter than the einsum. Before and after the
softmax of an attention any order will do (`bqhd,bkhd->bhqk`, `bhqk,bkhd->bqhd`): the operands are transposed, and the
attention is recognised like any other.

Not with a constant: a parameter would be taken for the weight of a layer, under another name. Not if the letter that is
summed over has size 1 in only one of the operands, which Einsum broadcasts. Sound because both are sums of the same
products.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import is_private, made_by
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute, is_standard
from onnxlift.ir.graph.shapes import Dim, shape_of
from onnxlift.ir.graph.types import is_float
from onnxlift.stages import step

_MAX_STEPS = 6
_BEFORE_SOFTMAX = ("Mul", "Div", "Add", "Where", "Cast")
_AFTER_SOFTMAX = ("Dropout", "Cast", "Where")


@dataclass
class Product:
    """A product of matrices by its letters: those of both operands and of the result.

    `wanted` has them in the order of the product, with rows and columns last; `given` as they are in the equation.
    """

    wanted: tuple[str, str, str]
    given: tuple[str, str, str]

    @property
    def is_plain(self) -> bool:
        """Tell whether at most the last two axes of the second operand must be swapped."""
        (a, b, c), (first, second, result) = self.wanted, self.given
        return a == first and c == result and second in (b, b[:-2] + b[-1] + b[-2])


@step("einsum")
def run(model: ir.Model) -> int:
    """Recognise products of matrices; return how many."""
    return sweep(model, {"Einsum": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.inputs) != 2 or not is_float(node.outputs[0]):
        return
    a, b = node.inputs
    equation = attribute(node, "equation", None)
    product = None if equation is None else find_product(equation)
    if a is None or b is None or product is None or constant(a) is not None or constant(b) is not None:
        return
    inner = product.wanted[0][-1]
    if (_sizes(a, product.given[0])[inner] == 1) != (_sizes(b, product.given[1])[inner] == 1):
        return
    if not product.is_plain and not _is_before_softmax(edit, node) and not _is_after_softmax(edit, node):
        return
    operands = [
        _turned(edit, node, value, *letters)
        for value, letters in zip((a, b), zip(product.given, product.wanted, strict=True), strict=False)
    ]
    if product.wanted[2] == product.given[2]:
        edit.replace(node, "MatMul", operands)
        return
    out = product.wanted[2]
    sizes = _sizes(node.outputs[0], product.given[2])
    name, shape = f"{node.outputs[0].name}.product", [sizes[letter] for letter in out]
    value = edit.insert(node, "MatMul", operands, like=node.outputs[0], shape=shape, name=name)
    perm = [out.index(letter) for letter in product.given[2]]
    edit.replace(node, "Transpose", [value], [ir.AttrInt64s("perm", perm)])


def find_product(equation: str) -> Product | None:
    """Return the product of two matrices, or of two stacks of them, that the equation is; None if it is none."""
    terms, _, result = equation.replace(" ", "").partition("->")
    first, _, second = terms.partition(",")
    letters = (first, second, result)
    if not all(len(set(term)) == len(term) for term in letters):  # an ellipsis repeats its dot, too
        return None
    common = set(first) & set(second)
    summed = common - set(result)
    rows = [letter for letter in result if letter not in second]
    columns = [letter for letter in result if letter not in first]
    batch = [letter for letter in result if letter in common]
    if len(summed) != 1 or len(columns) != 1 or not rows:
        return None
    if {*batch, *rows, *summed} != set(first) or {*batch, *columns, *summed} != set(second):
        return None
    if len(rows) > 1 and batch:  # MatMul takes several axes of rows with one matrix only
        return None
    [inner], [column] = summed, columns
    stack, row = "".join(batch), "".join(rows)
    return Product((stack + row + inner, stack + inner + column, stack + row + column), letters)


def _turned(edit: Edit, node: ir.Node, value: ir.Value, given: str, wanted: str) -> ir.Value:
    """Return the value with its axes in the wanted order."""
    if given == wanted:
        return value
    perm, sizes = [given.index(letter) for letter in wanted], _sizes(value, given)
    shape, name = [sizes[letter] for letter in wanted], f"{value.name}.turned"
    return edit.insert(node, "Transpose", [value], [ir.AttrInt64s("perm", perm)], like=value, shape=shape, name=name)


def _sizes(value: ir.Value, letters: str) -> dict[str, Dim | None]:
    """Return the sizes that the letters stand for; unknown sizes are None."""
    shape = shape_of(value)
    return dict(zip(letters, (None,) * len(letters) if shape is None else shape, strict=True))


def _is_before_softmax(edit: Edit, node: ir.Node) -> bool:
    """Tell whether the result goes into a softmax, perhaps scaled and masked on the way."""
    for _ in range(_MAX_STEPS):
        if not is_private(edit, node.outputs[0]):
            return False
        ((node, _place),) = node.outputs[0].uses()
        if node.graph is not edit.graph or not is_standard(node, "Softmax", *_BEFORE_SOFTMAX):
            return False
        if node.op_type == "Softmax":
            return True
    return False


def _is_after_softmax(edit: Edit, node: ir.Node) -> bool:
    """Tell whether the first operand comes out of a softmax, perhaps through a dropout, a cast or a Where."""
    value = node.inputs[0]
    for _ in range(_MAX_STEPS):
        found = made_by(edit, value, "Softmax", *_AFTER_SOFTMAX)
        if found is None or found.op_type == "Softmax":
            return found is not None
        value = found.inputs[2 if found.op_type == "Where" else 0]
    return False
