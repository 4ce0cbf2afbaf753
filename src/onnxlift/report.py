"""The report on the lifting of a model, in numbers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .sizes import format_bytes

WIDTH = 100
_INDENT = 17
_NUMBER = re.compile(r"(?<![A-Za-z])\d+")
_JOINED = "\xa0"
"""A space at which `_row` does not break a line."""


@dataclass(frozen=True)
class LiftReport:
    """The numbers that tell what happened when a model was lifted; readable when printed.

    `steps` is stage -> step -> number of changes, without the steps that changed nothing. `restless` names the stages
    that still changed something in the last round that is allowed. `structures` is empty if the modules come from names
    that are the original's, or clearly pay. Otherwise it has the lines of code of each source that was tried, by what
    the modules come from ("names", "repetition", "none" or "transcript"), the one that was chosen first. `dequantised`
    is None unless that was asked for. Then it has the number of `weights`, their `sqnr` (signal to quantisation noise,
    in decibels, if a number is anywhere in its step alike) and that of the noisiest, and the roundings of values that
    were dropped and kept."""

    name: str
    nodes: int
    parameters: int
    weight_bytes: int
    steps: Mapping[str, Mapping[str, int]]
    restless: tuple[str, ...]
    classes: int
    lines: int
    kernels: tuple[str, ...]
    warnings: tuple[str, ...]
    structures: Mapping[str, int] = field(default_factory=dict)
    dequantised: Mapping[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [
            ("nodes", f"{self.nodes:,}"),
            ("parameters", f"{self.parameters:,} ({format_bytes(self.weight_bytes)} of weights)"),
            ("source", f"{_count(self.lines, 'line')}, {_count(self.classes, 'class', 'classes')}"),
            ("structure", _chosen(self.structures)),
            ("dequantised", _noise(self.dequantised)),
            *((stage, _counts(counts)) for stage, counts in self.steps.items()),
            ("not at rest", ", ".join(self.restless)),
            ("kernels", ", ".join(self.kernels)),
            *(("warning", warning) for warning in self.warnings),
        ]
        return "\n".join([self.name, *(_row(title, text) for title, text in rows if text)])


def patterns(names: Iterable[str]) -> list[str]:
    """Write names for people: those that differ only in numbers are one, `blocks.*.scale (12)`."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_NUMBER.sub("*", name), []).append(name)
    return [names[0] if len(names) == 1 else f"{text} ({len(names)})" for text, names in groups.items()]


def _count(number: int, word: str, plural: str = "") -> str:
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def _row(title: str, text: str) -> str:
    """Return `text` beside its title, wrapped. No line is broken between the name of a step and its number."""
    lines = textwrap.wrap(text, WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False)
    return f"  {title:{_INDENT - 2}}" + f"\n{' ' * _INDENT}".join(lines).replace(_JOINED, " ")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}{_JOINED}{count:,}" for name, count in counts.items())


def _noise(found: Mapping[str, Any] | None) -> str:
    """Say what was dequantised, and with how much noise."""
    if found is None:
        return ""
    if not found["weights"] and not found["roundings_dropped"]:
        return "nothing: the model is not quantised, or in a way that is not known"
    kept = f", {found['roundings_kept']:,} kept" if found["roundings_kept"] else ""
    dropped = f"{_count(found['roundings_dropped'], 'rounding')} of values dropped{kept}"
    if not found["weights"]:
        return dropped
    least = f"the noisiest, {found['noisiest']}, {found['noisiest_sqnr']:g} dB"
    noise = f"{found['sqnr']:g} dB of signal to quantisation noise ({least})"
    return f"{_count(found['weights'], 'weight')} with {noise}; {dropped}"


def _chosen(structures: Mapping[str, int]) -> str:
    """Say which structure was chosen over which, each with the lines of its source."""
    if len(structures) < 2:
        return ""
    (chosen, lines), *others = structures.items()
    texts = [f"{name}{_JOINED}({count:,})" for name, count in others]
    return f"{chosen} ({_count(lines, 'line')} of code), chosen over {' and '.join(texts)}".replace(" (", f"{_JOINED}(")
