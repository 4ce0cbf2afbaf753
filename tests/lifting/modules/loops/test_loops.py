"""Numbered modules that are called in a row become a loop; anything else stays as it is."""

from __future__ import annotations

import pytest

from onnxlift.lifting.modules.loops import loops
from small_graphs import Graph, code


def block(g: Graph, x: str, path: str, *more: str) -> str:
    scope = f"/{path}"
    h = g.node("Sin", g.linear(x, f"{path}.a"), name=f"{scope}/Sin")
    for value in more:
        h = g.node("Mul", h, value, name=f"{scope}/Mul")
    return g.linear(h, f"{path}.b")


def test_a_chain_is_a_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = block(g, x, f"layers.{i}")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "        for layer in self.layers:\n            x = layer(x)\n        return x.cos()" in code(lifted)


def test_what_is_the_same_in_every_call_is_passed_along() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4), g.node("Sigmoid", g.input("m", "n", 4), name="/Sigmoid")
    for i in range(3):
        x = block(g, x, f"layers.{i}", mask)
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "for layer in self.layers:" in text and text.count("sigmoid()") == 1


def test_a_result_that_is_used_elsewhere_keeps_its_own_line() -> None:
    g = Graph()
    x, outputs = g.input("x", "n", 4), []
    for i in range(3):
        x = block(g, x, f"layers.{i}")
        outputs.append(x)
    ends = zip(["Cos", "Sin", "Tanh"], outputs, strict=True)
    lifted = g.lift(*(g.node(op_type, x, name=f"/{op_type}") for op_type, x in ends))
    assert "for " not in code(lifted).partition("class Small")[2].partition("def forward")[2]
    assert "self.layers[2]" in lifted.source


def test_another_order_is_not_a_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in (0, 2, 1):
        x = block(g, x, f"layers.{i}")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "for layer in" not in lifted.source
    assert next(key for key in lifted.state_dict if key.endswith("a.weight")) == "layers.0.a.weight"


def test_what_happens_between_the_calls_stays_between_them() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, op_type in enumerate(["Tanh", "Sigmoid", "Tanh"]):
        x = g.node(op_type, block(g, x, f"layers.{i}"), name=f"/Act_{i}")
    lifted = g.lift(x)
    assert lifted.source.count("tanh()") == 2 and lifted.source.count("sigmoid()") == 1


def test_modules_of_several_classes_in_one_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(4):
        x = block(g, x, f"layers.{i}", *([x] if i % 2 else []))
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "for layer in self.layers:" in text and text.count("class ") == 3


def test_the_loop_reads_the_value_before_it_which_others_need_too() -> None:
    g = Graph()
    start = x = g.node("Sigmoid", g.input("x", "n", 4), name="/Sigmoid")
    for i in range(3):
        x = block(g, x, f"layers.{i}")
    g.lift(g.node("Add", x, start, name="/Add"))  # compares the numbers


def test_a_container_is_no_member_to_call() -> None:
    """`self.layers[2]` is an nn.ModuleDict that holds one layer."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        x = block(g, x, f"layers.{i}")
    text = code(g.lift(g.node("Cos", g.linear(x, "layers.2.stages.1"), name="/Cos")))
    assert "for layer" not in text and 'self.layers[2].stages["1"]' in text


def pair(g: Graph, x: str, y: str, path: str) -> tuple[str, str]:
    """A block that gives two values, each made of both that it takes."""
    scope = f"/{path}"
    total = g.node("Add", g.linear(x, f"{path}.a"), y, name=f"{scope}/Add")
    return g.node("Sin", total, name=f"{scope}/Sin"), g.linear(
        g.node("Mul", total, y, name=f"{scope}/Mul"), f"{path}.b"
    )


def test_two_values_that_go_through_all_calls() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i in range(3):
        x, y = pair(g, x, y, f"layers.{i}")
    text = code(g.lift(g.node("Sub", x, y, name="/Sub")))
    assert "        for layer in self.layers:\n            x, y = layer(x, y)\n        return x - y" in text, text


def test_values_that_change_places_are_no_loop_of_two() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i in range(3):
        x, y = pair(g, *((x, y) if i < 2 else (y, x)), f"layers.{i}")
    assert "for layer in" not in g.lift(g.node("Sub", x, y, name="/Sub")).source


def test_what_one_value_takes_the_place_of_must_be_one_thing() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4), g.input("mask", "n", 4)
    x = block(g, x, "layers.0", mask)
    for i in (1, 2, 3):
        x = g.linear(g.node("Mul", g.linear(x, f"layers.{i}.a"), x, name=f"/layers.{i}/Mul"), f"layers.{i}.b")
    assert "for layer in self.layers[1:]:" in g.lift(g.node("Cos", x, name="/Cos")).source


def test_a_call_that_differs_stands_before_the_loop_over_the_others() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4), g.input("mask", "n", 4)
    for i in range(4):
        x = block(g, x, f"layers.{i}", *([mask] if i else []))
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "x = self.layers[0](x)\n        for layer in self.layers[1:]:\n            x = layer(x, mask)" in text, text


def test_a_result_that_is_needed_later_ends_a_loop() -> None:
    g = Graph()
    x, middle = g.input("x", "n", 4), ""
    for i in range(9):
        x = block(g, x, f"layers.{i}")
        middle = x if i == 2 else middle
    text = code(g.lift(g.node("Add", middle, x, name="/Add")))
    assert "for layer in self.layers[:3]:" in text and "for layer in self.layers[3:]:" in text, text


def test_a_part_of_a_list_needs_some_length() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4), g.input("mask", "n", 4)
    for i in range(3):
        x = block(g, x, f"layers.{i}", *([mask] if i else []))
    assert "for layer in" not in g.lift(g.node("Cos", x, name="/Cos")).source


def test_a_dictionary_of_numbers_is_no_list() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in (0, 2, 3, 4):
        x = block(g, x, f"layers.{i}")
    assert "for layer in" not in g.lift(g.node("Cos", x, name="/Cos")).source


def test_calls_of_one_module_are_a_loop_from_three_on() -> None:
    for count in (2, 3):
        g = Graph()
        x = g.input("x", "n", 4)
        for _ in range(count):
            x = block(g, x, "layer")
        text = code(g.lift(g.node("Cos", x, name="/Cos"))).partition("class Small")[2]
        assert ("for _ in range(3):\n            x = self.layer(x)" in text) == (count == 3)


def test_a_loop_that_is_there_again_and_again_is_in_a_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in (0, 1, 0, 1, 0, 1, 0):
        x = block(g, x, f"layers.{i}")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    loop = "for _ in range(3):\n            for layer in self.layers:\n                x = layer(x)\n"
    assert loop in text and text.endswith("        x = self.layers[0](x)\n        return x.cos()\n")


def test_a_call_in_between_ends_the_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for path in ("layer", "layer", "layer", "other", "layer"):
        x = block(g, x, path)
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "for _ in range(3):" in text and "x = self.other(x)\n        return self.layer(x).cos()" in text


def alternating(choices: str, late: bool = False, read: int | None = None) -> str:
    """The code of layers that are given one of the values a and b, as the letters say. If it is `late`, b is computed
    where it is first needed. What the layer `read` gives is a result of the model."""
    g = Graph()
    x, results = g.input("x", "n", 4), []
    values = {name: g.node("Sigmoid", g.input(name, "n", 4), name=f"/Sigmoid_{name}") for name in "ac"}
    for i, choice in enumerate(choices):
        if choice == "b" and "b" not in values:
            values["b"] = g.node("Sin", g.node("Exp", values["a"], name="/Exp"), name="/Sin")
        x = block(g, x, f"layers.{i}", values[choice])
        if i == read:
            results.append(g.node("Tanh", x, name="/Tanh"))
        if i == 0 and not late:
            values["b"] = g.node("Sin", values["a"], name="/Sin")
    return code(g.lift(g.node("Cos", x, name="/Cos"), *results)).rpartition("def forward")[2]  # compares the numbers


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("choices", "condition", "chosen"),
    [
        ("abab", "i % 2 == 0", "a"),
        ("aabaab", "i % 3 == 2", "b"),
        ("aabaaba", "i % 3 == 2", "b"),
        ("abbabbabba", "i % 3 == 0", "a"),
    ],
)
def test_what_alternates_is_asked_for_in_the_loop(choices: str, condition: str, chosen: str, late: bool) -> None:
    text = alternating(choices, late)
    assert (
        f"for i, layer in enumerate(self.layers):\n            if {condition}:\n                x = layer(x, " in text
    )
    assert text.count("layer(x, ") == 2 and "self.layers[" not in text, text


@pytest.mark.parametrize("choices", ["aab", "aabb", "abba", "abaab", "abca", "abcabc"])
def test_what_does_not_alternate_evenly_is_not(choices: str) -> None:
    assert "enumerate(" not in alternating(choices)


def test_what_alternates_is_no_loop_if_a_result_is_read_elsewhere() -> None:
    assert "enumerate(" not in alternating("ababab", read=2)
    assert "enumerate(" in alternating("ababab", read=5)


def test_very_much_between_the_calls_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "enumerate(" in alternating("abab", late=True)
    monkeypatch.setattr(loops, "MOST_BETWEEN", 0)
    assert "enumerate(" not in alternating("abab", late=True)
