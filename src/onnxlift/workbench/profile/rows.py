"""What a profile tells: of a node, and of all nodes of a module, of an operator, or of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from math import gcd
from typing import Any

from .amount import Amount
from .formula import Formula, Size, text_of

ONCE = Amount(1, 1)


@dataclass(frozen=True)
class Costs:
    """What is counted of a node or of several. Bytes are those of one run."""

    macs: Amount = field(default_factory=Amount)
    flops: Amount = field(default_factory=Amount)
    read: Amount = field(default_factory=Amount)
    written: Amount = field(default_factory=Amount)
    parameters: Amount = field(default_factory=Amount)
    weight_bytes: Amount = field(default_factory=Amount)
    """The bytes of the constants that are read, as they are stored; a constant that several nodes read counts once."""
    seconds: float | None = None
    """The measured time of one run; None if it was not measured."""

    @property
    def bytes(self) -> Amount:
        """What is read and written."""
        return self.read + self.written

    @property
    def intensity(self) -> float | str | None:
        """FLOPs for each byte that is read or written; a formula if sizes are open, None if it is not known."""
        if not (self.flops.is_exact and self.bytes.is_exact):
            return None
        return ratio(self.flops.low, self.bytes.low)

    @property
    def is_known(self) -> bool:
        """Tell whether no part of it is unknown."""
        return all(each.is_bounded for each in (self.macs, self.flops, self.read, self.written))

    def joined(self, other: Costs, join: Callable[[Amount, Amount], Amount]) -> Costs:
        """Return what `join` makes of both, without parameters and times."""
        return Costs(
            join(self.macs, other.macs),
            join(self.flops, other.flops),
            join(self.read, other.read),
            join(self.written, other.written),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "macs": self.macs.plain(),
            "flops": self.flops.plain(),
            "parameters": self.parameters.plain(),
            "weight_bytes": self.weight_bytes.plain(),
            "bytes_read": self.read.plain(),
            "bytes_written": self.written.plain(),
            "intensity": self.intensity,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class NodeCosts:
    """A node, and what one run of it costs."""

    name: str
    operator: str
    module: str
    costs: Costs
    place: str = ""
    """The node in whose graph it is; "" in the main graph."""
    output: str = ""
    """The type of its first output."""
    times: Amount = ONCE
    """How often it runs in one run of the model."""
    live: Amount = field(default_factory=Amount)
    """The bytes of all activations that are in memory while it runs."""
    reason: str = ""
    """Why something about it is not known."""
    fused_into: str = ""
    """The node whose measured time is also that of this one; "" if it has its own, or none."""
    holds_graphs: bool = False
    """Whether its costs are those of the graphs in it, whose nodes are rows of their own."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "operator": self.operator,
            "module": self.module,
            "place": self.place,
            "output": self.output,
            "times": self.times.plain(),
            **self.costs.to_dict(),
            "live_bytes": self.live.plain(),
            "fused_into": self.fused_into,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class GroupCosts:
    """All nodes of a module with what is below it, of an operator, or of the model."""

    name: str
    nodes: int
    costs: Costs
    unknown: int = 0
    """How many of its nodes have a cost that is not known."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "nodes": self.nodes, "unknown": self.unknown, **self.costs.to_dict()}


def ratio(numerator: Size, denominator: Size) -> float | str | None:
    """Return the quotient of two amounts: a number, or a formula from which common factors are taken out."""
    if denominator == 0:
        return None
    if isinstance(numerator, int) and isinstance(denominator, int):
        return numerator / denominator
    if numerator == 0:
        return 0.0
    above, below = _terms(numerator), _terms(denominator)
    keys = [Counter(key) for key in (*above, *below)]
    common = reduce(lambda a, b: a & b, keys)
    number = reduce(gcd, (*above.values(), *below.values()))
    top, bottom = (
        {tuple((Counter(key) - common).elements()): value // number for key, value in terms.items()}
        for terms in (above, below)
    )
    if top.keys() == bottom.keys() == {()}:
        return top[()] / bottom[()]
    return f"{_text(top)}/{_text(bottom)}"


def _terms(size: Size) -> dict[Any, int]:
    return {(): size} if isinstance(size, int) else size.terms or {}


def _text(terms: dict[Any, int]) -> str:
    text = str(terms[()]) if terms.keys() == {()} else text_of(Formula(terms))
    return text if text.isalnum() else f"({text})"
