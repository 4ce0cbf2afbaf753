"""The tree of modules: what becomes one, what is dissolved, and what is computed above."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import onnxlift
from small_graphs import Graph, code, compare, step


def keys(lifted: onnxlift.Lifted) -> set[str]:
    return {key.rpartition(".")[0] for key in lifted.state_dict}


def test_a_layer_is_no_module_of_its_own() -> None:
    g = Graph()
    lifted = g.lift(g.node("Sin", g.linear(g.input("x", "n", 4), "fc"), name="/Sin"))
    assert code(lifted).count("class ") == 1
    assert keys(lifted) == {"fc"}


def test_a_module_around_a_layer_is_one() -> None:
    """Its forward says little, but `nn.ModuleDict({"fc": ...})` would say less."""
    g = Graph()
    lifted = g.lift(g.node("Sin", g.linear(g.input("x", "n", 4), "encoder.fc"), name="/Sin"))
    assert "class Encoder(" in code(lifted) and "return self.fc(x)" in code(lifted)
    assert keys(lifted) == {"encoder.fc"}


def test_a_module_around_a_layer_whose_weights_have_no_names() -> None:
    """PyTorch's older exporter turns the weights of an LSTM round, and gives the result no name."""
    g = Graph()
    weights = [g.weight(f"onnx::LSTM_{i}", *shape) for i, shape in ((11, (1, 8, 3)), (12, (1, 8, 2)), (13, (1, 16)))]
    y = g.node("LSTM", g.input("x", 5, "n", 3), *weights, hidden_size=2, name="/encoder/rnn/LSTM")
    lifted = g.lift(g.node("Sin", y, name="/Sin"))
    assert "class Encoder(" in code(lifted)
    assert keys(lifted) == {"encoder.rnn"}


def test_the_weight_of_a_module_that_is_more_than_a_layer() -> None:
    """`F.linear(x, self.weight)` and much more: a layer inside the module would have a scope of its own."""
    g = Graph()
    x = g.input("x", "n", 4)
    for op_type in ("Sin", "Cos", "Tanh"):
        x = g.node(op_type, x, name=f"/block/{op_type}")
    y = g.node("MatMul", x, g.weight("onnx::MatMul_12", 4, 4), name="/block/MatMul")
    lifted = g.lift(g.node("Sin", g.node("Exp", y, name="/block/Exp"), name="/Sin"))
    assert keys(lifted) == {"block"}


def test_a_container_that_is_never_called_is_no_module() -> None:
    """Nothing but the names of weights speaks of `encoder`."""
    g = Graph()
    lifted = g.lift(g.node("Sin", g.linear(g.input("x", "n", 4), "encoder.fc", name="/Gemm"), name="/Sin"))
    assert "class Encoder(" not in code(lifted) and keys(lifted) == {"encoder.fc"}


def test_activations_are_code_of_the_parent() -> None:
    g = Graph()
    h = g.node("Tanh", g.linear(g.input("x", "n", 4), "fc"), name="/act/Tanh")
    assert "self.act" not in g.lift(g.linear(h, "out")).source


def test_a_class_of_the_users_own_is_kept_without_weights() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "fc")
    for op_type in ("Sin", "Exp", "Tanh", "Neg"):
        x = g.node(op_type, x, scopes=["", "wave", op_type.lower()], classes=["net.Net", "net.Wave", "aten.x.default"])
    lifted = g.lift(g.linear(x, "out"))
    assert "exp()" in lifted.source  # a module needs members: without any, its code is the parent's


def test_nodes_that_an_optimiser_moved_make_no_cycle() -> None:
    """Half of the block's code waits for what comes after it: no call at one point in time could do both."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "block.a")
    between = g.node("Sin", x, name="/Sin")
    lifted = g.lift(g.node("Tanh", g.linear(between, "block.b"), name="/block/Tanh"))
    assert keys(lifted) == {"block.a", "block.b"}


def test_a_list_of_layers_between_the_blocks_leaves_the_blocks_alone() -> None:
    """As a module, the list would wait for the blocks and the blocks for the list; but nobody calls a list."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        x = g.linear(x, f"into.{i}")
        x = g.node("Sin", g.linear(x, f"blocks.{i}.up"), name=f"/blocks.{i}/Sin")
        x = g.linear(x, f"blocks.{i}.down")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "self.blocks = nn.ModuleList(Block() for _ in range(3))" in text, text


def test_a_table_that_several_modules_share_is_above_them() -> None:
    """It is no weight, and so what is looked up in it is a detail like any other."""
    g = Graph()
    x, i = g.input("x", "n", 4), g.node("Cast", g.input("i", "n"), to=onnx.TensorProto.INT64, name="/Cast")
    i = g.node("Mul", i, g.constant("none", np.int64(0)), name="/Mul")
    table = g.constant("onnx::Gather_12", g.random.standard_normal((5, 4)).astype(np.float32))
    rows = g.node("Gather", table, i, name="/layers.0/Gather")
    for number in range(3):
        h = g.node("Mul", g.linear(x, f"layers.{number}.a"), rows, name=f"/layers.{number}/Mul")
        x = g.node("Add", g.linear(h, f"layers.{number}.b"), x, name=f"/layers.{number}/Add")
    assert "for layer in self.layers:" in code(g.lift(g.node("Cos", x, name="/Cos")))


def test_what_several_modules_share_is_computed_above_them() -> None:
    """The exporter merged the equal masks of all layers into the first of them."""
    g = Graph()
    x, m = g.input("x", "n", 4), g.input("m", "n", 4)
    mask = g.node("Sigmoid", g.node("Exp", m, name="/layers.0/Exp"), name="/layers.0/Sigmoid")
    for i in range(3):
        h = g.node("Mul", g.linear(x, f"layers.{i}.a"), mask, name=f"/layers.{i}/Mul")
        x = g.node("Add", g.linear(h, f"layers.{i}.b"), x, name=f"/layers.{i}/Add")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    text = code(lifted)
    assert text.count("class ") == 2 and "for layer in self.layers:" in text
    assert "sigmoid" in text.partition("class Small")[2]


def test_a_container_that_is_never_called_is_a_list() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    outputs = [g.node("Sin", g.linear(x, f"heads.{i}"), name=f"/Sin_{i}") for i in range(3)]
    lifted = g.lift(*outputs)
    assert "self.heads = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))" in lifted.source
    assert keys(lifted) == {"heads.0", "heads.1", "heads.2"}


def test_a_list_with_gaps_is_a_dict_with_the_same_keys() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    outputs = [g.node("Sin", g.linear(x, f"heads.{i}"), name=f"/Sin_{i}") for i in (0, 2, 5)]
    lifted = g.lift(*outputs)
    assert "nn.ModuleDict(" in lifted.source
    assert keys(lifted) == {"heads.0", "heads.2", "heads.5"}
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)


def test_blocks_in_flat_names() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in (1, 2):
        h = g.node("MatMul", x, g.weight(f"block{i}_up_W", 4, 4), name=f"block{i}_up", output=f"block{i}_up_out")
        h = g.node("Sin", h, name=f"block{i}_act", output=f"block{i}_act_out")
        h = g.node("MatMul", h, g.weight(f"block{i}_down_W", 4, 4), name=f"block{i}_down", output=f"block{i}_down_out")
        x = g.node("Add", h, x, name=f"block{i}_add", output=f"block{i}")
    lifted = g.lift(x)
    assert keys(lifted) == {"block1.up", "block1.down", "block2.up", "block2.down"}, lifted.source
    assert code(lifted).count("class ") == 2


def test_values_that_cross_a_border_are_arguments_and_results() -> None:
    g = Graph()
    x, y = g.input("x", "n", 4), g.input("y", "n", 4)
    h = g.node("Add", g.linear(x, "block.a"), y, name="/block/Add")
    other = g.node("Sin", g.linear(h, "block.b"), name="/block/Sin")
    lifted = g.lift(g.node("Mul", h, other, name="/Mul"), g.node("Sub", other, h, name="/Sub"))
    assert "-> tuple[Tensor, Tensor]:" in code(lifted).partition("class Small")[0]


def test_an_operator_with_a_parameter_of_its_own_scope_is_a_module() -> None:
    """A LayerScale: without a module, the parameter would lose its name."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "fc")
    x = g.node("Mul", x, g.weight("scale.gamma", 4), name="/scale/Mul")
    assert set(g.lift(g.linear(x, "out")).state_dict) == {
        "fc.weight", "fc.bias", "scale.gamma", "out.weight", "out.bias",
    }  # fmt: skip


def test_an_operator_with_a_parameter_from_elsewhere_is_code() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "fc")
    x = g.node("Mul", x, g.weight("gamma", 4), name="/scale/Mul")
    lifted = g.lift(g.linear(x, "out"))
    assert "gamma" in lifted.state_dict and code(lifted).count("class ") == 1


def test_a_layer_that_a_scope_is_itself_keeps_its_key_whatever_is_around_it() -> None:
    """`class Positions(nn.Embedding)`, whose forward computes the positions first."""
    g = Graph()
    x = g.input("x", "n")
    for op_type in ("Abs", "Ceil", "Sqrt", "Abs"):
        x = g.node(op_type, x, name=f"/positions/{op_type}")
    x = g.node("Cast", x, name="/positions/Cast", to=onnx.TensorProto.INT64)
    x = g.node("Gather", g.weight("positions.weight", 9, 4), x, name="/positions/Gather")
    assert set(g.lift(g.linear(x, "out")).state_dict) == {"positions.weight", "out.weight", "out.bias"}


def test_inputs_of_the_model_are_handed_on_in_its_order() -> None:
    g = Graph()
    x, mask = g.input("x", "n", 4), g.input("mask", "n", 4)
    h = g.node("Mul", g.linear(mask, "block.b"), g.linear(x, "block.a"), name="/block/Mul")
    lifted = g.lift(g.linear(h, "out"))
    assert "self.block(x, mask)" in lifted.source


def joining(g: Graph, other_reader: bool = False) -> str:
    """Layers that each read the values of all before them, as in a DenseNet."""
    x = g.input("x", "n", 4)
    features = [x]
    for i in range(4):
        h = g.node("Concat", *features, name=f"/layer{i}/Concat", axis=1) if i else x
        h = g.node("Sin", g.linear(h, f"layer{i}.a", 4 * (i + 1), 8), name=f"/layer{i}/Sin")
        h = g.linear(h, f"layer{i}.b", 8, 4)
        if other_reader:
            h = g.node("Add", h, x, name=f"/layer{i}/Add")
        features.append(h)
    return g.node("Concat", *features, name="/Concat", axis=1)


def test_modules_that_join_different_numbers_of_inputs_are_given_them_joined() -> None:
    g = Graph()
    text = code(g.lift(joining(g)))
    assert text.count("class ") == 2 and "torch.cat" not in text.partition("class Small")[0], text


def test_a_join_of_values_that_are_also_read_otherwise_stays() -> None:
    g = Graph()
    text = code(g.lift(joining(g, other_reader=True)))
    assert "torch.cat" in text.partition("class Small")[0], text


def test_what_a_later_module_computes_for_an_earlier_one_is_computed_above_both() -> None:
    """The choice was merged into the decoder, what it is made of is in the encoder, and both need it."""
    g = Graph()
    x, m = g.input("x", "n", 4), g.input("m", "n", 4)
    half, low = g.constant("onnx::half", np.float32(0.5)), g.constant("onnx::low", np.float32(-1))
    kept = g.node("Less", m, half, name="/encoder/Less")
    mask = g.node("Where", kept, half, low, name="/decoder/Where")
    for name in ("encoder", "decoder"):
        h = g.node("Add", g.linear(x, f"{name}.a"), mask, name=f"/{name}/Add")
        x = g.node("Mul", g.linear(h, f"{name}.b"), x, name=f"/{name}/Mul")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "torch.where" in text.partition("class Small")[2]
    assert re.search(r"self\.encoder\(x, (\w+)\)\n +x = self\.decoder\(x, \1\)", text), text


def test_sizes_that_a_module_reads_for_others_are_read_by_these() -> None:
    """Equal sizes are merged into the first module that asks for them, although it may not need them any more."""
    g = Graph()
    x, m = g.input("x", "n", 4), g.input("m", "n", 3)
    zero, one = g.constant("onnx::zero", np.int64(0)), g.constant("onnx::one", np.int64(1))
    shape = g.node("Shape", m, name="/blocks.0/Shape")
    for name in ("blocks.0", "blocks.1"):
        x = step(g, x, name)
    counted = g.node("Range", zero, g.node("Gather", shape, zero, name="/Gather"), one, name="/Range")
    rows = g.node("Unsqueeze", g.node("Cast", counted, to=1, name="/Cast"), g.constant("onnx::last", np.array([1])))
    text = code(g.lift(g.node("Mul", x, rows, name="/Mul")))
    assert text.count("class ") == 2 and "for block in self.blocks:" in text, text


def test_sizes_that_a_module_puts_together_for_others_are_put_together_by_these() -> None:
    """As in an OPT that is exported anew: the first attention makes the sizes of what each block returns."""
    g = Graph()
    x, m = g.input("x", "n", "s", 4), g.input("m", "n", "s")
    counts = g.node("Shape", m, name="/blocks.0/attn/Shape")
    sizes = g.node("Concat", counts, g.constant("onnx::last", np.array([4])), axis=0, name="/blocks.0/attn/Concat")
    flat = g.constant("onnx::flat", np.array([-1, 4]))
    for block in ("blocks.0", "blocks.1"):
        h = g.node("MatMul", x, g.weight(f"{block}.attn.a.weight", 4, 4), name=f"/{block}/attn/a/MatMul")
        h = g.node("Sin", h, name=f"/{block}/attn/Sin")
        h = g.node("MatMul", h, g.weight(f"{block}.attn.b.weight", 4, 4), name=f"/{block}/attn/b/MatMul")
        h = g.node("Reshape", h, flat, name=f"/{block}/Reshape")
        h = g.node("Mul", step(g, h, f"{block}.mlp"), h, name=f"/{block}/Mul")
        x = g.node("Reshape", h, sizes, name=f"/{block}/Reshape_1")
    text = code(g.lift(g.node("Cos", x, name="/Cos")))
    assert "for block in self.blocks:" in text and "tuple[" not in text, text


@pytest.mark.parametrize(
    ("names", "is_inside", "is_local"),
    [
        (("blocks.0", "blocks.1"), False, True),
        (("left", "right"), False, False),  # not of one kind: the one may compute it for the other
        (("blocks.0", "blocks.1", "right"), False, False),  # not all are
        (("blocks.0", "blocks.1"), True, False),  # of what the first block has computed
    ],
)
def test_relatives_that_begin_with_an_activation_compute_it_each(
    names: tuple[str, ...], is_inside: bool, is_local: bool
) -> None:
    """Exporters merge equal nodes into the first module that has them."""
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/Sin")
    first = g.linear(x, f"{names[0]}.a") if is_inside else x
    active = g.node("Relu", first, name=f"/{names[0]}/Relu")
    parts = []
    for name in names:
        h = g.linear(active, f"{name}.b")
        parts.append(
            g.node("Add", g.linear(g.node("Tanh", h, name=f"/{name}/Tanh"), f"{name}.c"), x, name=f"/{name}/Add")
        )
    text = code(g.lift(g.node("Sum", *parts, name="/Sum")))
    last = names[1] if "." not in names[1] else "blocks[1]"
    assert (f"self.{last}(x)" in text) == is_local, text


def counting(readers: Sequence[str], home: str = "embed") -> str:
    """A model with positions that are counted in the module `home`, and read in others."""
    g = Graph()
    x = g.input("x", "n", 4)
    zero, one = g.constant("onnx::zero", np.int64(0)), g.constant("onnx::one", np.int64(1))
    size = g.node("Gather", g.node("Shape", x, name="/Shape"), zero, name="/Gather")
    counted = g.node("Range", zero, size, one, name=f"/{home}/Range")
    rows = g.node("Unsqueeze", counted, g.constant("onnx::last", np.array([1])), name=f"/{home}/Unsqueeze")
    for name in ("embed", "encoder"):
        for place in (name, *(reader for reader in readers if reader.startswith(f"{name}/"))):
            scope = place.replace("/", ".")
            h = g.node("Add", g.linear(x, f"{scope}.a"), x, name=f"/{place}/Add")
            if place in readers:
                h = g.node("Mul", h, g.node("Cast", rows, to=1, name=f"/{place}/Cast"), name=f"/{place}/Mul")
            x = g.node("Add", g.linear(h, f"{scope}.b"), x, name=f"/{place}/Add_1")
    return code(g.lift(g.node("Cos", x, name="/Cos")))


def test_positions_are_counted_in_every_module_that_needs_them() -> None:
    text = counting(["embed", "encoder"])
    assert text.count("torch.arange(x.shape[0], device=x.device)") == 2, text
    assert "self.encoder(self.embed(x))" in text


def test_positions_are_counted_once_in_a_module_and_those_inside_it() -> None:
    text = counting(["embed", "encoder", "encoder/block"])
    assert text.count("torch.arange(") == 2 and "self.encoder(self.embed(x))" in text, text


def test_positions_that_a_module_hands_to_those_inside_it_stay() -> None:
    text = counting(["encoder/block"], home="encoder")
    assert text.count("torch.arange(") == 1, text


def test_indices_are_handed_down_in_the_order_in_which_they_are_computed() -> None:
    g = Graph()
    x, m = g.input("x", 4, 4), g.input("m", 4, 4)
    first = g.node("ArgMax", m, axis=1, keepdims=1, name="/ArgMax")
    second = g.node("ArgMin", m, axis=1, keepdims=1, name="/ArgMin")
    for i in range(2):
        late = g.node("GatherElements", g.linear(x, f"layers.{i}.a"), second, axis=1, name=f"/layers.{i}/Gather")
        early = g.node("GatherElements", x, first, axis=1, name=f"/layers.{i}/Gather_1")
        h = g.node("Add", g.node("Mul", late, early, name=f"/layers.{i}/Mul"), x, name=f"/layers.{i}/Add")
        x = g.linear(h, f"layers.{i}.b")
    text = code(g.lift(x))
    assert re.search(r"(\w+) = m\.argmax.*\n +(\w+) = m\.argmin.*\n(.*\n)* +x = layer\(x, \1, \2\)", text), text


@pytest.mark.parametrize(("weight", "name"), [("onnx::MatMul_{}", "q_proj"), ("block.first_{}.weight", "first_1")])
def test_projections_without_a_name_are_called_by_what_they_make(weight: str, name: str) -> None:
    """In a module that has a name: only the exporter's transposing has made the names of the weights be lost."""
    g = Graph()
    x = g.input("x", "n", 5, 4)
    q, k, v = (
        g.node("MatMul", x, g.weight(weight.format(i), 4, 4), name=f"/block/MatMul_{i}", output=f"out_{i}")
        for i in (1, 2, 3)
    )
    turned = g.node("Transpose", k, perm=[0, 2, 1], name="/block/Transpose")
    scores = g.node("Softmax", g.node("MatMul", q, turned, name="/block/MatMul_4"), name="/block/Softmax")
    attention = g.node("MatMul", scores, v, name="/block/MatMul_5")
    lifted = g.lift(g.linear(g.node("Flatten", attention, name="/Flatten"), "head", 20, 4))
    assert f"self.{name} = nn.Linear(4, 4, bias=False)" in lifted.source


@pytest.mark.parametrize(("producer", "keys_of_net"), [("pytorch", {"pos", "block.fc"}), ("other", {"block.fc"})])
def test_a_parameter_is_kept_where_its_name_says_and_handed_down(producer: str, keys_of_net: set[str]) -> None:
    """`self.block(x, self.pos)`: only the block uses it, but it has a key of its own in the state dict."""
    g = Graph()
    x = g.node("Add", g.input("x", "n", 4), g.weight("pos", 1, 4), name="/block/Add")
    x = g.node("Sin", g.linear(x, "block.fc"), name="/block/Sin")
    model = g.model(g.node("Tanh", g.linear(x, "block.out"), name="/Tanh"))
    model.producer_name = producer
    lifted = onnxlift.lift(model, name="small")
    assert {"block.out", *keys_of_net} <= {
        key.removesuffix(".weight").removesuffix(".bias") for key in lifted.state_dict
    }
    assert ("def forward(self, x: Tensor, pos: Tensor) -> Tensor:" in lifted.source) == (producer == "pytorch")
    compare(lifted, model, {"x": np.random.default_rng(5).random((3, 4), np.float32)})


def test_numbers_beside_a_layer_are_no_weights() -> None:
    """Its weight is the module's own, whatever the code around it multiplies with."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "block", name="/block/Gemm")
    for op_type in ("Sin", "Cos", "Tanh", "Exp"):
        x = g.node(op_type, x, name=f"/block/{op_type}")
    lifted = g.lift(
        g.node("Sin", g.node("Mul", x, g.constant("onnx::Mul_3", np.float32([2])), name="/block/Mul"), name="/Sin")
    )
    assert keys(lifted) == {"block"}
