"""Modules of which some lack a part share a class, if the part can be left out and its numbers are known."""

from __future__ import annotations

from collections.abc import Sequence

import onnxlift
from small_graphs import Graph, code


def class_count(lifted: onnxlift.Lifted) -> int:
    return code(lifted).count("class ")


def blocks(g: Graph, widths: Sequence[tuple[int, int]], other: int = -1) -> str:
    """Residual blocks, with a layer on the way around where the width changes; block number `other` differs."""
    x = g.input("x", "n", widths[0][0])
    for i, (before, after) in enumerate(widths):
        around = x
        if before != after:
            around = g.linear(x, f"blocks.{i}.skip", before, after)
        h = g.linear(x, f"blocks.{i}.up", before, after)
        h = g.node("Cos" if i == other else "Sin", h, name=f"/blocks.{i}/Sin")
        h = g.linear(h, f"blocks.{i}.down", after, after)
        x = g.node("Add", h, around, name=f"/blocks.{i}/Add")
    return g.node("Tanh", x, name="/Tanh")


def test_a_layer_that_some_lack_is_an_identity_there() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [(4, 4), (4, 6), (6, 6), (6, 10)]))
    assert class_count(lifted) == 2, lifted.source
    assert "self.skip = nn.Linear(in_dim, dim) if in_dim != dim else nn.Identity()" in lifted.source, lifted.source
    assert {key for key in lifted.state_dict if "skip" in key} == {
        f"blocks.{i}.skip.{name}" for i in (1, 3) for name in ("weight", "bias")
    }
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)


def test_code_that_differs_elsewhere_is_another_class() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [(4, 4), (4, 6), (6, 6), (6, 10)], other=0))
    assert class_count(lifted) == 3, lifted.source


def test_an_addition_that_some_do_without_is_a_choice() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, is_residual in enumerate((True, False, True, True)):
        h = g.node("Sin", g.linear(x, f"blocks.{i}.up", 4, 8), name=f"/blocks.{i}/Sin")
        h = g.linear(h, f"blocks.{i}.down", 8, 4)
        x = g.node("Add", x, h, name=f"/blocks.{i}/Add") if is_residual else h
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 2, lifted.source
    assert "x + down if self.residual else down" in lifted.source, lifted.source


def test_what_is_passed_on_must_be_what_the_step_works_on() -> None:
    """The short block adds its input, the long one a layer's value of something else: no identity could stand there."""
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i in range(2):
        h = g.node("Mul", g.linear(x, f"blocks.{i}.up"), y, name=f"/blocks.{i}/Mul")
        around = g.linear(y, f"blocks.{i}.skip") if i else x
        x = g.node("Add", g.linear(h, f"blocks.{i}.down"), around, name=f"/blocks.{i}/Add")
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 3, lifted.source


def test_numbers_of_a_part_must_be_known_without_it() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, hidden in enumerate((None, 6, 10)):
        if hidden is not None:
            x = g.linear(x, f"blocks.{i}.first.0", 4, hidden, name=f"/blocks.{i}/first/first.0/Gemm")
            x = g.linear(x, f"blocks.{i}.first.1", hidden, 4, name=f"/blocks.{i}/first/first.1/Gemm")
        h = g.node("Sin", g.linear(x, f"blocks.{i}.up"), name=f"/blocks.{i}/Sin")
        x = g.linear(h, f"blocks.{i}.down")
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 3, lifted.source


def test_what_comes_into_a_missing_part_is_as_wide_as_what_would_come_out_of_it() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, (before, hidden, after) in enumerate([(4, 4, 5), (5, 15, 8), (8, 32, 8)]):
        h = x if before == hidden else g.linear(x, f"blocks.{i}.expand", before, hidden)
        h = g.node("Sin", g.linear(h, f"blocks.{i}.mix", hidden, hidden), name=f"/blocks.{i}/Sin")
        x = g.linear(h, f"blocks.{i}.project", hidden, after)
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 2, lifted.source
    assert "def __init__(self, in_dim: int, out_dim: int, hidden: int)" in lifted.source, lifted.source
    assert "self.expand = nn.Linear(in_dim, hidden) if in_dim != hidden else nn.Identity()" in lifted.source
    assert "Block(4, 5, 4), Block(5, 8, 15), Block(8, 8, 32)" in lifted.source


def test_a_part_that_would_not_fit_on_a_line_is_made_below_an_if() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, (before, after) in enumerate([(4, 4), (4, 6)]):
        around = x
        for step in range(2 * (before != after)):
            path = f"blocks.{i}.adaptation_of_widths.{step}"
            scope = f"/blocks.{i}/adaptation_of_widths/adaptation_of_widths.{step}/Gemm"
            around = g.linear(around, path, before if step == 0 else after, after, name=scope)
        h = g.node("Sin", g.linear(x, f"blocks.{i}.up", before, after), name=f"/blocks.{i}/Sin")
        x = g.node("Add", g.linear(h, f"blocks.{i}.down", after, after), around, name=f"/blocks.{i}/Add")
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 2, lifted.source
    assert "self.adaptation_of_widths = nn.Identity()\n        if adaptation_of_widths:" in lifted.source
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)


def test_what_the_exporter_calls_by_two_names_are_two_classes() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, name in enumerate(("Plain", "Residual")):
        scopes, classes = ["", f"blocks.{i}", "op"], ["net.Net", f"net.{name}", "aten.op.default"]
        h = g.node("Sin", g.linear(x, f"blocks.{i}.up"), scopes=scopes, classes=classes)
        h = g.linear(h, f"blocks.{i}.down")
        x = g.node("Add", x, h, scopes=scopes, classes=classes) if i else h
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert "class Plain(" in lifted.source and "class Residual(" in lifted.source


def test_the_source_map_knows_all_instances() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [(4, 4), (4, 6), (6, 6), (6, 10)]))
    for i in range(4):
        assert lifted.source_map.lines_of(f"/blocks.{i}/Sin"), lifted.source


def scaled(g: Graph, scales: Sequence[bool], *, twice: bool = False) -> str:
    """Blocks of two layers, of which some scale what is between; `twice` adds what is not scaled in the end."""
    x = g.input("x", "n", 4)
    for i, is_scaled in enumerate(scales):
        h = inner = g.node("Sin", g.linear(x, f"blocks.{i}.up", 4, 8), name=f"/blocks.{i}/Sin")
        if is_scaled:
            h = g.node("Mul", h, g.weight(f"blocks.{i}.gamma", 8), name=f"/blocks.{i}/Mul")
        if twice:
            h = g.node("Sub", g.node("Exp", h, name=f"/blocks.{i}/Exp"), inner, name=f"/blocks.{i}/Sub")
        x = g.linear(h, f"blocks.{i}.down", 8, 4)
    return g.node("Tanh", x, name="/Tanh")


def test_a_step_with_a_constant_that_some_lack_is_taken_where_that_is_there() -> None:
    g = Graph()
    lifted = g.lift(scaled(g, (True, False, False, True)))
    assert class_count(lifted) == 2, lifted.source
    assert "self.gamma = nn.Parameter(torch.empty(8)) if gamma else None" in lifted.source, lifted.source
    assert "        if self.gamma is not None:\n            x = x * self.gamma\n" in lifted.source, lifted.source
    keys = {key for key in lifted.module().state_dict() if key.endswith("gamma")}
    assert keys == {"blocks.0.gamma", "blocks.3.gamma"}
    lines = [line for line, text in enumerate(lifted.source.splitlines(), 1) if "x = x * self.gamma" in text]
    assert set(lifted.source_map.nodes_at(lines[0])) == {"/blocks.0/Mul", "/blocks.3/Mul"}


def test_a_step_whose_input_is_needed_later_is_not_left_out() -> None:
    g = Graph()
    assert class_count(g.lift(scaled(g, (True, False, False, True), twice=True))) == 3


def rolled(g: Graph, shifts: Sequence[int], masked: Sequence[bool] | None = None) -> str:
    """Blocks that mix what they have rolled, by 0 if not at all, and add a mask if they have one."""
    x = g.input("x", "n", 6)
    axis, zero, end = (g.constant(name, [value]) for name, value in (("axis", 1), ("zero", 0), ("end", 6)))
    for i, shift in enumerate(shifts):
        x = g.linear(x, f"blocks.{i}.up", 6, 6)
        if shift:
            start = g.constant(f"start_{shift}", [shift])
            tail = g.node("Slice", x, start, end, axis, name=f"/blocks.{i}/Slice")
            head = g.node("Slice", x, zero, start, axis, name=f"/blocks.{i}/Slice_1")
            x = g.node("Concat", tail, head, axis=1, name=f"/blocks.{i}/Concat")
        if masked is not None and masked[i]:
            x = g.node("Add", x, g.weight(f"blocks.{i}.mask", 6), name=f"/blocks.{i}/Add")
        x = g.linear(g.node("Sin", x, name=f"/blocks.{i}/Sin"), f"blocks.{i}.down", 6, 6)
    return g.node("Tanh", x, name="/Tanh")


def test_a_roll_that_some_do_without_is_one_by_nothing() -> None:
    g = Graph()
    lifted = g.lift(rolled(g, (0, 2, 0, 1)))
    assert class_count(lifted) == 2, lifted.source
    assert ".roll(-self.shift, 1)" in lifted.source and "residual" not in lifted.source, lifted.source
    assert "Block(0), Block(2), Block(0), Block(1)" in lifted.source, lifted.source


def test_a_mask_that_goes_with_a_shift_needs_no_argument() -> None:
    g = Graph()
    lifted = g.lift(rolled(g, (0, 2, 0, 1), (False, True, False, True)))
    assert class_count(lifted) == 2, lifted.source
    assert "self.mask = nn.Parameter(torch.empty(6)) if shift > 0 else None" in lifted.source, lifted.source


def test_a_mask_that_does_not_go_with_a_shift_does() -> None:
    g = Graph()
    lifted = g.lift(rolled(g, (2, 2, 0, 1), (False, True, False, True)))
    assert "if masked else None" in lifted.source, lifted.source


def activated(g: Graph, activations: Sequence[str]) -> str:
    """Blocks of two layers, perhaps with an activation behind them."""
    x = g.input("x", "n", 4)
    for i, activation in enumerate(activations):
        x = g.linear(x, f"blocks.{i}.up", 4, 6)
        x = g.node("Sin", x, name=f"/blocks.{i}/Sin")
        x = g.linear(x, f"blocks.{i}.down", 6, 4)
        if activation:
            x = g.node(activation, x, name=f"/blocks.{i}/{activation}")
    return g.node("Tanh", x, name="/Tanh")


def test_an_activation_that_some_do_without_is_a_choice() -> None:
    g = Graph()
    lifted = g.lift(activated(g, ["Relu", "Relu", ""]))
    assert class_count(lifted) == 2, lifted.source
    assert "activation: bool = True" in lifted.source, lifted.source  # since most have it
    assert "return F.relu(x) if self.activation else x" in lifted.source, lifted.source
    assert "Block(), Block(), Block(activation=False)" in lifted.source, lifted.source


def test_another_activation_is_another_class() -> None:
    g = Graph()
    assert class_count(g.lift(activated(g, ["Relu", "Elu", "Relu"]))) == 3


def test_a_layer_and_an_addition_that_go_together_are_told_by_one_argument() -> None:
    """Not by an attribute of the layer's name: that is the layer, and always there."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(4):
        h = g.linear(x, f"blocks.{i}.expand") if i else x
        h = g.linear(g.node("Sin", h, name=f"/blocks.{i}/Sin"), f"blocks.{i}.project")
        x = g.node("Add", x, h, name=f"/blocks.{i}/Add") if i else h
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert class_count(lifted) == 2, lifted.source
    assert "self.residual = expand" in lifted.source and "if self.residual else" in lifted.source, lifted.source
