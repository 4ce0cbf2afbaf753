"""Numbers in a `forward` that are quantities become arguments, however small; axes and places of results do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnxlift.lifting.code.expr import Expr, F, Literal, Name, torch
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.classes.class_arguments import find_arguments
from onnxlift.lifting.modules.classes.number_groups import Number
from onnxlift.lifting.modules.classes.quantities import quantities
from onnxlift.lifting.modules.module import Module
from small_graphs import Graph, code

Step = Callable[[Graph, str, int, str], str]  # graph, value, number, scope


def cut_off(g: Graph, x: str, number: int, scope: str) -> str:
    bounds = [g.constant(f"of {scope} {i}", [value]) for i, value in enumerate((0, -number, 1))]
    return g.node("ReduceSum", g.node("Slice", x, *bounds, name=f"{scope}/Slice"), bounds[2], name=f"{scope}/Sum")


def one_of(g: Graph, x: str, number: int, scope: str) -> str:
    index, axis = g.constant(f"of {scope}", np.array(number)), g.constant("axis", [1])
    return g.node("Unsqueeze", g.node("Gather", x, index, axis=1, name=f"{scope}/Gather"), axis, name=f"{scope}/U")


def every(g: Graph, x: str, number: int, scope: str) -> str:
    bounds = [g.constant(f"of {scope} {i}", [value]) for i, value in enumerate((0, 6, 1, number))]
    return g.node("ReduceSum", g.node("Slice", x, *bounds, name=f"{scope}/Slice"), bounds[2], name=f"{scope}/Sum")


def operand(op_type: str) -> Step:
    def apply(g: Graph, x: str, number: int, scope: str) -> str:
        return g.node(op_type, x, g.constant(f"of {scope}", np.float32(number)), name=f"{scope}/{op_type}")

    return apply


def clamped(g: Graph, x: str, number: int, scope: str) -> str:
    limits = [g.constant(f"of {scope} {value}", np.float32(value)) for value in (-number, number)]
    return g.node("Clip", x, *limits, name=f"{scope}/Clip")


def repeated(g: Graph, x: str, number: int, scope: str) -> str:
    repeats = g.constant(f"of {scope}", np.array([1, number]))
    return g.node(
        "ReduceSum", g.node("Tile", x, repeats, name=f"{scope}/Tile"), g.constant("axis", [1]), name=f"{scope}/S"
    )


STEPS: dict[str, Step] = {
    ": -self.size": cut_off,
    "self.index]": one_of,
    ":: self.step]": every,
    "* self.scale": operand("Mul"),
    "+ self.offset": operand("Add"),
    "**self.exponent": operand("Pow"),
    "clamp(-self.limit, self.limit)": clamped,
    "repeat(1, self.repeats)": repeated,
}


@pytest.mark.parametrize("text", STEPS)
def test_a_small_quantity_that_differs_is_an_argument(text: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, number in enumerate((2, 3)):
        up = g.linear(x, f"blocks.{i}.up", 4, 6)
        changed = STEPS[text](g, up, number, f"/blocks.{i}")
        both = g.node("Sub", up, changed, name=f"/blocks.{i}/Sub")
        x = g.linear(g.node("Tanh", both, name=f"/blocks.{i}/Tanh"), f"blocks.{i}.down", 6, 4)
    source = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert source.count("class ") == 2 and text in source and "[Block(2), Block(3)]" in source, source


def roles(expr: Expr) -> list[str]:
    return [role for _, role in quantities(expr)]


def test_axes_and_places_among_results_are_no_quantities() -> None:
    x = Name("x")
    for expr in (x.softmax(1), x.shape[1], x.split(1)[0], x.mean(dim=1), x.flip(dims=(1, 2)), x.transpose(1, 2)):
        assert set(roles(expr)) <= {"size"}, expr  # of the split
    assert roles(Name("results")[1]) == [] and roles(torch.stack((x, x), 1)) == []


def test_quantities_are_called_by_what_they_measure() -> None:
    x = Name("x")
    assert roles(x + 1e-5) == ["eps"] and roles(x + 0.5) == ["offset"]
    assert roles(x.clamp(min=2)) == ["minimum"] and roles(x.clamp(-1, 2)) == ["minimum", "maximum"]
    assert roles(F.pad(x, (0, 2), value=1)) == ["padding", "padding", "value"]
    assert roles(F.interpolate(x, scale_factor=2)) == ["scale_factor"]
    assert roles(x.reshape(-1, 2)) == ["size"] and roles(F.leaky_relu(x, 0.1)) == ["negative_slope"]


@pytest.mark.parametrize(
    ("expr", "numbers"),
    [
        (Name("x")[..., :-2], [("size", 2, True)]),
        (Name("x") * -2, [("scale", -2, False)]),
        (Name("x").clamp(-0.5, 0.5), [("limit", 0.5, True), ("limit", 0.5, False)]),
    ],
)
def test_the_sign_of_what_is_cut_off_is_part_of_the_code(expr: Expr, numbers: list[tuple[str, float, bool]]) -> None:
    canonical = Canonical(Module(()), [])
    canonical.renderer.roles.update(quantities(expr))
    canonical.renderer.text(expr)
    assert [(n.role, n.value, n.negated) for n in canonical.numbers] == numbers


def test_a_negative_number_that_is_computed_is_in_parentheses() -> None:
    places = [Number(Literal(4), "size", 4), Number(Literal(-8), "size", 8, negated=True)]
    found = find_arguments(places, [[4, 6], [8, 12]], set())
    assert found is not None and found.texts[places[1].where] == "-(2 * self.size)"


@pytest.mark.parametrize(("lengths", "arguments"), [([2, 4], ["padding"]), ([2, 5], ["size", "padding"])])
def test_what_is_cut_off_is_what_was_added(lengths: list[int], arguments: list[str]) -> None:
    places = [Number((object(), "padding"), "padding", 2), Number(Literal(-2), "size", 2, negated=True)]
    found = find_arguments(places, [[2, 4], lengths], set())
    assert found is not None and list(found.values) == arguments
