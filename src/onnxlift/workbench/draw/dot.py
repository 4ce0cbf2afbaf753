"""Write a picture in the language of Graphviz, with a cluster for each box that holds others."""

from __future__ import annotations

from collections.abc import Iterator

from .layout.labels import LONGEST_NAME, label_of, texts_of
from .leaves import Leaf, flatten
from .picture import CONTROL, INPUT, OUTPUT, Box, Picture
from .text import cut, harmless

_FILLS = {
    "weighted": "#e3effc",
    "norm": "#e2f4ec",
    "activation": "#fdf1dc",
    "attention": "#efe7fb",
    "shape": "#f3f4f6",
    "reducing": "#fbe9e7",
}
_HEAD = """  graph [fontname="monospace", fontsize=10, nodesep=0.3, ranksep=0.35]
  node [shape=box, style="rounded,filled", fillcolor="#ffffff", color="#8c959f", fontname="monospace", fontsize=10]
  edge [color="#6e7781", fontcolor="#59636e", fontname="monospace", fontsize=8, arrowsize=0.6]"""


def write_dot(picture: Picture, title: str) -> str:
    """Return the picture as text for `dot`."""
    leaves, edges = flatten(picture)
    lines = [f"digraph {_quoted(cut(title, LONGEST_NAME))} {{", _HEAD]  # its strings have a longest length, too
    for leaf in leaves:
        lines += _leaf(leaf, "  ")
    for edge in edges:
        label = "" if edge.label == "" else f"label={_quoted(label_of(edge.label))}"
        options = ", ".join(filter(None, [label, "arrowhead=none" if edge.to_port else ""]))
        lines.append(f"  {edge.source} -> {edge.target}" + (f" [{options}]" if options else ""))
    return "\n".join([*lines, "}"]) + "\n"


def _leaf(leaf: Leaf, indent: str) -> Iterator[str]:
    box = leaf.box
    if box is None:
        yield f'{indent}{leaf.identity} [shape=point, width=0.04, label=""]'
    elif leaf.is_group:
        style = "rounded,dashed" if box.kind == CONTROL else "rounded"
        yield f"{indent}subgraph cluster_{leaf.identity} {{"
        yield f'{indent}  label={_label(box)}; labeljust=l; style="{style}"; color="#8c959f"'
        for inner in leaf.inside:
            yield from _leaf(inner, indent + "  ")
        yield f"{indent}}}"
    else:
        fill = _FILLS.get(box.family)
        options = [f"label={_label(box)}"]
        options += ["shape=oval"] if box.kind in (INPUT, OUTPUT) else []
        options += [f'fillcolor="{fill}"'] if fill else []
        options += ["peripheries=2"] if box.times > 1 else []
        yield f"{indent}{leaf.identity} [{', '.join(options)}]"


def _label(box: Box) -> str:
    texts = texts_of(box)
    title = f"{texts.title} {texts.times}".strip()
    return _quoted("\n".join([title, *texts.lines]))


def _quoted(text: str) -> str:
    """Write a text as a string of DOT. Backslashes are doubled, so that none of its escapes is left."""
    lines = (harmless(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + r"\n".join(lines) + '"'
