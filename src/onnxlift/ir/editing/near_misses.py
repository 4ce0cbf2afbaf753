"""Near misses: why an idiom did not take a node that it nearly took.

An idiom that has recognised most of its pattern, and then finds that something is not as it must be, says so:

    near_miss(node, "the epsilon is not a number")

Nobody listens in a normal run, and then this costs one look at a variable. `noting` listens: `onnxlift convert
--explain NODE` shows what was heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class NearMiss:
    """A step that nearly took a node, which it knows by name, and why not."""

    step: str
    node: str
    why: str


_listener: ContextVar[Callable[[str, str], None] | None] = ContextVar("listener", default=None)


def near_miss(node: ir.Node, why: str, *details: object) -> None:
    """Say why the idiom that is running does not take `node`, in words, with `{}` in the places of `details`."""
    listener = _listener.get()
    if listener is not None:
        listener(node.name or "", why.format(*details))


@contextmanager
def noting(step: Callable[[], str]) -> Iterator[list[NearMiss]]:
    """Give a list that fills with the near misses of what runs meanwhile, each once; `step()` names what runs."""
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
