"""What became of each node of the model: the steps that changed or took it, and those that nearly did.

`History` is an observer of stages: it compares the nodes after each step with those before, by name, since a node that
replaces another keeps its name. It is made only for who asks (`lift(..., explain=True)`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.ir.editing.near_misses import NearMiss
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.walk import regions

_MOST_STEPS = 64


@dataclass(frozen=True)
class Change:
    """A step that changed a node into another operator (`became`), or took it: then `became` is the operator that it is
    a part of now and `part_of` that one's name, as far as can be told."""

    step: str
    became: str = ""
    part_of: str = ""

    def __str__(self) -> str:
        if self.part_of:
            return f"{self.step}: part of {self.became} `{self.part_of}`"
        return f"{self.step}: {f'became {self.became}' if self.became else 'not needed any more'}"


@dataclass
class History:
    """`changes`: node -> what happened to it, in order; `near_misses` of all nodes. `readers` are, for each node of the
    model as it was loaded, those that read what it gives."""

    readers: Mapping[str, Sequence[str]]
    changes: dict[str, list[Change]] = field(default_factory=dict)
    near_misses: list[NearMiss] = field(default_factory=list)
    _operators: dict[str, str] = field(default_factory=dict)

    def __call__(self, step: str, subject: object) -> None:
        """Note what a step has changed in the model."""
        if not isinstance(subject, ir.Model):
            return
        before, self._operators = self._operators, operators(subject)
        if not before:
            return
        changed = {name for name, operator in self._operators.items() if before.get(name) != operator}
        for name, operator in before.items():
            now = self._operators.get(name)
            if now is None:
                reader = self._changed_reader(name, changed)
                change = Change(step) if reader is None else Change(step, self._operators[reader], reader)
                self.changes.setdefault(name, []).append(change)
            elif now != operator:
                self.changes.setdefault(name, []).append(Change(step, now))

    def _changed_reader(self, name: str, changed: set[str]) -> str | None:
        """Return the first node down the graph that the same step has changed."""
        waiting, seen = [name], {name}
        for _ in range(_MOST_STEPS):
            if not waiting:
                return None
            for reader in self.readers.get(waiting.pop(0), ()):
                if reader in changed:
                    return reader
                if reader not in seen:
                    seen.add(reader)
                    waiting.append(reader)
        return None


def operators(model: ir.Model) -> dict[str, str]:
    """Return the operator of every node that has a name."""
    return {
        node.name: node.op_type if node.domain in ("", DOMAIN) else f"{node.domain}::{node.op_type}"
        for region in regions(model)
        for node in region.graph
        if node.name
    }
