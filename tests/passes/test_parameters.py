"""What exporters do to parameters, undone; and what only looks like it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxlift.ir.metadata import FOLDED_FROM
from onnxlift.passes import constant_folding, copied_weights, folded_rows, folded_transposes, zero_biases
from onnxlift.passes.edit import is_parameter

from .graphs import Array, normal_form, operators, parse, proto_of, run


def with_tensors(text: str, **tensors: Array) -> onnx.ModelProto:
    model = parse(text)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in tensors.items())
    return model


def random(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


CONV = "g (float[n, 3, 5, 5] x) => (float[n, 4, 3, 3] y) {{ {bias} y = Conv(x, w, b) }}"


def test_zeros_of_the_graph_are_no_bias() -> None:
    text = CONV.format(bias="s = Constant <value_ints = [4]> () b = ConstantOfShape <value = float {0}> (s)")
    model = normal_form(with_tensors(text, w=random(4, 3, 3, 3)))
    constant_folding.run(model)
    assert zero_biases.run(model) == 1
    (node,) = model.graph
    assert len(node.inputs) == 2


def test_a_parameter_that_is_zero_now_stays() -> None:
    model = normal_form(with_tensors(CONV.format(bias=""), w=random(4, 3, 3, 3), b=np.zeros(4, np.float32)))
    assert zero_biases.run(model) == 0


def test_a_constant_that_is_not_zero_stays() -> None:
    bias = "b = Constant <value_floats = [0.0, 0.0, 0.5, 0.0]> ()"
    model = normal_form(with_tensors(CONV.format(bias=bias), w=random(4, 3, 3, 3)))
    assert zero_biases.run(model) == 0


HEAD = "g (int64[n] i) => (float[n, 7] y) { e = Gather(table, i) y = MatMul(e, val_3) }"


def head(copy: Array, name: str = "val_3") -> onnx.ModelProto:
    return with_tensors(HEAD.replace("val_3", name), table=random(7, 4), **{name: copy})


def test_a_transposed_copy_is_the_parameter() -> None:
    proto = head(np.ascontiguousarray(random(7, 4).T))
    model = normal_form(proto)
    assert folded_transposes.run(model) == 1
    assert operators(model) == ["Gather", "Transpose", "MatMul"]
    assert model.graph[1].inputs[0] is model.graph[0].inputs[0]
    feeds = {"i": np.array([3, 0, 6])}
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])


def test_a_transposed_copy_in_a_gemm_is_the_parameter() -> None:
    text = "g (int64[n] i) => (float[n, 7] y) { e = Gather(table, i) y = Gemm<transB=0>(e, val_3, b) }"
    proto = with_tensors(text, table=random(7, 4), val_3=np.ascontiguousarray(random(7, 4).T), b=random(7))
    model = normal_form(proto)
    assert folded_transposes.run(model) == 1
    assert model.graph[1].inputs[1] is model.graph[0].inputs[0]
    feeds = {"i": np.array([3, 0, 6])}
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])


def test_a_transposed_copy_that_the_optimiser_named_is_the_parameter() -> None:
    model = normal_form(head(np.ascontiguousarray(random(7, 4).T), "permute"))
    assert folded_transposes.run(model) == 0
    model.graph.initializers["permute"].metadata_props[FOLDED_FROM] = "['table']"
    assert folded_transposes.run(model) == 1


def test_one_other_element_makes_another_matrix() -> None:
    copy = np.ascontiguousarray(random(7, 4).T)
    copy[-1, -1] += 1
    assert folded_transposes.run(normal_form(head(copy))) == 0


def test_a_matrix_with_a_name_of_its_own_is_a_parameter_of_its_own() -> None:
    assert folded_transposes.run(normal_form(head(np.ascontiguousarray(random(7, 4).T), "head"))) == 0


def test_a_model_without_initialisers_has_its_weights_in_constants() -> None:
    """As Paddle writes them. Where a weight is an initialiser, constants are none."""
    body = "fc_w = Constant <value = float[2, 3] {1, 2, 3, 4, 5, 6}> () s = Constant <value_float = 2.0> ()"
    text = f"g (float[n, 2] x) => (float[n, 3] y) {{ {body} h = MatMul(x, fc_w) y = Mul(h, s) }}"
    assert [is_parameter(value) for value in normal_form(parse(text)).graph.initializers.values()] == [True, False]
    model = normal_form(with_tensors(text.replace("y = Mul(h, s)", "y = MatMul(h, w)"), w=random(3, 3)))
    assert [name for name, value in model.graph.initializers.items() if is_parameter(value)] == ["w"]


TWICE = (
    "g (float[n, 4] x) => (float[n, 4] y) { h = MatMul(x, val_1) a = Add(h, b1) k = MatMul(a, val_2) y = Add(k, b2) }"
)


def twice(copy: Array, names: tuple[str, ...] = ("", ""), text: str = TWICE) -> onnx.ModelProto:
    """A layer that is perhaps called twice. `names` are those of its products."""
    model = with_tensors(
        text, val_1=random(4, 4), val_2=copy, fc_b=random(4), **{"b2": random(4)} if "b2" in text else {}
    )
    for node, name in zip([n for n in model.graph.node if n.op_type == "MatMul"], names, strict=True):
        node.name = name
    return model


SHARED = TWICE.replace("b1", "fc_b").replace("b2", "fc_b")
OTHER = TWICE.replace("b1", "fc_b")


def copies(proto: onnx.ModelProto) -> int:
    """How many copies are replaced; the numbers stay."""
    model, feeds = normal_form(proto), {"x": random(3, 4)}
    found = copied_weights.run(model)
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])
    return found


def test_a_layer_that_is_called_twice_has_one_matrix() -> None:
    assert copies(twice(random(4, 4), text=SHARED)) == 1
    assert copies(twice(random(4, 4), ("/block/fc/MatMul", "/block/fc_1/MatMul"), OTHER)) == 1


def test_layers_that_are_told_apart_keep_their_matrices() -> None:
    assert copies(twice(random(4, 4), text=OTHER)) == 0
    assert copies(twice(random(4, 4), ("/block/fc/MatMul", "/block/head/MatMul"), OTHER)) == 0


def test_matrices_that_differ_are_not_of_one_layer() -> None:
    other = random(4, 4)
    other[-1, -1] += 1
    assert copies(twice(other, text=SHARED)) == 0


def test_matrices_that_are_equal_by_chance_stay() -> None:
    proto = twice(np.ones((4, 4), np.float32), text=SHARED)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((4, 4), np.float32), "val_1"))
    assert copies(proto) == 0


def test_a_matrix_with_a_name_is_no_copy() -> None:
    proto = twice(random(4, 4), text=SHARED)
    for tensor in proto.graph.initializer[:2]:
        for node in proto.graph.node:
            node.input[:] = [f"w.{name}" if name == tensor.name else name for name in node.input]
        tensor.name = f"w.{tensor.name}"
    assert copies(proto) == 0


@pytest.mark.parametrize(
    ("names", "numbers", "expected"),
    [
        (("/block/fc/MatMul", "/block/MatMul"), random(4, 4), 1),
        (("/MatMul", "/block/fc/MatMul"), random(4, 4), 1),
        (("/enc/fc/MatMul", "/dec/MatMul"), random(4, 4), 1),  # `dec` has a norm, and so is no layer
        (("/enc/fc/MatMul", "/head/MatMul"), random(4, 4), 0),
        (("/block/fc/MatMul", "/block/MatMul"), np.ones((4, 4), np.float32), 0),
    ],
)
def test_a_function_reads_the_matrix_of_a_layer(names: tuple[str, ...], numbers: Array, expected: int) -> None:
    body = "val_2 = Identity(val_1) h = MatMul(x, val_1) k = MatMul(h, val_2) y = Mul(k, norm)"
    model = with_tensors(f"g (float[n, 4] x) => (float[n, 4] y) {{ {body} }}", val_1=numbers, norm=random(4))
    for node, name in zip(model.graph.node[1:3], names, strict=True):
        node.name = name
    model.graph.node[-1].input[1] = model.graph.initializer[1].name = "dec.norm.weight"
    assert copies(model) == expected


ROWS = "g (int64[n] i) => (float[n, 3] y) { e = Gather(table, i) y = MatMul(e, val_3) }"
GEMM = ROWS.replace("MatMul(e", "Gemm<transB=1>(e")


@pytest.mark.parametrize(("text", "start"), [(ROWS, 0), (ROWS, 4), (GEMM, 2)])
def test_rows_of_a_parameter_are_taken_from_it(text: str, start: int) -> None:
    rows = random(7, 4)[start : start + 3]
    proto = with_tensors(text, table=random(7, 4), val_3=rows if "Gemm" in text else np.ascontiguousarray(rows.T))
    model = normal_form(proto)
    assert folded_rows.run(model) == 1
    assert operators(model) == ["Gather", "Slice", "Transpose", "MatMul"]
    feeds = {"i": np.array([3, 0, 6])}
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])


def test_rows_with_another_number_or_a_name_or_of_one_number_stay() -> None:
    rows = np.ascontiguousarray(random(7, 4)[:3].T)
    assert folded_rows.run(normal_form(with_tensors(ROWS, table=random(7, 4), val_3=rows))) == 1
    assert folded_rows.run(normal_form(with_tensors(ROWS.replace("val_3", "w"), table=random(7, 4), w=rows))) == 0
    other = rows.copy()
    other[-1, -1] += 1
    assert folded_rows.run(normal_form(with_tensors(ROWS, table=random(7, 4), val_3=other))) == 0
    ones = np.ones((7, 4), np.float32)
    assert folded_rows.run(normal_form(with_tensors(ROWS, table=ones, val_3=ones[:3].T.copy()))) == 0


TURNED_TWICE = "g (float[n, 4] x) => (float[n, 4] y) { h = MatMul(x, val_0) y = MatMul(h, val_1) }"


def test_a_parameter_that_was_transposed_twice_has_its_name_again() -> None:
    ones = np.ones((4, 3), np.float32)
    for matrix, other, expected in (
        (random(4, 3), random(4, 3).T.copy(), 1),
        (random(4, 3), random(4, 3).T + 1, 0),
        (ones, ones.T.copy(), 0),  # by chance: it may have been computed in any way
    ):
        proto, feeds = with_tensors(TURNED_TWICE, val_0=matrix, val_1=other), {"x": random(3, 4)}
        (before,) = run(proto, feeds)
        model = normal_form(proto)
        for name, note in (("val_0", "['fc.weight']"), ("val_1", "['fc.weight', 't']")):
            model.graph.initializers[name].metadata_props[FOLDED_FROM] = note
        assert (folded_transposes.run(model) > 0) == bool(expected)
        assert ("fc.weight" in model.graph.initializers) == bool(expected)
        np.testing.assert_array_equal(run(proto_of(model), feeds)[0], before)


def convolutions(bias: Array) -> onnx.ModelProto:
    """A convolution that is perhaps called twice, with a batch norm folded into it each time."""
    text = "g (float[1, 4, n] x) => (float[1, 4, m] y) { h = Conv(x, val_1, val_2) y = Conv(h, val_3, val_4) }"
    kernel = random(4, 4, 2)
    model = with_tensors(text, val_1=kernel, val_2=np.arange(4, dtype=np.float32), val_3=kernel, val_4=bias)
    for node, name in zip(model.graph.node, ("/block/conv/Conv", "/block/conv_1/Conv"), strict=True):
        node.name = name
    return model


def test_a_convolution_that_is_called_twice_has_one_kernel_and_one_bias() -> None:
    for bias, expected in ((np.arange(4), 1), (np.arange(1, 5), 0)):
        proto = convolutions(bias.astype(np.float32))
        model, feeds = normal_form(proto), {"x": random(1, 4, 7)}
        assert copied_weights.run(model) == expected
        assert len({node.inputs[2] for node in model.graph}) == 2 - expected
        np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])
