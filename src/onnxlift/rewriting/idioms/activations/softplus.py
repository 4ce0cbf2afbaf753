"""A softplus takes in the factor and the threshold that PyTorch's function has.

    Where(Greater(x, t), x, Softplus(x))             ->   Softplus(x, threshold=t)
    Where(Greater(s, t), x, Div(Softplus(s), b))     ->   Softplus(x, beta=b, threshold=t), with s = Mul(x, b)
    Div(Softplus(Mul(x, b)), b)                      ->   Softplus(x, beta=b), of float32

`F.softplus` gives x itself above the threshold. b is a positive number, the same in both places, and nobody else reads
a value in between. The last form has no threshold, but PyTorch's function does: 20 by default. This is sound for
float32, which from there on has no digits left for the difference.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import (
    DOMAIN,
    divided_by_number,
    drop_unused,
    is_private,
    made_by,
    number_beside,
    with_number,
)
from onnxlift.ir.graph.types import DataType
from onnxlift.stages import step

_THRESHOLD = 20.0


@step("softplus")
def run(model: ir.Model) -> int:
    """Recognise softplus with a factor or a threshold; return how many."""
    return sweep(model, {"Where": _guarded}) + sweep(model, {"Div": _scaled})


def _guarded(edit: Edit, node: ir.Node) -> None:
    test, x, value = node.inputs
    above = made_by(edit, test, "Greater")
    threshold = number_beside(*above.inputs) if above is not None else None
    if above is None or threshold is None or x is None or not is_private(edit, test) or not is_private(edit, value):
        return
    softplus = made_by(edit, value, "Softplus")
    if softplus is not None and softplus.inputs[0] is x and above.inputs[0] is x:
        _replace(edit, node, x, 1.0, threshold)
        drop_unused(edit, [above, softplus])
        return
    found = _with_factor(edit, made_by(edit, value, "Div"), readers=2)
    if found is not None and found[0] is x and above.inputs[0] is found[2][-1].outputs[0]:
        _replace(edit, node, x, found[1], threshold)
        drop_unused(edit, [above, *found[2]])


def _scaled(edit: Edit, node: ir.Node) -> None:
    if node.outputs[0].dtype != DataType.FLOAT:
        return
    found = _with_factor(edit, node, readers=1)
    if found is not None:
        _replace(edit, node, found[0], found[1], _THRESHOLD)
        drop_unused(edit, found[2][1:])


def _replace(edit: Edit, node: ir.Node, x: ir.Value, beta: float, threshold: float) -> None:
    if beta == 1 and threshold == _THRESHOLD:
        edit.replace(node, "Softplus", [x])
        return
    options = [ir.AttrFloat32("beta", beta), ir.AttrFloat32("threshold", threshold)]
    edit.replace(node, "Softplus", [x], options, domain=DOMAIN)


def _with_factor(edit: Edit, node: ir.Node | None, readers: int) -> tuple[ir.Value, float, list[ir.Node]] | None:
    """Match `Softplus(x * b) / b`; return x, b, and the nodes, the last one first.

    `readers` says how many nodes must read `x * b`.
    """
    quotient = divided_by_number(node) if node is not None else None
    softplus = made_by(edit, quotient[0], "Softplus") if quotient is not None else None
    product = made_by(edit, softplus.inputs[0], "Mul") if softplus is not None else None
    factors = with_number(product) if product is not None else None
    if node is None or quotient is None or softplus is None or product is None or factors is None:
        return None
    x, beta = factors
    if beta <= 0 or beta != quotient[1] or not is_private(edit, quotient[0]):
        return None
    return (x, beta, [node, softplus, product]) if is_private(edit, softplus.inputs[0], readers) else None
