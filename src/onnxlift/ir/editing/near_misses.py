"""Near misses: nodes that an idiom nearly matched, and the condition that they miss.

An idiom may recognise most of its pattern and then find a condition that does not hold. It says so:

    near_miss(node, "the epsilon is not a number")

In a normal run nobody listens, and the call costs one look at a variable. Inside `noting` the near misses are recorded;
`onnxlift convert --explain NODE` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class NearMiss:
    """The name of a step, the name of a node that it nearly took, and the reason why it did not."""

    step: str
    node: str
    why: str


_listener: ContextVar[Callable[[str, str], None] | None] = ContextVar("listener", default=None)


def near_miss(node: ir.Node, why: str, *details: object) -> None:
    """Say why the idiom that is running does not take `node`. Each `{}` in `why` is replaced by one of `details`."""
    listener = _listener.get()
    if listener is not None:
        listener(node.name or "", why.format(*details))


@contextmanager
def noting(step: Callable[[], str]) -> Iterator[list[NearMiss]]:
    """Record near misses while the `with` block runs. The list that it gives fills up with them, each once.

    `step()` names the step that is running."""
    notes: dict[NearMiss, None] = {}
    found: list[NearMiss] = []

    def listen(node: str, why: str) -> None:
        note = NearMiss(step(), node, why)
        if note not in notes:
            notes[note] = None
            found.append(note)

    token = _listener.set(listen)
    try:
        yield found
    finally:
        _listener.reset(token)
