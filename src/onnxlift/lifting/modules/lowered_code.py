"""Keep the code of a plan as it was lowered, until it is known whether the plan is a module.

    net: a = self.0(x); return a * x      y = self.net(x)   ->   a = self.net[0](x); y = a * x

Every plan is lowered once, with parameters, as if it were a module. Only the finished code shows whether it can be one:
operators decide whether they are layers or functions, and so whether a plan with numbered members is the plain chain
that an `nn.Sequential` is. The code is kept as it was before it was finished. If the plan turns out to be no module,
this code takes the place of the call in the caller. Nothing is lowered twice, however deep plans lie in plans.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.lifting.code.expr import Expr, Member, Ref
from onnxlift.lifting.code.statements import Assign, Block, Statement, copy_of, walk_statements
from onnxlift.lifting.code.substitute import Replacement, substitute, substitute_in
from onnxlift.lifting.modules.signatures.prune import called_module
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.ops.operand import Dims, Operand, Scalar

from .module import Module


@dataclass
class LoweredCode:
    """The statements of a plan, without the `return`, and all that must move with them: the `members` that they use, in
    the order in which they were made, the variables that nodes share (`Node.once`), and the values that child modules
    give as Python numbers (`Module.sizes`)."""

    statements: list[Statement]
    members: list[Layer | Module]
    shared: dict[Hashable, Ref]
    sizes: set[ir.Value]

    def replace(self, new: Replacement) -> None:
        """Replace expressions in all statements, as `new` says."""
        for statement in walk_statements(Block(self.statements)):
            substitute_in(statement, new)


def code_without_steps(
    statements: list[Statement],
    members: list[Layer | Module],
    steps: Mapping[Module, LoweredCode],
    shared: Mapping[Hashable, Ref],
    sizes: set[ir.Value],
) -> LoweredCode:
    """Return a copy of lowered code in which the code of `steps` (tree/steps.py) takes the place of their calls."""
    code = LoweredCode([], [], dict(shared), set(sizes))
    for member in members:
        code.members += steps[member].members if isinstance(member, Module) and member in steps else [member]
    for statement in statements:
        called = called_module(statement.expr) if isinstance(statement, Assign) else None
        step = steps.get(called) if called is not None else None
        code.statements += [copy_of(statement)] if step is None else step.statements
    return code


def replacement(others: Mapping[object, Expr]) -> Replacement:
    """Return the function by which `substitute` replaces variables and members. `others` has the new expressions, by
    value and by layer."""

    def new(part: Expr) -> Expr | None:
        match part:
            case Ref():
                return others.get(part._key)
            case Member():
                return others.get(part._target)
        return None

    return new


def translated(operand: Operand, new: Replacement) -> Operand:
    """Return an operand in which expressions are replaced, as `new` says."""
    if isinstance(operand, Dims):
        if operand.elements is None:
            assert operand.whole is not None
            return Dims(None, substitute(operand.whole, new), operand.length, operand.type.dtype)
        elements = [substitute(element, new) for element in operand.elements]
        return Dims([e for e in elements if isinstance(e, Scalar)], dtype=operand.type.dtype)
    found = substitute(operand, new)
    assert isinstance(found, type(operand))
    return found
