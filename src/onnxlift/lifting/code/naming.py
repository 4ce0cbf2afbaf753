"""Choose names by ranked rules, and remember why: each candidate for a name has its reason.

One `Rules` stands for one kind of name (of results in a `forward`, of layers, of classes). It is a list of small
functions. Each looks at the thing to be named and gives candidates; the order of the list is their rank. The first
candidate that is free becomes the name. A taken candidate becomes the name with a number, if it allows numbers.

A conversion only asks for the winner. To learn why it won, ask the same rules again with `explain`. So no text is
formatted and no further rule is asked, unless somebody wants to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from .identifiers import unique

Subject = TypeVar("Subject")
NUMBERED = "with a number, since another is called so"


class Candidate(NamedTuple):
    """A name that something may get.

    `reason` says where it comes from, with `{}` in the places of `details`. If the name is taken, a `numbered`
    candidate gets a number; any other is passed over. `rank` is the place of its rule in the list.
    """

    name: str
    reason: str
    details: tuple[object, ...] = ()
    numbered: bool = False
    rank: int = 0

    @property
    def why(self) -> str:
        """The reason as a sentence."""
        return self.reason.format(*self.details)


@dataclass(frozen=True)
class ChosenName:
    """The name that something got, the candidate that it comes from (`won`), and the other candidates (`lost`).
    `change` says what was done to the candidate if the text is not the same."""

    text: str
    won: Candidate
    lost: tuple[Candidate, ...] = ()
    change: str = ""

    @property
    def why(self) -> str:
        """The reason as a sentence."""
        return f"{self.won.why}; {self.change}" if self.change else self.won.why


@dataclass(frozen=True)
class Chosen:
    """The candidate that won, what was done to it, and a function that finds the others on request."""

    won: Candidate
    candidates: Callable[[], Iterable[Candidate]]
    change: str = ""

    def explain(self, text: str) -> ChosenName:
        """Return the name `text` with its reason and the candidates that lost."""
        return ChosenName(text, self.won, distinct(self.candidates(), self.won.name), self.change)


class Listed(tuple[str, ...]):
    """Words that are joined by commas when they are formatted, each word once."""

    def __format__(self, _: str) -> str:
        return ", ".join(dict.fromkeys(self))


@dataclass(frozen=True)
class Rules(Generic[Subject]):
    """The rules for one kind of name, the strongest first. The last one always gives a candidate that may be numbered.
    `number(name, taken)` makes a name distinct from those that are taken."""

    rules: tuple[Callable[[Subject], Iterable[Candidate]], ...]
    number: Callable[[str, set[str]], str] = unique

    def candidates(self, subject: Subject) -> Iterator[Candidate]:
        """Yield all candidates, the strongest first, each computed when it is asked for."""
        for rule in self.rules:
            yield from rule(subject)

    def choose(self, subject: Subject, taken: set[str]) -> tuple[str, Candidate]:
        """Return the name that a subject gets, and the candidate that it comes from."""
        for candidate in self.candidates(subject):
            if candidate.name not in taken:
                return candidate.name, candidate
            if candidate.numbered:
                return self.number(candidate.name, taken), candidate
        raise AssertionError("the last rule gives a name that can be numbered")

    def decide(self, subject: Subject, taken: set[str]) -> tuple[str, Chosen]:
        """Return the same name, and what is needed to explain it later. The rules must still give the same candidates
        then."""
        name, won = self.choose(subject, taken)
        change = "" if name == won.name else NUMBERED
        return name, Chosen(won, partial(self.candidates, subject), change)

    def explain(self, subject: Subject, taken: Collection[str] = ()) -> ChosenName:
        """Return the same name with all candidates that lost, the strongest first, each name once."""
        ranked = [candidate._replace(rank=rank) for rank, rule in enumerate(self.rules) for candidate in rule(subject)]
        names = set(taken)
        text, won = self.number(ranked[-1].name, names), ranked[-1]
        for candidate in ranked:
            if candidate.name not in names or candidate.numbered:
                text, won = self.number(candidate.name, names), candidate
                break
        return ChosenName(text, won, distinct(ranked, won.name), NUMBERED * (text != won.name))


def distinct(candidates: Iterable[Candidate], won: str) -> tuple[Candidate, ...]:
    """Return the candidates that lost against the name `won`, for each name the strongest."""
    lost: dict[str, Candidate] = {}
    for candidate in candidates:
        if candidate.name and candidate.name != won:
            lost.setdefault(candidate.name, candidate)
    return tuple(lost.values())
