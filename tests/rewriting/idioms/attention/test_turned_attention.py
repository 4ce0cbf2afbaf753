from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.attention import turned_attention
from rewriting.idioms.recognising import found, parse, simplified
from rewriting.running_stages import normalise

IMAGE = "float[batch, 8, seq] q, float[batch, 8, keys] k, float[batch, 6, keys] v"
UPRIGHT = "qt = Transpose <perm = [0, 2, 1]> (q) s = MatMul(qt, k) c = Mul(s, scale) p = Softmax <axis = 2> (c)"
COLUMNS = "kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(kt, q) c = Div(s, root)"
RIGHT = "pt = Transpose <perm = [0, 2, 1]> (p) y = MatMul(v, pt)"
OUTPUT = "float[batch, 6, seq] y"
ROOT = math.sqrt(8)


def model(body: str, inputs: str = IMAGE, output: str = OUTPUT, opset: int = 18) -> onnx.ModelProto:
    numbers = {"scale": 1 / ROOT, "root": ROOT}
    used = {name: number for name, number in numbers.items() if name in body}
    return parse(f"g ({inputs}) => ({output}) {{ {body} }}", opset, **used)


def attention(proto: onnx.ModelProto) -> tuple[list[str], dict[str, object]]:
    """What the transposes before the one attention transpose, and its attributes."""
    (node,) = [node for node in simplified(proto).graph if node.op_type == "Attention"]
    makers = [value.producer() for value in node.inputs if value is not None]
    sources = [str(maker.inputs[0].name) for maker in makers if maker is not None and maker.inputs[0] is not None]
    return sources, {name: each.value for name, each in node.attributes.items()}


def test_weights_on_the_right() -> None:
    proto = model(f"{UPRIGHT} {RIGHT}")
    assert sorted(found(proto)) == ["Transpose"] * 4 + ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {})
    assert "attn.transpose(1, 2)" in onnxlift.lift(proto).source


def test_softmax_over_the_columns() -> None:
    proto = model(f"{COLUMNS} p = Softmax <axis = 1> (c) y = MatMul(v, p)")
    assert sorted(found(proto)) == ["Transpose"] * 4 + ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {})


def test_softmax_over_the_columns_without_a_scale() -> None:
    proto = model(
        "kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(kt, q) p = Softmax <axis = -2> (s) y = MatMul(v, p)"
    )
    assert "onnxlift.Attention" in found(proto)
    assert attention(proto) == (["q", "k", "v"], {"scale": 1.0})


def test_mask_is_that_of_the_scores() -> None:
    body = f"{UPRIGHT.replace('(c)', '(m)').replace('p =', 'm = Add(c, mask) p =')} {RIGHT}"
    proto = model(body, f"{IMAGE}, float[seq, keys] mask")
    assert "onnxlift.Attention" in found(proto)
    assert attention(proto)[0] == ["q", "k", "v"]


def test_four_axes() -> None:
    body = """qt = Transpose <perm = [0, 1, 3, 2]> (q) s = MatMul(qt, k) p = Softmax <axis = 3> (s)
        pt = Transpose <perm = [0, 1, 3, 2]> (p) y = MatMul(v, pt)"""
    inputs = "float[batch, 3, 8, seq] q, float[batch, 3, 8, keys] k, float[batch, 3, 6, keys] v"
    assert "onnxlift.Attention" in found(model(body, inputs, "float[batch, 3, 6, seq] y"))


def test_transpose_that_follows_goes_away() -> None:
    proto = model(f"{UPRIGHT} {RIGHT.replace('y =', 't =')} y = Transpose <perm = [0, 2, 1]> (t)", IMAGE, Y_UPRIGHT)
    assert sorted(found(proto)) == ["Transpose"] * 3 + ["onnxlift.Attention"]


Y_UPRIGHT = "float[batch, seq, 6] y"


def test_product_that_is_read_twice_is_transposed_back() -> None:
    body = f"{UPRIGHT} {RIGHT} z = Transpose <perm = [0, 2, 1]> (y)"
    assert "onnxlift.Attention" in found(model(body, IMAGE, f"{OUTPUT}, float[batch, seq, 6] z"))


def test_values_that_were_transposed_are_those_before() -> None:
    body = f"{UPRIGHT} vt = Transpose <perm = [0, 2, 1]> (v) {RIGHT.replace('(v,', '(vt,')}"
    proto = model(body, IMAGE.replace("6, keys", "keys, 6"))
    assert sorted(found(proto)) == ["Transpose"] * 3 + ["onnxlift.Attention"]


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        (f"{UPRIGHT} {RIGHT}", f"{OUTPUT}, float[batch, seq, keys] p"),
        (f"{UPRIGHT} {RIGHT}", f"{OUTPUT}, float[batch, keys, seq] pt"),
        (f"{UPRIGHT} {RIGHT}", f"{OUTPUT}, float[batch, seq, keys] s"),
        (f"{COLUMNS} p = Softmax <axis = 1> (c) y = MatMul(v, p)", f"{OUTPUT}, float[batch, keys, seq] s"),
        (f"{COLUMNS} p = Softmax <axis = 1> (c) y = MatMul(v, p)", f"{OUTPUT}, float[batch, keys, seq] c"),
        (f"{COLUMNS} p = Softmax <axis = 1> (c) y = MatMul(v, p)", f"{OUTPUT}, float[batch, keys, seq] p"),
    ],
)
def test_not_if_weights_or_scores_are_read(body: str, outputs: str) -> None:
    operators = found(model(body, IMAGE, outputs))
    assert "onnxlift.Attention" not in operators
    assert operators.count("MatMul") == 2


def test_not_if_the_softmax_goes_over_the_other_axis() -> None:
    assert "onnxlift.Attention" not in found(model(f"{UPRIGHT.replace('axis = 2', 'axis = 1')} {RIGHT}"))
    proto = model(f"{COLUMNS} p = Softmax <axis = 2> (c) y = MatMul(v, p)")
    assert "onnxlift.Attention" not in found(proto)


def test_not_if_the_transpose_does_something_else() -> None:
    body = """s = MatMul(q, k) p = Softmax <axis = 2> (s) pt = Transpose <perm = [1, 0, 2]> (p) y = MatMul(v, pt)"""
    inputs = "float[3, 4, 8] q, float[3, 8, 4] k, float[4, 6, 3] v"
    assert found(model(body, inputs, "float[4, 6, 4] y")) == ["MatMul", "Softmax", "Transpose", "MatMul"]


def test_not_if_the_softmax_is_of_something_else() -> None:
    body = "p = Softmax <axis = 1> (k) pt = Transpose <perm = [0, 2, 1]> (k) y = MatMul(p, pt)"
    assert "onnxlift.Attention" not in found(model(body, "float[batch, 8, keys] k", "float[batch, 8, 8] y"))
    body = "p = Softmax <axis = 1> (k) y = MatMul(v, p)"
    proto = model(body, "float[batch, keys, seq] k, float[batch, 6, keys] v")
    assert found(proto) == ["Softmax", "MatMul"]


def test_not_if_scores_have_fewer_axes_than_values() -> None:
    body = f"{COLUMNS.replace('[0, 2, 1]', '[1, 0]')} p = Softmax <axis = 0> (c) y = MatMul(v, p)"
    proto = model(body, "float[8, seq] q, float[8, keys] k, float[batch, 6, keys] v")
    assert "onnxlift.Attention" not in found(proto)


def test_not_before_opset_13_where_a_softmax_takes_all_axes_that_follow() -> None:
    body = f"{COLUMNS} p = Softmax <axis = 1> (c) y = MatMul(v, p)"
    assert "onnxlift.Attention" not in found(model(body, opset=12))


def turned(proto: onnx.ModelProto) -> int:
    """How many attentions are turned, in a model that is not simplified."""
    graph = load(proto)
    normalise(graph)
    return turned_attention.run(graph)


RIGHT_OF_COLUMNS = f"{COLUMNS} p = Softmax <axis = -2> (c) y = MatMul(v, p)"


@pytest.mark.parametrize(
    ("body", "inputs", "output"),
    [
        (
            f"{UPRIGHT} {RIGHT}".replace("[0, 2, 1]", "[1, 0]").replace("axis = 2", "axis = 1"),
            "float[8, seq] q, float[8, keys] k, float[6, keys] v",
            "float[6, seq] y",
        ),
        (
            RIGHT_OF_COLUMNS.replace("[0, 2, 1]", "[1, 0]"),
            "float[8, seq] q, float[8, keys] k, float[batch, 6, keys] v",
            OUTPUT,
        ),
        (RIGHT_OF_COLUMNS, IMAGE.replace("float[batch, 8, seq] q", "float[8, seq] q"), OUTPUT),
        (f"{UPRIGHT} {RIGHT}", IMAGE.replace("float[batch, 8, keys] k", "float[8, keys] k"), OUTPUT),
    ],
    ids=["two axes", "scores with two axes", "queries with two axes", "keys with two axes"],
)
def test_not_with_other_numbers_of_axes(body: str, inputs: str, output: str) -> None:
    proto = model(body, inputs, output)
    assert turned(proto) == 0
    assert "onnxlift.Attention" not in found(proto)


def test_not_if_a_number_gives_the_weights_more_axes() -> None:
    body = f"{UPRIGHT.replace('(c)', '(m)').replace('p =', 'm = Where(mask, c, lowest) p =')} {RIGHT}"
    body = body.replace("axis = 2", "axis = 3").replace(
        "pt = Transpose <perm = [0, 2, 1]>", "pt = Transpose <perm = [0, 1, 3, 2]>"
    )
    text = f"g ({IMAGE}, bool[seq, keys] mask) => (float[1, batch, 6, seq] y) {{ {body} }}"
    proto = parse(text, scale=1 / ROOT, lowest=np.full((1, 1, 1, 1), -3e38, np.float32))
    assert turned(proto) == 0
    assert "onnxlift.Attention" not in found(proto)


@pytest.mark.parametrize(
    ("after", "output"),
    [
        ("y = Neg(t)", OUTPUT),
        ("y = Transpose <perm = [1, 0, 2]> (t)", "float[6, batch, seq] y"),
        ("y = Transpose <perm = [2, 1, 0]> (t)", "float[seq, 6, batch] y"),
    ],
    ids=["no transpose", "of other axes", "of all axes"],
)
def test_another_node_that_follows_stays(after: str, output: str) -> None:
    proto = model(f"{UPRIGHT} {RIGHT.replace('y =', 't =')} {after}", IMAGE, output)
    assert turned(proto) == 1
    assert "onnxlift.Attention" in found(proto)


def test_a_transpose_that_follows_in_a_branch_stays() -> None:
    branches = """y = If (flag) <then_branch = inside () => (float[batch, seq, 6] inner)
        { inner = Transpose <perm = [0, 2, 1]> (t) },
        else_branch = outside () => (float[batch, seq, 6] other) { other = Transpose <perm = [0, 2, 1]> (w) }>"""
    body = f"{UPRIGHT} {RIGHT.replace('y =', 't =')} {branches}"
    proto = model(body, f"{IMAGE}, float[batch, 6, seq] w, bool flag", Y_UPRIGHT)
    assert turned(proto) == 1
    assert simplified(proto).graph.outputs[0].name == "y"


def test_values_that_were_transposed_otherwise_are_transposed_again() -> None:
    body = f"{UPRIGHT} vt = Transpose <perm = [1, 0, 2]> (v) {RIGHT.replace('(v,', '(vt,')}"
    assert "onnxlift.Attention" in found(
        model(body, IMAGE.replace("float[batch, 6, keys] v", "float[6, batch, keys] v"))
    )
