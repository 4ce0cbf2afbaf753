"""What all pictures have in common: their colours for light and dark, and texts of strangers that cannot break them."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from .text import cut, harmless

LONGEST_DETAIL = 1_000
STYLE = """
svg { background: #ffffff; }
.page { fill: #ffffff; }
text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; }
.title { font-size: 12px; fill: #1f2328; }
.times { font-weight: bold; fill: #0a5fb8; }
.small, .type { font-size: 10px; fill: #59636e; }
.tag text { font-size: 10px; fill: #59636e; }
.tag rect { fill: #ffffff; stroke: #8c959f; stroke-dasharray: 3 2; }
.line { fill: none; stroke: #6e7781; stroke-width: 1.2; }
.arrow { fill: #6e7781; }
.box { fill: #ffffff; stroke: #8c959f; }
.group { fill: #57606a; fill-opacity: 0.05; stroke: #8c959f; }
.folded { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.4; }
.control { stroke-dasharray: 6 3; }
.end { fill: #f0f3f6; stroke: #57606a; stroke-width: 1.4; }
.weighted { fill: #e3effc; stroke: #6f9fd6; }
.norm { fill: #e2f4ec; stroke: #6bb08e; }
.activation { fill: #fdf1dc; stroke: #d2a24c; }
.attention { fill: #efe7fb; stroke: #a285d1; }
.shape { fill: #f3f4f6; stroke: #adb5bd; }
.reducing { fill: #fbe9e7; stroke: #cf8f86; }
@media (prefers-color-scheme: dark) {
svg { background: #0d1117; }
.page { fill: #0d1117; }
.title { fill: #e6edf3; }
.times { fill: #79b8ff; }
.small, .type, .tag text { fill: #9da7b1; }
.tag rect { fill: #0d1117; stroke: #6e7681; }
.line { stroke: #8b949e; }
.arrow { fill: #8b949e; }
.box { fill: #161b22; stroke: #6e7681; }
.group { fill: #c9d1d9; fill-opacity: 0.05; stroke: #6e7681; }
.folded { fill: #1c2128; stroke: #9da7b1; }
.end { fill: #21262d; stroke: #9da7b1; }
.weighted { fill: #10263f; stroke: #3f6ea3; }
.norm { fill: #10291e; stroke: #3c7a5c; }
.activation { fill: #33270f; stroke: #8f6d2a; }
.attention { fill: #271c3d; stroke: #6e569b; }
.shape { fill: #1c2128; stroke: #545d68; }
.reducing { fill: #331b18; stroke: #8c5049; }
}
"""


def document(title: str, width: float, height: float, content: Iterable[str], style: str = "") -> str:
    """Return a whole SVG: text that can be selected, no scripts, nothing from elsewhere."""
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escaped(cut(title, LONGEST_DETAIL))}</title>",
        f"<style>{STYLE}{style}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        *content,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def rectangle(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    """Return a rectangle of a class of the style."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    named = f" class={quoteattr(kind)}" if kind else ""
    return f'<rect{named} {place} rx="{number(radius)}"/>'


def escaped(text: str) -> str:
    """Return a text that stands for itself in a picture, whatever is in it."""
    return escape("\n".join(map(harmless, text.split("\n"))))


def number(value: float) -> str:
    """Write a coordinate with one digit behind the point, and none where it is zero."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")
