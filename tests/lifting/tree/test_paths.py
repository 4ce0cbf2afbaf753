"""The path of a node from metadata, from its weights, and from its name."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.code.identifiers import file_stem
from onnxlift.lifting.tree.paths import (
    DEEPEST,
    ModulePaths,
    Path,
    find_paths,
    flat_layer_name,
    owner_of,
)
from small_graphs import Graph


def paths_of(g: Graph, output: str) -> tuple[dict[str, Path], ModulePaths]:
    """Output name -> path of the node that gives it."""
    proto = g.model(output)
    proto.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    paths = find_paths(model.graph)
    return {str(node.outputs[0].name): path for node, path in paths.by_node.items()}, paths


def test_metadata_of_the_exporter() -> None:
    g = Graph()
    classes = ["net.Net", "net.Block", "torch.nn.modules.linear.Linear", "aten.linear.default"]
    scopes = ["", "blocks.0", "blocks.0.fc", "linear"]
    x = g.node("MatMul", g.input("x", "n", 4), g.weight("w", 4, 4), scopes=scopes, classes=classes, output="a")
    g.node("Sin", x, scopes=["", "blocks.0", "sin"], classes=[*classes[:2], "aten.sin.default"], output="b")
    paths, found = paths_of(g, "b")
    assert paths == {"a": ("blocks", "0", "fc"), "b": ("blocks", "0")}
    assert found.classes == {(): "Net", ("blocks", "0"): "Block", ("blocks", "0", "fc"): "Linear"}


def test_names_of_nodes_with_repeated_containers() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/encoder/layers.0/attn/Sin", output="a")
    x = g.node("Cos", x, name="/layer1/layer1.0/Cos", output="b")
    g.node("Tanh", x, name="/Tanh", output="c")
    paths, found = paths_of(g, "c")
    assert paths == {"a": ("encoder", "layers", "0", "attn"), "b": ("layer1", "0"), "c": ()}
    assert ("layer1",) in found.called and ("encoder", "layers") not in found.called


def test_weights_beat_names_for_the_node_that_holds_them_as_a_layer() -> None:
    g = Graph()
    weight = g.weight("encoder.fc.weight", 4, 4)
    g.node("MatMul", g.input("x", "n", 4), weight, name="/encoder/bn/MatMul", output="a")  # moved by an optimiser
    assert paths_of(g, "a")[0] == {"a": ("encoder", "fc")}


def test_a_weight_from_elsewhere_does_not_move_the_node() -> None:
    g = Graph()
    weight = g.weight("encoder.embed.weight", 4, 4)
    g.node("MatMul", g.input("x", "n", 4), weight, name="/decoder/head/MatMul", output="a")
    assert paths_of(g, "a")[0] == {"a": ("decoder", "head")}


@pytest.mark.parametrize(
    ("is_called", "reader", "expected"),
    [
        (True, "/Mul", ()),
        (True, "", ()),
        (True, "/fc/Mul", ("fc",)),
        (False, "/Mul", ()),
        (False, "/fc/Mul", ("fc",)),
        (False, "", ("fc",)),
    ],
)
def test_what_is_cut_out_of_a_weight_is_where_it_is_read(is_called: bool, reader: str, expected: Path) -> None:
    """The newer exporter does not say where it splits a parameter. Where nothing tells, it is the parameter's module,
    unless that is a layer."""
    g = Graph()
    weight, x = g.weight("fc.weight", 4, 4), g.input("x", "n", 4)
    part = g.node("Relu", weight, output="part")
    y = g.node("MatMul", x, weight, name="/fc/MatMul", output="a") if is_called else x
    g.node("Mul", y, part, name=reader, output="b")
    assert paths_of(g, "b")[0]["part"] == expected


def test_layers_that_share_a_weight_keep_their_names() -> None:
    """The module `shared` is never called: an encoder and a head have its weight."""
    g = Graph()
    weight = g.weight("shared.weight", 4, 4)
    x = g.node("MatMul", g.input("x", "n", 4), weight, name="/encoder/embed/MatMul", output="a")
    g.node("MatMul", x, weight, name="/head/MatMul", output="b")
    assert paths_of(g, "b")[0] == {"a": ("encoder", "embed"), "b": ("head",)}


@pytest.mark.parametrize("owner", ["embed", "head"])
def test_a_head_beside_the_embedding_that_it_shares_a_weight_with_keeps_its_name(owner: str) -> None:
    g = Graph()
    weight = g.weight(f"{owner}.weight", 4, 4)
    x = g.node("Embedding", weight, g.input("x", "n"), name="/embed/Gather", output="a", domain=DOMAIN)
    g.node("MatMul", x, weight, name="/head/MatMul", output="b")
    assert paths_of(g, "b")[0] == {"a": ("embed",), "b": ("head",)}


def test_a_layer_that_is_called_twice_is_what_its_weight_says() -> None:
    g = Graph()
    weight = g.weight("fc.weight", 4, 4)
    x = g.node("MatMul", g.input("x", "n", 4), weight, name="/fc/MatMul", output="a")
    g.node("MatMul", x, weight, name="/fc_1/MatMul", output="b")
    assert paths_of(g, "b")[0] == {"a": ("fc",), "b": ("fc",)}


@pytest.mark.parametrize("bias", [None, "head.bias"])
def test_a_layer_that_shares_the_matrix_of_one_beside_it_is_where_the_exporter_says(bias: str | None) -> None:
    g = Graph()
    weight = g.weight("fc.weight", 4, 4)
    x = g.node("Gemm", g.input("x", "n", 4), weight, g.weight("fc.bias", 4), name="/fc/Gemm", output="a")
    biases = [] if bias is None else [g.weight(bias, 4)]
    g.node("Gemm", x, weight, *biases, name="/head/Gemm", output="b")
    assert paths_of(g, "b")[0] == {"a": ("fc",), "b": ("head",)}


def test_a_node_without_a_name_joins_what_it_works_on_if_many_use_it() -> None:
    """An optimiser has put the activation of a block elsewhere, and lost its name."""
    g = Graph()
    x = g.input("x", "n", 4)
    for block in ("a", "b"):
        h = g.node("Sin", g.linear(g.linear(x, f"{block}.fc1"), f"{block}.fc2"))
        x = g.node("Add", x, h, name="/Add")
        x = g.node("Mul", x, h, name="/Mul")
    assert g.lift(x).source.count(".sin()") == 1


def test_a_node_without_a_name_joins_those_who_use_it() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), output="a")
    x = g.node("Cos", x, name="/block/left/Cos", output="b")
    y = g.node("Tanh", "a", name="/block/right/Tanh", output="c")
    g.node("Add", x, y, name="/block/Add", output="d")
    assert paths_of(g, "d")[0]["a"] == ("block",)


def test_a_module_that_is_not_called_itself_is_known_from_the_weights() -> None:
    """`self.model.decoder(x)`: the names of nodes begin with the decoder."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "model.decoder.fc", name="/decoder/fc/Gemm", output="a")
    x = g.node("Sin", x, name="/decoder/Sin", output="b")
    g.linear(x, "head", output="c")
    expected = {"a": ("model", "decoder", "fc"), "b": ("model", "decoder"), "c": ("head",)}
    assert paths_of(g, "c")[0] == expected


def test_weights_that_disagree_tell_of_no_module_above() -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "one.block.a", name="/block/a/Gemm", output="a")
    x = g.linear(x, "two.block.b", name="/block/b/Gemm", output="b")
    g.node("Sin", x, name="/block/Sin", output="c")
    assert paths_of(g, "c")[0]["c"] == ("block",)


def layers_by_forward(*owners: str) -> tuple[Graph, str]:
    """`layer.forward(x)` for each layer: the exporter takes it for calls of the same modules, and counts them."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i, owner in enumerate(owners):
        count = f"_{i}" if i else ""
        x = g.node("Exp", x, name=f"/encoder/attention{count}/Exp", output=f"exp{i}")
        x = g.linear(x, f"{owner}.attention.q", name=f"/encoder/attention/q{count}/Gemm", output=f"q{i}")
        x = g.node("Sin", x, name=f"/encoder/attention/act{count}/Sin", output=f"sin{i}")
        x = g.node("Cos", x, name=f"/encoder/output{count}/Cos", output=f"cos{i}")
        x = g.linear(x, f"{owner}.output.fc", name=f"/encoder/output/fc{count}/Gemm", output=f"fc{i}")
    return g, g.node("Tanh", x, name="/encoder/Tanh", output="tanh")


def test_layers_that_are_not_called_themselves_are_known_from_the_weights() -> None:
    g, output = layers_by_forward("encoder.layers.0", "encoder.layers.1")
    paths, found = paths_of(g, output)
    for i in range(2):
        layer = ("encoder", "layers", str(i))
        assert paths[f"exp{i}"] == (*layer, "attention") == paths[f"q{i}"][:-1]
        assert paths[f"sin{i}"] == (*layer, "attention", "act")
        assert paths[f"cos{i}"] == (*layer, "output") == paths[f"fc{i}"][:-1]
        assert layer in found.called
    assert paths["tanh"] == ("encoder",)
    assert ("encoder", "layers") not in found.called


@pytest.mark.parametrize(
    "owners",
    [
        ("encoder.first", "encoder.second"),  # which are no items of a list
        ("encoder", "encoder.layers.1"),  # the first one is complete
    ],
)
def test_what_the_weights_do_not_tell_with_one_voice_is_not_believed(owners: tuple[str, str]) -> None:
    g, output = layers_by_forward(*owners)
    paths, _ = paths_of(g, output)
    assert paths["exp1"] == ("encoder", "attention_1")


def test_paths_are_cut() -> None:
    g = Graph()
    x = g.node("Sin", g.input("x", "n", 4), name="/a" * 500 + "/Sin", output="a")
    x = g.node("MatMul", x, g.weight("a." * 500 + "weight", 4, 4), output="b")
    g.node("Cos", x, scopes=[".".join("a" * 500), "cos"], output="c")
    assert {len(path) for path in paths_of(g, "c")[0].values()} == {DEEPEST}


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("encoder.layer.0.query.weight", ("encoder", "layer", "0", "query")),
        ("weight", None),
        ("a..weight", None),
        ("/a/b.weight", None),
        ("onnx::MatMul_12.weight", None),
        (".weight", None),
    ],
)
def test_owners(name: str, owner: Path | None) -> None:
    assert owner_of(name) == owner


@pytest.mark.parametrize(
    ("name", "layer"),
    [("fc_W", "fc"), ("W_fc", "fc"), ("ln1_scale", "ln1"), ("attn.in_proj_weight", "in_proj"), ("table", None)],
)
def test_layers_in_flat_names(name: str, layer: str | None) -> None:
    assert flat_layer_name(name) == layer


@pytest.mark.parametrize(
    ("name", "stem"), [("resnet-50", "resnet_50"), ("random", "random_"), ("torch", "torch_"), ("3d", "model_3d")]
)
def test_a_file_hides_no_module_that_others_import(name: str, stem: str) -> None:
    assert file_stem(name) == stem
