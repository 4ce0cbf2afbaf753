"""Draw what was measured as SVG: lines over the sizes of a sweep, or a bar for each contender, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from onnxlift.terminal import plain

from ..runtime.timings import format_seconds
from .statistics import Estimate

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 24, 48, 56
BAR, GAP = 22, 14
LABEL_WIDTH = 7.3
"""Pixels of a character."""
NEAREST_LABELS = 34
MEANING = "median latency, with its 95 % interval"
COLOURS = ("#2563c9", "#d1701c", "#2f8f5b", "#8a4fc0", "#b8324a", "#57808c", "#8c6d1f", "#4a4a4a")
LONGEST = 48
_STYLE = """
svg { background: #ffffff; }
.page { fill: #ffffff; }
text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px; fill: #1f2328; }
.title { font-size: 14px; font-weight: bold; }
.small { font-size: 11px; fill: #59636e; }
.grid { stroke: #d8dee4; }
.axis { stroke: #59636e; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; }
.page { fill: #0d1117; }
text { fill: #e6edf3; }
.small { fill: #9da7b1; }
.grid { stroke: #30363d; }
.axis { stroke: #9da7b1; }
}
"""


@dataclass(frozen=True)
class Line:
    """A contender, and its latency at each size."""

    title: str
    points: tuple[tuple[float, Estimate], ...]


def draw_plot(title: str, lines: Sequence[Line], swept: str) -> str:
    """Return the plot: lines, if there is a sweep over more than one size, else bars."""
    if swept and any(len(line.points) > 1 for line in lines):
        return _page(title, HEIGHT + 20 * len(lines), _lines(lines, swept))
    return _page(title, TOP + len(lines) * (BAR + GAP) + BOTTOM // 2, _bars(lines))


def _page(title: str, height: int, content: Iterator[str]) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        f'<text class="title" x="{RIGHT}" y="26">{_text(title)}</text>',
        *content,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lines(lines: Sequence[Line], swept: str) -> Iterator[str]:
    """Yield lines with both axes logarithmic: a straight line is a power of the size."""
    sizes = sorted({size for line in lines for size, _ in line.points})
    every = [found for line in lines for _, found in line.points]
    low, high = _decades(min(each.low for each in every), max(each.high for each in every))
    across = _scale(sizes[0], sizes[-1], LEFT + 16, WIDTH - RIGHT - 16)
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    floor, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in _ticks(low, high):
        yield _stroke(LEFT, up(tick), end, up(tick), 'class="grid"')
        yield _label(LEFT - 8, up(tick) + 4, _round_time(tick), anchor="end", style="small")
    labelled = -math.inf
    for size in sizes:
        if across(size) - labelled >= NEAREST_LABELS:
            labelled = across(size)
            yield _label(labelled, floor + 18, f"{size:g}", anchor="middle", style="small")
    yield _stroke(LEFT, floor, end, floor, 'class="axis"')
    yield _label((LEFT + end) / 2, floor + 38, swept, anchor="middle")
    yield _label(RIGHT, floor + 38, MEANING, style="small")
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{across(size):.1f},{up(found.value):.1f}" for size, found in line.points)
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'
        for size, found in line.points:
            x, y = across(size), up(found.value)
            yield _stroke(x, up(found.low), x, up(found.high), f'stroke="{colour}"')
            yield f'<circle fill="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{_tip(line, found)}</circle>'
        y = HEIGHT + 20 * number
        yield f'<rect fill="{colour}" x="{LEFT}" y="{y - 9}" width="12" height="12"/>'
        yield _label(LEFT + 20, y + 2, line.title)


def _bars(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a bar for each contender, from zero, with its interval."""
    start = RIGHT + 16 + max(len(_cut(line.title)) for line in lines) * LABEL_WIDTH
    most = max(found.high for line in lines for _, found in line.points)
    room = WIDTH - RIGHT - 90 - start
    for number, line in enumerate(lines):
        ((_, found),) = line.points
        y = TOP + number * (BAR + GAP)
        colour = COLOURS[number % len(COLOURS)]
        ends = [start + room * each / most for each in (found.value, found.low, found.high)]
        yield _label(start - 10, y + 15, line.title, anchor="end")
        yield (
            f'<rect fill="{colour}" fill-opacity="0.6" x="{start:.1f}" y="{y}" width="{ends[0] - start:.1f}" '
            f'height="{BAR}">{_tip(line, found)}</rect>'
        )
        yield _stroke(ends[1], y + BAR / 2, ends[2], y + BAR / 2, 'class="axis"')
        yield _label(ends[2] + 8, y + 15, format_seconds(found.value))
    yield _label(start, TOP + len(lines) * (BAR + GAP) + 10, MEANING, style="small")


def _stroke(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line {style} x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _label(x: float, y: float, text: str, *, anchor: str = "start", style: str = "") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _tip(line: Line, found: Estimate) -> str:
    text = f"{line.title}: {format_seconds(found.value)} [{format_seconds(found.low)}, {format_seconds(found.high)}]"
    return f"<title>{_text(text)}</title>"


class _Scale:
    """A logarithmic scale."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.span = math.log(low), math.log(high) - math.log(low)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self.low) / self.span if self.span else 0.5
        return self.start + share * (self.end - self.start)


def _scale(low: float, high: float, start: float, end: float) -> _Scale:
    return _Scale(max(low, 1e-12), max(high, 1e-12), start, end)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Return round numbers below and above: 1, 2 or 5 times a power of ten."""
    steps = _steps(low / 10, high * 10)
    return max(each for each in steps if each <= low), min(each for each in steps if each >= high)


def _ticks(low: float, high: float) -> list[float]:
    steps = [each for each in _steps(low, high) if low * 0.999 <= each <= high * 1.001]
    return steps if len(steps) <= 10 else [each for each in steps if f"{each:e}".startswith("1")]


def _steps(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(max(low, 1e-12))), math.ceil(math.log10(max(high, 1e-12)))
    return [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]


def _text(text: str) -> str:
    return escape(_cut(text))


def _cut(text: str) -> str:
    shown = plain(text)
    return shown if len(shown) <= LONGEST else f"...{shown[3 - LONGEST :]}"


def _round_time(seconds: float) -> str:
    """Write 1, 2 or 5 times a power of ten without needless digits: 20 ms."""
    number, unit = format_seconds(seconds).split()
    return f"{float(number):g} {unit}"
