"""Changes as lines of text. Names and values from the models are data: they are escaped and cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxlift.errors import quote
from onnxlift.sizes import format_bytes
from onnxlift.terminal import LONGEST, value_text
from onnxlift.terminal import plain as escaped

from .changes import Detail, Fact, NodeChange, Renamed, Size, WeightChange
from .numbers import Distance

MOST_WEIGHTS = 10


def counted(count: int, noun: str) -> str:
    """Write a number with its noun: 1 node, 2 nodes."""
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def fact_lines(facts: Sequence[Fact]) -> list[str]:
    """Write facts, one a line."""
    return [
        f"{escaped(fact.what)}: {_changed(fact.a, fact.b)}{f' ({escaped(fact.note)})' if fact.note else ''}"
        for fact in facts
    ]


def _changed(a: Any, b: Any) -> str:
    if a is None:
        return f"added, {value_text(b)}"
    if b is None:
        return f"removed, {value_text(a)}"
    start = _first_difference(a, b) if isinstance(a, str) and isinstance(b, str) else 0
    return f"{value_text(a, start)} -> {value_text(b, start)}"


def _first_difference(a: str, b: str) -> int:
    """Return where to begin showing two long texts, so that one sees where they differ."""
    if max(len(a), len(b)) <= LONGEST:
        return 0
    shared = next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return shared - 20 if shared > LONGEST - 20 else 0


def detail_text(detail: Detail) -> str:
    """Write one change of a node."""
    if detail.what == "outputs":
        return f"{detail.a} -> {counted(detail.b, 'output')}"
    a, b = ("none" if value is None else value_text(value) for value in (detail.a, detail.b))
    return f"{escaped(detail.name)} {a} -> {b}"


def node_text(change: NodeChange) -> str:
    """Write the change of a node in one line."""
    name = change.b if change.b is not None else change.a
    replaced = next((detail for detail in change.details if detail.what == "operator"), None)
    title = escaped(change.operator if replaced is None else f"{replaced.a} -> {replaced.b}")
    if not change.operator.startswith(("output ", "function ")):
        title += f" {quote(name or '')}"
    details = ", ".join(detail_text(each) for each in change.details if each is not replaced) or escaped(change.place)
    place = f" (in {escaped(change.graph)})" if change.graph else ""
    return f"{change.kind:8} {title}{place}{f': {details}' if details else ''}"


def weight_lines(changes: Sequence[WeightChange], *, show_all: bool) -> list[str]:
    """Write the weights that differ: if there are many, those that differ most, and a line on all of them."""
    if show_all or len(changes) <= MOST_WEIGHTS:
        return list(map(weight_text, changes))
    measured = [change.distance for change in changes if change.distance is not None]
    head = [f"{counted(len(changes), 'weight')}{_range(measured)}; those that differ most:"]
    most = sorted(changes, key=lambda change: _similarity(change.distance))[:MOST_WEIGHTS]
    rest = len(changes) - len(most)
    return [*head, *(f"  {weight_text(change)}" for change in most), f"  ... and {rest:,} more (--all lists them)"]


def _range(measured: Sequence[Distance]) -> str:
    cosines = [each.cosine for each in measured if each.cosine is not None]
    gaps = [each.max_abs for each in measured if each.max_abs is not None]
    if not cosines or not gaps:
        return ""
    return f", max abs {max(gaps):.3g}, cosine from {min(cosines):.6f} to {max(cosines):.6f}"


def _similarity(distance: Distance | None) -> tuple[int, float]:
    """Return what is small for weights that are far apart: first those that cannot be compared, then by angle."""
    if distance is None:
        return 0, 0.0
    return (1, distance.cosine) if distance.cosine is not None else (2, -(distance.max_rel or 0.0))


def weight_text(change: WeightChange) -> str:
    """Write the change of a weight in one line."""
    a, b = change.a, change.b
    name = quote(a.name) if a.name == b.name else f"{quote(a.name)} -> {quote(b.name)}"
    type_ = a.type if a.type == b.type else f"{a.type} -> {b.type}"
    shape = _shape(a.shape) if a.shape == b.shape else f"{_shape(a.shape)} -> {_shape(b.shape)}"
    told = [change.how] if change.how else []
    if change.how.startswith(("reshaped", "transposed")):
        told.append("the same numbers")
    elif change.distance is not None:
        told.append(distance_text(change.distance))
    place = f" (in {escaped(change.graph)})" if change.graph else ""
    return f"{name} {type_} {shape}{place}{': ' if told else ''}{', '.join(told)}"


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def distance_text(distance: Distance) -> str:
    """Write how far numbers are apart."""
    if distance.elements == distance.different == 1:
        parts = ["the number differs"]
    elif distance.elements == distance.different:
        parts = [f"all {distance.elements:,} numbers differ"]
    elif not distance.different:
        parts = ["no number differs"]
    else:
        parts = [f"{distance.different:,} of {distance.elements:,} numbers differ{'s' * (distance.different == 1)}"]
    if distance.not_finite:
        parts.append(f"{distance.not_finite:,} in being NaN or infinite")
    if distance.max_abs:
        parts.append(f"max abs {distance.max_abs:.3g}")
    if distance.max_rel:
        parts.append(f"max rel {distance.max_rel:.3g}")
    if distance.cosine is not None and distance.different and distance.elements > 1:
        parts.append(f"cosine {distance.cosine:.6f}")
    return ", ".join(parts)


def size_lines(sizes: tuple[Size, Size], matched: int) -> list[str]:
    """Write the sizes of both models, where they differ."""
    a, b = sizes
    lines = []
    if a.nodes != b.nodes or matched < a.nodes:
        lines.append(f"nodes    {a.nodes:,} -> {b.nodes:,}, {matched:,} matched")
    if (a.weights, a.bytes) != (b.weights, b.bytes):
        count = f"{a.weights:,}" if a.weights == b.weights else f"{a.weights:,} -> {b.weights:,}"
        size = [format_bytes(each.bytes) for each in sizes]
        lines.append(f"weights  {count}, {size[0] if size[0] == size[1] else ' -> '.join(size)}")
    return lines


def name_lines(renamed: Sequence[Renamed], reordered: bool) -> list[str]:
    """Write which names differ, shortly, and whether the order does."""
    lines = []
    for each in renamed:
        pairs = ", ".join(f"{quote(a)} -> {quote(b)}" for a, b in each.examples)
        more = ", ..." if each.count > len(each.examples) else ""
        lines.append(f"{counted(each.count, each.what)} renamed: {pairs}{more}")
    return [*lines, "nodes are in another order"] if reordered else lines
