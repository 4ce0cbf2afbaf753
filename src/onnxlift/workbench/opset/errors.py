"""The error that lists every node that cannot be brought to an opset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

_MOST_SHOWN = 30


@dataclass(frozen=True)
class StuckNode:
    """A node that cannot go to the target, with the reason, and the nearest opset of its domain to which it can."""

    name: str
    op_type: str
    domain: str
    reason: str
    nearest: int


class OpsetError(OnnxLiftError):
    """Some nodes cannot be brought to the opset. `nodes` lists every one of them, not only the first."""

    def __init__(self, model_name: str, targets: Mapping[str, int], nodes: Sequence[StuckNode], total: int) -> None:
        self.model_name = model_name
        self.targets = dict(targets)
        self.nodes = tuple(nodes)
        self.total = total
        super().__init__(self._message())

    @property
    def would_do(self) -> dict[str, int]:
        """The nearest opsets to which all nodes can go, by domain."""
        found: dict[str, int] = {}
        for node in self.nodes:
            target = self.targets.get(node.domain, node.nearest)
            choose = max if node.nearest >= target else min
            found[node.domain] = choose(found.get(node.domain, node.nearest), node.nearest)
        return found

    def _message(self) -> str:
        wanted = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.targets.items())
        count = f"{len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''} cannot go"
        lines = [f"cannot bring {self.model_name} to opset {wanted or 'versions of one kind'}: {count}", ""]
        groups: dict[tuple[str, str, str, int], list[StuckNode]] = {}
        for node in self.nodes:
            groups.setdefault((node.domain, node.op_type, node.reason, node.nearest), []).append(node)
        for (domain, op_type, reason, nearest), members in list(groups.items())[:_MOST_SHOWN]:
            title = f"{domain}::{op_type}" if domain else op_type
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            shown = title if title.isprintable() else quote(title)
            lines.append(f"  {shown} {quote(members[0].name)}{more}: {reason}. Opset {nearest} would do.")
        if len(groups) > _MOST_SHOWN:
            lines.append(f"  ... and {len(groups) - _MOST_SHOWN} other kinds")
        best = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self.would_do.items())
        lines += ["", f"All of them can go to opset {best}."]
        return "\n".join(lines)
