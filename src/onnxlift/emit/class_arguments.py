"""The arguments of a class: which numbers its instances differ in, and what those are called.

    conv1 8 -> 8, conv2 8 -> 8; conv1 8 -> 16, conv2 16 -> 16     ->     (in_channels, channels)
    Linear(8, 32), Linear(12, 48)                                 ->     nn.Linear(dim, 4 * dim)

Numbers that always agree become one argument, if they measure the same kind of thing: that a kernel is as large as
there are channels is chance. A number that is always the same multiple of an argument is written as that, and a padding
as half of its kernel. Whether an optional part is there may follow from two widths (`in_channels != channels`); if not,
it is an argument of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..code.expr import Literal

LARGEST_FACTOR = 8
MOST_COMPARED = 40  # widths of one class: each is compared with all others


class Absent:
    """Stands for a number in an instance that lacks the part where it is."""


ABSENT = Absent()


@dataclass(eq=False)
class Number:
    """One place in a module where a number stands: an argument of a layer, or a literal in `forward`."""

    where: object  # the Literal itself, or (layer or child module or optional part, argument name)
    role: str
    value: Any
    home: object = None  # the path of the member, or the id of the statement, that it is in


@dataclass
class Arguments:
    """What the constructor takes, and how the example's numbers are written with it."""

    values: dict[str, list[Any]] = field(default_factory=dict)  # name -> value for each instance
    defaults: dict[str, Any] = field(default_factory=dict)
    texts: dict[object, str] = field(default_factory=dict)  # place -> expression: `dim`, `4 * dim`
    attributes: dict[str, str] = field(default_factory=dict)  # what forward reads, and what it is in the constructor
    taken: set[str] = field(default_factory=set)  # names of members

    def names_for(self, places: Sequence[Number]) -> set[str]:
        """The names that an argument for these places can't have: `self.scale` is either the argument or a member."""
        in_forward = any(isinstance(place.where, Literal) for place in places)
        return self.values.keys() | (self.taken if in_forward else set())

    def attribute(self, place: object, role: str) -> str:
        """How `forward` reads the number at a place: from an attribute, which the constructor sets."""
        text = self.texts[place]
        for name, known in self.attributes.items():
            if known == text:
                return f"self.{name}"
        name = (
            text if text.isidentifier() else _numbered(role, self.taken | self.values.keys() | self.attributes.keys())
        )
        self.attributes[name] = text
        return f"self.{name}"

    def find_defaults(self, groups: Sequence[_Group]) -> None:
        """Let arguments that mostly are what PyTorch's own defaults are have that default, and stand last."""
        family = {group.text: group.places[0].role for group in groups}
        for name, column in self.values.items():
            usual = False if isinstance(column[0], bool) else _DEFAULTS.get(family[name])
            if usual is not None and 2 * sum(value == usual for value in column) >= len(column):
                self.defaults[name] = usual
        self.values = dict(sorted(self.values.items(), key=lambda item: item[0] in self.defaults))


_DEFAULTS = {"stride": 1, "groups": 1, "dilation": 1}


@dataclass(eq=False)
class _Group:
    """Places whose numbers agree in every instance."""

    family: str
    column: list[Any]
    places: list[Number]
    text: str = ""

    @property
    def roles(self) -> list[str]:
        return [place.role for place in self.places]


_WIDTHS = frozenset(
    """in_channels out_channels num_features num_channels channels in_features out_features normalized_shape
    embedding_dim dim in_dim out_dim input_size hidden_size groups size hidden_channels hidden_dim length heads
    head_dim""".split()
)
_SIZES = frozenset({"size", "length", "heads", "head_dim"})  # of which layers' widths are no multiples


def _family(role: str) -> str:
    """What kind of thing a number measures."""
    stem = role.rstrip("0123456789")
    if stem in _WIDTHS or stem.startswith(("in_", "out_", "hidden_")):
        return "width"
    return "window" if stem in ("kernel_size", "stride") else stem


def place_of(number: Number) -> object:
    """The key of a number's place: by identity, since equal layers stand in many places."""
    return (id(number.where[0]), number.where[1]) if isinstance(number.where, tuple) else id(number.where)


def find_arguments(example: Sequence[Number], columns: Sequence[Sequence[Any]], taken: set[str]) -> Arguments | None:
    """The arguments for places with these values in the instances (ABSENT where an instance lacks the part); None if an
    optional part needs a number that instances without it do not have. `taken` are the names of members."""
    groups = _group(example, columns)
    if groups is None:
        return None
    derived = _derive(groups)
    arguments = Arguments(taken=set(taken))
    for group in groups:
        if group.family == "flag":
            continue
        if id(group) in derived:
            base, form = derived[id(group)]
            group.text = form.format(base.text)
        else:
            group.text = _parameter_name(group.places, arguments.names_for(group.places))
            arguments.values[group.text] = group.column
    for group in groups:
        if group.family == "flag":
            group.text = _condition(group, groups)
            if not group.text:
                group.text = _numbered(group.places[0].role, arguments.names_for(group.places))
                arguments.values[group.text] = group.column
    for group in groups:
        for place in group.places:
            arguments.texts[place_of(place)] = group.text
            if isinstance(place.where, Literal):
                arguments.texts[place_of(place)] = arguments.attribute(place_of(place), place.role)
    arguments.find_defaults(groups)
    return arguments


def _group(example: Sequence[Number], columns: Sequence[Sequence[Any]]) -> list[_Group] | None:
    groups: dict[tuple[str, tuple[str, ...]], _Group] = {}
    partial: list[tuple[Number, Sequence[Any]]] = []
    for number, column in zip(example, columns, strict=True):
        texts = tuple(repr(value) for value in column)  # by text: NaN is equal to NaN
        if any(value is ABSENT for value in column):
            partial.append((number, column))
        elif len(set(texts)) > 1:
            family = "flag" if isinstance(number.value, bool) else _family(number.role)
            groups.setdefault((family, texts), _Group(family, list(column), [])).places.append(number)
    found = list(groups.values())
    for number, column in partial:
        group = _fitting(number, column, found)
        if group is not None:
            group.places.append(number)
        elif len({repr(value) for value in column if value is not ABSENT}) > 1:
            return None
    return found


def _fitting(number: Number, column: Sequence[Any], groups: list[_Group]) -> _Group | None:
    """The group whose numbers a place in an optional part has, where it is there: of its own role, if there is one."""
    fits = [
        group
        for group in groups
        if group.family == _family(number.role)
        and all(a is ABSENT or repr(a) == repr(b) for a, b in zip(column, group.column, strict=True))
    ]
    same_role = [group for group in fits if any(place.role == number.role for place in group.places)]
    return next(iter(same_role or fits), None)


def _derive(groups: list[_Group]) -> dict[int, tuple[_Group, str]]:
    """For each group that is a multiple of another one, that one and the form: `4 * {}`."""
    derived: dict[int, tuple[_Group, str]] = {}
    widths = [g for g in groups if g.family == "width" and _are_integers(g) and not _SIZES.issuperset(g.roles)]
    bases: list[_Group] = []
    for group in widths[:MOST_COMPARED]:
        for base in bases:
            form = _multiple(group.column, base.column)
            if form:
                derived[id(group)] = (base, form)
                break
        else:
            bases.append(group)
    windows = [group for group in groups if group.family == "window" and _are_integers(group)]
    for group in groups:
        if group.family == "padding":
            for base in windows:
                if [size // 2 for size in base.column] == group.column:
                    derived[id(group)] = (base, "{} // 2")
    return derived


def _multiple(column: list[int], base: list[int]) -> str:
    """How the numbers of a column are written with those of another, if it always is the same multiple or part."""
    for factor in range(2, LARGEST_FACTOR + 1):
        if [factor * width for width in base] == column:
            return f"{factor} * {{}}"
        if [factor * width for width in column] == base:
            return f"{{}} // {factor}"
    return ""


def _are_integers(group: _Group) -> bool:
    return all(type(value) is int for value in group.column)


def _condition(flag: _Group, groups: list[_Group]) -> str:
    """`in_channels != channels`, if that tells whether the part is there; else nothing."""
    widths = [group for group in groups if group.family == "width"][:MOST_COMPARED]
    for index, first in enumerate(widths):
        for second in widths[index + 1 :]:
            for sign, equal in (("!=", False), ("==", True)):
                columns = zip(first.column, second.column, flag.column, strict=True)
                if all((a == b) is (there is equal) for a, b, there in columns):
                    return f"{first.text} {sign} {second.text}"
    return ""


# Names

_TOGETHER: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"in_channels", "out_channels", "num_features", "num_channels", "channels"}), "channels"),
    (
        frozenset(
            {"in_features", "out_features", "normalized_shape", "embedding_dim", "dim", "input_size", "hidden_size"}
            | {"in_dim", "out_dim"}
        ),
        "dim",
    ),
)
_SHORT = {"num_features": "channels", "normalized_shape": "dim", "in_features": "in_dim", "out_features": "out_dim"}


def _parameter_name(group: list[Number], taken: set[str]) -> str:
    """A telling name: the role of the places, or the general word if the places have several roles."""
    roles = [number.role for number in group]
    name = roles[0]
    if len(set(roles)) > 1:
        specific = [r for r in roles if r not in ("size", "scale", "shape", "groups", "length")]
        name = "heads" if "heads" in specific else specific[0] if specific else name
        for words, word in _TOGETHER:
            if len(words.intersection(specific)) > 1 and words.issuperset(specific):
                name = word
    name = _SHORT.get(name, name)
    if name in ("channels", "dim") and name in taken and f"hidden_{name}" not in taken:
        return f"hidden_{name}"
    return _numbered(name, taken)


def _numbered(name: str, taken: set[str]) -> str:
    number, candidate = 2, name
    while candidate in taken:
        candidate, number = f"{name}{number}", number + 1
    return candidate
