"""Finishing a module when all its nodes are lowered: what nobody reads goes, and constants get a place.

A constant that code reads as a tensor is, of the first of these that applies: the parameter of a layer below the module
(`self.embedding.weight`), a line of code that makes it (`counted.py`), a parameter or buffer of the module, or an
argument that a module above hands down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import onnx_ir as ir

from onnxlift.ir.graph.marks import MADE
from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Ref, walk
from onnxlift.lifting.code.identifiers import is_nameless
from onnxlift.lifting.code.statements import expressions, walk_statements
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.tree.paths import owner_of
from onnxlift.lifting.tree.plan import ModulePlan
from onnxlift.lifting.tree.weights import is_parameter

from .branches import merge_branches
from .constants import has_key, is_made_up
from .counted import make_in_place
from .dead_code import remove_dead_code
from .member_names import stored_path
from .member_order import order_by_use
from .module import Module, Stored
from .prune import drop_unused_inputs
from .size_sources import read_from_parameters


class Surroundings(Protocol):
    """The knowledge of the whole model that is needed: the plan that each node is in."""

    model: ir.Model
    place: dict[ir.Node, ModulePlan]


def finish(module: Module, plan: ModulePlan, surroundings: Surroundings, *, keep_inputs: bool = False) -> None:
    """Drop what is not used, and give the constants that are used a place."""
    read_from_parameters(module)
    remove_dead_code(module.body)
    merge_branches(module.body)
    if not keep_inputs:
        drop_unused_inputs(module)
    _place_constants(module, plan, surroundings)
    order_by_use(module)


def _place_constants(module: Module, plan: ModulePlan, surroundings: Surroundings) -> None:
    """Give each constant that the code reads a place, those first that have a name: so nobody takes another's."""
    values = {
        part._key: None
        for statement in walk_statements(module.body)
        for expr in expressions(statement)
        for part in walk(expr)
        if isinstance(part, Ref)
    }
    constants = [v for v in values if isinstance(v, ir.Value) and v.const_value is not None]
    for value in sorted(constants, key=is_made_up):
        if value not in module.inputs:
            _place_constant(value, module, plan, surroundings)


def _place_constant(value: ir.Value, module: Module, plan: ModulePlan, surroundings: Surroundings) -> None:
    """Place a constant that is used as a tensor. It belongs to this module if nobody else uses it, or if it is small
    and not in the state dict; otherwise it comes from above, as an argument. So does one that by its name is a module's
    around this one: it would have another key in the state dict. One that a layer has is read from the layer."""
    borrowed = module.find_parameter(value) if is_parameter(value) else None
    if borrowed is not None and _is_distinct(value):
        module.constants[value] = borrowed
        return
    at_top = not module.path
    if at_top or (
        _is_private(value, plan, surroundings.place) and not _is_owned_above(value, module, surroundings.model)
    ):
        if not is_parameter(value) and make_in_place(value, module.body):
            return
        shape = tuple(int(d) for d in value.shape or () if isinstance(d, int))
        stored = Stored(Weight(value, shape), is_parameter(value))
        module.add(stored_path(value, module, stored.is_parameter), stored)
        module.constants[value] = stored
    else:
        module.inputs[value] = Tensor(Ref(value), type_of(value))


def _is_owned_above(value: ir.Value, module: Module, model: ir.Model) -> bool:
    """Tell whether PyTorch's name of a parameter or buffer places it in a module that this one lies in."""
    if not has_key(value) or is_nameless(value) or model.producer_name != "pytorch":
        return False
    at_root = "." not in (value.name or "") and MADE not in value.meta
    owner = () if at_root else owner_of(value.name)
    return owner is not None and len(owner) < len(module.path) and module.path[: len(owner)] == owner


def _is_distinct(value: ir.Value) -> bool:
    """Tell whether a parameter is known by its numbers: equal ones of several modules, like the ones that all norms
    begin with, are stored once by exporters."""
    assert value.const_value is not None
    if len(value.const_value.shape) > 1:
        return True
    numbers = value.const_value.numpy()
    return bool((numbers != numbers[:1]).any())


def _is_private(value: ir.Value, plan: ModulePlan, place: Mapping[ir.Node, ModulePlan]) -> bool:
    users = [user for user, _ in value.uses()]
    inside = all(_within(place.get(user), plan) for user in users)
    return inside or (not has_key(value) and (type_of(value).size or 0) <= 1024)


def _within(plan: ModulePlan | None, ancestor: ModulePlan) -> bool:
    while plan is not None:
        if plan.path == ancestor.path:  # the same, or another call of the same
            return True
        plan = plan.parent
    return False
