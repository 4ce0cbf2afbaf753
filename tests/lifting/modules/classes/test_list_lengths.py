"""Stages of different depth share a class, if they are equal but for that."""

from __future__ import annotations

from collections.abc import Sequence

import onnxlift
from small_graphs import Graph, code


def block(g: Graph, x: str, path: str, hidden: int) -> str:
    """A module that reads one value, so that a list of such is a chain."""
    h = g.node("Sin", g.linear(x, f"{path}.a", 4, hidden), name=f"/{path.replace('.', '/')}/Sin")
    return g.node("Add", g.linear(h, f"{path}.b", hidden, 4), x, name=f"/{path.replace('.', '/')}/Add")


def chains(g: Graph, hidden: Sequence[Sequence[int]], first: Sequence[str] = ()) -> onnxlift.Lifted:
    """Stages with a layer in front of a chain of blocks; `first` has its name, or none where it is missing."""
    x = g.input("x", "n", 4)
    for i, widths in enumerate(hidden):
        name = first[i] if first else "norm"
        x = g.linear(x, f"stages.{i}.{name}", 4, 4) if name else x
        for j, width in enumerate(widths):
            x = block(g, x, f"stages.{i}.blocks.{j}", width)
        x = g.node("Tanh", x, name=f"/stages.{i}/Last")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


def test_chains_of_any_length_share_a_class_too() -> None:
    lifted = chains(Graph(), [[6], [7, 7, 7], [6, 6]])
    assert classes(lifted) == 3, lifted.source
    assert "self.blocks = nn.Sequential(*(Block(hidden) for _ in range(depth)))" in lifted.source, lifted.source
    assert "Stage(6, 1), Stage(7, 3), Stage(6, 2)" in lifted.source, lifted.source


def test_a_stage_without_the_layer_in_front_is_of_that_class() -> None:
    lifted = chains(Graph(), [[6], [7, 7, 7], [6, 6]], first=["", "down", "down"])
    assert classes(lifted) == 3, lifted.source
    assert "else nn.Identity()" in lifted.source and "range(depth)" in lifted.source, lifted.source


def test_chains_of_different_blocks_are_written_out() -> None:
    lifted = chains(Graph(), [[6, 6], [7, 8, 7]])
    assert "depth" not in lifted.source and "Block(7), Block(8), Block(7)" in lifted.source, lifted.source


def test_a_long_chain_is_written_once() -> None:
    lifted = chains(Graph(), [[5, *[6] * 9, 7]])
    assert "nn.Sequential(Block(5), *(Block(6) for _ in range(9)), Block(7))" in lifted.source, lifted.source


def test_a_module_is_no_chain_of_one() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, paths in enumerate([["blocks.0", "blocks.1"], ["blocks.0"], ["blocks"]]):
        x = g.linear(x, f"stages.{i}.down", 4, 4) if i < 2 else x
        for path in paths:
            x = block(g, x, f"stages.{i}.{path}", 6)
        x = g.node("Tanh", x, name=f"/stages.{i}/Last")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    assert "range(depth)" in lifted.source and "self.blocks = Block()" in lifted.source, lifted.source


def layer(g: Graph, x: str, y: str, path: str, hidden: int) -> str:
    """A module that reads two values, so that a list of such is no chain."""
    scope = "/" + path.replace(".", "/")
    h = g.node("Sin", g.linear(x, f"{path}.a", 4, hidden), name=f"{scope}/Sin")
    return g.node("Mul", g.linear(h, f"{path}.b", hidden, 4), y, name=f"{scope}/Mul")


def stages(g: Graph, hidden: Sequence[Sequence[int]], last: Sequence[str] = ()) -> onnxlift.Lifted:
    """Stages of layers, each with a hidden width; behind each an operator of `last`."""
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i, widths in enumerate(hidden):
        for j, width in enumerate(widths):
            x = layer(g, x, y, f"stages.{i}.layers.{j}", width)
        x = g.node(last[i] if last else "Tanh", x, name=f"/stages.{i}/Last")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


def classes(lifted: onnxlift.Lifted) -> int:
    return code(lifted).count("class ")


def test_the_depth_is_an_argument() -> None:
    lifted = stages(Graph(), [[6, 6], [7, 7, 7, 7], [6, 6]])
    assert classes(lifted) == 3, lifted.source
    assert "nn.ModuleList(Layer(hidden) for _ in range(depth))" in lifted.source, lifted.source
    assert "[Stage(6, 2), Stage(7, 4), Stage(6, 2)]" in lifted.source, lifted.source
    assert "for layer in self.layers:" in lifted.source


def test_a_list_of_one_is_gone_through_like_the_others() -> None:
    lifted = stages(Graph(), [[6], [7, 7, 7], [6]])
    assert classes(lifted) == 3, lifted.source
    assert "[Stage(6, 1), Stage(7, 3), Stage(6, 1)]" in lifted.source, lifted.source
    assert lifted.source.count("for layer in self.layers:") == 1, lifted.source


def test_lists_of_one_alone_are_no_loops() -> None:
    lifted = stages(Graph(), [[6], [7]])
    assert classes(lifted) == 3 and "self.layers[0](" in lifted.source and "depth" not in lifted.source, lifted.source


def test_what_a_list_of_one_reads_must_tell_what_a_second_entry_would() -> None:
    """The first stage compares what its layer makes with what that read: its own input, or what came before."""
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i, depth in enumerate((1, 2, 3)):
        added = y if i else x
        for j in range(depth):
            h = layer(g, x, y, f"stages.{i}.layers.{j}", 6)
            x = g.node("Max", h, added, name=f"/stages.{i}/Max_{j}")
        x = g.node("Tanh", x, name=f"/stages.{i}/Last")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert classes(lifted) == 4 and "self.layers[0](x, y)" in lifted.source, lifted.source


def collecting(depths: Sequence[int]) -> onnxlift.Lifted:
    """Stages that join what their layers make, one after the other, and two values before."""
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i, depth in enumerate(depths):
        parts = [y, g.linear(x, f"stages.{i}.first")]
        for j in range(depth):
            parts.append(layer(g, parts[-1], y, f"stages.{i}.layers.{j}", 6))
        h = g.node("Concat", *parts, axis=1, name=f"/stages.{i}/Concat")
        x = g.linear(h, f"stages.{i}.last", 4 * len(parts), 4)
    return g.lift(g.node("Cos", x, name="/Cos"))


def test_stages_of_any_depth_that_join_what_their_layers_make() -> None:
    for depths in ([2, 4], [1, 3, 1]):
        lifted = collecting(depths)
        assert classes(lifted) == 3, lifted.source
        assert f"Stage({4 * depths[0] + 8}, {depths[0]})" in lifted.source, lifted.source
        assert "outputs.append(" in lifted.source, lifted.source


def test_one_depth_is_none() -> None:
    lifted = stages(Graph(), [[6, 6, 6], [7, 7, 7]])
    assert classes(lifted) == 3 and "range(3)" in lifted.source and "depth" not in lifted.source, lifted.source


def test_layers_that_differ_within_a_stage_are_written_out() -> None:
    lifted = stages(Graph(), [[6, 6], [7, 8, 7], [5, 7]])
    assert "depth" not in lifted.source, lifted.source
    assert "[Layer(hidden), Layer(hidden2)]" in lifted.source, lifted.source  # the first and the last stage


def test_stages_that_differ_in_more_are_not_one_class() -> None:
    lifted = stages(Graph(), [[6, 6], [6, 6, 6]], last=["Tanh", "Sigmoid"])
    assert classes(lifted) == 4 and "depth" not in lifted.source, lifted.source


def test_every_line_knows_the_nodes_of_all_stages() -> None:
    lifted = stages(Graph(), [[6, 6], [7, 7, 7]])
    (line,) = [number for number, text in enumerate(lifted.source.splitlines(), 1) if "tanh" in text]
    assert {*lifted.source_map.nodes_at(line)} == {"/stages.0/Last", "/stages.1/Last"}
