"""Softplus with the guard that PyTorch has in it.

    Where(Greater(x, 20), x, Softplus(x))   ->   Softplus(x)

which is written as `F.softplus`, and that gives x itself above 20. Not with another bound or other branches.
"""

from __future__ import annotations

import onnx_ir as ir

from ..passes.edit import Edit, is_standard, sweep
from .match import drop_unused, is_private, made_by, number

_THRESHOLD = 20


def run(model: ir.Model) -> int:
    """Recognise guarded softplus; gives how many."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if not is_standard(node, "Where"):
        return
    test, x, value = node.inputs
    above, softplus = made_by(edit, test, "Greater"), made_by(edit, value, "Softplus")
    if above is None or softplus is None or x is None or softplus.inputs[0] is not x or above.inputs[0] is not x:
        return
    if number(above.inputs[1]) == _THRESHOLD and is_private(edit, test) and is_private(edit, value):
        edit.replace(node, "Softplus", [x])
        drop_unused(edit, [above, softplus])
