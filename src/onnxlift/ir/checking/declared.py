"""What every rule of the gate is known by, wherever it is declared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Declared:
    """A rule as `lint` lists it: its identifier, its stable name, and what it wants in a sentence or two."""

    identifier: str
    name: str
    summary: str
