"""A list of members does not grow with their number, if they are equal or differ in one number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import onnxlift
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.kinds import layer_kind
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.text.constructor import Constructor
from onnxlift.lifting.text.listed import listed
from small_graphs import Graph, code


def widening(g: Graph, hidden: Sequence[int], name: str = "blocks") -> onnxlift.Lifted:
    """A list of blocks that are so wide inside."""
    x = g.input("x", "n", 4)
    for i, width in enumerate(hidden):
        h = g.node("Sin", g.linear(x, f"{name}.{i}.up", 4, width), name=f"/{name}.{i}/Sin")
        x = g.node("Add", g.linear(h, f"{name}.{i}.down", width, 4), x, name=f"/{name}.{i}/Add")
    return onnxlift.lift(g.model(g.node("Cos", x, name="/Cos")), name="small")


@pytest.mark.parametrize(
    ("hidden", "text"),
    [
        ([1, 2, 4, 8, 16, 32, 64, 128, 256, 512], "(Block(2**i) for i in range(10))"),
        ([1, 2, 4, 8, 16, 32] * 3, "(Block(2 ** (i % 6)) for i in range(18))"),
        (([1, 2, 4, 8, 16] * 3)[:13], "(Block(2 ** (i % 5)) for i in range(13))"),
        ([1, 3, 9, 27, 81] * 2, "(Block(3 ** (i % 5)) for i in range(10))"),
        ([3 * 2**i for i in range(9)], "(Block(3 * 2**i) for i in range(9))"),
        ([512, 256, 128, 64, 32, 16, 8, 4], "(Block(512 // 2**i) for i in range(8))"),
        ([9, 4, 2, 1] * 3, "(Block(hidden) for hidden in (9, 4, 2, 1) * 3)"),  # is rounded
        ([3, 5, 7, 9] * 3, "(Block(3 + 2 * (i % 4)) for i in range(12))"),
        ([6, 5, 4, 3] * 3, "(Block(6 - (i % 4)) for i in range(12))"),
        ([*range(90, 5, -5)], "(Block(hidden) for hidden in range(90, 5, -5))"),
        (([3, 5, 6] * 6)[:17], "(Block(hidden) for hidden in ((3, 5, 6) * 6)[:17])"),
        ([3, 5, 6, 8, 1, 7, 9, 3, 5], "(Block(hidden) for hidden in (3, 5, 6, 8, 1, 7, 9, 3, 5))"),  # only once
        ([*range(5, 19)], "(Block(hidden) for hidden in range(5, 19))"),
        ([*range(0, 130, 10)][1:], "(Block(hidden) for hidden in range(10, 130, 10))"),
        ([3, 5, 6] * 6, "(Block(hidden) for hidden in (3, 5, 6) * 6)"),
        ([3, 5, 6, 8, 1, 7, 9, 2, 4, 12], "(Block(hidden) for hidden in (3, 5, 6, 8, 1, 7, 9, 2, 4, 12))"),
        ([1, 2, 4, 8], "([Block(1), Block(2), Block(4), Block(8)])"),  # fits into a line
        ([3, 3, 3, 3, 5, 7], "([*(Block(3) for _ in range(4)), Block(5), Block(7)])"),
        ([5, 5, 5, 7], "([Block(5), Block(5), Block(5), Block(7)])"),  # no shorter than a generator
        ([5] * 12 + [7, 8, 9], "([*(Block(5) for _ in range(12)), Block(7), Block(8), Block(9)])"),
        ([5, 5], "(Block() for _ in range(2))"),
    ],
)
def test_blocks_that_differ_in_one_number(hidden: list[int], text: str) -> None:
    lifted = widening(Graph(), hidden)
    source = " ".join(code(lifted).split()).replace("( ", "(").replace(" )", ")")
    assert f"self.blocks = nn.ModuleList{text}" in source, source
    assert [
        value.shape[0] for key, value in lifted.module().state_dict().items() if key.endswith("up.weight")
    ] == hidden


def convolutions(widths: Sequence[tuple[int, int]]) -> str:
    """A chain of convolutions of such widths, with activations between them."""
    g = Graph()
    x = g.input("x", "n", widths[0][0], 6)
    for i, (before, after) in enumerate(widths):
        weight = g.weight(f"net.{2 * i}.weight", after, before, 3)
        x = g.node("Conv", x, weight, name=f"/net/net.{2 * i}/Conv", pads=[1, 1], kernel_shape=[3])
        x = g.node("Relu", x, name=f"/net/net.{2 * i + 1}/Relu")
    return " ".join(code(g.lift(g.node("Cos", x, name="/Cos"))).split())


def test_layers_that_differ_in_two_numbers_are_written_out() -> None:
    text = convolutions([(3, 4), (4, 6), (6, 5), (5, 8)])
    assert all(f"nn.Conv1d({a}, {b}, 3" in text for a, b in [(3, 4), (4, 6), (6, 5), (5, 8)]), text
    assert " for " not in text


def chain(*layers: Layer) -> Module:
    module = Module(("net",), sequential=True)
    for number, layer in enumerate(layers):
        module.add((str(number),), layer)
    return module


def flatten() -> Layer:
    return Layer(layer_kind("Flatten"), {})


def linear(before: int, after: int) -> Layer:
    return Layer(layer_kind("Linear"), {"in_features": before, "out_features": after})


def written(members: Sequence[Layer | Module], arguments: Sequence[str] = ()) -> str:
    """The entries of a list in the constructor of a class with these arguments."""
    cls = ModuleClass("Net", Module(()))
    cls.constructor.values = {name: [] for name in arguments}
    return listed(members, Constructor(cls, {}), starred=True)


SIZES = (5, 9, 7, 3, 8, 6)


def test_a_variable_does_not_hide_an_argument() -> None:
    text = written([linear(4, size) for size in SIZES], ["dim"])
    assert text == "*(nn.Linear(4, dim2) for dim2 in (5, 9, 7, 3, 8, 6))"


def test_a_generator_in_a_generator_has_another_variable() -> None:
    text = written([chain(*(linear(4, size) for size in SIZES), flatten(), linear(n, 4)) for n in (6, 2)])
    inner = "*(nn.Linear(4, dim2) for dim2 in (5, 9, 7, 3, 8, 6))"
    assert text == f"*(nn.Sequential({inner}, nn.Flatten(), nn.Linear(dim, 4)) for dim in (6, 2))"


def test_members_of_several_kinds_are_no_run() -> None:
    layers = [linear(4, 6), flatten(), linear(4, 8), flatten(), linear(4, 9), linear(4, 10)]
    assert " for " not in written(layers)
