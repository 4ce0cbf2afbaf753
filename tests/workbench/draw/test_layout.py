"""Layouts of random pictures: lines lead down and beside boxes, nothing overlaps, and texts fit."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from onnxlift.workbench.draw.layout.graph import BEND, BOX, ENTRY, EXIT, TAG, Node
from onnxlift.workbench.draw.layout.layout import Arranged, lay_out
from onnxlift.workbench.draw.layout.ordering import count_crossings
from onnxlift.workbench.draw.layout.rows import FAR_IN_SMALL, MANY
from onnxlift.workbench.draw.picture import BORDER, CALL, MODULE, Box, Edge, Picture, Port


def random_picture(dice: random.Random, depth: int, inputs: int = 0, outputs: int = 0) -> Picture:
    """Boxes with edges to later ones: short, long, shared by many; some boxes hold pictures of their own."""
    boxes: list[Box] = []
    edges: list[Edge] = []
    ports = [(BORDER, port) for port in range(inputs)]
    for number in range(dice.randint(0 if inputs else 1, 14)):
        title = "x" * dice.randint(0, 70)
        box = Box(MODULE, title, name="n" * dice.randint(0, 60), times=dice.choice([1, 1, 1, 12]))
        box.lines = tuple("l" * dice.randint(1, 20) for _ in range(dice.randint(0, 3)))
        box.outputs = [Port(f"v{number}", "(" + "1, " * dice.randint(0, 9) + ")") for _ in range(dice.randint(0, 3))]
        recent = ports[-3:] if dice.random() < 0.7 else ports
        sources = dice.sample(recent, min(len(recent), dice.randint(0, 3)))
        edges += [Edge(*source, number, place) for place, source in enumerate(sources)]
        box.inputs = [Port("v", "") for _ in sources]
        if depth and dice.random() < 0.3:
            box.inside = random_picture(dice, depth - 1, len(box.inputs), len(box.outputs))
        boxes.append(box)
        ports += [(number, port) for port in range(len(box.outputs))]
    edges += [Edge(*dice.choice(ports), BORDER, port) for port in range(outputs) if ports]
    return Picture(boxes, edges)


def assert_sound(arranged: Arranged) -> None:
    """Hold all that is promised of a layout."""
    _assert_lines_lead_down(arranged)
    _assert_apart(arranged)
    _assert_lines_pass_beside_boxes(arranged)
    for number, (width, height) in arranged.sizes.items():
        inner = arranged.inside.get(number)
        assert arranged.texts[number].width <= width
        assert arranged.texts[number].height <= height
        if inner is not None:
            assert (inner.width, inner.height) == (width, height)
            _assert_heading_is_free(inner, arranged.texts[number].width)
            assert_sound(inner)
    for node in arranged.nodes:
        assert node.x - node.left >= 0 and node.x + node.right <= arranged.width
        assert node.y >= 0 and (node.kind == EXIT or node.y + node.height <= arranged.height)


def _assert_lines_lead_down(arranged: Arranged) -> None:
    for link in arranged.links:
        assert link.source.row < link.target.row
        assert arranged.row_ends[link.source.row] <= link.target.y
        for node, x in ((link.source, link.start), (link.target, link.end)):
            assert node.x - node.left - 0.01 <= x <= node.x + node.right + 0.01


def _assert_apart(arranged: Arranged) -> None:
    rows: dict[int, list[Node]] = {}
    for node in arranged.nodes:
        rows.setdefault(node.row, []).append(node)
    for row in rows.values():
        ordered = sorted(row, key=lambda node: node.place)
        for left, right in pairwise(ordered):
            assert left.x + left.right < right.x - right.left
        assert all(node.kind == EXIT or node.y + node.height <= arranged.row_ends[node.row] + 0.01 for node in row)
    boxes = [node for node in arranged.nodes if node.kind in (BOX, TAG)]
    for one, other in combinations(boxes, 2):
        beside = one.x + one.right < other.x - other.left or other.x + other.right < one.x - one.left
        below = one.y + one.height <= other.y or other.y + other.height <= one.y
        assert beside or below


def _assert_lines_pass_beside_boxes(arranged: Arranged) -> None:
    """A line is straight in the rows of boxes, and bends only between them; so it is enough to look at the bends."""
    for bend in (node for node in arranged.nodes if node.kind == BEND):
        for node in arranged.nodes:
            if node.kind in (BOX, TAG) and node.row == bend.row:
                assert not node.x - node.left <= bend.x <= node.x + node.right


def _assert_heading_is_free(inner: Arranged, width: float) -> None:
    assert inner.heading + width <= inner.width
    for x in inner.entries.values():
        assert not inner.heading <= x <= inner.heading + width


@pytest.mark.parametrize("seed", range(60))
def test_random_pictures_are_sound(seed: int) -> None:
    assert_sound(lay_out(random_picture(random.Random(seed), depth=2)))


@pytest.mark.parametrize("seed", range(5))
def test_large_random_pictures_are_sound(seed: int) -> None:
    dice = random.Random(seed)
    boxes = [Box(CALL, f"op{number}", outputs=[Port(f"v{number}", "(n, 4)")]) for number in range(150)]
    edges = []
    for number in range(1, len(boxes)):
        sources = [dice.randrange(max(0, number - 12), number) for _ in range(dice.randint(1, 3))]
        edges += [Edge(source, 0, number, place) for place, source in enumerate(sources)]
    assert_sound(lay_out(Picture(boxes, edges)))


def chain(length: int) -> Picture:
    boxes = [Box(CALL, f"op{number}", outputs=[Port(f"v{number}", "(n, 4)")]) for number in range(length)]
    return Picture(boxes, [Edge(number, 0, number + 1, 0) for number in range(length - 1)])


def test_a_chain_with_skips_is_straight() -> None:
    picture = chain(12)
    picture.edges += [Edge(number, 0, number + 3, 1) for number in (0, 4, 8)]
    arranged = lay_out(picture)
    assert len({round(node.x, 3) for node in arranged.nodes if node.kind == BOX}) == 1
    assert any(node.kind == BEND for node in arranged.nodes)


def test_a_value_that_all_blocks_read_gets_tags_and_no_lines() -> None:
    picture = chain(40)
    picture.edges += [Edge(0, 0, number, 1) for number in range(2, 40)]
    arranged = lay_out(picture)
    tags = [node for node in arranged.nodes if node.kind == TAG]
    assert len(tags) == 1 + 39  # at the source, and at each reader
    assert {tag.text for tag in tags} == {"v0"}
    assert not any(node.kind == BEND for node in arranged.nodes)


def test_a_few_near_readers_get_lines() -> None:
    picture = chain(MANY)
    picture.edges += [Edge(0, 0, number, 1) for number in range(2, MANY)]
    assert not any(node.kind == TAG for node in lay_out(picture).nodes)


def test_a_far_reader_gets_a_tag() -> None:
    for length, tags in ((FAR_IN_SMALL + 1, 0), (FAR_IN_SMALL + 2, 2)):
        picture = chain(length)
        picture.edges.append(Edge(0, 0, length - 1, 1))
        assert sum(node.kind == TAG for node in lay_out(picture).nodes) == tags


def test_tags_of_different_values_have_different_texts() -> None:
    picture = chain(40)
    picture.boxes[0].outputs = picture.boxes[1].outputs = [Port("/block/same_output_0", "")]
    picture.edges += [Edge(source, 0, number, source + 1) for source in (0, 1) for number in range(3, 40)]
    assert {node.text for node in lay_out(picture).nodes if node.kind == TAG} == {"same", "same (2)"}


def test_lines_that_would_cross_are_sorted() -> None:
    boxes = [Box(CALL, "x", outputs=[Port("a", "")]) for _ in range(5)]
    boxes += [Box(CALL, "y") for _ in range(5)]
    arranged = lay_out(Picture(boxes, [Edge(number, 0, 9 - number, 0) for number in range(5)]))
    rows = [[node for node in arranged.nodes if node.row == row] for row in (0, 1)]
    assert count_crossings([sorted(row, key=lambda node: node.place) for row in rows]) == 0


def test_an_empty_picture_has_a_size() -> None:
    arranged = lay_out(Picture())
    assert arranged.width > 0 and arranged.height > 0


def test_a_line_may_pass_through_a_box_without_contents() -> None:
    inner = Picture([], [Edge(BORDER, 0, BORDER, 0)])
    box = Box(MODULE, "nothing", inputs=[Port("x", "")], outputs=[Port("x", "(n)")], inside=inner)
    ends = [Box(CALL, "before", outputs=[Port("x", "")]), box, Box(CALL, "after")]
    arranged = lay_out(Picture(ends, [Edge(0, 0, 1, 0), Edge(1, 0, 2, 0)]))
    assert_sound(arranged)
    assert [node.kind for node in arranged.inside[1].nodes] == [ENTRY, EXIT]
