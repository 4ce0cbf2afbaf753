"""Stages: every step from bytes to text has a name, a place in a table, and a reason for that place.

A stage is a table of steps of one form. A step is a function that changes its subject (a model, a tree of modules) and
gives the number of changes. It says which steps it must come after, and why; the table is sorted by that:

    @step("linear", after={"weight-norm": "a computed weight counts as a constant by then"})
    def run(model: ir.Model) -> int: ...

`Record.run` runs a stage: it counts what each step changed, leaves out what the caller wants skipped, shows the subject
to an observer after each change, and notes a stage that has not come to rest.
"""

from __future__ import annotations

import difflib
import heapq
import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any

from .errors import OnnxLiftError

Observer = Callable[[str, Any], None]
"""Called with the name of a step and its subject as it is after it."""


def both(first: Observer, second: Observer) -> Observer:
    """Return an observer that tells two others."""

    def observe(name: str, subject: Any) -> None:
        first(name, subject)
        second(name, subject)

    return observe


@dataclass(frozen=True)
class Step:
    """One step of a stage: `function(subject)` changes the subject and gives the number of changes.

    `after` maps the steps of the same stage that must run before it to the reason. What is not `optional` always runs.
    Where a step that `repeats` has changed something, the stage goes through another round."""

    name: str
    function: Callable[..., int]
    after: Mapping[str, str] = field(default_factory=dict)
    optional: bool = True
    repeats: bool = False

    def __call__(self, subject: Any, **environment: Any) -> int:
        """Run the step with what it asks for of the `environment`: its keyword-only parameters."""
        return self.function(subject, **{name: environment[name] for name in self._wants if name in environment})

    @cached_property
    def _wants(self) -> tuple[str, ...]:
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring: of the whole file where the function is its `run`."""
        is_file = self.function.__name__ == "run"
        text = sys.modules[self.function.__module__].__doc__ if is_file else self.function.__doc__
        paragraph = " ".join((text or "").partition("\n\n")[0].split())
        return paragraph.partition(". ")[0].rstrip(".:") + "."


def step(
    name: str, *, after: Mapping[str, str] | None = None, optional: bool = True, repeats: bool = False
) -> Callable[[Callable[..., int]], Step]:
    """Declare the decorated function a step; see `Step` for the arguments."""

    def declare(function: Callable[..., int]) -> Step:
        return Step(name, function, dict(after or {}), optional, repeats)

    return declare


@dataclass(frozen=True)
class Stage:
    """A table of steps, in an order that keeps what they declare.

    It runs once, or up to `rounds` times as long as steps that repeat change something. `between` is done after each
    round that calls for another."""

    name: str
    summary: str
    steps: tuple[Step, ...]
    rounds: int = 1
    between: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(in_order(self.steps, self.name)))

    def shuffled(self, priority: Callable[[str], Any]) -> Stage:
        """The same stage with its steps in another order that is declared as good: of those that may come next, the
        one with the least `priority(name)` does."""
        other = replace(self)
        object.__setattr__(other, "steps", tuple(in_order(self.steps, self.name, priority)))
        return other


def check_skipped(names: Collection[str], stages: Iterable[Stage]) -> None:
    """Refuse to skip what does not exist in these stages or always runs, and say what may have been meant."""
    steps = [each for stage in stages for each in stage.steps]
    optional = sorted({each.name for each in steps if each.optional})
    for name in names:
        if name in optional:
            continue
        if any(each.name == name for each in steps):
            raise OnnxLiftError(f"the step {name!r} always runs. `onnxlift passes` lists those that can be skipped.")
        similar = [other for other in optional if name in other] or difflib.get_close_matches(name, optional, 1)
        hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        raise OnnxLiftError(f"there is no step {name!r} to skip.{hint} `onnxlift passes` lists them all.")


def steps_in(package: ModuleType, *others: Step) -> tuple[Step, ...]:
    """The steps that the files of a package declare, those of packages inside it included, and `others`."""
    modules = (
        importlib.import_module(found.name)
        for found in sorted(pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda m: m.name)
        if not found.ispkg
    )
    return (*(item for module in modules for item in _declared(module)), *others)


def _declared(module: ModuleType) -> Iterator[Step]:
    """The steps that were declared in this very module."""
    for item in vars(module).values():
        if isinstance(item, Step) and item.function.__module__ == module.__name__:
            yield item


def in_order(steps: Iterable[Step], stage: str, priority: Callable[[str], Any] = str) -> list[Step]:
    """The steps, each after those that it declares to come after; where that leaves a choice, by `priority(name)`."""
    table = {item.name: item for item in steps}
    missing = {item.name: set(item.after) for item in table.values()}
    for name, before in missing.items():
        unknown = before - table.keys()
        if unknown:
            raise ValueError(f"the step {name!r} comes after {sorted(unknown)}, unknown to the stage {stage!r}")
    followers: dict[str, list[str]] = {}
    for name, before in missing.items():
        for earlier in before:
            followers.setdefault(earlier, []).append(name)
    ready = [(priority(name), name) for name, before in missing.items() if not before]
    heapq.heapify(ready)
    ordered: list[Step] = []
    while ready:
        _, name = heapq.heappop(ready)
        ordered.append(table[name])
        for follower in followers.get(name, ()):
            missing[follower].discard(name)
            if not missing[follower]:
                heapq.heappush(ready, (priority(follower), follower))
    if len(ordered) < len(table):
        waiting = sorted(name for name, before in missing.items() if before)
        raise ValueError(f"the steps {waiting} of the stage {stage!r} wait for each other")
    return ordered


@dataclass
class Record:
    """The steps that ran, and the number of their changes, by stage.

    `at` is the stage and step that runs now, or that ran last; `at_optional` tells whether it could be skipped."""

    skip: Collection[str] = ()
    observer: Observer | None = None
    changes: dict[str, Counter[str]] = field(default_factory=dict)
    restless: list[str] = field(default_factory=list)
    """The stages that still changed something in their last round."""
    at: tuple[str, str] = ("", "")
    at_optional: bool = False

    def run(self, stage: Stage, subject: Any, **environment: Any) -> None:
        """Run all steps of a stage that are not to be skipped, with what they ask for of the `environment`."""
        for _ in range(stage.rounds):
            if not self._round(stage, subject, environment):
                return
            if stage.between is not None:
                stage.between(subject)
        if stage.rounds > 1:
            self.restless.append(stage.name)

    def copied(self) -> Record:
        """Return a record of the same that goes on by itself, and that nobody observes."""
        changes = {stage: Counter(counts) for stage, counts in self.changes.items()}
        return Record(self.skip, None, changes, [*self.restless], self.at)

    def _round(self, stage: Stage, subject: Any, environment: Mapping[str, Any]) -> bool:
        """Run every step once; gives whether another round is called for."""
        counts = self.changes.setdefault(stage.name, Counter())
        again = False
        for item in stage.steps:
            if item.optional and item.name in self.skip:
                continue
            self.at, self.at_optional = (stage.name, item.name), item.optional
            count = item(subject, **environment)
            counts[item.name] += count
            again = again or (count > 0 and item.repeats)
            if count and self.observer is not None:
                self.observer(item.name, subject)
        return again

    def fired(self) -> dict[str, dict[str, int]]:
        """Stage -> step -> number of changes, of all steps that changed something."""
        found = {stage: {name: n for name, n in counts.items() if n} for stage, counts in self.changes.items()}
        return {stage: counts for stage, counts in found.items() if counts}
