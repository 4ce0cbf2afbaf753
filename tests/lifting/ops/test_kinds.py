"""The table of layer kinds, and operators with weights: all that is known of one is said in one place."""

from __future__ import annotations

import inspect

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

import onnxlift
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.code.expr import F
from onnxlift.lifting.ops import kinds, registry
from onnxlift.lifting.ops.kinds import REQUIRED, LayerKind, layer_kind, layer_kinds, signature
from onnxlift.lifting.ops.layer_nodes import family_of, function_weights, is_weighted, kind_of, weight_places
from onnxlift.lifting.ops.node import Node
from onnxlift.lifting.ops.operand import Constant, Tensor
from onnxlift.lifting.ops.registry import op

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
IDS = np.array([[0, 4], [2, 2]])


@pytest.fixture(autouse=True)
def unchanged_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_builtin()
    monkeypatch.setattr(registry, "_TABLE", dict(registry._TABLE))
    monkeypatch.setattr(kinds, "_TABLE", dict(kinds._TABLE))
    monkeypatch.setattr(kinds, "_BY_FUNCTION", dict(kinds._BY_FUNCTION))


def declare_bag() -> None:
    @onnxlift.op(
        "Bag",
        domain="com.acme",
        layer=LayerKind("EmbeddingBag", signature("num_embeddings", "embedding_dim", mode="mean"), word="bag"),
        weights=("table",),
    )
    def Bag(n: Node, table: Constant, ids: Tensor) -> object:
        rows, width = table.const.shape
        return n.layer("EmbeddingBag", {"weight": table}, num_embeddings=rows, embedding_dim=width, mode="sum")(ids)


def bags(*names: str, producer: str = "") -> ModelProto:
    """The sum of one bag for each of these tables; a node has the name of the module that its table is in."""
    nodes = []
    for i, name in enumerate(names):
        module = name.rpartition(".")[0].replace(".", "/")
        node = f"/{module}/Bag" if module else f"n{i}"
        nodes.append(helper.make_node("Bag", [name, "ids"], [f"y{i}"], node, domain="com.acme"))
    nodes.append(helper.make_node("Sum", [f"y{i}" for i in range(len(names))], ["y"], "/Sum"))
    graph = helper.make_graph(
        nodes,
        "bags",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(TABLE + i, name) for i, name in enumerate(names)],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(graph, opset_imports=opsets, producer_name=producer, ir_version=10)


def test_a_users_operator_with_a_layer_of_its_own_is_a_member_with_its_parameters() -> None:
    declare_bag()
    lifted = onnxlift.lift(bags("encoder.words.weight", "encoder.tags.weight"))
    assert 'self.words = nn.EmbeddingBag(5, 3, mode="sum")' in lifted.source, lifted.source
    assert {*lifted.state_dict} == {"encoder.words.weight", "encoder.tags.weight"}
    expected = (TABLE[IDS] + TABLE[IDS] + 1).sum(1)
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(IDS)).detach().numpy(), expected)


def test_a_layer_that_nobody_named_is_called_by_the_word_of_its_kind() -> None:
    declare_bag()
    lifted = onnxlift.lift(bags("a", "b"))
    assert 'self.bag = nn.EmbeddingBag(5, 3, mode="sum")' in lifted.source, lifted.source


def test_a_kind_of_the_user_goes_before_that_of_onnxlift() -> None:
    own = LayerKind("LayerNorm", signature("normalized_shape"), word="ln")

    @op("Own", domain="com.acme", layer=own)
    def Own(n: Node, x: Tensor) -> object:
        return x

    assert layer_kind("LayerNorm") is own


def test_weights_with_the_names_of_a_function_may_be_parameters_of_the_module() -> None:
    """PyTorch's `F.embedding_bag(ids, self.lookup)`: no layer calls its weight `lookup`."""

    @op("Bag", domain="com.acme", layer="Embedding", weights={"table": "weight"})
    def Bag(n: Node, table: Tensor, ids: Tensor) -> object:
        assert not isinstance(table, Constant)
        return F.embedding_bag(ids, table, mode="sum")

    lifted = onnxlift.lift(bags("words.lookup", "words.other", producer="pytorch"))
    assert {*lifted.state_dict} == {"words.lookup", "words.other"}


def test_weights_must_be_inputs() -> None:
    with pytest.raises(TypeError, match="Bag has no input tabel"):

        @op("Bag", domain="com.acme", weights=("tabel",))
        def Bag(n: Node, table: Tensor, ids: Tensor) -> object:
            return table[ids]


def test_a_layer_that_is_not_declared_is_told() -> None:
    with pytest.raises(LookupError, match=r"no layer kind 'Nonesuch': declare it beside the operator"):
        layer_kind("Nonesuch")


@pytest.mark.parametrize("kind", [k for k in layer_kinds() if k.constructor.startswith("nn.")], ids=lambda k: k.name)
def test_signatures_are_those_of_torch(kind: LayerKind) -> None:
    theirs = inspect.signature(getattr(torch.nn, kind.name)).parameters
    if "args" in theirs:  # recurrent layers take what `RNNBase` does, and `nn.Identity` anything
        return
    assert [name for name in theirs if name in kind.signature] == [*kind.signature]
    for name, default in kind.signature.items():
        if default is not REQUIRED:
            assert theirs[name].default == default, name


@pytest.mark.parametrize("kind", [k for k in layer_kinds() if k.function], ids=lambda k: k.name)
def test_functions_are_those_of_torch(kind: LayerKind) -> None:
    function, *arguments = kind.function
    assert hasattr(torch.nn.functional, function) or hasattr(torch.Tensor, function)
    assert {*arguments} <= {*kind.signature}


def node(op_type: str, inputs: int = 3, domain: str = "") -> ir.Node:
    return ir.Node(domain, op_type, [ir.Value(name=f"i{i}") for i in range(inputs)])


def test_what_a_node_is_as_a_layer() -> None:
    assert weight_places(node("Conv")) == function_weights(node("Conv")) == {1: "weight", 2: "bias"}
    assert (family_of(node("Conv")), is_weighted(node("Conv"))) == ("convolution", True)
    assert weight_places(node("LSTM", 4)) == {1: "", 2: "", 3: ""}
    assert function_weights(node("LSTM", 4)) == {}  # PyTorch has it as no function
    assert [*weight_places(node("LSTMCell", 7, DOMAIN))] == [3, 4, 5, 6]
    assert (family_of(node("Relu", 1)), is_weighted(node("Relu", 1))) == ("activation", False)
    kind = kind_of(node("BatchNormalization", 5))
    assert kind is not None and (kind.word, kind.class_word) == ("bn", "BN")


def test_an_operator_of_another_domain_is_another_one() -> None:
    assert not is_weighted(node("Conv", domain="com.acme"))
    assert family_of(node("Conv", domain="com.acme")) == "other"
