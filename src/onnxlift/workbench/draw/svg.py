"""Write a picture as SVG: text that can be selected, no scripts, nothing from elsewhere, for light and for dark."""

from __future__ import annotations

from collections.abc import Iterator

from .layout.graph import BOX, TAG, Link, Node
from .layout.labels import LINE_HEIGHT, PADDING, Texts
from .layout.layout import LABEL_GAP, STACK, TAG_HEIGHT, Arranged, lay_out
from .picture import CONTROL, INPUT, OUTPUT, Box, Picture
from .style import LONGEST_DETAIL, document, escaped, number, rectangle
from .text import cut


def write_svg(picture: Picture, title: str) -> str:
    """Return the picture as SVG."""
    arranged = lay_out(picture)
    content = _picture(arranged, 0.0, 0.0)
    return document(title, max(arranged.width, 60), max(arranged.height, 40), content)


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
    yield f"<title>{escaped(_detail(box))}</title>"
    kind = _classes(box, inner is not None)
    for sheet in (2, 1) if box.times > 1 else ():
        yield rectangle("box", left + sheet * STACK, top + sheet * STACK, width, height, 4)
    if box.times > 1 and inner is not None:
        yield rectangle("page", left, top, width, height, 4)
    yield rectangle(kind, left, top, width, height, height / 2 if box.kind in (INPUT, OUTPUT) else 4)
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
            place = f'x="{number(x + node.x + node.out_at(port) + LABEL_GAP)}" y="{number(lower + 12)}"'
            yield f'<text class="type" {place}>{escaped(text)}</text>'


def _classes(box: Box, is_group: bool) -> str:
    if box.kind in (INPUT, OUTPUT):
        return "end"
    if is_group:
        return "group control" if box.kind == CONTROL else "group"
    if box.hidden:
        return "folded"
    return f"box {box.family}" if box.family else "box"


def _texts(texts: Texts, x: float, y: float, anchor: str) -> Iterator[str]:
    times = f' <tspan class="times">{escaped(texts.times)}</tspan>' if texts.times else ""
    place = f'x="{number(x)}" y="{number(y + 12)}" text-anchor="{anchor}"'
    yield f'<text class="title" {place}>{escaped(texts.title)}{times}</text>'
    for count, line in enumerate(texts.lines, 1):
        place = f'x="{number(x)}" y="{number(y + 12 + LINE_HEIGHT * count)}" text-anchor="{anchor}"'
        yield f'<text class="small" {place}>{escaped(line)}</text>'


def _tag(node: Node, x: float, y: float) -> Iterator[str]:
    yield '<g class="tag">'
    yield rectangle("", x + node.x - node.left, y + node.y, node.left * 2, TAG_HEIGHT, TAG_HEIGHT / 2)
    place = f'x="{number(x + node.x)}" y="{number(y + node.y + 12)}" text-anchor="middle"'
    yield f"<text {place}>{escaped(node.text)}</text>"
    yield "</g>"


def _line(arranged: Arranged, link: Link, x: float, y: float) -> str:
    """Return the path of a link: straight down to the end of its row, then over to its target."""
    begin = y + _bottom(arranged, link.source)
    row_end = y + arranged.row_ends[link.source.row]
    start, end, top = x + link.start, x + link.end, y + link.target.y
    path = f"M{number(start)} {number(begin)}"
    if row_end > begin:
        path += f"V{number(row_end)}"
    if abs(start - end) < 0.05:
        return f"{path}V{number(top)}"
    middle = (row_end + top) / 2
    curve = f"C{number(start)} {number(middle)} {number(end)} {number(middle)} {number(end)} {number(top)}"
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
    return f"M{number(x + link.end)} {number(y + node.y)}l-3.5 -6h7z"


def _detail(box: Box) -> str:
    """Return what is shown when the pointer rests on a box: all that is cut in it."""
    lines = [box.title, box.path or box.name, *box.lines, box.detail]
    lines += [f"{box.hidden} boxes inside are not shown"] if box.hidden else []
    return "\n".join(cut(line, LONGEST_DETAIL) for line in lines if line)
