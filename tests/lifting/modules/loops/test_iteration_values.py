"""What may differ between iterations: values of the one before, entries of other lists, parts, numbers, results."""

from __future__ import annotations

import numpy as np
from pytest import mark

import onnxlift
from small_graphs import Graph, code, step


def forward(lifted: onnxlift.Lifted) -> str:
    """The forward of the model itself."""
    return code(lifted).rpartition("def forward")[2]


def experts(g: Graph, x: str, count: int, path: str = "experts") -> list[str]:
    return [step(g, x, f"{path}.{i}") for i in range(count)]


# Results that are joined


def test_modules_side_by_side() -> None:
    g = Graph()
    text = forward(g.lift(g.node("Concat", *experts(g, g.input("x", "n", 4), 3), name="/Concat", axis=1)))
    assert "return torch.cat([expert(x) for expert in self.experts], 1)" in text, text


def test_several_lines_each() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    ends = [g.node("Tanh", end, name="/Tanh") for end in experts(g, x, 3)]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "torch.cat([expert(x).tanh() for expert in self.experts], 1)" in text, text


def test_what_all_of_them_read_is_computed_once() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/Sin")
    text = forward(g.lift(g.node("Concat", *experts(g, x, 3), name="/Concat", axis=1)))
    assert "x = x.sin()" in text and "[expert(x) for expert in self.experts]" in text, text


def test_outputs_of_all_layers() -> None:
    g = Graph()
    x, ends = g.input("x", "n", 4), []
    for i in range(3):
        x = step(g, x, f"layers.{i}")
        ends.append(x)
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "outputs = []" in text and "x = layer(x)\n            outputs.append(x)" in text, text
    assert "return torch.cat(outputs, 1)" in text, text


def test_a_list_begins_with_what_is_there_before_the_first_round() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/Sin")
    ends = [x]
    for i in range(3):
        ends.append(step(g, ends[-1], f"layers.{i}"))
    text = forward(g.lift(g.node("Concat", *ends, g.node("Cos", x, name="/Cos"), name="/Concat", axis=1)))
    assert "outputs = [sin]" in text and "torch.cat([*outputs, " in text, text


def test_a_list_does_not_begin_with_what_comes_later() -> None:
    g = Graph()
    x, ends = g.input("x", "n", 4), []
    for i in range(3):
        x = step(g, x, f"layers.{i}")
        ends.append(x)
    last = g.node("Cos", x, name="/Cos")
    text = forward(g.lift(g.node("Concat", last, *ends, name="/Concat", axis=1)))
    assert "outputs = []" in text and "torch.cat([x.cos(), *outputs], 1)" in text, text


def test_results_that_are_returned() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    lifted = g.lift(*experts(g, x, 3))
    assert "return tuple(expert(x) for expert in self.experts)" in forward(lifted), lifted.source
    assert "-> tuple[Tensor, ...]:" in forward(lifted)
    assert "return x.sin(), *(expert(x) for expert in self.experts)" in forward(
        g.lift(g.node("Sin", x, name="/Sin"), *experts(g, x, 3, "experts"))
    )


def test_joined_in_another_order_is_no_list() -> None:
    g = Graph()
    a, b, c = experts(g, g.input("x", "n", 4), 3)
    assert " for " not in forward(g.lift(g.node("Concat", a, c, b, name="/Concat", axis=1)))


def test_a_result_that_is_read_elsewhere_as_well_is_no_list() -> None:
    g = Graph()
    a, b, c = experts(g, g.input("x", "n", 4), 3)
    joined = g.node("Concat", a, b, c, name="/Concat", axis=1)
    assert " for " not in forward(g.lift(joined, g.node("Cos", b, name="/Cos")))


def test_but_that_of_the_last_one_may_be() -> None:
    g = Graph()
    x, ends = g.input("x", "n", 4), []
    for i in range(3):
        x = step(g, x, f"layers.{i}")
        ends.append(x)
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1), g.node("Cos", x, name="/Cos")))
    assert "outputs.append(x)" in text and "x.cos()" in text, text


def test_what_a_result_is_made_of_may_be_read_of_the_last_one() -> None:
    g = Graph()
    middle = experts(g, g.input("x", "n", 4), 3)
    ends = [g.node("Tanh", x, name="/Tanh") for x in middle]
    joined = g.node("Concat", *ends, name="/Concat", axis=1)
    lifted = g.lift(joined, g.node("Cos", middle[-1], name="/Cos"))  # compares the numbers
    assert "outputs.append(" in forward(lifted), lifted.source


def test_two_lists_of_results() -> None:
    g = Graph()
    x, ones, others = g.input("x", "n", 4), [], []
    for i in range(3):
        x = step(g, x, f"layers.{i}")
        ones.append(g.node("Sin", x, name="/Sin"))
        others.append(g.node("Cos", x, name="/Cos"))
    joined = [g.node("Concat", *each, name="/Concat", axis=1) for each in (ones, others)]
    text = forward(g.lift(*joined))
    assert text.count(".append(") == 2 and "layers[" not in text, text


def test_what_is_no_join_gets_no_list() -> None:
    g = Graph()
    ends = experts(g, g.input("x", "n", 4), 3)
    assert " for " not in forward(g.lift(g.node("Max", *ends, name="/Max")))


# Values of the iteration before


def test_two_values_that_begin_as_one() -> None:
    """The sum of all layers begins with the result of the first, and so does the second layer."""
    g = Graph()
    x = total = step(g, g.input("x", "n", 4), "layers.0")
    for i in range(1, 4):
        x = step(g, x, f"layers.{i}")
        total = g.node("Add", total, x, name="/Add")
    text = forward(g.lift(g.node("Cos", total, name="/Cos")))
    assert "for layer in self.layers[1:]:" in text and "layers[0]" in text, text


# Entries of other lists


def test_two_lists_side_by_side() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Mul", step(g, x, f"convs.{i}"), step(g, x, f"gates.{i}"), name="/Mul")
    text = forward(g.lift(g.node("Cos", x, name="/Cos")))
    assert "for conv, gate in zip(self.convs, self.gates):" in text, text


def test_entries_with_other_numbers_are_no_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Mul", step(g, x, f"convs.{i}"), step(g, x, f"gates.{2 - i}"), name="/Mul")
    assert " for " not in forward(g.lift(g.node("Cos", x, name="/Cos")))


def test_a_list_of_another_length_is_no_companion() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Mul", step(g, x, f"convs.{i}"), step(g, x, f"gates.{i}"), name="/Mul")
    lifted = g.lift(step(g, x, "gates.3"))
    assert "zip(" not in forward(lifted), lifted.source


# Parts of what was cut


def cut(g: Graph, x: str, count: int, width: int = 4) -> list[str]:
    parts = [f"part{i}" for i in range(count)]
    sizes = g.constant("sizes", np.full(count, width))
    g.node("Split", x, sizes, name="/Split", axis=1, output=parts[0])
    g.nodes[-1].output.extend(parts[1:])
    return parts


def test_a_part_for_each() -> None:
    g = Graph()
    parts = cut(g, g.node("Sin", g.input("x", "n", 12), name="/Sin"), 3)
    ends = [step(g, part, f"experts.{i}") for i, part in enumerate(parts)]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "expert(part) for expert, part in zip(self.experts, " in text, text


def test_parts_that_are_read_elsewhere_have_a_number() -> None:
    g = Graph()
    parts = cut(g, g.input("x", "n", 16), 4)
    ends = [step(g, part, f"experts.{i}") for i, part in enumerate(parts[1:])]
    text = forward(g.lift(g.node("Concat", parts[0], *ends, name="/Concat", axis=1), g.node("Cos", parts[2])))
    assert "zip(self.experts, parts[1:])" in text and "parts[0]" in text and "parts[2].cos()" in text, text


def test_parts_in_another_order_are_given_one_by_one() -> None:
    g = Graph()
    a, b, c = cut(g, g.input("x", "n", 12), 3)
    ends = [step(g, part, f"experts.{i}") for i, part in enumerate((a, c, b))]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "x, y, z = x.chunk(3, 1)" in text and "in zip(self.experts, (x, z, y))" in text, text


# Numbers


def column(g: Graph, x: str, number: int) -> str:
    return g.node("Gather", x, g.constant(f"number{number}", np.int64(number)), name="/Gather", axis=1)


def test_numbers_that_count() -> None:
    g = Graph()
    x = g.input("x", "n", 3, 4)
    ends = [step(g, column(g, x, i), f"experts.{i}") for i in range(3)]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "[expert(x[:, i]) for i, expert in enumerate(self.experts)]" in text, text


@mark.parametrize(("numbers", "written"), [((1, 2, 3), "i + 1"), ((0, 2, 4), "i * 2"), ((2, 4, 6), "(i + 1) * 2")])
def test_numbers_that_begin_elsewhere_or_grow_faster(numbers: tuple[int, ...], written: str) -> None:
    g = Graph()
    x = g.input("x", "n", 7, 4)
    ends = [step(g, column(g, x, number), f"experts.{i}") for i, number in enumerate(numbers)]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert f"[expert(x[:, {written}]) for i, expert in enumerate(self.experts)]" in text, text


def test_numbers_that_grow_irregularly_are_no_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 4)
    ends = [step(g, column(g, x, number), f"experts.{i}") for i, number in enumerate((0, 1, 3))]
    assert " for " not in forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))


def piece(g: Graph, x: str, start: int, stop: int) -> str:
    bounds = [g.constant(f"number{n}s", np.array([n])) for n in (start, stop, 1)]
    return g.node("Slice", x, *bounds, bounds[-1], name="/Slice")


@mark.parametrize("width", [14, 20])
def test_slices_from_the_first_to_the_last(width: int) -> None:
    """The bounds at both ends are left out where they say nothing, and come back in the loop."""
    g = Graph()
    x = g.input("x", "n", width)
    ends = [step(g, piece(g, x, 5 * i, min(5 * i + 4, width)), f"experts.{i}") for i in range(3)]
    text = forward(g.lift(g.node("Concat", *ends, name="/Concat", axis=1)))
    assert "expert(x[:, i * 5 : i * 5 + 4]) for i, expert in enumerate(self.experts)" in text, text


def test_numbers_that_instances_of_a_class_are_given_must_agree_in_all_of_them() -> None:
    """In the first block all iterations have the same number, in the second they do not."""
    g = Graph()
    x = g.input("x", "n", 4)
    for path, numbers in (("a", (0.5, 0.5, 0.5)), ("b", (0.6, 0.7, 0.8))):
        for i, number in enumerate(numbers):
            factor = g.constant(f"factor{number}", np.float32(number))
            x = g.node("Mul", step(g, x, f"blocks.{path}.convs.{i}"), factor, name=f"/blocks.{path}/Mul")
        x = g.linear(x, f"blocks.{path}.end")
    g.lift(x)  # compares the numbers
