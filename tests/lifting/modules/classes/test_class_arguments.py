"""The arguments of a class are the numbers in which its instances differ; those of an optional part must be known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onnxlift.lifting.code.expr import Literal
from onnxlift.lifting.modules.classes.class_arguments import Arguments, find_arguments
from onnxlift.lifting.modules.classes.number_groups import ABSENT, Number


def with_masks(sizes: Sequence[int], masks: Sequence[object], role: str = "size") -> Arguments | None:
    """Modules that cut an image into that many windows along each side, of which some have masks for that many."""
    flags = [mask is not ABSENT for mask in masks]
    side = Number(Literal(sizes[0]), "size", sizes[0])
    first = next(mask for mask in masks if mask is not ABSENT)
    windows = Number(("mask", "0"), role, first, home=("mask",))
    there = Number(("part", "there"), "mask", True)
    return find_arguments([side, windows, there], [sizes, masks, flags], set())


def test_the_masks_of_all_windows_follow_from_the_side_of_the_image() -> None:
    arguments = with_masks([8, 8, 4, 4], [ABSENT, 64, ABSENT, 16])
    assert arguments is not None
    assert arguments.texts["mask", "0"] == "size ** 2"
    assert [*arguments.values] == ["size", "mask"]


@pytest.mark.parametrize(
    ("masks", "role"),
    [([ABSENT, 64, ABSENT, 17], "size"), ([ABSENT, 64, ABSENT, 16], "out_channels")],
    ids=["another number", "the width of a layer"],
)
def test_other_numbers_of_an_optional_part_do_not(masks: Sequence[object], role: str) -> None:
    assert with_masks([8, 8, 4, 4], masks, role) is None
