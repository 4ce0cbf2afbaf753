"""What is done with one entry of a list after the other is a loop, if it is the same each time."""

from __future__ import annotations

import numpy as np

from small_graphs import Graph, code, step


def iterations(g: Graph, x: str, count: int, prefix: str = "layers") -> str:
    """In each iteration a residual around each of two modules, as `nn.ModuleList([Attention(), MLP()])` is used."""
    for i in range(count):
        for j in range(2):
            x = g.node("Add", step(g, x, f"{prefix}.{i}.{j}"), x, name="/Add")
    return x


def test_a_round_for_each_entry() -> None:
    g = Graph()
    lifted = g.lift(g.node("Cos", iterations(g, g.input("x", "n", 4), 4), name="/Cos"))
    text = code(lifted)
    assert text.count("(x) + x") + text.count("(y) + y") == 2 and "in self.layers:" in text, text
    assert "layers[" not in text, text
    lines = [number for number, line in enumerate(lifted.source.splitlines(), 1) if "(x) + x" in line]
    assert {"/Add"} <= {*lifted.source_map.nodes_at(lines[0])}


def test_what_all_rounds_read_is_the_same() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.node("Sin", g.input("y", "n", 4), name="/Sin")
    for i in range(3):
        x = g.node("Mul", step(g, x, f"layers.{i}.0"), y, name="/Mul")
        x = g.node("Sub", step(g, x, f"layers.{i}.1"), x, name="/Sub")
    assert "in self.layers:" in code(g.lift(g.node("Cos", x, name="/Cos")))


def test_a_sum_of_what_all_rounds_give() -> None:
    g = Graph()
    x, total = g.input("x", "n", 4), g.input("y", "n", 4)
    for i in range(3):
        x = step(g, x, f"layers.{i}.0")
        total = g.node("Add", total, step(g, x, f"layers.{i}.1"), name="/Add")
    text = code(g.lift(g.node("Cos", total, name="/Cos"), g.node("Tanh", x, name="/Tanh")))
    assert "in self.layers:" in text, text


def test_lists_in_entries_are_loops_in_the_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Mul", step(g, x, f"layers.{i}.0"), x, name="/Mul")
        x = iterations(g, x, 2, f"layers.{i}.1")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert " in self.layers:" in text and " in layers:" in text and "layers[" not in text, text


def test_rounds_that_differ_are_written_out() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Add" if i < 2 else "Sub", step(g, x, f"layers.{i}.0"), x, name="/Add")
        x = step(g, x, f"layers.{i}.1")
    assert " in self.layers" not in code(g.lift(g.node("Cos", x, name="/Cos")))


def test_a_number_that_differs_is_no_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        factor = g.constant(f"factor{i}", np.float32(5 + i))
        x = g.node("Mul", step(g, x, f"layers.{i}.0"), factor, name="/Mul")
        x = step(g, x, f"layers.{i}.1")
    assert " in self.layers" not in code(g.lift(g.node("Cos", x, name="/Cos")))


def test_numbers_that_differ_in_another_instance_are_no_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for block, factors in enumerate([(0.5, 0.5, 0.5), (0.5, 0.25, 0.125)]):
        for i, factor in enumerate(factors):
            h = g.node("Tanh", g.linear(x, f"blocks.{block}.convs.{i}"), name=f"/blocks.{block}/Tanh_{i}")
            number = g.constant(f"factor{factor}", np.float32(factor))
            x = g.node("Add", g.node("Mul", h, number, name=f"/blocks.{block}/Mul_{i}"), x, name=f"/blocks.{block}/Add")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))  # which compares numbers
    assert " in self.convs" not in text, text


def test_a_value_that_is_needed_later_is_no_loop() -> None:
    g = Graph()
    x, kept = g.input("x", "n", 4), []
    for i in range(3):
        x = g.node("Add", step(g, x, f"layers.{i}.0"), x, name="/Add")
        kept.append(x)
        x = g.node("Add", step(g, x, f"layers.{i}.1"), x, name="/Add")
    text = code(g.lift(g.node("Mul", x, kept[0], name="/Mul")))
    assert " in self.layers:" not in text, text


def test_what_takes_the_place_of_a_value_comes_after_its_last_use() -> None:
    """In each iteration, the result for the next one is made first, and then the old value is read again."""
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    for i in range(3):
        new = g.node("Sin", step(g, x, f"layers.{i}.0"), name="/Sin")
        y = g.node("Mul", step(g, y, f"layers.{i}.1"), x, name="/Mul")
        x = new
    lifted = g.lift(g.node("Cos", x, name="/Cos"), g.node("Tanh", y, name="/Tanh"))  # compares the numbers
    assert " in self.layers" not in code(lifted), lifted.source


def test_parameters_of_entries_are_not_forgotten() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Mul", step(g, x, f"layers.{i}.0"), g.weight(f"layers.{i}.2", 4), name="/Mul")
        x = step(g, x, f"layers.{i}.1")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))  # compares the numbers
    assert " in self.layers" not in code(lifted), lifted.source


def test_entries_of_entries_that_are_no_loop_are_written_out() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.node("Tanh", step(g, x, f"layers.{i}.0"), name="/Tanh")
        x = g.node("Sin", step(g, x, f"layers.{i}.1.0"), name="/Sin")
        x = g.node("Mul", step(g, x, f"layers.{i}.1.1"), x, name="/Mul")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))  # compares the numbers
    assert "layers[2][1][1]" in code(lifted), lifted.source


def test_a_list_of_modules() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        x = g.node("Tanh", step(g, x, f"convs.{i}"), name="/Tanh")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "        for conv in self.convs:\n            x = conv(x).tanh()\n        return x.cos()" in text, text


def test_a_sum_over_all_begins_with_the_first() -> None:
    """As the outputs of a WaveNet's blocks; the last block leaves nothing to another."""
    g = Graph()
    x, total = g.input("x", "n", 4), ""
    for i in range(6):
        h = g.node("Sin", g.linear(x, f"blocks.{i}.a"), name=f"/blocks.{i}/Sin")
        side = g.node("Tanh", g.linear(h, f"blocks.{i}.b"), name=f"/blocks.{i}/Tanh")
        x = g.node("Add", x, g.linear(h, f"blocks.{i}.c"), name=f"/blocks.{i}/Add") if i < 5 else x
        total = g.node("Add", total, side, name="/Add") if total else side
    text = code(g.lift(g.node("Cos", total, name="/Cos")))
    assert "for block in self.blocks[1:5]:" in text and text.count("blocks[") == 3, text


def test_a_part_of_two_entries_is_no_loop() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, op_type in enumerate(["Tanh", "Sin", "Sin"]):
        x = g.node(op_type, step(g, x, f"convs.{i}"), name="/Act")
    assert "        for " not in code(g.lift(g.node("Cos", x, name="/Cos")))


def levels(g: Graph, values: list[str], *, is_decoder: bool = False) -> str:
    """What two heads make of each level, joined; or each level added to what is made of the one before."""
    x = values[0]
    outputs = []
    for i, value in enumerate(values[1:] if is_decoder else values):
        if is_decoder:
            x = g.node("Max", step(g, x, f"ups.{i}"), value, name=f"/Max_{i}")
        else:
            outputs += [g.node("Mul", *(step(g, value, f"{name}.{i}") for name in ("cv2", "cv3")), name=f"/Mul_{i}")]
    return x if is_decoder else g.node("Concat", *outputs, axis=1, name="/Concat")


def test_each_round_reads_a_value_of_its_own() -> None:
    g = Graph()
    values = [g.input(name, "n", 4) for name in "xyz"]
    text = code(g.lift(g.node("Cos", levels(g, values), name="/Cos")))
    assert "for cv2, cv3, feature in zip(self.cv2, self.cv3, (x, y, z))" in text, text


def test_a_decoder_reads_a_level_in_each_round() -> None:
    g = Graph()
    values = [g.input(name, "n", 4) for name in "xyzw"]
    text = code(g.lift(g.node("Cos", levels(g, values, is_decoder=True), name="/Cos")))
    assert "for up, feature in zip(self.ups, (y, z, w)):" in text, text


def test_two_values_of_its_own_are_no_loop() -> None:
    g = Graph()
    outputs = []
    for i, pair in enumerate(("ab", "cd")):
        x, y = (g.input(name, "n", 4) for name in pair)
        outputs.append(g.node("Max", step(g, x, f"heads.{i}"), y, name=f"/Max_{i}"))
    text = code(g.lift(g.node("Cos", g.node("Concat", *outputs, axis=1, name="/Concat"), name="/Cos")))
    assert "zip(" not in text and "self.heads[1](" in text, text


def cached(*, in_turns: bool) -> str:
    """A decoder whose layers each read keys and values of the past, and give those of now."""
    g = Graph()
    x = g.input("x", "n", 4)
    keys: list[str] = []
    values: list[str] = []
    for i in range(3):
        past = [g.input(f"past_key_values.{i}.{kind}", "n", 4) for kind in ("key", "value")]
        joined = [
            g.node("Add", step(g, x, f"layers.{i}.{word}"), old, name="/Add", output=f"present.{i}.{word}")
            for word, old in zip(("key", "value"), past, strict=True)
        ]
        keys.append(joined[0])
        values.append(joined[1])
        x = g.node("Sub", x, g.node("Mul", *joined, name="/Mul"), name="/Sub")
    turns = [each for pair in zip(keys, values, strict=True) for each in pair]
    return code(g.lift(g.node("Cos", x, name="/Cos"), *(turns if in_turns else [*keys, *values])))


def test_results_that_take_turns_are_collected() -> None:
    text = cached(in_turns=True)
    assert "for layer, past_key_values_key, past_key_values_value in zip(" in " ".join(text.split()), text
    assert "outputs.extend((" in text and "*outputs" in text and "layers[" not in text, text


def test_results_in_another_order_are_no_loop() -> None:
    assert "layers[0]" in cached(in_turns=False)
