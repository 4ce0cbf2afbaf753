"""Find one class for modules that differ only in the lengths of their lists (`equal_lists.py`).

A loop over a list does not show how many entries the list has. So modules that may be related in this way get their
loops before they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxlift.lifting.code.statements import Block
from onnxlift.lifting.modules.loops.group_loops import roll_groups
from onnxlift.lifting.modules.loops.loops import roll_loops
from onnxlift.lifting.modules.loops.single_iterations import Pattern, find_patterns, roll_single
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import Layer

from .descriptions import Description, describe, describe_member
from .equal_lists import entries_of, equal_lists, listed_names
from .levels import family_of
from .module_class import ModuleClass
from .number_groups import Number
from .variants import Form


def merge_list_lengths(forms: Sequence[Form], class_of: Mapping[object, ModuleClass]) -> list[Form]:
    """Merge forms that differ only in the lengths of lists into one, and return all forms. If a form may have such
    relatives, the calls of its lists become loops already here, as they would later."""
    relatives: dict[object, list[Form]] = {}
    for form in forms:
        relatives.setdefault(_relation(form, class_of), []).append(form)
    merged: dict[Form, Form] = {}  # first of some forms -> the form that they are now
    for family in relatives.values():
        merged |= _merge_family(family, class_of) if len(family) > 1 else {family[0]: family[0]}
    return [merged[form] for form in forms if form in merged]


def _relation(form: Form, class_of: Mapping[object, ModuleClass]) -> object:
    """Return a key that is equal for forms that may differ only in the lengths of lists."""
    example = form.modules[0]
    lists = tuple(equal_lists(example, class_of))
    return (family_of(example), example.class_key, lists) if lists and family_of(example) else form


def _merge_family(family: Sequence[Form], class_of: Mapping[object, ModuleClass]) -> dict[Form, Form]:
    """Merge those of a family's forms that differ only in the lengths of lists. Return the merged form, which has
    loops, by the first of the forms in it. A form whose modules would differ with loops stays as it is."""
    longest = max((form.modules[0] for form in family), key=lambda module: len(module.members))
    patterns = find_patterns(longest)
    alike: dict[Description, list[Form]] = {}
    merged: dict[Form, Form] = {}
    for form in family:
        descriptions = {_describe_with_loops(module, class_of, patterns) for module in form.modules}
        if len(descriptions) == 1:
            alike.setdefault(descriptions.pop(), []).append(form)
        else:
            merged[form] = form
    return merged | {group[0]: _with_loops(group, class_of, patterns) for group in alike.values()}


def _describe_with_loops(
    module: Module, class_of: Mapping[object, ModuleClass], patterns: Sequence[Pattern]
) -> Description:
    """Describe a module as it would be with loops over its lists, without the lengths of these."""
    copy = replace(module, body=Block(module.body.statements))
    _roll(copy, patterns)
    return describe(copy, class_of, any_length=True)[0]


def _with_loops(forms: Sequence[Form], class_of: Mapping[object, ModuleClass], patterns: Sequence[Pattern]) -> Form:
    """Let the modules of these forms go through their lists in loops, and return the one form that they then have."""
    modules = [module for form in forms for module in form.modules]
    longest = max(modules, key=lambda module: len(module.members))  # it becomes the example, and shows whole lists
    modules.sort(key=lambda module: module is not longest)
    for module in modules:
        _roll(module, patterns)
    described = [describe(module, class_of, any_length=True) for module in modules]
    numbers = {module: numbers for module, (_, numbers) in zip(modules, described, strict=True)}
    return Form(described[0][0], modules, numbers)


def texts_for_entries(
    form: Form, texts: Mapping[object, str], class_of: Mapping[object, ModuleClass]
) -> dict[object, str]:
    """Return the texts for the numbers in the lists of a form's example, for all entries but the first. They are those
    of the first: if no instance has another length, the constructor makes the entries one by one."""
    example = form.modules[0]
    found: dict[object, str] = {}
    for name in listed_names(form.numbers[example]):
        first, *others = (_numbers_of(entry, class_of) for entry in entries_of(example, name))
        for own in others:
            pairs = zip(first, own, strict=True)
            found |= {number.where: texts[place.where] for place, number in pairs if place.where in texts}
    return found


def _numbers_of(member: Layer | Stored | Module, class_of: Mapping[object, ModuleClass]) -> list[Number]:
    numbers: list[Number] = []
    describe_member(member, class_of, numbers)
    return numbers


def _roll(module: Module, patterns: Sequence[Pattern]) -> None:
    """Let a module go through its lists in loops. This includes lists of one entry for which there is a pattern."""
    roll_loops(module)
    if all(len(path) < 3 for path in module.members):  # loops over lists of lists need the names of classes
        roll_groups(module, lambda _: "block", {})
    for pattern in patterns:
        roll_single(module, pattern)
