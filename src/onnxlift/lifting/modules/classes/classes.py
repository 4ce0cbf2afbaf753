"""One class for equal modules.

Two modules are equal if their members and their forward are the same up to numbers (sizes, strides, epsilons) and to
layers that are mere activations. Those numbers and activations in which the instances of a class differ become
arguments of its constructor; those that always agree with one another become one argument. Classes are found from the
leaves up, so that equal children have one class already when their parents are compared. Modules for which the exporter
names different classes are never merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from onnxlift.ir.graph.marks import AXES
from onnxlift.lifting.code.expr import Literal
from onnxlift.lifting.code.statements import Assign, Statement, walk_statements
from onnxlift.lifting.modules.loops.dense import Layers, regular_layers
from onnxlift.lifting.modules.loops.group_loops import roll_groups
from onnxlift.lifting.modules.loops.loops import roll_loops
from onnxlift.lifting.modules.loops.single_rounds import Pattern, find_patterns, roll_single
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.modules.sequential import become_chain
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.scopes import Path

from .canonical import Canonical
from .class_arguments import Arguments, find_arguments
from .depths import depth, equal_lists, first_of
from .number_groups import LayerClass, Number, place_of
from .variants import MOST_FORMS, Form, Part, ask_for_constant, contained, optional_step

FEWEST_PLACES, FEWEST_LAYERS = 3, 12  # that chains of one kind are in, and have in all of these, to be a class
MOST_COMPARED = 16  # modules of a family that are compared with those of others


@dataclass(eq=False)
class ModuleClass:
    """A class of the generated source. `example` is the instance that it is written from: one that has all parts."""

    name: str
    example: Module
    instances: list[Module] = field(default_factory=list)
    constructor: Arguments = field(default_factory=Arguments)
    arguments: dict[int, dict[str, Any]] = field(default_factory=dict)  # id(instance) -> argument values
    parts: list[Part] = field(default_factory=list)
    absent: dict[int, set[Part]] = field(default_factory=dict)  # id(instance) -> the parts that it lacks

    # What variables of forward are called, by position: its parameters and results, and how callers name arguments.
    parameter_names: dict[int, str] = field(default_factory=dict)
    result_names: dict[int, str] = field(default_factory=dict)
    called_with: dict[int, str] = field(default_factory=dict)

    def statements_of(self, instance: Module) -> Iterator[Statement | None]:
        """For each statement of the example, the one of an instance; None where the instance lacks it."""
        missing = {each for part in self.absent.get(id(instance), ()) for each in part.statements}
        own = walk_statements(instance.body)
        for statement in walk_statements(self.example.body):
            yield None if statement in missing else next(own)


def find_classes(root: Module) -> tuple[list[ModuleClass], dict[int, ModuleClass]]:
    """The classes in the order in which they are to be written, and the class of each module by id."""
    class_of: dict[int, ModuleClass] = {}
    found: list[ModuleClass] = []
    order = {id(module): index for index, module in enumerate(root.walk())}
    for level in _levels(root):
        for form in _with_named_chains(_merged(_of_any_depth(_forms(level, class_of), class_of)), class_of):
            if form.modules[0].sequential and form.modules[0] is not root and not _is_recurring(form.modules):
                continue
            cls = _class_of(form)
            cls.instances.sort(key=lambda module: order[id(module)])
            found.append(cls)
            class_of.update((id(module), cls) for module in cls.instances)
    return _as_read(found, class_of), class_of


def _as_read(classes: list[ModuleClass], class_of: dict[int, ModuleClass]) -> list[ModuleClass]:
    """The classes in the order in which a person writes them: first what a class is made of, as it is used, then the
    class itself; the root comes last."""
    order: dict[int, ModuleClass] = {}

    def visit(cls: ModuleClass) -> None:
        if id(cls) in order:
            return
        for instance in cls.instances:
            visit_children(instance)
        order[id(cls)] = cls

    def visit_children(module: Module) -> None:
        for _, child in module.children():
            if id(child) in class_of:
                visit(class_of[id(child)])
            else:
                visit_children(child)  # an `nn.Sequential` or the like

    for cls in reversed(classes):
        visit(cls)
    return list(order.values())


def _forms(modules: Iterable[Module], class_of: dict[int, ModuleClass]) -> list[Form]:
    forms: dict[object, Form] = {}
    for module in modules:
        key, numbers = _describe(module, class_of)
        form = forms.setdefault(key, Form(key))
        form.modules.append(module)
        form.numbers[id(module)] = numbers
    return list(forms.values())


def _of_any_depth(forms: list[Form], class_of: dict[int, ModuleClass]) -> list[Form]:
    """The forms, with those that differ only in the lengths of lists merged into one. Where a form may have such
    relatives, the calls of its lists are loops, as they would be in the end."""
    relatives: dict[object, list[Form]] = {}
    for form in forms:
        relatives.setdefault(_relatives(form, class_of), []).append(form)
    joined: dict[int, Form] = {}  # by the id of the first form of a family
    for family in relatives.values():
        patterns = _patterns(family) if len(family) > 1 else []
        alike: dict[object, list[Form]] = {}
        for form in family:
            keys = {_rolled(module, class_of, patterns)[0] for module in form.modules} if len(family) > 1 else set()
            alike.setdefault(keys.pop() if len(keys) == 1 else id(form), []).append(form)
        for key, group in alike.items():
            joined[id(group[0])] = _joined(group, class_of, patterns) if isinstance(key, tuple) else group[0]
    return [joined[id(form)] for form in forms if id(form) in joined]


def _relatives(form: Form, class_of: dict[int, ModuleClass]) -> object:
    """Equal for forms that may differ only in the lengths of lists."""
    example = form.modules[0]
    lists = tuple(equal_lists(example, class_of))
    return (family_of(example), example.kin, lists) if lists and family_of(example) else id(form)


def _patterns(family: list[Form]) -> list[Pattern]:
    """What modules of a family do with lists, by one that does it with several entries."""
    longest = max((form.modules[0] for form in family), key=lambda module: len(module.members))
    return find_patterns(longest)


def _rolled(
    module: Module, class_of: dict[int, ModuleClass], patterns: Sequence[Pattern]
) -> tuple[tuple[Any, ...], list[Number]]:
    """What a module is with loops, but for the lengths of lists; it stays as it is."""
    statements = module.body.statements
    _roll(module, patterns)
    described = _describe(module, class_of, any_length=True)
    module.body.statements = statements
    return described


def _roll(module: Module, patterns: Sequence[Pattern]) -> None:
    roll_loops(module)
    if all(len(path) < 3 for path in module.members):  # the variables for lists of lists are called by classes
        roll_groups(module, lambda _: "block", {})
    for pattern in patterns:
        roll_single(module, pattern)


def _joined(family: list[Form], class_of: dict[int, ModuleClass], patterns: Sequence[Pattern]) -> Form:
    modules = [module for form in family for module in form.modules]
    longest = max(modules, key=lambda module: len(module.members))  # which shows what a list is
    modules.sort(key=lambda module: module is not longest)
    for module in modules:
        _roll(module, patterns)
    described = [_describe(module, class_of, any_length=True) for module in modules]
    numbers = {id(module): numbers for module, (_, numbers) in zip(modules, described, strict=True)}
    return Form(described[0][0], modules, numbers)


def _with_named_chains(forms: list[Form], class_of: dict[int, ModuleClass]) -> list[Form]:
    """The forms, with those an `nn.Sequential` that are plain chains, all modules of them."""
    described: list[Form] = []
    for form in forms:
        if any(module.chain is None for module in form.modules) or form.parts:
            described.append(form)
        else:
            for module in form.modules:
                become_chain(module)
            described += _forms(form.modules, class_of)
    return described


def _class_of(form: Form) -> ModuleClass:
    example = form.modules[0]
    cls = ModuleClass("", example, list(form.modules), parts=form.parts, absent=form.absent)
    arguments = _arguments(form)
    assert arguments is not None  # a form without is not merged
    cls.constructor = arguments
    for index, module in enumerate(form.modules):
        cls.arguments[id(module)] = {name: column[index] for name, column in arguments.values.items()}
    for part in form.parts:
        if isinstance(part.statement, Assign) and isinstance(example.members.get(part.member or ()), Stored):
            part.statement = _ask_for_constant(cls, part)
        elif isinstance(part.statement, Assign) and part.member is None and not part.is_roll:
            flag = Literal(True)
            part.statement.expr = optional_step(part.statement, part, flag)
            name = arguments.attribute(place_of(Number((part, "there"), "", True)), part.name)
            arguments.texts[id(flag)] = name
    return cls


def _ask_for_constant(cls: ModuleClass, part: Part) -> Statement:
    """Write the step as an `if`, in all instances that take it; gives that of the example."""
    for module in cls.instances:
        pairs = zip(walk_statements(cls.example.body), cls.statements_of(module), strict=True)
        own = next(own for statement, own in pairs if statement is part.statement)
        if isinstance(own, Assign) and module is not cls.example:
            ask_for_constant(module, own)
    assert isinstance(part.statement, Assign)
    return ask_for_constant(cls.example, part.statement)


def _arguments(form: Form) -> Arguments | None:
    taken = {path[0] for path in form.modules[0].members}  # `self.scale` can be the argument or the member, not both
    return find_arguments(*form.columns(), taken)


def _merged(forms: list[Form]) -> list[Form]:
    """The forms, with those that lack a part of another merged into that."""
    families: dict[object, list[Form]] = {}
    for form in forms:
        example = form.modules[0]
        families.setdefault((family_of(example) or id(form), example.kin), []).append(form)
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
    position = {id(form.modules[0]): index for index, form in enumerate(forms)}
    return sorted(merged, key=lambda form: position[id(form.modules[0])])


def family_of(module: Module) -> object:
    """Equal for modules that may be of one class: by what the exporter says, else by place (`layer1.0`, `layer2.1`).
    None for a module that has no relatives."""
    if module.sequential:
        return None
    if module.class_hint is not None:
        return module.class_hint
    place = tuple("#" if part.isdigit() else part.rstrip("0123456789") for part in module.path)
    return place if place != module.path else None


def _levels(root: Module) -> list[list[Module]]:
    """All modules, children before parents, and those of one family, or of one structure, on one level, so that they
    can be compared."""
    families: list[Callable[[Module], object]] = [*_kinds(root), lambda module: family_of(module) or id(module), id]
    for family in families:
        with suppress(CycleError):  # families within each other
            return _by_height(root, family)
    raise AssertionError("a module lies in itself")


def _kinds(root: Module) -> tuple[Callable[[Module], object], Callable[[Module], object]]:
    """First: one object for all modules of a family, and for families that have a module of one structure, as
    `blocks.0.attn` and `mid_attn` may be equal. The exporter's classes are families of their own. The first modules
    stand for a family.

    Second: one object for a structure that several families have, and for what else is in a family: in a list of all
    kinds, `layers.0` may be equal to `layers.1.conv`."""
    known: Counter[object] = Counter()
    structures: dict[object, int] = {}
    structure_of: dict[int, int] = {}
    homes: dict[int, object] = {}  # structure -> the first family that has it
    above: dict[object, object] = {}  # family -> the one that it has joined
    members_of: dict[object, set[int]] = {}  # family -> the structures in it
    shared: set[int] = set()

    def top(family: object) -> object:
        while family in above:
            family = above[family]
        return family

    for module in root.walk() if any(module.class_hint is None for module in root.walk()) else ():
        own = family_of(module) or id(module)
        known[own] += 1
        if known[own] > MOST_COMPARED:
            continue
        members = [(p, structure_of.get(id(m)) or getattr(m, "kind", "")) for p, m in module.members.items()]
        text = "" if module.sequential else Canonical(module, []).describe()
        key = (module.class_hint, module.sequential, tuple(members), text, module.kin)
        structure = structure_of[id(module)] = structures.setdefault(key, len(structures) + 1)
        if module.class_hint is None and not module.sequential:
            family = top(own)
            members_of.setdefault(own, set()).add(structure)
            home = top(homes.setdefault(structure, family))
            if home != family:
                above[family] = home
                shared.add(structure)

    def by_structure(module: Module) -> object:
        own = family_of(module) or id(module)
        all_of_it = members_of.get(own, set())
        structure = structure_of.get(id(module), min(all_of_it) if len(all_of_it) == 1 else 0)
        return ("structure", structure) if structure in shared else own

    return lambda module: top(family_of(module) or id(module)), by_structure


def _by_height(root: Module, family: Callable[[Module], object]) -> list[list[Module]]:
    children: dict[object, set[object]] = {}
    for module in root.walk():
        children.setdefault(family(module), set()).update(family(child) for _, child in module.children())
    heights: dict[object, int] = {}
    for key in TopologicalSorter(children).static_order():
        heights[key] = 1 + max((heights[child] for child in children[key]), default=0)
    levels: dict[int, list[Module]] = {}
    for module in root.walk():
        levels.setdefault(heights[family(module)], []).append(module)
    return [levels[height] for height in sorted(levels)]


def _is_recurring(chains: list[Module]) -> bool:
    """Whether an `nn.Sequential` is long enough, and there in enough places, to be a class rather than be written out
    (`mlp` of all blocks is one place). A class that the author has given a name is one if it is there twice, or if its
    members have names, too; and so is a chain of named members that is there twice, and may have been a class."""
    hint, has_numbers = chains[0].class_hint, chains[0].has_numbers
    if hint != "Sequential" and (hint is not None or not has_numbers):
        return len(chains) > 1 or (hint is not None and not has_numbers)
    places = {chain.path[-2:] if chain.path[-1].isdigit() else chain.path[-1] for chain in chains}
    return len(places) >= FEWEST_PLACES and len(places) * len(chains[0].members) >= FEWEST_LAYERS


def _describe(
    module: Module, class_of: dict[int, ModuleClass], any_length: bool = False
) -> tuple[tuple[Any, ...], list[Number]]:
    """What a module is but for its numbers, and the numbers. With `any_length` the lengths of lists of equal modules
    are numbers, too."""
    numbers: list[Number] = []
    members: list[tuple[Path, tuple[Any, ...]]] = []
    layers = made_in_a_loop(module, class_of)
    if layers is not None:
        numbers += layers.numbers(module)
        cls = class_of[id(next(iter(module.members.values())))]
        members.append(((layers.prefix,), (id(cls), layers.first, tuple(layers.growth))))
    lists = equal_lists(module, class_of) if any_length else {}
    for path, member in module.members.items() if layers is None else ():
        if path[0] in lists and path[1:] not in ((), ("0",)):
            continue
        known = len(numbers)
        if path[0] in lists:
            members.append((path, ("list", *describe_member(first_of(member), class_of, numbers))))
        else:
            members.append((path, describe_member(member, class_of, numbers)))
        for number in numbers[known:]:
            number.home = path
        if path[0] in lists:
            numbers.append(depth(module, path, lists[path[0]]))
    text = "" if module.sequential else Canonical(module, numbers).describe()
    return (module.class_hint, module.sequential, tuple(members), text, module.kin), numbers


def made_in_a_loop(module: Module, class_of: Mapping[int, ModuleClass]) -> Layers | None:
    """How a loop of the constructor makes the members; None if each has its own line."""
    classes = {class_of.get(id(member)) for member in module.members.values()}
    if not module.reads_children or len(classes) != 1:
        return None
    (cls,) = classes
    return None if cls is None else regular_layers(module, [cls.arguments[id(m)] for m in module.members.values()])


def describe_member(
    member: Layer | Stored | Module, class_of: Mapping[int, ModuleClass], numbers: list[Number]
) -> tuple[Any, ...]:
    """What a member is but for its numbers; these are added to `numbers`."""
    match member:
        case Module() if id(member) not in class_of:
            inner = [(p, describe_member(m, class_of, numbers)) for p, m in member.members.items()]
            return ("Sequential", tuple(inner))
        case Module():
            cls = class_of[id(member)]
            for name, value in cls.arguments[id(member)].items():
                numbers.append(Number((member, name), name, value))
            return (id(cls),)
        case Stored():
            shape = member.weight.shape
            matrix = ("in_dim", "out_dim") if member.is_parameter else ("length", "length")
            roles = {1: ("dim",), 2: matrix}.get(len(shape), ("length",) * len(shape))
            roles = member.weight.value.meta.get(AXES, roles)
            for axis, (role, size) in enumerate(zip(roles, shape, strict=True)):
                numbers.append(Number((member, str(axis)), role, size))
            return (member.is_parameter, member.persistent, len(member.weight.shape), member.weight.value.dtype)
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
