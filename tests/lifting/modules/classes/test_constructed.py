"""Modules that one constructor would not make as they are do not share a class."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import onnxlift
from onnxlift.lifting.modules.classes import classes
from onnxlift.lifting.modules.classes.class_arguments import Arguments, find_arguments
from onnxlift.lifting.modules.classes.number_groups import Number
from small_graphs import Graph

Columns = Sequence[Sequence[object]]


def stage(g: Graph, x: str, path: str, widths: Sequence[int], *, down: bool) -> str:
    x = g.linear(x, f"{path}.down", 4, 4) if down else x
    for i, hidden in enumerate(widths):
        block = f"{path}.blocks.{i}"
        h = g.node("Sin", g.linear(x, f"{block}.a", 4, hidden), name=f"/{block.replace('.', '/')}/Sin")
        x = g.node("Add", g.linear(h, f"{block}.b", hidden, 4), x, name=f"/{block.replace('.', '/')}/Add")
    return g.node("Tanh", x, name=f"/{path}/Tanh")


def lift(*stages: tuple[Sequence[int], bool]) -> onnxlift.Lifted:
    """A model with a stage for each of these widths; the flag says whether it begins with a layer."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i, (widths, down) in enumerate(stages):
        x = stage(g, x, f"stages.{i}", widths, down=down)
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


def test_all_entries_of_a_list_are_made_like_the_first() -> None:
    """EfficientFormer: stages of as many blocks, of which the first stage lacks its first layer."""
    lifted = lift(([6, 6], False), ([7, 7], True))
    assert "nn.Sequential(Block(hidden), Block(hidden))" in lifted.source, lifted.source
    assert lifted.report.classes == 3, lifted.source


def test_an_argument_that_tells_a_wrong_number_divides_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever finds the arguments: here it takes the first number for that of all but the second."""

    def forgetful(
        example: Sequence[object], columns: Sequence[Sequence[object]], members: set[str]
    ) -> Arguments | None:
        arguments = find_arguments(example, columns, members)
        if arguments is not None:
            arguments.values = {
                name: [*column[:2], *column[:1] * (len(column) - 2)] for name, column in arguments.values.items()
            }
        return arguments

    monkeypatch.setattr(classes, "find_arguments", forgetful)
    lifted = lift(([6], True), ([7], True), ([8], True), ([9], True))
    assert lifted.report.classes > 3, lifted.source


def test_a_constructor_that_does_not_even_make_its_example_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(example: Sequence[Number], columns: Columns, members: set[str]) -> Arguments | None:
        arguments = find_arguments(example, columns, members)
        if arguments is not None:
            arguments.values = {name: [value + 1 for value in column] for name, column in arguments.values.items()}
        return arguments

    monkeypatch.setattr(classes, "find_arguments", wrong)
    lifted = lift(([6], True), ([7], True))
    assert "hidden" not in lifted.source, lifted.source
