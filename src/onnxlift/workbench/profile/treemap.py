"""Draw a profile as a treemap: modules in modules, and nodes in these, each as large as its share.

The picture is an SVG as `draw` makes them: text that can be selected, no scripts, nothing from elsewhere, for light and
for dark. Rectangles are laid out in rows that are as square as they can be (Bruls, Huizing and van Wijk, 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onnxlift.sizes import format_bytes
from onnxlift.workbench.draw.families import family_of
from onnxlift.workbench.draw.style import LONGEST_DETAIL, document, escaped, number, rectangle
from onnxlift.workbench.draw.text import SMALL, TITLE, cut, width_of

from .formula import short_number
from .report import Profile, weight_of

WIDTH, HEIGHT = 1200.0, 760.0
MARGIN, HEADER, FOOTER = 12.0, 30.0, 22.0
TITLE_HEIGHT = 16.0
GAP = 2.0
SMALLEST = 5.0
"""A rectangle that would be narrower or lower than this many pixels is joined with others."""
_STYLE = """
.cell { stroke-width: 0.8; }
.rest { fill: #d0d7de; stroke: #8c959f; fill-opacity: 0.5; }
.plain { fill: #eaeef2; stroke: #adb5bd; }
.head { font-size: 11px; fill: #57606a; }
@media (prefers-color-scheme: dark) {
.rest { fill: #30363d; stroke: #6e7681; }
.plain { fill: #21262d; stroke: #545d68; }
.head { fill: #9da7b1; }
}
"""
_WHAT = {"flops": "FLOPs", "macs": "MACs", "bytes": "bytes moved", "parameters": "parameters", "time": "time"}


@dataclass
class Cell:
    """A module, or a node, which has no cells in it."""

    name: str
    path: str
    weight: float = 0.0
    operator: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)
    count: int = 1
    """How many nodes it stands for."""


@dataclass(frozen=True)
class Box:
    """A place in the picture."""

    x: float
    y: float
    width: float
    height: float

    def inside(self, top: float) -> Box:
        """Return what is left behind a border, and below a title."""
        width, height = self.width - 2 * GAP, self.height - 2 * GAP - top
        return Box(self.x + GAP, self.y + GAP + top, max(width, 0.0), max(height, 0.0))


def write_treemap(profile: Profile, column: str) -> str:
    """Return the treemap as SVG; the areas are shares of a column."""
    root = _tree(profile, column)
    lines = list(_content(profile, root, column))
    return document(f"profile of {profile.name}", WIDTH, HEIGHT, lines, _STYLE)


def _content(profile: Profile, root: Cell, column: str) -> Iterator[str]:
    total = _amount(root.weight, column)
    sizes = ", ".join(f"{name}={size}" for name, size in profile.example.items())
    at = f" at {sizes}" if sizes and column not in ("time", "parameters") else ""
    title = cut(f"{profile.name}: {total} {_WHAT[column]}{at}".replace("  ", " "), 140)
    yield f'<text class="title" x="{number(MARGIN)}" y="19">{escaped(title)}</text>'
    page = Box(MARGIN, HEADER, WIDTH - 2 * MARGIN, HEIGHT - HEADER - FOOTER - 4)
    if root.weight > 0:
        yield from _draw(root, page, root.weight, column, 0)
    else:
        yield f'<text class="head" x="{number(MARGIN)}" y="{number(HEADER + 20)}">there is nothing to draw</text>'
    unknown = len(profile.unknown)
    note = "Areas are shares of the whole. "
    if unknown:
        note += f"{unknown:,} node{'s' * (unknown != 1)} of unknown cost {'are' if unknown != 1 else 'is'} not drawn."
    yield f'<text class="head" x="{number(MARGIN)}" y="{number(HEIGHT - 8)}">{escaped(note.strip())}</text>'


def _tree(profile: Profile, column: str) -> Cell:
    """Put each node into the cell of its module. Nodes that hold graphs are not drawn: those in the graphs are."""
    root = Cell("", "")
    for place, row in enumerate(profile.nodes):
        weight = 0.0 if row.holds_graphs and column != "time" else weight_of(row, column, profile.example)
        if weight <= 0:
            continue
        cell = root
        cell.weight += weight
        for part in row.module.split(".") if row.module else ():
            path = f"{cell.path}.{part}" if cell.path else part
            cell = cell.cells.setdefault(f"module {part}", Cell(part, path))
            cell.weight += weight
        cell.cells[f"node {place}"] = Cell(row.name, row.name, weight, row.operator)
    return root


def _draw(cell: Cell, box: Box, whole: float, column: str, depth: int) -> Iterator[str]:
    """Yield a cell with all that is in it. A module that holds nothing but one module is drawn with it as one."""
    name = cell.name
    while len(cell.cells) == 1:
        (inner,) = cell.cells.values()
        if inner.operator:
            break
        name = f"{name}.{inner.name}" if name else inner.name
        cell = inner
    share = f"{_amount(cell.weight, column)}, {cell.weight / whole:.1%}"
    yield "<g>"
    detail = "\n".join(filter(None, [cell.operator, cell.path or name, share]))
    yield f"<title>{escaped(cut(detail, LONGEST_DETAIL) if chr(10) not in detail else _lines(detail))}</title>"
    if not cell.cells:
        yield rectangle(f"cell {_colour(cell)}", box.x, box.y, box.width, box.height, 1.5)
        yield from _labels(box, [(cell.operator or cell.name, "title"), (cell.name, "small"), (share, "small")])
        yield "</g>"
        return
    has_title = depth > 0 and box.height > 2.2 * TITLE_HEIGHT and box.width > 40
    if depth:
        yield rectangle("cell group", box.x, box.y, box.width, box.height, 2)
    if has_title:
        yield from _labels(Box(box.x, box.y, box.width, TITLE_HEIGHT + 4), [(f"{name}  {share}", "small")], (name,))
    yield "</g>"
    room = box.inside(TITLE_HEIGHT - GAP if has_title else 0.0) if depth else box
    if min(room.width, room.height) < SMALLEST:
        return
    for inner, place in _laid_out(list(cell.cells.values()), room):
        yield from _draw(inner, place, whole, column, depth + 1)


def _lines(detail: str) -> str:
    return "\n".join(cut(line, LONGEST_DETAIL) for line in detail.split("\n"))


def _colour(cell: Cell) -> str:
    if not cell.operator:
        return "rest"
    return family_of(cell.operator.rpartition("::")[2]) or "plain"


def _labels(box: Box, texts: Sequence[tuple[str, str]], otherwise: Sequence[str] = ()) -> Iterator[str]:
    """Yield as many lines of text as fit into a box; none if not even a part of the first one does."""
    y = box.y + 3
    for text, kind in texts:
        size = TITLE if kind == "title" else SMALL
        y += size + 2
        if y > box.y + box.height - 1:
            return
        shown = next((each for each in (text, *otherwise) if _fits(each, size, box.width - 8)), "")
        if not shown:
            letters = int((box.width - 8) / (0.605 * size))
            shown = cut(text, letters) if letters >= 5 else ""
        if shown:
            place = f'x="{number(box.x + 4)}" y="{number(y - 2)}"'
            yield f'<text class="{kind}" {place}>{escaped(cut(shown, 200))}</text>'


def _fits(text: str, size: float, width: float) -> bool:
    return width_of(cut(text, 200), size) <= width


def _laid_out(cells: Sequence[Cell], room: Box) -> Iterator[tuple[Cell, Box]]:
    """Yield each cell with its place. What would be too small to be seen is one cell at the end."""
    whole = sum(cell.weight for cell in cells)
    area = room.width * room.height
    ordered = sorted(cells, key=lambda cell: -cell.weight)
    large = [cell for cell in ordered if cell.weight / whole * area >= SMALLEST * SMALLEST]
    small = ordered[len(large) :]
    if len(small) == 1:
        large, small = ordered, []
    if small:
        count = sum(_count(cell) for cell in small)
        large = [*large, Cell(f"{count:,} more", f"{count:,} smaller nodes", sum(cell.weight for cell in small))]
    scale = area / whole
    yield from _squarified([(cell, cell.weight * scale) for cell in large], room)


def _count(cell: Cell) -> int:
    return sum(map(_count, cell.cells.values())) if cell.cells else cell.count


def _squarified(cells: Sequence[tuple[Cell, float]], room: Box) -> Iterator[tuple[Cell, Box]]:
    """Yield the places of cells with these areas: rows along the shorter side, each until it would get less square."""
    start = 0
    while start < len(cells):
        side = min(room.width, room.height)
        if side <= 0:
            return
        end, total = start + 1, cells[start][1]
        worst = _worst(cells[start:end], total, side)
        while end < len(cells):
            more = total + cells[end][1]
            next_worst = _worst((cells[start], cells[end]), more, side)
            if next_worst > worst:
                break
            end, total, worst = end + 1, more, next_worst
        thickness = total / side
        along = 0.0
        for cell, area in cells[start:end]:
            length = area / thickness
            if room.width >= room.height:
                yield cell, _shrunk(Box(room.x, room.y + along, thickness, length))
            else:
                yield cell, _shrunk(Box(room.x + along, room.y, length, thickness))
            along += length
        if room.width >= room.height:
            room = Box(room.x + thickness, room.y, room.width - thickness, room.height)
        else:
            room = Box(room.x, room.y + thickness, room.width, room.height - thickness)
        start = end


def _worst(cells: Sequence[tuple[Cell, float]], total: float, side: float) -> float:
    """Return how far the largest or the smallest cell of a row is from a square. They are the first and the last."""
    thickness = total / side
    return max(max(thickness**2 / area, area / thickness**2) for area in (cells[0][1], cells[-1][1]))


def _shrunk(box: Box) -> Box:
    gap = min(1.0, box.width / 4, box.height / 4)
    return Box(box.x + gap / 2, box.y + gap / 2, box.width - gap, box.height - gap)


def _amount(weight: float, column: str) -> str:
    if column == "bytes":
        return format_bytes(weight)
    if column == "time":
        return f"{weight * 1e3:.3g} ms"
    return short_number(weight)
