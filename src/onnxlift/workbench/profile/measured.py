"""The time that ONNX Runtime takes for each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measured:
    """What was measured, in seconds. A node that did not run is not there."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time of each node, by name: the median of all runs."""
    total: float = 0.0
    """The time of one run of the model as it is written."""
    optimised: float = 0.0
    """The time of one run after ONNX Runtime has changed the model as it likes."""
    runs: int = 0
    threads: int = 0
    runtime: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes that nobody gave, and that were chosen."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without the nodes."""
        facts = {name: getattr(self, name) for name in ("total", "optimised", "runs", "threads", "runtime")}
        return {**facts, "sizes": dict(self.sizes)}
