"""Answer "why is it called so?" and "what became of this node?", for `Lifted.explain` and `convert --explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.editing.near_misses import NearMiss
from onnxlift.lifting.code.naming import Candidate
from onnxlift.rewriting.history import NodeChange

from .dump import shown
from .named import ARGUMENT, CLASS, MEMBER, METHOD, VARIABLE, NamedThing
from .source_map import SourceMap

FEW = 4
"""The most values or nodes that are listed. Of the rest only the number is given."""
NEAREST = 12
"""The most nodes that are searched for near misses, around a node without its own. A pattern of several nodes notes at
only one of them why it failed."""
_HEADS = {
    VARIABLE: "variable in {}",
    MEMBER: "member of {}",
    ARGUMENT: "argument or attribute of {}",
    CLASS: "class",
    METHOD: "method of {}",
}


@dataclass(frozen=True)
class NodeStory:
    """The history of a node of the model: the steps that changed or took it, in order, the steps that nearly took it,
    and the lines that compute it. `changes` is None if no changes were recorded."""

    node: str
    changes: Sequence[str] | None
    near_misses: Sequence[NearMiss]
    lines: Sequence[int]

    def __str__(self) -> str:
        rows = [f"ONNX node {shown(self.node)}"]
        if self.changes is None:
            rows.append("  steps     unknown: lift with explain=True to have them recorded")
        else:
            rows += _column("steps", self.changes or ["none has changed it"])
        rows += _column("not", [_missed(miss, self.node) for miss in self.near_misses])
        rows += _column("lines", [", ".join(map(str, self.lines)) or "none: it has no effect"])
        return "\n".join(rows)


@dataclass(frozen=True)
class Explanation:
    """All that is known under a name. `things` of the source have this name, or hold the ONNX value of this name.
    `node` is the ONNX node of this name. `str` of it is for people."""

    name: str
    things: Sequence[NamedThing]
    node: NodeStory | None
    source_map: SourceMap

    def __str__(self) -> str:
        texts = [self._thing(thing) for thing in self.things]
        return "\n\n".join([*texts, *([] if self.node is None else [str(self.node)])])

    def _thing(self, thing: NamedThing) -> str:
        head = f"{thing.name.text}: {_HEADS[thing.kind].format(thing.where)}"
        if thing.statement is not None:
            head += f", line {self.source_map.statements[thing.statement].first_line}"
        rows = [head, *_column("why", [shown(thing.name.why)])]
        rows += _column("stands at" if thing.kind == CLASS else "values", [_few(thing.values)] if thing.values else [])
        rows += _column("nodes", [_few(thing.nodes)] if thing.nodes else [])
        rows += _column("others", [_lost(candidate, thing.name.won) for candidate in thing.name.lost])
        return "\n".join(rows)


def explain(
    name: str,
    things: Iterable[NamedThing],
    source_map: SourceMap,
    readers: Mapping[str, Sequence[str]],
    changes: Mapping[str, Sequence[NodeChange]] | None,
    near_misses: Sequence[NearMiss],
) -> Explanation:
    """Return what is known under the name of something in the source, of an ONNX value or of an ONNX node. `readers`
    has all nodes. An unknown name is an error that suggests others."""
    known = list(things)
    found = [thing for thing in known if name in thing.spellings]
    found = found or [thing for thing in known if thing.kind == VARIABLE and name in thing.values]
    story = None
    if name in readers:
        steps = None if changes is None else [*map(str, changes.get(name, ()))]
        took = {change.step for change in (changes or {}).get(name, ())}  # perhaps starting from another node
        misses = [miss for miss in _near_misses_of(name, readers, near_misses) if miss.step not in took]
        story = NodeStory(name, steps, misses, source_map.lines_of(name))
    if not found and story is None:
        raise OnnxLiftError(_unknown(name, known, readers))
    return Explanation(name, found, story, source_map)


def _near_misses_of(
    node: str, readers: Mapping[str, Sequence[str]], near_misses: Sequence[NearMiss]
) -> Sequence[NearMiss]:
    """Return the near misses of a node. If it has none, return those of the nearest node that has any."""
    makers: dict[str, list[str]] = {}
    for maker, users in readers.items():
        for user in users:
            makers.setdefault(user, []).append(maker)
    waiting = [node]
    for current in islice(waiting, NEAREST):  # the list grows while we go through it
        found = [miss for miss in near_misses if miss.node == current]
        if found:
            return found
        waiting += [other for other in (*readers.get(current, ()), *makers.get(current, ())) if other not in waiting]
    return ()


def _unknown(name: str, things: Iterable[NamedThing], readers: Mapping[str, Sequence[str]]) -> str:
    known = dict.fromkeys(spelling for thing in things for spelling in (thing.name.text, *sorted(thing.spellings)))
    close = get_close_matches(name, [*known, *filter(None, readers)], n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(f'`{shown(text)}`' for text in close)}?" if close else ""
    return f"there is nothing called `{shown(name)}` in the source, and no ONNX value or node of this name.{hint}"


def _column(title: str, lines: Sequence[str]) -> list[str]:
    return [f"  {title if index == 0 else '':9} {line}" for index, line in enumerate(lines)]


def _few(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(shown(name) for name in names))
    more = len(distinct) - FEW
    return ", ".join(distinct[:FEW]) + (f" and {more} more" if more > 0 else "")


def _lost(candidate: Candidate, won: Candidate) -> str:
    is_taken = candidate.rank < won.rank
    return f"{candidate.name}{' (taken)' if is_taken else ''}: {shown(candidate.why)}"


def _missed(miss: NearMiss, node: str) -> str:
    where = "" if miss.node == node else f" (at {shown(miss.node)})"
    return f"{miss.step}: {miss.why}{where}"
