"""Graphs without a name: what repeats is found, made one class, and called in a loop."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import onnxlift
from models import Example, vision
from models.every import EXAMPLES
from models.running import assert_close, run_onnxruntime, run_torch
from models.stripped import strip_names
from small_graphs import Graph, code

TRANSFORMERS = ("bert", "gpt2", "llama", "t5_encoder", "vit")
CONVOLUTIONAL = ("mobilenet", "resnet", "unet")


def classes(lifted: onnxlift.Lifted) -> list[str]:
    return re.findall(r"^class (\w+)", lifted.source, re.MULTILINE)


def forward(lifted: onnxlift.Lifted) -> str:
    """The `forward` of the model itself."""
    return code(lifted).rpartition("def forward")[2]


# Models as exported, but for their names


@pytest.fixture(scope="module", params=[e for e in EXAMPLES if e.model in (*TRANSFORMERS, *CONVOLUTIONAL)], ids=str)
def example(request: pytest.FixtureRequest) -> Example:
    return request.param


@pytest.fixture(scope="module")
def path(example: Example, model_file: Callable[[Example], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nameless") / f"{example.model}.onnx"
    onnx.save(strip_names(onnx.load(model_file(example))), path)
    return path


@pytest.fixture(scope="module")
def lifted(path: Path) -> onnxlift.Lifted:
    return onnxlift.lift(path)


def test_numbers_match_onnxruntime(example: Example, path: Path, lifted: onnxlift.Lifted) -> None:
    samples, names = example.samples(), [value.name for value in onnx.load(path).graph.input]
    renamed = tuple(dict(zip(names, inputs.values(), strict=True)) for inputs in samples)
    for inputs, outputs in zip(samples, run_onnxruntime(path, renamed), strict=True):
        assert_close(run_torch(lifted.module(), inputs), outputs)


def test_the_repeated_block_is_one_class(example: Example, path: Path, lifted: onnxlift.Lifted) -> None:
    if example.model in TRANSFORMERS:
        own = ["Attention"] if example.model != "vit" else []  # which has PyTorch's
        assert sorted(classes(lifted)[:-1]) == [*own, "MLP", "TransformerBlock"]
        assert "for layer in self.layers:" in forward(lifted)
    elif example.model == "mobilenet":
        assert len(classes(lifted)) == 1  # whose blocks all differ, so that classes would only be longer
    else:
        convolutions = sum(node.op_type == "Conv" for node in onnx.load(path).graph.node)
        assert 1 < len(classes(lifted)) <= 4
        assert lifted.source.count("nn.Conv2d(") <= convolutions


def test_the_order_of_the_nodes_in_the_file_does_not_matter(path: Path, lifted: onnxlift.Lifted) -> None:
    """The order decides when code at the top runs, but not which blocks there are."""
    model = onnx.load(path)
    _shuffle(model.graph, random.Random(0))
    again = onnxlift.lift(model, name=path.stem)
    assert classes(again) == classes(lifted)
    assert set(again.state_dict) == set(lifted.state_dict)


def _shuffle(graph: onnx.GraphProto, source: random.Random) -> None:
    """Bring the nodes into a random order in which each still comes after what it reads."""
    known = {value.name for value in (*graph.input, *graph.initializer)} | {""}
    waiting, ordered = list(graph.node), []
    while waiting:
        ready = [n for n in waiting if all(name in known for name in n.input)]
        node = source.choice(ready)
        waiting.remove(node)
        known.update(node.output)
        ordered.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(ordered)


# Depth


def exported(module: nn.Module, *inputs: torch.Tensor) -> onnx.ModelProto:
    file = io.BytesIO()
    torch.onnx.export(module.eval(), inputs, file, dynamo=False, opset_version=17)
    return strip_names(onnx.load_from_string(file.getvalue()))


def vit(layers: int) -> onnxlift.Lifted:
    module = vision.ViT()
    module.blocks = nn.ModuleList(vision.EncoderLayer(24, 4) for _ in range(layers))
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return onnxlift.lift(exported(module, torch.randn(2, 3, 32, 32)), name="vit")


def test_the_source_does_not_grow_with_the_depth() -> None:
    assert len(vit(12).source.splitlines()) <= len(vit(3).source.splitlines()) + 2


# Encoder and decoder


class Seq2Seq(nn.Module):
    """A translator of PyTorch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(11, 12), nn.Embedding(13, 12)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(12, 3, 20) for _ in range(2))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(12, 3, 20) for _ in range(3))

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x, y = self.source(source), self.target(target)
        for layer in self.encoder:
            x = layer(x)
        for layer in self.decoder:
            y = layer(y, x)
        return y


def test_decoders_are_told_from_encoders() -> None:
    module = Seq2Seq().train()  # in eval mode, PyTorch runs a fused encoder that the exporter does not know
    for layer in module.modules():
        layer.p = 0.0
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 0
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    inputs = torch.randint(11, (4, 2)), torch.randint(13, (5, 2))
    lifted = onnxlift.lift(exported(module, *inputs), name="seq2seq")
    torch.testing.assert_close(lifted.module()(*inputs), module.eval()(*inputs), rtol=1e-4, atol=1e-5)
    text = lifted.source
    assert "self.encoder_layers = nn.ModuleList(EncoderLayer() for _ in range(2))" in text, text
    assert "self.decoder_layers = nn.ModuleList(DecoderLayer() for _ in range(3))" in text, text
    assert "self.self_attn = " in text and "self.cross_attn = " in text, text


# What is a block, and what is none


class Nameless(Graph):
    """A graph whose weights have no names either."""

    def new(self, *shape: int) -> str:
        return self.weight(f"n{len(self.weights)}", *shape)

    def dense(self, x: str, rows: int = 4, columns: int = 4) -> str:
        return self.node("Gemm", x, self.new(columns, rows), self.new(columns), transB=1)

    def residual(self, x: str) -> str:
        return self.node("Add", x, self.dense(self.node("Tanh", self.dense(x, 4, 6)), 6, 4))

    def conv(self, x: str, channels: int, out: int, size: int = 3) -> str:
        weight, pad = self.new(out, channels, size, size), size // 2
        return self.node("Conv", x, weight, pads=[pad] * 4)

    def squeeze_excite(self, x: str) -> str:
        squeezed = self.node("Relu", self.conv(self.node("GlobalAveragePool", x), 4, 2, 1))
        excited = self.node("Mul", x, self.node("HardSigmoid", self.conv(squeezed, 2, 4, 1)))
        return self.node("Add", x, excited)


def test_blocks_in_a_row_are_a_loop() -> None:
    g = Nameless()
    x = g.input("n", "n", 4)
    for _ in range(3):
        x = g.residual(x)
    lifted = g.lift(g.dense(x))
    assert "for layer in self.layers:" in forward(lifted)
    assert {key.split(".")[0] for key in lifted.state_dict} == {"layers", "linear"}


def test_two_nodes_that_repeat_are_no_class() -> None:
    g = Nameless()
    x = g.input("n", "n", 4)
    for _ in range(6):
        x = g.node("Tanh", g.dense(x))
    assert len(classes(g.lift(x))) == 1


def test_a_block_begins_before_its_fork() -> None:
    """A layer norm stands before the first block, and behind each: the blocks could begin with it or end with it."""
    g = Nameless()
    x = g.input("n", "n", 4)
    for _ in range(3):
        x = g.node("LayerNormalization", x, g.new(4), g.new(4), axis=-1)
        x = g.residual(x)
    lifted = g.lift(g.node("LayerNormalization", x, g.new(4), g.new(4), axis=-1))
    assert "self.norm = nn.LayerNorm" in code(lifted).rpartition("class ")[2]
    assert "return self.norm(" in code(lifted).rpartition("class ")[0]


def test_blocks_apart_from_each_other_are_one_class() -> None:
    g = Nameless()
    x = g.input("n", "n", 4)
    for op_type in ("Sin", "Exp", "Abs"):
        x = g.node(op_type, g.residual(x))
    lifted = g.lift(x)
    assert len(classes(lifted)) == 3  # the block, its MLP, and the model


def test_residual_blocks_of_two_kinds_are_one_list() -> None:
    g = Nameless()
    x = g.conv(g.input("n", "n", 3, 5, 5), 3, 4)
    for channels, out in ((4, 4), (4, 6), (6, 6), (6, 8), (8, 8), (8, 8)):
        y = g.conv(g.node("Relu", g.conv(x, channels, out)), out, out)
        x = g.node("Relu", g.node("Add", y, x if channels == out else g.conv(x, channels, out, 1)))
    lifted = g.lift(g.node("ReduceMean", x, g.constant("axes", np.array([2, 3])), keepdims=0))
    assert "for block in self.blocks:" in forward(lifted)


def test_the_short_branch_of_a_residual_block_has_a_name() -> None:
    g = Nameless()
    x = g.conv(g.input("n", "n", 3, 5, 5), 3, 4)
    for channels, out in ((4, 6), (6, 8)):
        y = g.conv(g.node("Relu", g.conv(x, channels, out)), out, out)
        x = g.node("Relu", g.node("Add", y, g.conv(x, channels, out, 1)))
    assert "self.downsample = nn.Conv2d" in g.lift(x).source


def test_what_all_blocks_read_is_an_argument() -> None:
    """As what the layers of a decoder know of the encoder: it lives through all of them, and is no part of any."""
    g = Nameless()
    memory = g.node("Tanh", g.dense(g.input("m", "n", 4)))
    x = g.dense(g.input("n", "n", 4))
    for _ in range(3):
        x = g.node("Add", x, g.node("Mul", g.dense(x), g.dense(memory)))
        x = g.residual(x)
    lifted = g.lift(x)
    assert re.search(r"for layer in self.layers:\n +\w+ = layer\(\w+, \w+\)", forward(lifted))


def test_a_value_that_leaves_a_block_twice_is_cut_right() -> None:
    """The skips of a U-Net: each block is called once, and its result read twice."""
    g = Nameless()
    x = g.input("n", "n", 4)
    skips = []
    for _ in range(3):
        x = g.node("Tanh", g.dense(g.node("Sin", g.dense(x))))
        skips.append(x)
        x = g.node("Neg", x)
    for skip in reversed(skips):
        x = g.node("Mul", x, skip)
        x = g.node("Tanh", g.dense(g.node("Sin", g.dense(x))))
    lifted = g.lift(x)
    assert len(classes(lifted)) <= 3
    assert lifted.source.count("nn.Linear(") == 2


def test_sizes_are_not_read_inside_a_block_for_use_outside() -> None:
    """The first block makes something that all read, from the size of what it happens to have at hand."""
    g = Nameless()
    x = g.input("n", "n", 4)
    table = g.new(9, 4)
    shared = ""
    for i in range(3):
        y = g.dense(x, 4, 6)
        if i == 0:
            size = g.node("Gather", g.node("Shape", y), g.constant("zero", np.array([0])))
            shared = g.node("Slice", table, g.constant("start", np.array([0])), size)
        x = g.node("Add", x, g.node("Mul", g.dense(g.node("Tanh", y), 6, 4), shared))
    lifted = g.lift(x)
    assert "for layer in self.layers:" in forward(lifted)


def test_blocks_inside_a_part_that_is_unique_are_the_same_blocks() -> None:
    """As in PP-OCR's detector, which resizes and adds what it has squeezed and excited."""
    g = Nameless()
    x = g.input("n", "n", 4, 6, 6)
    for _ in range(2):
        x = g.squeeze_excite(g.conv(x, 4, 4))
    for operator in ("Neg", "Abs"):
        inner = g.node(operator, g.squeeze_excite(g.conv(x, 4, 4)))
        x = g.node("Sub", x, inner)
    lifted = g.lift(x)
    assert lifted.source.count("mean((2, 3), keepdim=True)") == 1, code(lifted)


def test_constants_are_weights_by_their_use() -> None:
    """Positions and a scale are trained, but not the frequencies of an angle."""
    g = Nameless()
    x = g.node("Add", g.dense(g.input("n", "n", 4)), g.new(1, 4))
    angle = g.node("Cos", g.node("Mul", g.input("m", "n", 1), g.new(4)))
    lifted = g.lift(g.dense(g.node("Add", g.node("Mul", x, g.new(4)), angle)))
    own = {name for name, _ in lifted.module().named_parameters() if "." not in name}
    assert own == {"bias", "scale_1"}
    assert {key for key in lifted.state_dict if "." not in key} == own | {"scale"}


def test_blocks_beside_a_named_layer_leave_it_its_name() -> None:
    g = Nameless()
    x = g.linear(g.input("n", "n", 4), "stem")
    for _ in range(3):
        x = g.residual(x)
    lifted = g.lift(x)
    assert "self.layers = nn.ModuleList(MLPBlock() for _ in range(3))" in lifted.source
    assert {"stem.weight", "stem.bias"} <= set(lifted.state_dict)


def test_a_graph_whose_layers_have_names_keeps_them() -> None:
    g = Graph()
    x = g.input("n", "n", 4)
    for name in ("first", "second", "third"):
        x = g.node("Add", x, g.node("Tanh", g.linear(x, name)))
    lifted = g.lift(x)
    assert "class MLPBlock" not in lifted.source
    assert {key.partition(".")[0] for key in lifted.state_dict} == {"first", "second", "third"}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_random_graphs_with_repetition_are_right(data: st.DataObject) -> None:
    """Blocks of random wiring, several times, with random wires across: `lift` compares with the reference."""
    g = Nameless()
    values = [g.input("n", "n", 4)]
    bodies = [
        data.draw(st.lists(st.tuples(st.sampled_from("LTAM"), st.integers(1, 3)), min_size=2, max_size=7))
        for _ in range(2)
    ]
    for which in data.draw(st.lists(st.integers(0, 1), min_size=2, max_size=5)):
        for kind, back in bodies[which]:
            x, other = values[-1], values[-min(back + 1, len(values))]
            match kind:
                case "L":
                    x = g.dense(x)
                case "T":
                    x = g.node("Tanh", x)
                case "A":
                    x = g.node("Add", x, other)
                case _:
                    x = g.node("Mul", x, g.node("Sigmoid", other))
            values.append(x)
        if data.draw(st.booleans()):
            values.append(g.node("Add", values[-1], data.draw(st.sampled_from(values))))
    g.lift(values[-1], *data.draw(st.lists(st.sampled_from(values[1:]), max_size=2, unique=True)))


def counted(word: str, copy: str = "") -> onnxlift.Lifted:
    """Four equal blocks whose layers have numbers for names, as Paddle gives them, and a scale each."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(4):
        h = x
        for layer in (2 * i, 2 * i + 1):
            h = g.node("MatMul", h, g.weight(f"linear_{layer}.{word}_0{copy}", 4, 4))
            h = g.node("Tanh", g.node("Add", h, g.weight(f"linear_{layer}.b_0{copy}", 4)))
        x = g.node("Add", x, g.node("Mul", h, g.weight(f"affine_{i}.{word}_0{copy}", 1)))
    if copy:
        x = g.node("Reshape", x, g.constant("helper.constant.0", np.array([-1, 2, 2])))
    return g.lift(x)


@pytest.mark.parametrize("copy", ["", "_deepcopy_17"])
def test_numbers_are_no_names(copy: str) -> None:
    lifted = counted("w", copy)
    assert "for _ in range(4)" in lifted.source and "linear_" not in lifted.source, lifted.source
    scales = [array for key, array in lifted.state_dict.items() if "scale" in key]
    assert [array.shape for array in scales] == [(1,)] * 4  # to be trained, so no literals


def test_what_is_named_otherwise_keeps_its_names() -> None:
    assert "self.linear_3 = " in counted("weight").source


def test_a_gate_by_the_mean_of_an_image_is_called_so() -> None:
    g = Graph()
    x = g.input("x", "n", 8, 5, 7)
    for i, activation in enumerate(("Tanh", "Elu")):
        h = g.node(activation, g.node("Conv", x, g.weight(f"conv2d_{3 * i}.w_0", 8, 8, 1, 1)))
        mean = g.node("GlobalAveragePool", h)
        gate = g.node("Relu", g.node("Conv", mean, g.weight(f"conv2d_{3 * i + 1}.w_0", 2, 8, 1, 1)))
        gate = g.node("Sigmoid", g.node("Conv", gate, g.weight(f"conv2d_{3 * i + 2}.w_0", 8, 2, 1, 1)))
        x = g.node("Mul", h, gate)
    assert "SqueezeExcite" in classes(g.lift(x))


def test_a_gate_that_is_added_to_the_image_is_called_so() -> None:
    g = Graph()
    x = g.input("x", "n", 8, 5, 7)
    for i in range(3):
        h = g.node("Tanh", g.node("Conv", x, g.weight(f"conv2d_{3 * i}.w_0", 8, 8, 1, 1)))
        gate = g.node("GlobalAveragePool", h)
        gate = g.node("Relu", g.node("Conv", gate, g.weight(f"conv2d_{3 * i + 1}.w_0", 2, 8, 1, 1)))
        gate = g.node("Sigmoid", g.node("Conv", gate, g.weight(f"conv2d_{3 * i + 2}.w_0", 8, 2, 1, 1)))
        x = g.node("MaxPool", g.node("Add", h, g.node("Mul", h, gate)), kernel_shape=[1 + i % 2, 1])
    assert "SqueezeExcite" in classes(g.lift(x))


def test_what_reads_one_value_three_times_is_no_gated_mlp() -> None:
    """Queries, keys and values of an attention that is spelled out."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        parts = [g.node("MatMul", x, g.weight(f"w{i}_{j}", 4, 4)) for j in range(3)]
        x = g.node("Add", x, g.node("Mul", g.node("Sin", parts[0]), g.node("Add", *parts[1:])))
    lifted = g.lift(x)
    assert "for " in code(lifted) and "_proj" not in code(lifted)
