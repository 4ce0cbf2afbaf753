"""Lookups in tables of parameters: which are embeddings, and which may have negative indices."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.metadata import FOLDED_FROM
from onnxlift.rewriting.idioms.layers import embedding
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise


def lookup(body: str, inputs: str = "int64[batch, seq] i", **more: object) -> onnx.ModelProto:
    text = f"g ({inputs}) => (float[a, b, 4] y) {{ {body} }}"
    return parse(text, 18, table=(9, 4), **more)  # type: ignore[arg-type]


def rename(model: onnx.ModelProto, old: str, new: str) -> onnx.ModelProto:
    for tensor in model.graph.initializer:
        tensor.name = new if tensor.name == old else tensor.name
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
    return model


def test_ids_of_the_caller() -> None:
    assert found(lookup("y = Gather(table, i)")) == ["onnxlift.Embedding"]


def test_positions() -> None:
    body = "s = Shape(i) n = Gather(s, one) r = Range(zero, n, one) p = Unsqueeze(r, axes) y = Gather(table, p)"
    numbers = {"zero": np.int64(0), "one": np.int64(1), "axes": np.array([0])}
    assert "onnxlift.Embedding" in found(lookup(body, **numbers))


@pytest.mark.parametrize(
    ("name", "indices", "expected"),
    [
        ("/Gather", [1, 4, 7], "Gather"),
        ("/words/Gather", [1, 4, 7], "Embedding"),
        ("", [1, 4, 7], "Embedding"),
        ("/Gather", [[1, 4, 7]], "Embedding"),
    ],
)
def test_a_list_of_rows_is_no_lookup_of_the_module_around(name: str, indices: list[object], expected: str) -> None:
    model = rename(
        lookup("z = Gather(table, j) y = Add(z, i)", "float[1, 1, 4] i", j=np.array(indices)), "table", "words.weight"
    )
    model.graph.node[0].name = name
    assert [node.op_type for node in simplified(model).graph] == [expected, "Add"]


def test_computed_indices_may_be_negative() -> None:
    body = "j = Sub(i, one) y = Gather(table, j)"
    model = lookup(body, one=np.int64(1))
    assert found(model) == ["Sub", "Gather"]
    assert [node.op_type for node in simplified(rename(model, "table", "words.weight")).graph] == ["Sub", "Embedding"]


def test_a_table_of_another_name_is_no_layer() -> None:
    """`attention.table[index]`: a layer would call it `attention.table.weight`."""
    model = rename(lookup("y = Gather(table, i)"), "table", "attention.table")
    assert found(model) == ["Gather"]
    assert "attention.table" in onnxlift.lift(model).state_dict


def test_descending_positions_are_negative() -> None:
    body = """s = Shape(i) n = Gather(s, one) m = Neg(n) r = Range(zero, m, minus)
        p = Unsqueeze(r, axes) y = Gather(table, p)"""
    numbers = {"zero": np.int64(0), "one": np.int64(1), "minus": np.int64(-1)}
    operators = found(lookup(body, axes=np.array([0]), **numbers))
    assert operators.count("Gather") == 2 and "onnxlift.Embedding" not in operators


def test_other_axis_stays() -> None:
    assert found(parse("g (int64[2] i) => (float[9, 2] y) { y = Gather <axis = 1> (table, i) }", table=(9, 7))) == [
        "Gather"
    ]


def test_single_row_stays() -> None:
    assert found(parse("g (int64 i) => (float[4] y) { y = Gather(table, i) }", table=(9, 4))) == ["Gather"]


def test_table_of_other_rank_stays() -> None:
    model = parse("g (int64[2] i) => (float[2, 4, 3] y) { y = Gather(table, i) }", table=(9, 4, 3))
    assert found(model) == ["Gather"]


def test_integer_table_stays() -> None:
    model = parse("g (int64[2] i) => (int64[2, 4] y) { y = Gather(t, i) }", t=np.arange(36).reshape(9, 4))
    assert found(model) == ["Gather"]


def test_a_negative_index_is_an_error_and_no_other_row() -> None:
    module = onnxlift.lift(lookup("y = Gather(table, i)")).module()
    with pytest.raises(IndexError):
        module(torch.tensor([[-1]]))


@pytest.mark.parametrize(
    ("body", "inputs", "is_embedding"),
    [
        ("j = Cast <to = 7> (i)", "int32[batch, seq] i", True),
        ("j = Cast <to = 7> (i)", "float[batch, seq] i", False),
        ("c = Less(i, k) j = Cast <to = 7> (c)", "float[batch, seq] i, float[seq] k", True),
        ("a = Abs(i) j = Add(a, i)", "int64[batch, seq] i", True),
        ("a = Neg(i) j = Add(i, a)", "int64[batch, seq] i", False),
    ],
    ids=["other integers", "floats", "truth values", "all that is added", "one of those that are added"],
)
def test_indices_that_are_computed(body: str, inputs: str, is_embedding: bool) -> None:
    operators = found(lookup(f"{body} y = Gather(table, j)", inputs))
    assert operators[-1] == ("onnxlift.Embedding" if is_embedding else "Gather")


@pytest.mark.parametrize(
    ("indices", "is_embedding"),
    [([[1, 0, 7]], True), ([[1, -2, 7]], False), (np.zeros((2, 0), np.int64), True)],
    ids=["rows", "rows from the end", "no rows"],
)
def test_indices_that_are_known(indices: list[object], is_embedding: bool) -> None:
    operators = found(lookup("z = Gather(table, j) y = Add(z, i)", "float[1, 1, 4] i", j=np.array(indices)))
    assert ("onnxlift.Embedding" in operators) == is_embedding


def test_indices_of_a_loop_may_count_down() -> None:
    """What a loop carries is an input of its body, but none of the model."""
    body = """n = Constant <value_int = 3> () y_last, y = Loop(n, , i) <body = rows
        (int64 count, bool before, int64[4] j) => (bool after, int64[4] less, float[4, 5] row)
        { after = Identity(before) one = Constant <value_int = 1> () less = Sub(j, one) row = Gather(table, j) }>"""
    model = parse(f"g (int64[4] i) => (float[k, 4, 5] y) {{ {body} }}", table=(9, 5))
    assert found(model)
    assert "nn.Embedding" not in onnxlift.lift(model).source


@pytest.mark.parametrize(("domain", "is_embedding"), [("", True), ("acme", False)])
def test_operators_of_other_domains_may_give_negative_numbers(domain: str, is_embedding: bool) -> None:
    graph = load(lookup("j = Abs(i) y = Gather(table, j)", "int64[batch, seq] i"))
    normalise(graph)
    graph.graph[0].domain = domain
    assert embedding.run(graph) == is_embedding


@pytest.mark.parametrize(("name", "expected"), [("weight", "onnxlift.Embedding"), ("table", "Gather")])
def test_the_table_of_an_embedding_that_was_exported_by_itself(name: str, expected: str) -> None:
    model = rename(lookup("y = Gather(table, i)"), "table", name)
    model.graph.node[0].name = "/Gather"
    assert found(model) == [expected]


@pytest.mark.parametrize("shape", [(9, 0), (0, 4)])
def test_an_empty_table(shape: tuple[int, int]) -> None:
    model = parse(f"g (int64[batch, 0] i) => (float[batch, 0, {shape[1]}] y) {{ y = Gather(table, i) }}", table=shape)
    (node,) = simplified(model).graph
    assert node.op_type == "Embedding"
    rows = onnxlift.lift(model).module()(torch.zeros((2, 0), dtype=torch.int64))
    assert rows.shape == (2, 0, shape[1])


def test_a_table_of_which_all_rows_were_looked_up() -> None:
    body = "s = Sin(embedding) a = Add(x, s) y = Mul(a, embedding)"
    model = parse(f"g (float[batch, 9, 4] x) => (float[batch, 9, 4] y) {{ {body} }}", embedding=(9, 4))
    note = repr(["arange", "words.weight", "val_1"])
    model.graph.value_info.add(name="embedding").metadata_props.add(key=FOLDED_FROM, value=note)
    operators = found(model)
    assert operators.count("onnxlift.EmbeddingTable") == 2 and "onnxlift.Embedding" not in operators
    assert "nn.Embedding(9, 4)" in onnxlift.lift(model).source
