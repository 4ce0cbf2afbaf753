"""Write a picture as a flowchart of Mermaid, which GitHub and GitLab show in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .layout.labels import label_of, texts_of
from .leaves import Leaf, flatten
from .picture import INPUT, OUTPUT, Box, Picture
from .text import TIMES, harmless

MOST_EDGES, MOST_CHARACTERS = 500, 50_000
"""What Mermaid shows at most, unless whoever runs it allows more. GitHub does not."""

_SPECIAL = re.compile(rf"[^\w ,()=:/.·{TIMES}…]|_")
_STYLES = {
    "weighted": "fill:#6f9fd633,stroke:#6f9fd6",
    "norm": "fill:#6bb08e33,stroke:#6bb08e",
    "activation": "fill:#d2a24c33,stroke:#d2a24c",
    "attention": "fill:#a285d133,stroke:#a285d1",
    "shape": "fill:#adb5bd33,stroke:#adb5bd",
    "reducing": "fill:#cf8f8633,stroke:#cf8f86",
}


def write_mermaid(picture: Picture) -> str:
    """Return the picture as text for Mermaid."""
    leaves, edges = flatten(picture)
    lines = ["flowchart TD"]
    for leaf in leaves:
        lines += _leaf(leaf, "  ")
    for edge in edges:
        arrow = "---" if edge.to_port else "-->"
        label = f'|"{_escaped(label_of(edge.label))}"|' if edge.label else ""
        lines.append(f"  {edge.source} {arrow}{label} {edge.target}")
    used = {box.family for box in picture.walk() if box.inside is None}
    lines += [f"  classDef {family} {style}" for family, style in _STYLES.items() if family in used]
    return "\n".join(lines) + "\n"


def too_large(text: str) -> str:
    """Say why Mermaid would not show a text; nothing if it would."""
    edges = len(re.findall(r"^  \w+ -", text, re.MULTILINE))
    if edges <= MOST_EDGES and len(text) <= MOST_CHARACTERS:
        return ""
    return (
        f"as GitHub runs it, Mermaid shows at most {MOST_EDGES} edges and {MOST_CHARACTERS:,} characters, and there "
        f"are {edges:,} and {len(text):,}: draw less of the model (--depth, --module), or write SVG"
    )


def _leaf(leaf: Leaf, indent: str) -> Iterator[str]:
    box = leaf.box
    if box is None:
        yield f'{indent}{leaf.identity}((" "))'
    elif leaf.is_group:
        yield f'{indent}subgraph {leaf.identity}["{_text(box)}"]'
        for inner in leaf.inside:
            yield from _leaf(inner, indent + "  ")
        yield f"{indent}end"
    else:
        brackets = ("([", "])") if box.kind in (INPUT, OUTPUT) else ("[[", "]]") if box.times > 1 else ("[", "]")
        family = f":::{box.family}" if box.family else ""
        yield f'{indent}{leaf.identity}{brackets[0]}"{_text(box)}"{brackets[1]}{family}'


def _text(box: Box) -> str:
    texts = texts_of(box)
    return "<br/>".join(map(_escaped, [f"{texts.title} {texts.times}".strip(), *texts.lines]))


def _escaped(text: str) -> str:
    """Write every character that could mean something to Mermaid, Markdown or HTML as an entity.

    A number with a point at the beginning would be a list in Markdown."""
    text = _SPECIAL.sub(lambda found: f"#{ord(found[0])};", harmless(text))
    return re.sub(r"^(\d+)\.", r"\1#46;", text)
