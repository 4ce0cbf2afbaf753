"""Classes that want one name are told apart by what some have, and the others have not, before they get numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import onnxlift
from small_graphs import Graph

Step = Callable[[Graph, str, str], str]


def scope(path: str) -> str:
    """What PyTorch's exporter writes before the name of a node of a module."""
    return "/" + re.sub(r"[.](?![0-9])", "/", path)


def small(g: Graph, name: str, *shape: int) -> str:
    """A weight that lets values stay near one, however many blocks they go through."""
    return g.constant(name, (0.1 * g.random.standard_normal(shape)).astype(np.float32))


def conv(
    g: Graph, x: str, path: str, *, channels: int = 4, out: int = 4, size: int = 3, group: int = 1, **attributes: object
) -> str:
    weight = small(g, f"{path}.weight", out, channels // group, size, size)
    name = f"{scope(path)}/Conv"
    return g.node("Conv", x, weight, name=name, group=group, pads=[size // 2] * 4, **attributes)


def plain(g: Graph, x: str, path: str, last: str = "b") -> str:
    """Two convolutions. If `last` is another name, no class can be shared, whatever else is optional."""
    x = g.node("Relu", conv(g, x, f"{path}.a"), name=f"{scope(path)}/Relu")
    return g.node("Tanh", conv(g, x, f"{path}.{last}"), name=f"{scope(path)}/Tanh")


def then(op_type: str, *constants: list[float], **attributes: object) -> Step:
    """A block with one more operator behind the plain one."""

    def block(g: Graph, x: str, path: str) -> str:
        inputs = [g.constant(f"{path}_{i}", constant) for i, constant in enumerate(constants)]
        return g.node(op_type, plain(g, x, path, "z"), *inputs, name=f"{scope(path)}/More", **attributes)

    return block


def squeezing(g: Graph, x: str, path: str) -> str:
    x = plain(g, x, path, "z")
    weight = conv(g, g.node("GlobalAveragePool", x, name=f"{scope(path)}/Pool"), f"{path}.c", size=1)
    return g.node("Mul", x, g.node("Sigmoid", weight, name=f"{scope(path)}/Sigmoid"), name=f"{scope(path)}/Mul")


def branched(g: Graph, x: str, path: str) -> str:
    both = (plain(g, x, path, "z"), conv(g, x, f"{path}.c"))
    x = g.node("Concat", *both, name=f"{scope(path)}/Concat", axis=1)
    return conv(g, x, f"{path}.d", channels=8)


def enlarging(g: Graph, x: str, path: str) -> str:
    x = plain(g, x, path, "z")
    weight = small(g, f"{path}.c.weight", 4, 4, 2, 2)
    return g.node("ConvTranspose", x, weight, name=f"{scope(path)}/c/ConvTranspose", strides=[2, 2])


def depthwise(g: Graph, x: str, path: str) -> str:
    return conv(g, plain(g, x, path, "z"), f"{path}.c", group=4)


def deep(g: Graph, x: str, path: str) -> str:
    return conv(g, conv(g, plain(g, x, path, "z"), f"{path}.c"), f"{path}.d")


def wide(g: Graph, x: str, path: str) -> str:
    x = g.node("Tanh", conv(g, x, f"{path}.a", out=16), name=f"{scope(path)}/Tanh")
    return g.node("Relu", conv(g, x, f"{path}.b", channels=16), name=f"{scope(path)}/Relu")


def names(first: Step, second: Step, *, interleaved: bool = True) -> list[str]:
    """The names of the classes of two kinds of block, each of them twice in one list."""
    g = Graph()
    x = g.input("x", "n", 4, 16, 16)
    kinds = (first, second, first, second) if interleaved else (first, first, first, second)
    for i, block in enumerate(kinds):
        x = block(g, x, f"nets.{i}")
    return class_names(g.lift(x))[:-1]


def class_names(lifted: onnxlift.Lifted) -> list[str]:
    return re.findall(r"^class (\w+)", lifted.source, re.MULTILINE)


@pytest.mark.parametrize(
    ("block", "name"),
    [
        (squeezing, "SENet"),
        (enlarging, "UpsampleNet"),
        (branched, "BranchedNet"),
        (depthwise, "DepthwiseNet"),
        (then("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "PooledNet"),
        (then("HardSwish"), "HardswishNet"),
        (deep, "DeepNet"),
        (wide, "WideNet"),
    ],
)
def test_a_class_is_called_by_what_it_has(block: Step, name: str) -> None:
    assert names(plain, block) == ["Net", name]


def test_a_stride_tells_blocks_apart() -> None:
    def strided(g: Graph, x: str, path: str) -> str:
        return conv(g, plain(g, x, path, "z"), f"{path}.c", strides=[2, 2])

    assert names(plain, strided) == ["Net", "DownsampleNet"]


def test_a_stride_that_only_some_blocks_of_a_class_have_says_nothing() -> None:
    """One class has the stride as an argument, and the other always has one: it is not what tells them apart."""
    g = Graph()
    x = g.input("x", "n", 4, 32, 32)
    for i, (stride, op_type) in enumerate([(1, "Relu"), (2, "Relu"), (2, "HardSwish"), (1, "Relu"), (2, "HardSwish")]):
        x = conv(g, x, f"nets.{i}.a", strides=[stride, stride])
        x = g.node(op_type, x, name=f"/nets.{i}/Act")
        x = g.node("Tanh", conv(g, x, f"nets.{i}.b"), name=f"/nets.{i}/Tanh")
    assert class_names(g.lift(x))[:-1] == ["Net", "HardswishNet"]


def test_a_usual_activation_is_not_spoken_of() -> None:
    def hard(g: Graph, x: str, path: str) -> str:
        x = g.node("HardSwish", conv(g, x, f"{path}.a"), name=f"{scope(path)}/Act")
        return g.node("Tanh", conv(g, x, f"{path}.b"), name=f"{scope(path)}/Tanh")

    assert names(hard, plain) == ["HardswishNet", "Net"]


def test_three_classes_get_a_word_each() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 16, 16)
    for i, block in enumerate([plain, squeezing, depthwise] * 2):
        x = block(g, x, f"nets.{i}")
    assert class_names(g.lift(x))[:-1] == ["Net", "SENet", "DepthwiseNet"]


def test_a_block_that_stands_alone_at_the_end_is_the_last() -> None:
    assert names(plain, then("Cos"), interleaved=False) == ["Net", "LastNet"]


def test_what_nothing_tells_apart_is_numbered() -> None:
    assert names(then("Cos"), then("Sin")) == ["Net", "Net2"]


def test_blocks_that_the_exporter_names_keep_their_name() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, op_type in enumerate(("Relu", "HardSwish") * 2):
        scopes, classes = ["", f"nets.{i}", "op"], ["app.Whole", "app.Net", "aten.op.default"]
        h = g.node(op_type, g.linear(x, f"nets.{i}.up"), scopes=scopes, classes=classes)
        x = g.node("Tanh", g.linear(h, f"nets.{i}.down"), scopes=scopes, classes=classes)
    assert class_names(g.lift(x))[:-1] == ["Net", "Net2"]


def test_blocks_that_were_found_by_repetition_are_told_apart() -> None:
    g = Graph()
    x = g.input("x", 1, 4, 16, 16)
    for i, op_type in enumerate(("Relu", "HardSwish") * 3):
        x = g.node(op_type, g.node("Conv", x, small(g, f"w{i}", 4, 4, 3, 3), pads=[1] * 4))
        x = g.node(op_type, g.node("Conv", x, small(g, f"v{i}", 4, 4, 3, 3), pads=[1] * 4))
        if i % 2:
            x = g.node("Sin", x)
    lifted = g.lift(x)
    assert not [name for name in class_names(lifted) if name[-1].isdigit()], lifted.source


def test_the_reason_says_how_a_class_was_told_from_others() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 16, 16)
    for i, block in enumerate([plain, squeezing] * 2):
        x = block(g, x, f"nets.{i}")
    (thing,) = g.lift(x).explain("SENet").things
    assert thing.name.why.endswith("told from others: it weighs channels (squeeze and excitation)")


@pytest.mark.parametrize(("member", "name"), [("conv1", "Conv"), ("head_2", "Head"), ("p3", "P3"), ("net50", "Net50")])
def test_a_single_digit_is_a_counter(member: str, name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = g.node("Sin", g.linear(x, f"{member}.up"), name=f"/{member}/Sin")
    h = g.node("Add", g.linear(h, f"{member}.down"), x, name=f"/{member}/Add")
    assert class_names(g.lift(g.linear(h, "last")))[0] == name
