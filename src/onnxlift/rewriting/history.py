"""Record what happened to each node of the model: which steps changed or removed it, and which nearly did.

`History` observes the stages. After each step it compares the nodes with those before, by name, since a node that
replaces another keeps its name. It is made only on request (`lift(..., explain=True)`).
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
class NodeChange:
    """One change to a node. If the node became another operator, `became` is that operator. If it was removed, `became`
    and `part_of` are the operator and the name of the node that it is a part of now; both are empty if that cannot be
    told."""

    step: str
    became: str = ""
    part_of: str = ""

    def __str__(self) -> str:
        if self.part_of:
            return f"{self.step}: part of {self.became} `{self.part_of}`"
        return f"{self.step}: {f'became {self.became}' if self.became else 'not needed any more'}"


@dataclass
class History:
    """The changes to the nodes of one model.

    `changes` maps a node to what happened to it, in order. `near_misses` are those of all nodes. `readers` maps each
    node of the model as it was loaded to the nodes that read its outputs.
    """

    readers: Mapping[str, Sequence[str]]
    changes: dict[str, list[NodeChange]] = field(default_factory=dict)
    near_misses: list[NearMiss] = field(default_factory=list)
    _operators: dict[str, str] = field(default_factory=dict)

    def __call__(self, step: str, subject: object) -> None:
        """Record what a step has changed in the model."""
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
                change = NodeChange(step) if reader is None else NodeChange(step, self._operators[reader], reader)
                self.changes.setdefault(name, []).append(change)
            elif now != operator:
                self.changes.setdefault(name, []).append(NodeChange(step, now))

    def _changed_reader(self, name: str, changed: set[str]) -> str | None:
        """Return the first node that the same step has changed, among those that read from node `name`, directly or
        through others."""
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
