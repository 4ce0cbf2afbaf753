"""Name the arguments of a class by the roles of their numbers.

in_channels and num_features   ->   channels          out_features   ->   out_dim
kernel_size                    ->   kernel            heads, size    ->   heads
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from onnxlift.lifting.code.naming import Candidate, Chosen, Listed, Rules

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
_SHORT = {
    "num_features": "channels",
    "normalized_shape": "dim",
    "in_features": "in_dim",
    "out_features": "out_dim",
    "kernel_size": "kernel",
}


_SAY_LITTLE = ("size", "start", "scale", "shape", "groups", "length", "hidden")


def numbered(name: str, taken: set[str]) -> str:
    """Return the name, with a number if it is taken."""
    number, candidate = 2, name
    while candidate in taken:
        candidate, number = f"{name}{number}", number + 1
    return candidate


@dataclass(frozen=True)
class NewArgument:
    """Numbers that are to be one argument: the roles that they have in their places, and the names that are taken.
    `is_end` says that it is the width of the block's input or output."""

    roles: Sequence[str]
    taken: set[str]
    is_end: bool

    @cached_property
    def word(self) -> str:
        """The role of the places, or the general word if they have several."""
        name = self.roles[0]
        if len(set(self.roles)) > 1:
            specific = [role for role in self.roles if role not in _SAY_LITTLE]
            name = "heads" if "heads" in specific else specific[0] if specific else name
            for words, word in _TOGETHER:
                if len(words.intersection(specific)) > 1 and words.issuperset(specific):
                    name = word
        return _SHORT.get(name, name)

    @property
    def is_width(self) -> bool:
        """True for a width at any place in a block."""
        return self.word in ("channels", "dim")

    @property
    def is_inside(self) -> bool:
        """True for a width that a block has only inside: some layer has an input of this width, and it is at no end of
        the block."""
        return self.is_width and not self.is_end and any(role.startswith(("in_", "input_")) for role in self.roles)


def _inside(new: NewArgument) -> Iterator[Candidate]:
    """Call a width that a block has only inside `hidden`."""
    if new.is_inside:
        yield Candidate("hidden", "a width that the block has only inside: {}", (Listed(new.roles),))


def _at_the_end(new: NewArgument) -> Iterator[Candidate]:
    """Call a second width that of the output: `out_channels`."""
    if new.is_width and not new.is_inside and new.word in new.taken:
        yield Candidate(f"out_{new.word}", "a second width of the block: {}", (Listed(new.roles),))


def _role_of_places(new: NewArgument) -> Iterator[Candidate]:
    """Call an argument by the role of its number."""
    yield Candidate(new.word, "what the number is where it stands: {}", (Listed(new.roles),), numbered=True)


# The place of a width says more than its role, so the rules about places come first.
ARGUMENTS = Rules((_inside, _at_the_end, _role_of_places), numbered)


def argument_name(roles: Sequence[str], taken: set[str], is_end: bool) -> str:
    """Return a telling name for numbers with these roles, by the rules of `ARGUMENTS`."""
    return choose_argument(roles, taken, is_end)[0]


def choose_argument(roles: Sequence[str], taken: set[str], is_end: bool) -> tuple[str, Chosen]:
    """Return the same name, and the reason for it."""
    return ARGUMENTS.decide(NewArgument(tuple(roles), set(taken), is_end), set(taken))
