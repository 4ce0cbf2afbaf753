"""Find one class for all equal modules.

Two modules are equal if their members and their forward are the same up to numbers (sizes, strides, epsilons) and to
layers that are mere activations. If the instances of a class differ in a number or an activation, it becomes an
argument of the constructor. Numbers that always agree with one another become one argument. Classes are found from the
leaves up, so equal children have one class already when their parents are compared. Modules for which the exporter
names different classes are never merged. Neither are those that would not come out of one constructor as they are
(`constructed.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnxlift.lifting.code.expr import Literal
from onnxlift.lifting.code.statements import Assign, Statement, walk_statements
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.modules.sequential import become_chain

from .class_arguments import Arguments, find_arguments
from .constructed import wrong_instances
from .descriptions import find_forms
from .levels import family_of, levels
from .list_lengths import merge_list_lengths, texts_for_entries
from .module_class import ClassOf, ModuleClass
from .variants import MOST_FORMS, Form, Part, ask_for_constant, contained, optional_step

FEWEST_PLACES, FEWEST_LAYERS = 3, 12  # for a chain to be a class: its places, and its layers in all places together


def find_classes(root: Module) -> tuple[list[ModuleClass], ClassOf]:
    """Return the classes in the order in which they are to be written, and the class of each module."""
    class_of: ClassOf = {}
    found: list[ModuleClass] = []
    order = {module: index for index, module in enumerate(root.walk())}
    for level in levels(root):
        for form in _forms(level, class_of):
            if form.modules[0].sequential and form.modules[0] is not root and not _is_recurring(form.modules):
                continue
            cls = _class_of(form, class_of)
            cls.instances.sort(key=order.__getitem__)
            found.append(cls)
            class_of.update(dict.fromkeys(cls.instances, cls))
    return _in_reading_order(found, class_of), class_of


def _in_reading_order(classes: Sequence[ModuleClass], class_of: Mapping[object, ModuleClass]) -> list[ModuleClass]:
    """Return the classes in the order in which a person writes them: first the classes that a class is made of, in the
    order of use, then the class itself. The root comes last."""
    order: dict[ModuleClass, None] = {}

    def visit(cls: ModuleClass) -> None:
        if cls not in order:
            for instance in cls.instances:
                visit_children(instance)
            order[cls] = None

    def visit_children(module: Module) -> None:
        for _, child in module.children():
            if child in class_of:
                visit(class_of[child])
            else:
                visit_children(child)  # an `nn.Sequential` or the like

    for cls in reversed(classes):
        visit(cls)
    return list(order)


def _forms(modules: Iterable[Module], class_of: ClassOf) -> list[Form]:
    """Return the forms of the modules of a level. Each will be a class. Forms that differ in the lengths of lists are
    merged first, then forms that lack a part of another. Only after that is it known which are plain chains."""
    forms = merge_list_lengths(find_forms(modules, class_of), class_of)
    merged = _with_named_chains(_merge_variants(forms), class_of)
    return [right for form in merged for right in _come_out_right(form, class_of)]


def _come_out_right(form: Form, class_of: ClassOf) -> list[Form]:
    """Divide a form, until the constructor of each makes all its instances as they are."""
    arguments = _arguments(form)
    wrong = form.modules if arguments is None else wrong_instances(form, arguments, class_of)
    if not wrong:
        return [form]
    if form.modules[0] in wrong:  # not even the example: each module is written out for itself
        return [alone for module in form.modules for alone in find_forms([module], class_of)]
    rest = [right for other in find_forms(wrong, class_of) for right in _come_out_right(other, class_of)]
    return [*_come_out_right(form.without(wrong), class_of), *rest]


def _merge_variants(forms: Sequence[Form]) -> list[Form]:
    """Merge each form that lacks a part of another one into that one, and return all forms."""
    families: dict[object, list[Form]] = {}
    for form in forms:
        example = form.modules[0]
        families.setdefault((family_of(example) or form, example.class_key), []).append(form)
    merged: list[Form] = []
    for family in families.values():
        family.sort(key=lambda form: -len(form.modules[0].body.statements))
        while family:
            longest, *others = family
            family = []
            for other in others:
                both = contained(longest, other) if len(others) < MOST_FORMS else None
                if both is not None and _arguments(both) is not None:
                    longest = both
                else:
                    family.append(other)
            merged.append(longest)
    position = {form.modules[0]: index for index, form in enumerate(forms)}
    return sorted(merged, key=lambda form: position[form.modules[0]])


def _with_named_chains(forms: Sequence[Form], class_of: ClassOf) -> list[Form]:
    """Return the forms. If all modules of a form are plain chains, they become `nn.Sequential`s with names."""
    described: list[Form] = []
    for form in forms:
        if any(module.chain is None for module in form.modules) or form.parts:
            described.append(form)
        else:
            for module in form.modules:
                become_chain(module)
            described += find_forms(form.modules, class_of)
    return described


def _is_recurring(chains: Sequence[Module]) -> bool:
    """Tell whether an `nn.Sequential` becomes a class, and is not written out.

    It does if it is long enough, and there in enough places (`mlp` of all blocks is one place). If the author has given
    its class a name, it does if it is there twice, or if its members have names, too, unless these are no identifiers.
    A chain of named members whose class is unknown does if it is there twice, since it may have been a class.
    """
    hint, has_numbers = chains[0].class_hint, chains[0].has_numbers
    if hint != "Sequential" and (hint is not None or not has_numbers):
        return len(chains) > 1 or (hint is not None and not has_numbers and not chains[0].keys)
    places = {chain.path[-2:] if chain.path[-1].isdigit() else chain.path[-1] for chain in chains}
    return len(places) >= FEWEST_PLACES and len(places) * len(chains[0].members) >= FEWEST_LAYERS


def _class_of(form: Form, class_of: ClassOf) -> ModuleClass:
    """Make a class of the modules of a form, and let their forward ask for the parts that not all of them have."""
    example = form.modules[0]
    cls = ModuleClass("", example, list(form.modules), parts=form.parts, absent=form.absent)
    arguments = _arguments(form)
    assert arguments is not None  # forms are merged only if there are arguments for them
    cls.constructor = arguments
    arguments.texts |= texts_for_entries(form, arguments.texts, class_of)
    for index, module in enumerate(form.modules):
        cls.arguments[module] = {name: column[index] for name, column in arguments.values.items()}
    constants = [part for part in form.parts if isinstance(example.members.get(part.member or ()), Stored)]
    for part in form.parts:
        if isinstance(part.statement, Assign) and part.member is None and not part.is_roll:
            flag = Literal(True)
            part.statement.expr = optional_step(part.statement, part, flag)
            arguments.texts[flag] = arguments.attribute((part, "there"), part.name)
    for part in constants:  # these come last, since they rename what the other steps read
        if isinstance(part.statement, Assign):
            part.statement = _ask_for_constant(cls, part)
    return cls


def _ask_for_constant(cls: ModuleClass, part: Part) -> Statement:
    """Write the step as an `if` in all instances that take it, and return the `if` of the example."""
    for module in cls.instances:
        pairs = zip(walk_statements(cls.example.body), cls.statements_of(module), strict=True)
        own = next(own for statement, own in pairs if statement is part.statement)
        if isinstance(own, Assign) and module is not cls.example:
            ask_for_constant(module, own)
    assert isinstance(part.statement, Assign)
    return ask_for_constant(cls.example, part.statement)


def _arguments(form: Form) -> Arguments | None:
    """Return the arguments that a class of these modules would have. Return None if an optional part needs a number
    that instances without it do not have."""
    members = {path[0] for path in form.modules[0].members}  # `self.scale` can be the argument or the member, not both
    return find_arguments(*form.columns(), members)
