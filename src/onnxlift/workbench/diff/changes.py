"""What `diff` finds, as plain data: changes of the interface, of nodes, of weights, and of facts about the file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from .numbers import Distance

Kind = Literal["added", "removed", "moved", "changed"]

_MIRRORED: dict[Kind, Kind] = {"added": "removed", "removed": "added"}


@dataclass(frozen=True)
class Fact:
    """Something that the models say differently. `a` or `b` is None where a model does not say it at all."""

    what: str
    a: Any
    b: Any
    note: str = ""

    def mirrored(self) -> Self:
        return replace(self, a=self.b, b=self.a)


@dataclass(frozen=True)
class Detail:
    """One change of a node: of its `operator`, of an `attribute`, of an `input`, or of the number of its `outputs`."""

    what: Literal["operator", "attribute", "input", "outputs"]
    name: str
    a: Any
    b: Any

    def mirrored(self) -> Self:
        return replace(self, a=self.b, b=self.a)


@dataclass(frozen=True)
class NodeChange:
    """A node that is added, removed, moved to another place, or changed.

    `a` and `b` are its names in the two models. `module` is the module that it is in, as far as the file tells, and
    `graph` the subgraph or function; "" for the main graph. `place` says between which others a node is that only one
    of the models has."""

    kind: Kind
    operator: str
    a: str | None
    b: str | None
    module: str = ""
    graph: str = ""
    details: tuple[Detail, ...] = ()
    place: str = ""

    def mirrored(self) -> Self:
        details = tuple(detail.mirrored() for detail in self.details)
        return replace(self, kind=_MIRRORED.get(self.kind, self.kind), a=self.b, b=self.a, details=details)


@dataclass(frozen=True)
class WeightForm:
    """A weight in one of the models."""

    name: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class WeightChange:
    """A weight whose numbers, type or shape differ.

    `how` says more where there is more to say: "reshaped", "transposed by [1, 0]", "quantised", "dequantised".
    `distance` is None if the numbers cannot be compared one by one. `readers` are the operators that read it, with
    the name of the input."""

    a: WeightForm
    b: WeightForm
    distance: Distance | None
    how: str = ""
    module: str = ""
    graph: str = ""
    readers: tuple[str, ...] = ()

    def mirrored(self) -> Self:
        how = {"quantised": "dequantised", "dequantised": "quantised"}.get(self.how, self.how)
        if how.startswith("transposed by ["):
            order = [int(axis) for axis in how.removeprefix("transposed by [").removesuffix("]").split(",")]
            how = f"transposed by {sorted(range(len(order)), key=order.__getitem__)}"
        return replace(self, a=self.b, b=self.a, how=how)


@dataclass(frozen=True)
class Size:
    """How large a model is: its nodes but for constants, subgraphs and functions included; its constants, and bytes."""

    nodes: int
    weights: int
    bytes: int


@dataclass(frozen=True)
class Renamed:
    """Names that differ between what is the same: how many, and the first few, as pairs."""

    what: str
    count: int
    examples: tuple[tuple[str, str], ...] = ()

    def mirrored(self) -> Self:
        return replace(self, examples=tuple((b, a) for a, b in self.examples))


def to_plain(value: Any) -> Any:
    """Return a value as `json.dumps` takes it: numbers that are not finite become text."""
    if isinstance(value, dict):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def to_dict(change: Any) -> dict[str, Any]:
    """Return a change as plain dicts and lists."""
    plain: dict[str, Any] = to_plain(asdict(change))
    return plain
