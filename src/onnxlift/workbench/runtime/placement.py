"""Tell where nodes ran: what silently falls back to the CPU is an error, if the user says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError
from onnxlift.terminal import plain

from .node_times import NodeTimes
from .settings import CPU, Settings

MOST_SHOWN = 20


@dataclass(frozen=True)
class PlacedNode:
    """A node that ran on the CPU: its name and operator."""

    name: str
    operator: str


class ProviderError(OnnxLiftError):
    """Nodes ran on the CPU, which was not asked for. `nodes` lists every one of them."""

    def __init__(self, nodes: Sequence[PlacedNode], total: int, wanted: str) -> None:
        self.nodes = tuple(nodes)
        width = max(len(plain(node.operator)) for node in nodes)
        lines = [f"  {plain(node.operator):{width}}  {plain(node.name)}" for node in nodes[:MOST_SHOWN]]
        if len(nodes) > MOST_SHOWN:
            lines.append(f"  ... and {len(nodes) - MOST_SHOWN} more")
        super().__init__(
            "\n".join(
                [
                    f"{len(nodes)} of {total} nodes fell back to the CPU instead of {wanted}",
                    "",
                    *lines,
                    "",
                    "Allow it with --provider cpu as the last one, or without --strict-provider.",
                ]
            )
        )


def check_placement(
    settings: Settings, active: Sequence[str], *, times: NodeTimes | None = None, strict: bool = False
) -> list[str]:
    """Return notes on providers that did not start, out of those that are `active`.

    If `strict`, that is an error, and so are nodes that ran on the CPU, unless the user has named it."""
    asked = [name for name, _ in settings.providers]
    missing = [name for name in asked if active and name not in active]
    if missing and strict:
        raise OnnxLiftError(
            f"ONNX Runtime did not start {', '.join(missing)}: its libraries or its device are missing."
        )
    if strict and times is not None and CPU not in asked:
        ran = [(group, kernel) for group in times.groups for kernel in group.kernels]
        fallen = [
            PlacedNode(kernel.name if group.main is None else group.main.name or group.main.value, kernel.operator)
            for group, kernel in ran
            if kernel.provider == CPU
        ]
        if fallen:
            raise ProviderError(fallen, len(ran), ", ".join(asked))
    return [f"{name} did not start, so that the next provider runs its nodes" for name in missing]
