"""Describe modules without their numbers. The descriptions are equal for modules that can share a class.

Two modules are described alike if their members are, and if their forward is the same text. Child modules of one class
are alike. So are all activations without numbers of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnxlift.ir.graph.marks import AXES
from onnxlift.lifting.modules.loops.dense_blocks import NumberedLayers, regular_layers
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .canonical import Canonical
from .equal_lists import equal_lists, first_of, length_number
from .module_class import ModuleClass
from .number_groups import LayerClass, Number
from .variants import Form

Description = tuple[Any, ...]


def find_forms(modules: Iterable[Module], class_of: Mapping[object, ModuleClass]) -> list[Form]:
    """Return one form for all modules with the same description."""
    forms: dict[Description, Form] = {}
    for module in modules:
        key, numbers = describe(module, class_of)
        form = forms.setdefault(key, Form(key))
        form.modules.append(module)
        form.numbers[module] = numbers
    return list(forms.values())


def describe(
    module: Module, class_of: Mapping[object, ModuleClass], any_length: bool = False
) -> tuple[Description, list[Number]]:
    """Describe a module without its numbers, and return the description and the numbers. With `any_length`, the lengths
    of lists of equal modules are numbers, too."""
    numbers: list[Number] = []
    layers = made_in_a_loop(module, class_of)
    if layers is not None:
        numbers += layers.numbers(module)
        cls = class_of[next(iter(module.members.values()))]
        members: list[tuple[Path, Description]] = [((layers.prefix,), (cls, layers.first, tuple(layers.growth)))]
    else:
        members = _describe_members(module, class_of, any_length, numbers)
    text = "" if module.sequential else Canonical(module, numbers).describe()
    keys = tuple(sorted(module.keys.items()))
    return (module.class_hint, module.sequential, tuple(members), text, module.class_key, keys), numbers


def _describe_members(
    module: Module, class_of: Mapping[object, ModuleClass], any_length: bool, numbers: list[Number]
) -> list[tuple[Path, Description]]:
    """Describe each member without its numbers, which are added to `numbers`. With `any_length`, the first entry of a
    list of equal modules stands for all."""
    lists = equal_lists(module, class_of) if any_length else {}
    members: list[tuple[Path, Description]] = []
    for path, member in module.members.items():
        is_listed = path[0] in lists
        if is_listed and path[1:] not in ((), ("0",)):
            continue
        known = len(numbers)
        if is_listed:
            members.append((path, ("list", *describe_member(first_of(member), class_of, numbers))))
        else:
            members.append((path, describe_member(member, class_of, numbers)))
        for number in numbers[known:]:
            number.home = path
        if is_listed:
            numbers.append(length_number(module, path, lists[path[0]]))
    return members


def made_in_a_loop(module: Module, class_of: Mapping[object, ModuleClass]) -> NumberedLayers | None:
    """Return the loop of the constructor that makes the members; None if each has its own line."""
    classes = {class_of.get(member) for member in module.members.values()}
    if not module.reads_children or len(classes) != 1:
        return None
    (cls,) = classes
    if cls is None:
        return None
    return regular_layers(module, [cls.arguments[m] for m in module.members.values() if isinstance(m, Module)])


def describe_member(
    member: Layer | Stored | Module, class_of: Mapping[object, ModuleClass], numbers: list[Number]
) -> Description:
    """Describe a member without its numbers, which are added to `numbers`."""
    match member:
        case Module() if member not in class_of:
            inner = [(p, describe_member(m, class_of, numbers)) for p, m in member.members.items()]
            return ("Sequential", tuple(inner))
        case Module():
            cls = class_of[member]
            numbers += (Number((member, name), name, value) for name, value in cls.arguments[member].items())
            return (cls,)
        case Stored():
            return _describe_stored(member, numbers)
    return _describe_layer(member, numbers)


def _describe_stored(member: Stored, numbers: list[Number]) -> Description:
    """Describe a parameter or buffer without its sizes, which are added to `numbers`."""
    shape = member.weight.shape
    matrix = ("in_dim", "out_dim") if member.is_parameter else ("length", "length")
    roles = {1: ("dim",), 2: matrix}.get(len(shape), ("length",) * len(shape))
    roles = member.weight.value.meta.get(AXES, roles)
    for axis, (role, size) in enumerate(zip(roles, shape, strict=True)):
        numbers.append(Number((member, str(axis)), role, size))
    return (member.is_parameter, member.persistent, len(shape), member.weight.value.dtype)


def _describe_layer(member: Layer, numbers: list[Number]) -> Description:
    """Describe a layer without its numbers, which are added to `numbers`. The class of an activation counts as a
    number, and so does the `bias` switch. Other switches are part of the description."""
    if member.is_plain_activation:
        numbers.append(Number((member, "class"), "activation", LayerClass(member.constructor)))
        return ("activation",)
    switches = []
    for name, value in member.complete_arguments().items():
        if name != "bias" and (isinstance(value, bool) or value is None or isinstance(value, str)):
            switches.append((name, value))
        else:
            numbers.append(Number((member, name), name, value))
    weights = tuple(name for name in member.weights if name != "bias")
    return (member.kind, tuple(switches), weights, member.wrapper)
