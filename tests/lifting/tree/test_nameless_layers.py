"""Layers whose names an exporter dropped, beside layers that kept theirs: a BatchNorm was folded into the others."""

from __future__ import annotations

import onnxlift
from small_graphs import Graph, code


def keys(lifted: onnxlift.Lifted) -> set[str]:
    return {key.rpartition(".")[0] for key in lifted.state_dict}


def nameless(g: Graph, x: str, channels: int = 4) -> str:
    """A convolution with numbers for names, and its activation."""
    number = 500 + len(g.nodes)
    weights = (g.weight(str(number), channels, channels, 1, 1), g.weight(str(number + 1), channels))
    return g.node("Relu", g.node("Conv", x, *weights, kernel_shape=[1, 1]))


def conv(g: Graph, x: str, path: str, output: str = "") -> str:
    weights = (g.weight(f"{path}.weight", 4, 4, 1, 1), g.weight(f"{path}.bias", 4))
    return g.node("Conv", x, *weights, kernel_shape=[1, 1], output=output)


def test_a_network_before_a_head_is_no_part_of_the_head() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 3, 3)
    for _ in range(4):
        x = nameless(g, x)
    y = conv(g, x, "head.convs.0.conv")
    z = conv(g, g.node("Add", y, x), "head.convs.1.conv")
    lifted = g.lift(g.node("Sin", y), z)
    assert keys(lifted) == {"conv", "conv_1", "conv_2", "conv_3", "head.convs.0.conv", "head.convs.1.conv"}


def test_a_layer_between_two_modules_lies_beside_them() -> None:
    g = Graph()
    x = conv(g, g.input("x", "n", 4, 3, 3), "model.first.conv")
    x = nameless(g, g.node("Relu", x))
    lifted = g.lift(g.node("Sin", conv(g, x, "model.second.proj.conv")))
    assert keys(lifted) == {"model.first.conv", "model.conv", "model.second.proj.conv"}


def test_a_layer_takes_no_key_from_a_list() -> None:
    """In a list it would be called `encoder_1`, or the list would."""
    g = Graph()
    x = g.input("x", "n", 4, 3, 3)
    for i in (3, 7, 11):
        y = nameless(g, x)
        x = g.node("Add", conv(g, y, f"model.encoder.{i}.0.proj"), y)
    lifted = g.lift(g.node("Sin", x))
    assert {key for key in keys(lifted) if "encoder" in key} == {f"model.encoder.{i}.0.proj" for i in (3, 7, 11)}


def test_layers_beside_each_other_with_odd_names_are_a_dictionary() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 3, 3)
    scores = [conv(g, x, f"head.stride.({size}, {size})") for size in (8, 16)]
    lifted = g.lift(*(g.node("Transpose", score, perm=[0, 2, 3, 1]) for score in scores))
    assert keys(lifted) == {"head.stride.(8, 8)", "head.stride.(16, 16)"}
    assert "self.stride = nn.ModuleDict(" in code(lifted)
    assert 'self.stride["(8, 8)"](x).permute(0, 2, 3, 1)' in code(lifted)


def test_a_linear_layer_that_its_bias_names_keeps_its_name() -> None:
    """Both exporters turn the matrix of a Linear round, and give the result no name; its bias has one."""
    g = Graph()
    x = g.node("Relu", g.linear(g.input("x", "n", 4), "block.norm"))
    x = g.node("Add", g.node("MatMul", x, g.weight("onnx::MatMul_7", 4, 4)), g.weight("block.attn.q.bias", 4))
    lifted = g.lift(g.node("Sin", x))
    assert keys(lifted) == {"block.norm", "block.attn.q"}


def test_where_names_say_nothing_blocks_name_their_layers() -> None:
    """Paddle counts the weights of a head as `fc_0.w_0`, which looks like a key; its convolutions have flat names."""
    g = Graph()
    x = g.input("x", "n", 4, 3, 3)
    for i in range(4):
        y = g.node("Conv", x, g.weight(f"conv{i}_a_weights", 4, 4, 1, 1), kernel_shape=[1, 1])
        y = g.node("Conv", g.node("Relu", y), g.weight(f"conv{i}_b_weights", 4, 4, 1, 1), kernel_shape=[1, 1])
        x = g.node("Relu", g.node("Add", x, y))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    x = g.node("MatMul", x, g.weight("fc_0.w_0", 4, 5))
    lifted = g.lift(g.node("Add", x, g.weight("fc_0.b_0", 5)))
    assert "nn.ModuleDict" not in code(lifted)


def separable(g: Graph, x: str, stride: int = 1) -> str:
    """A depthwise and a pointwise convolution with numbers for names, each with its activation."""
    number = 900 + len(g.nodes)
    weights = (g.weight(str(number), 4, 1, 3, 3), g.weight(str(number + 1), 4))
    options = {"kernel_shape": [3, 3], "strides": [stride] * 2, "pads": [1] * 4, "group": 4}
    return nameless(g, g.node("Relu", g.node("Conv", x, *weights, **options)))


def test_what_repeats_between_names_is_a_block() -> None:
    """A backbone that lost its names, before a neck that kept them: the neck keeps its keys and its module."""
    g = Graph()
    x = g.node("Relu", g.node("Conv", g.input("x", "n", 3, 16, 16), g.weight("700", 4, 3, 3, 3), pads=[1] * 4))
    for stride in (1, 2, 1, 2):
        x = separable(g, x, stride)
    y = x
    for stride in (2, 1):
        y = separable(g, y, stride)
    x, y = (conv(g, value, f"neck.lateral.{i}.conv") for i, value in enumerate((x, y)))
    lifted = g.lift(g.node("Sin", x), g.node("Sin", y))
    blocks = {f"blocks{row}.{i}.conv{j}" for row, count in ((1, 4), (2, 2)) for i in range(count) for j in (1, 2)}
    assert keys(lifted) == {"conv", "neck.lateral.0.conv", "neck.lateral.1.conv", *blocks}
    assert code(lifted).count("for block in self.blocks") == 2


def test_blocks_lie_in_the_module_around_them() -> None:
    g = Graph()
    x = conv(g, g.input("x", "n", 4, 16, 16), "blocks.stem")
    for _ in range(3):
        x = separable(g, x)
    lifted = g.lift(conv(g, x, "blocks.head"))
    blocks = {f"blocks.{i}.conv{j}" for i in range(3) for j in (1, 2)}
    assert keys(lifted) == {"blocks.stem", "blocks.head", *(f"blocks.{key}" for key in blocks)}


def test_a_block_takes_no_name_that_is_there() -> None:
    g = Graph()
    x = conv(g, g.input("x", "n", 4, 16, 16), "blocks.stem")
    for _ in range(3):
        x = separable(g, x)
    lifted = g.lift(conv(g, x, "head"))
    assert {"blocks.stem", "head", "blocks2.0.conv1"} <= keys(lifted)


def test_code_beside_one_item_of_a_list_makes_no_module_of_it() -> None:
    """What only lies near a layer is the code of whoever calls all items."""
    g = Graph()
    values = [conv(g, g.input(name, "n", 4, 3, 3), f"neck.lateral.{i}.conv") for i, name in enumerate("xyz")]
    total = g.node("Add", g.node("Sin", values[0]), g.node("Tanh", values[1]))
    first = conv(g, total, "neck.fpn.0.conv")
    rest = [conv(g, g.node("Relu", value), f"neck.fpn.{i}.conv") for i, value in enumerate(values[1:], 1)]
    lifted = g.lift(*(g.node("Cos", value) for value in (first, *rest)))
    assert 'nn.ModuleList(nn.ModuleDict({"conv": nn.Conv2d(4, 4, 1)}) for _ in range(3))' in code(lifted)
    assert len(keys(lifted)) == 6
