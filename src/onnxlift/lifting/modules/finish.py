"""Finishing a module when all its nodes are lowered: what nobody reads goes, and constants get a place.

A constant that code reads as a tensor is, of the first of these that applies: the parameter of a layer below the module
(`self.embedding.weight`), a line of code that makes it (computed_constants.py), a parameter or buffer of the module, or
an argument that a module above hands down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Ref
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.modules.members.computed_constants import write_computation
from onnxlift.lifting.modules.members.member_order import order_by_use
from onnxlift.lifting.modules.members.parameter_lists import list_parameters
from onnxlift.lifting.modules.signatures.prune import drop_unused_inputs
from onnxlift.lifting.modules.statements.branches import merge_branches
from onnxlift.lifting.modules.statements.dead_code import remove_dead_code
from onnxlift.lifting.modules.statements.size_sources import read_from_parameters
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.tree.paths import owner_of_weight
from onnxlift.lifting.tree.plan import ModulePlan
from onnxlift.stages import Stage, step

from .member_names import stored_path
from .module import Module, Stored


class Surroundings(Protocol):
    """The knowledge of the whole model that is needed: the plan that each node is in."""

    model: ir.Model
    place: dict[ir.Node, ModulePlan]


@dataclass(frozen=True)
class LoweredModule:
    """A module whose nodes are all lowered. What `keeps_inputs` is the root: its inputs are those of the model."""

    module: Module
    plan: ModulePlan
    surroundings: Surroundings
    keeps_inputs: bool = False


@step("sizes-of-parameters", optional=False)
def sizes_of_parameters(lowered: LoweredModule) -> int:
    """Sizes are read from the parameters of `forward` that have them."""
    read_from_parameters(lowered.module)
    return 0


@step("unread-code", optional=False, after={"sizes-of-parameters": "a tensor may only have been read for its size"})
def unread_code(lowered: LoweredModule) -> int:
    """Statements whose results nobody reads are removed."""
    before = len(lowered.module.body.statements)
    remove_dead_code(lowered.module.body)
    return before - len(lowered.module.body.statements)


@step("equal-branches", optional=False, after={"unread-code": "what stands between two branches may go"})
def equal_branches(lowered: LoweredModule) -> int:
    """Neighbouring branches that ask the same are one."""
    before = len(lowered.module.body.statements)
    merge_branches(lowered.module.body)
    return before - len(lowered.module.body.statements)


@step("unread-inputs", optional=False, after={"unread-code": "what it removes may have been the only reader"})
def unread_inputs(lowered: LoweredModule) -> int:
    """Parameters of `forward` that nobody reads are dropped."""
    before = len(lowered.module.inputs)
    if not lowered.keeps_inputs:
        drop_unused_inputs(lowered.module)
    return before - len(lowered.module.inputs)


@step("placed-constants", optional=False, after={"unread-inputs": "a constant may come from above, as an input"})
def placed_constants(lowered: LoweredModule) -> int:
    """Constants that the code reads become parameters, buffers, lines of code or arguments."""
    values = dict.fromkeys(values_read(lowered.module.body))
    constants = [v for v in values if isinstance(v, ir.Value) and v.const_value is not None]
    placed = [value for value in constants if value not in lowered.module.inputs]
    # Those first that have a name, so that nobody takes another's.
    for value in sorted(placed, key=lambda value: origin_of(value).is_unnamed):
        _place_constant(value, lowered.module, lowered.plan, lowered.surroundings)
    return len(placed)


@step("order-of-use", optional=False, after={"placed-constants": "constants become members, too"})
def order_of_use(lowered: LoweredModule) -> int:
    """Members come in the order in which `forward` uses them; unused layers go."""
    before = list(lowered.module.members)
    order_by_use(lowered.module)
    return before != list(lowered.module.members)


@step("parameter-lists", after={"order-of-use": "it moves members, and keeps their order"})
def parameter_lists(lowered: LoweredModule) -> int:
    """Parameters without names that are alike become an `nn.ParameterList`."""
    return list_parameters(lowered.module)


FINISHING = Stage(
    "finishing",
    "each lowered module loses what nobody reads, and its constants get a place",
    (sizes_of_parameters, unread_code, equal_branches, unread_inputs, placed_constants, order_of_use, parameter_lists),
)

_SMALL = 1024  # elements of a constant that several modules may each have for themselves
_LARGEST_INDEX = 1 << 16
_LOOKUPS = frozenset({"Gather", "Index"})


def _place_constant(value: ir.Value, module: Module, plan: ModulePlan, surroundings: Surroundings) -> None:
    """Place a constant that is used as a tensor. It belongs to this module if nobody else uses it, or if it is small
    and not in the state dict; or if it is an index into parameters, which each module has for its own (exporters store
    equal ones once). Otherwise it comes from above, as an argument. So does one that by its name is a module's
    around this one: it would have another key in the state dict. One that a layer has is read from the layer."""
    is_parameter = origin_of(value).is_parameter
    borrowed = module.find_parameter(value) if is_parameter else None
    if borrowed is not None and _is_distinct(value):
        module.constants[value] = borrowed
        return
    at_top = not module.path
    if at_top or (
        _is_private(value, plan, surroundings.place) and not _is_owned_above(value, module, surroundings.model)
    ):
        if not is_parameter and write_computation(value, module.body):
            return
        shape = tuple(int(d) for d in value.shape or () if isinstance(d, int))
        stored = Stored(Weight(value, shape), is_parameter)
        module.add(stored_path(value, module, stored.is_parameter), stored)
        module.constants[value] = stored
    else:
        module.inputs[value] = Tensor(Ref(value), type_of(value))


def _is_owned_above(value: ir.Value, module: Module, model: ir.Model) -> bool:
    """Tell whether PyTorch's name of a parameter or buffer places it in a module that this one lies in."""
    origin = origin_of(value)
    if not origin.is_in_state_dict or origin.is_nameless or not exporter_of(model).is_pytorch:
        return False
    at_root = "." not in (value.name or "") and not origin.is_made
    owner = () if at_root else owner_of_weight(value)
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
    size = type_of(value).size or 0
    is_small = size <= _SMALL or (size <= _LARGEST_INDEX and all(_is_index(user, value) for user in users))
    return inside or (is_small and not origin_of(value).is_in_state_dict)


def _is_index(node: ir.Node, value: ir.Value) -> bool:
    """Tell whether a node looks up in a parameter what these numbers are the index of."""
    data, *indices = node.inputs
    is_parameter = data is not None and data.const_value is not None and origin_of(data).is_parameter
    return is_parameter and node.op_type in _LOOKUPS and value in indices


def _within(plan: ModulePlan | None, ancestor: ModulePlan) -> bool:
    while plan is not None:
        if plan.path == ancestor.path:  # the same, or another call of the same
            return True
        plan = plan.parent
    return False
