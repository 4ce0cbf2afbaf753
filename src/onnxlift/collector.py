"""Python's cycle collector, while very many objects are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY_OBJECTS = 200_000
_hidden = False
"""Whether objects of a large model may be gone without the collector knowing that there is something to collect."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector: it walks all live objects again and again while a graph grows, and
    finds nothing.

    The many new objects of a large model are taken for old ones afterwards, so that the collector does not begin with
    all of them. It does not count these, and would hardly ever look at them again: so we make it, at the next model."""
    global _hidden
    enabled = gc.isenabled()
    if enabled and _hidden:
        gc.collect()
        _hidden = False
    gc.disable()
    try:
        yield
    finally:
        # If somebody keeps objects frozen, unfreezing would not spare them.
        if gc.get_count()[0] > MANY_OBJECTS and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
            _hidden = True
        if enabled:
            gc.enable()
