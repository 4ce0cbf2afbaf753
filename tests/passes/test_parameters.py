"""What exporters do to parameters, undone; and what only looks like it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlift.passes import constant_folding, folded_transposes, zero_biases
from onnxlift.passes.edit import is_parameter

from .graphs import normal_form, operators, parse, proto_of, run


def with_tensors(text: str, **tensors: np.ndarray) -> onnx.ModelProto:  # type: ignore[type-arg]
    model = parse(text)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in tensors.items())
    return model


def random(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
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


def head(copy: np.ndarray, name: str = "val_3") -> onnx.ModelProto:  # type: ignore[type-arg]
    return with_tensors(HEAD.replace("val_3", name), table=random(7, 4), **{name: copy})


def test_a_transposed_copy_is_the_parameter() -> None:
    proto = head(np.ascontiguousarray(random(7, 4).T))
    model = normal_form(proto)
    assert folded_transposes.run(model) == 1
    assert operators(model) == ["Gather", "Transpose", "MatMul"]
    assert model.graph[1].inputs[0] is model.graph[0].inputs[0]
    feeds = {"i": np.array([3, 0, 6])}
    np.testing.assert_array_equal(run(proto_of(model), feeds)[0], run(proto, feeds)[0])


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
