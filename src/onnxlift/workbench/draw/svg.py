"""Write a picture as SVG: text that can be selected, no scripts, nothing from elsewhere, for light and for dark."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from .layout.graph import BOX, TAG, Link, Node
from .layout.labels import LINE_HEIGHT, PADDING, Texts
from .layout.layout import LABEL_GAP, STACK, TAG_HEIGHT, Arranged, lay_out
from .picture import CONTROL, INPUT, OUTPUT, Box, Picture
from .text import cut, harmless

_STYLE = """
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
LONGEST_DETAIL = 1_000


def write_svg(picture: Picture, title: str) -> str:
    """Return the picture as SVG."""
    arranged = lay_out(picture)
    width, height = _number(max(arranged.width, 60)), _number(max(arranged.height, 40))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img">',
        f"<title>{_escape(cut(title, LONGEST_DETAIL))}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        *_picture(arranged, 0.0, 0.0),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _picture(arranged: Arranged, x: float, y: float) -> Iterator[str]:
    """Yield what is in a picture whose top left corner is at (x, y): boxes first, so that lines are on top of them."""
    for node in arranged.nodes:
        if node.kind == BOX:
            yield from _box(arranged, node, x, y)
    by_value: dict[tuple[int, int], list[Link]] = {}
    for link in arranged.links:
        by_value.setdefault(link.value, []).append(link)
    for links in by_value.values():
        path = "".join(_line(arranged, link, x, y) for link in links)
        yield f'<path class="line" d="{path}"/>'
        heads = "".join(_arrow_head(arranged, link, x, y) for link in links)
        if heads:
            yield f'<path class="arrow" d="{heads}"/>'
    for node in arranged.nodes:
        if node.kind == TAG:
            yield from _tag(node, x, y)


def _box(arranged: Arranged, node: Node, x: float, y: float) -> Iterator[str]:
    box, inner = arranged.picture.boxes[node.box], arranged.inside.get(node.box)
    width, height = arranged.sizes[node.box]
    left, top = x + node.x - width / 2, y + node.y
    yield "<g>"
    yield f"<title>{_escape(_detail(box))}</title>"
    kind = _classes(box, inner is not None)
    for sheet in (2, 1) if box.times > 1 else ():
        yield _rectangle("box", left + sheet * STACK, top + sheet * STACK, width, height, 4)
    if box.times > 1 and inner is not None:
        yield _rectangle("page", left, top, width, height, 4)
    yield _rectangle(kind, left, top, width, height, height / 2 if box.kind in (INPUT, OUTPUT) else 4)
    texts = arranged.texts[node.box]
    if inner is None:
        yield from _texts(texts, left + width / 2, top + PADDING / 2, "middle")
    else:
        yield from _texts(texts, left + inner.heading, top + PADDING / 2, "start")
    yield "</g>"
    if inner is not None:
        yield from _picture(inner, left, top)
    yield from _types(arranged, node, box, x, top + height)


def _types(arranged: Arranged, node: Node, box: Box, x: float, y: float) -> Iterator[str]:
    """Yield the types of the values that leave a box, beside their lines."""
    for port in dict.fromkeys(link.source_port for link in node.down):
        text = arranged.labels[node.box][port]
        if text:
            lower = y + (STACK * 2 if box.times > 1 else 0)
            place = f'x="{_number(x + node.x + node.out_at(port) + LABEL_GAP)}" y="{_number(lower + 12)}"'
            yield f'<text class="type" {place}>{_escape(text)}</text>'


def _classes(box: Box, is_group: bool) -> str:
    if box.kind in (INPUT, OUTPUT):
        return "end"
    if is_group:
        return "group control" if box.kind == CONTROL else "group"
    if box.hidden:
        return "folded"
    return f"box {box.family}" if box.family else "box"


def _texts(texts: Texts, x: float, y: float, anchor: str) -> Iterator[str]:
    times = f' <tspan class="times">{_escape(texts.times)}</tspan>' if texts.times else ""
    place = f'x="{_number(x)}" y="{_number(y + 12)}" text-anchor="{anchor}"'
    yield f'<text class="title" {place}>{_escape(texts.title)}{times}</text>'
    for number, line in enumerate(texts.lines, 1):
        place = f'x="{_number(x)}" y="{_number(y + 12 + LINE_HEIGHT * number)}" text-anchor="{anchor}"'
        yield f'<text class="small" {place}>{_escape(line)}</text>'


def _tag(node: Node, x: float, y: float) -> Iterator[str]:
    yield '<g class="tag">'
    yield _rectangle("", x + node.x - node.left, y + node.y, node.left * 2, TAG_HEIGHT, TAG_HEIGHT / 2)
    place = f'x="{_number(x + node.x)}" y="{_number(y + node.y + 12)}" text-anchor="middle"'
    yield f"<text {place}>{_escape(node.text)}</text>"
    yield "</g>"


def _line(arranged: Arranged, link: Link, x: float, y: float) -> str:
    """Return the path of a link: straight down to the end of its row, then over to its target."""
    begin = y + _bottom(arranged, link.source)
    row_end = y + arranged.row_ends[link.source.row]
    start, end, top = x + link.start, x + link.end, y + link.target.y
    path = f"M{_number(start)} {_number(begin)}"
    if row_end > begin:
        path += f"V{_number(row_end)}"
    if abs(start - end) < 0.05:
        return f"{path}V{_number(top)}"
    middle = (row_end + top) / 2
    curve = f"C{_number(start)} {_number(middle)} {_number(end)} {_number(middle)} {_number(end)} {_number(top)}"
    return path + curve


def _bottom(arranged: Arranged, node: Node) -> float:
    """Return where a link that leaves a node begins."""
    if node.kind == BOX:
        return node.y + arranged.sizes[node.box][1]
    return node.y + (TAG_HEIGHT if node.kind == TAG else 0.0)


def _arrow_head(arranged: Arranged, link: Link, x: float, y: float) -> str:
    node = link.target
    inner = arranged.inside.get(node.box) if node.kind == BOX else None
    if node.kind != BOX or (inner is not None and inner.goes_on(link.target_port)):
        return ""
    return f"M{_number(x + link.end)} {_number(y + node.y)}l-3.5 -6h7z"


def _rectangle(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    named = f" class={quoteattr(kind)}" if kind else ""
    return f'<rect{named} {place} rx="{_number(radius)}"/>'


def _detail(box: Box) -> str:
    """Return what is shown when the pointer rests on a box: all that is cut in it."""
    lines = [box.title, box.path or box.name, *box.lines, box.detail]
    lines += [f"{box.hidden} boxes inside are not shown"] if box.hidden else []
    return "\n".join(cut(line, LONGEST_DETAIL) for line in lines if line)


def _escape(text: str) -> str:
    return escape("\n".join(map(harmless, text.split("\n"))))


def _number(value: float) -> str:
    """Write a coordinate with one digit behind the point, and none where it is zero."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")
