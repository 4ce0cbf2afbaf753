from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import onnxlift

from .recognising import found, parse, simplified


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
