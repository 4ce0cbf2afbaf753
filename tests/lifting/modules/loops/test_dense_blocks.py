"""Blocks whose layers read all that came before them are loops; what only looks like one stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import onnxlift
from small_graphs import Graph, code

LOOP = """\
        features = [x]
        for layer in self.children():
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)
"""


def layer(g: Graph, x: str, path: str, before: int, after: int) -> str:
    """A module of our own at a path."""
    scope = "/" + path.replace(".", "/")
    h = g.node("Sin", g.linear(x, f"{path}.a", before, before + 1), name=f"{scope}/Sin")
    return g.linear(h, f"{path}.b", before + 1, after)


def block(g: Graph, x: str, path: str, widths: Sequence[int], name: str = "layer{}", start: int = 1) -> str:
    """A block of layers, of which the first reads `x`, and each has one of the widths."""
    features, (width, *others) = [x], widths
    for i, after in enumerate(others):
        if i:
            x = g.node("Concat", *features, name=f"/{path}/Concat_{i}", axis=1)
        features.append(layer(g, x, f"{path}.{name.format(i + start)}", width, after))
        width += after
    return g.node("Concat", *features, name=f"/{path}/Concat", axis=1)


def lift(g: Graph, x: str) -> onnxlift.Lifted:
    lifted = g.lift(g.node("Tanh", x, name="/Tanh"))
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


def test_blocks_of_two_depths_are_one_class() -> None:
    g = Graph()
    x = block(g, g.input("x", "n", 4), "block1", [4, 3, 3])
    lifted = lift(g, block(g, x, "block2", [10, 3, 3, 3, 3]))
    assert code(lifted).count("class ") == 3 and LOOP in lifted.source, lifted.source
    assert 'self.add_module(f"layer{i + 1}", Layer(in_dim + i * 3, hidden + i * 3))' in lifted.source, lifted.source
    assert {key for key in lifted.state_dict if key.startswith("block1.layer2.")}


def test_layers_that_grow_irregularly_have_a_line_each() -> None:
    g = Graph()
    lifted = lift(g, block(g, g.input("x", "n", 4), "block", [4, 3, 2, 3]))
    assert LOOP in lifted.source and "self.layer3 = " in lifted.source and "add_module" not in lifted.source


def test_numbers_of_names_need_not_begin_at_one_but_must_go_on() -> None:
    g = Graph()
    lifted = lift(g, block(g, g.input("x", "n", 4), "block", [4, 3, 3], "unit_{}", start=0))
    assert 'self.add_module(f"unit_{i}", ' in lifted.source, lifted.source
    g = Graph()
    lifted = lift(g, block(g, g.input("x", "n", 4), "block", [4, 3, 3], "unit_{}0", start=1))
    assert LOOP in lifted.source and "add_module" not in lifted.source


def test_layers_in_a_list_are_read_from_it() -> None:
    g = Graph()
    lifted = lift(g, block(g, g.input("x", "n", 4), "block", [4, 3, 3], "layers.{}", start=0))
    assert "for layer in self.layers:" in lifted.source, lifted.source


def test_a_layer_that_reads_only_some_features_is_no_such_block() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    a = layer(g, x, "block.layer1", 4, 3)
    b = layer(g, x, "block.layer2", 4, 3)
    lifted = lift(g, g.node("Concat", x, a, b, name="/block/Concat", axis=1))
    assert "features" not in lifted.source


def test_another_order_of_features_is_no_such_block() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    a = layer(g, x, "block.layer1", 4, 3)
    b = layer(g, g.node("Concat", a, x, name="/block/Concat_1", axis=1), "block.layer2", 7, 3)
    lifted = lift(g, g.node("Concat", x, a, b, name="/block/Concat", axis=1))
    assert "features" not in lifted.source


def test_members_in_another_order_than_their_calls_are_no_such_block() -> None:
    """A layer beside the block is a member, too, and `children()` would give it."""
    g = Graph()
    x = block(g, g.input("x", "n", 4), "block", [4, 3, 3])
    lifted = lift(g, g.node("Sin", g.linear(x, "block.head", 10, 4), name="/block/Sin"))
    assert "features" not in lifted.source


def test_the_order_of_the_calls_counts_and_not_that_of_the_file() -> None:
    g = Graph()
    x = block(g, g.input("x", "n", 4), "block", [4, 3, 3])
    g.weights.sort(key=lambda weight: "layer1" in weight.name)
    lifted = lift(g, x)
    assert LOOP in lifted.source and lifted.source.index("layer1") < lifted.source.index("layer2"), lifted.source


def test_the_source_map_knows_every_layer() -> None:
    g = Graph()
    lifted = lift(g, block(g, g.input("x", "n", 4), "block", [4, 3, 3, 3]))
    for node in ("/block/Concat_1", "/block/Concat_2", "/block/Concat", "/block/layer3/Sin"):
        assert lifted.source_map.lines_of(node), lifted.source
