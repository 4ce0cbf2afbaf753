"""`nn.MultiheadAttention`: a packed projection, attention in heads, and a projection of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxlift
from onnxlift.rewriting.idioms.attention import multihead_attention
from rewriting.idioms.attention.multihead_graphs import (
    CROSS,
    K0,
    KEYS,
    LAYER,
    TEXT,
    THREE,
    V0,
    VALUES,
    ZEROS,
    appended,
    cross,
    layer,
    masked,
    named,
    three,
    weighted,
)
from rewriting.idioms.recognising import Array, assert_same_numbers, found, simplified


def test_batch_first() -> None:
    assert found(layer()) == [LAYER]
    lifted = onnxlift.lift(layer())
    assert "nn.MultiheadAttention(12, 3, batch_first=True)" in lifted.source
    assert sorted(name.partition(".")[2] for name in lifted.state_dict) == [
        "in_proj_bias",
        "in_proj_weight",
        "out_proj.bias",
        "out_proj.weight",
    ]


def test_sequence_first() -> None:
    text = TEXT.replace("first = Transpose <perm = [1, 0, 2]> (x)", "first = Identity(x)")
    text = text.replace("y = Transpose <perm = [1, 0, 2]> (ob)", "y = Identity(ob)")
    proto = layer(text, shape="float[5, batch, 12]")
    assert found(proto) == [LAYER]
    assert "batch_first" not in onnxlift.lift(proto).source


def test_one_transpose_is_not_enough_for_batch_first() -> None:
    text = TEXT.replace("y = Transpose <perm = [1, 0, 2]> (ob)", "y = Identity(ob)")
    assert found(layer(text, output="float[5, batch, 12]")) == ["Transpose", LAYER]


def test_other_names_and_the_batch_in_front_are_a_layer_of_its_own() -> None:
    """As timm writes attention: `qkv` and `proj`, which are linear layers there."""
    text = """pw = MatMul(x, W) packed = Add(pw, BIAS) split = Reshape(packed, five)
        t = Transpose <perm = [2, 0, 3, 1, 4]> (split) q = Gather(t, i) k0 = Gather(t, j) v = Gather(t, l)
        k = Transpose <perm = [0, 1, 3, 2]> (k0) qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled)
        o = MatMul(p, v) back = Transpose <perm = [0, 2, 1, 3]> (o) joined = Reshape(back, width)
        ow = MatMul(joined, W2) y = Add(ow, b2)"""
    five = np.array([0, 0, 3, 3, 4])
    assert found(layer(text.replace("BIAS", "in_proj_bias"), five=five)) == [LAYER]
    assert LAYER not in found(layer(text.replace("BIAS", "b1"), five=five, b1=(36,)))


def test_mask_by_queries_and_keys() -> None:
    assert found(layer(masked("masked = Add(scaled, m)"), more=", float[5, 5] m")) == [LAYER]


def test_boolean_mask_says_the_opposite_there() -> None:
    proto = layer(masked("masked = Where(m, scaled, infinity)"), more=", bool[5, 5] m", infinity=-np.inf)
    assert found(proto) == [LAYER]
    assert "attn_mask=~" in onnxlift.lift(proto).source


def test_mask_by_batches_and_keys() -> None:
    how = "hidden = Not(m) w = Where(hidden, infinity, none) u4 = Unsqueeze(w, middle) masked = Add(scaled, u4)"
    proto = layer(masked(how), more=", bool[batch, 5] m", infinity=-np.inf, none=0.0, middle=np.array([1, 2]))
    assert found(proto) == ["Not", LAYER]
    assert "key_padding_mask=" in onnxlift.lift(proto).source


def test_a_mask_for_each_head_stays() -> None:
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), more=", float[1, 3, 5, 5] m"))


def test_causal() -> None:
    proto = layer(masked("masked = Add(scaled, m)"), m=np.triu(np.full((5, 5), -np.inf, np.float32), 1))
    assert found(proto) == [LAYER]
    source = onnxlift.lift(proto).source
    assert "is_causal=True" in source and ")[0]" not in source, "a long line ends in a subscript"


def test_dropout_of_the_probabilities_is_an_argument() -> None:
    text = TEXT.replace("p = Softmax(scaled)", "sm = Softmax(scaled) p = Dropout(sm, ratio, no)")
    proto = layer(text, ratio=0.25, no=np.array(False))
    assert "nn.MultiheadAttention(12, 3, dropout=0.25, batch_first=True)" in onnxlift.lift(proto).source


def test_other_heads() -> None:
    shapes = {"rows": np.array([5, -1, 3]), "heads": np.array([-1, 4, 5, 3]), "keys": np.array([-1, 4, 3, 5])}
    proto = layer(scale=3**-0.5, **shapes)
    assert found(proto) == [LAYER]
    assert "nn.MultiheadAttention(12, 4" in onnxlift.lift(proto).source


@pytest.mark.parametrize("other", [{"scale": 0.4}, {"i": np.array(1), "j": np.array(0)}], ids=["scale", "order"])
def test_another_scale_or_order_of_the_parts_stays(other: dict[str, object]) -> None:
    assert LAYER not in found(layer(**other))


def test_a_bias_of_the_first_projection_only_stays() -> None:
    text = TEXT.replace("ob = Add(ow, b2)", "ob = Identity(ow)").replace("in_proj_bias", "b1")
    assert LAYER not in found(layer(text, b1=(36,)))


def test_a_bias_of_the_last_projection_only_stays() -> None:
    assert LAYER not in found(layer(TEXT.replace("packed = Add(pw, in_proj_bias)", "packed = Identity(pw)")))


def test_a_bias_that_the_exporter_left_out_is_zero_again() -> None:
    proto = layer(TEXT.replace("ob = Add(ow, b2)", "ob = Identity(ow)"))
    assert found(proto) == [LAYER]
    state = onnxlift.lift(proto).state_dict
    (name,) = [name for name in state if name.endswith("out_proj.bias")]
    assert state[name].shape == (12,) and not state[name].any()


def test_queries_of_one_value_and_keys_and_values_of_another() -> None:
    assert found(cross()) == [LAYER]
    assert "(x, c, c, need_weights=False)[0]" in onnxlift.lift(cross()).source


def test_the_rows_of_the_weight_cut_out_by_slices() -> None:
    cuts = """w_q = Slice(in_proj_weight, zero, twelve, zero) w_kv = Slice(in_proj_weight, minus, all, zero)
        b_q = Slice(in_proj_bias, zero, twelve, zero) b_kv = Slice(in_proj_bias, twelve, all, zero)"""
    text = CROSS.replace(CROSS.splitlines()[1], cuts)
    ends = {"twelve": np.array([12]), "all": np.array([2**62]), "minus": np.array([-24])}
    assert found(cross(text, **ends)) == [LAYER]


@pytest.mark.parametrize(
    "other",
    [
        {"i": np.array(1), "j": np.array(0)},  # the first rows for the values
        {"cut": np.array([24, 12])},  # the last rows for the queries
    ],
    ids=["order", "rows"],
)
def test_other_rows_of_the_weight_stay(other: dict[str, object]) -> None:
    text = CROSS
    if "cut" in other:
        text = text.replace("w_q, w_kv =", "w_kv, w_q =").replace("b_q, b_kv =", "b_kv, b_q =")
    assert LAYER not in found(cross(text, **other))


def test_rows_of_the_bias_that_are_not_those_of_the_weight_stay() -> None:
    text = CROSS.replace("b_q, b_kv = Split <axis = 0> (in_proj_bias, cut)", "b_kv, b_q = Split (in_proj_bias, tuc)")
    assert LAYER not in found(cross(text, tuc=np.array([24, 12])))


def test_keys_that_may_be_those_of_all_batches_stay() -> None:
    """The layer wants as many batches of keys as of queries; the product of matrices repeats a single one."""
    proto = cross()
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "one_or_batch"
    assert LAYER.partition(".")[2] not in [node.op_type for node in simplified(proto).graph]


def test_keys_of_all_batches_stay() -> None:
    proto = cross()
    for value, batch in zip((*proto.graph.input, *proto.graph.output), (2, 1, 2), strict=True):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    assert LAYER not in found(proto)


def test_a_causal_mask_between_sequences_of_two_lengths_stays() -> None:
    text = CROSS.replace("p = Softmax(scaled)", "masked = Add(scaled, m) p = Softmax(masked)")
    assert LAYER not in found(cross(text, m=np.triu(np.full((5, 7), -np.inf, np.float32), 1)))


@pytest.mark.parametrize("value", ["packed", "qr", "o", "ob"])
def test_values_that_are_read_elsewhere_stay(value: str) -> None:
    rest = f"{TEXT} z = Exp({value})"
    operators = found(layer(rest, outputs=", float[a, b, c] z" if value != "o" else ", float[a, b, c, d] z"))
    assert (LAYER in operators) is (value == "ob")


def test_a_mask_with_another_axis_stays() -> None:
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), more=", float[1, 5, 5] m"))


@pytest.mark.parametrize(("otherwise", "is_mask"), [(np.zeros((5, 5), np.float32), True), ((5, 5), False)])
def test_numbers_where_nothing_is_hidden(otherwise: object, is_mask: bool) -> None:
    text = masked("m = Where(h, least, otherwise) masked = Add(scaled, m)")
    model = layer(text, more=", bool[5, 5] h", least=-np.inf, otherwise=otherwise)
    assert ("attn_mask=h" in onnxlift.lift(model).source) == is_mask


# What the layer gives back besides its result, and what it appends to its keys.


def test_weights_by_head() -> None:
    proto = weighted("w = Identity(p)", "batch, 3, 5, 5")
    assert found(proto) == [LAYER]
    assert "average_attn_weights=False)" in onnxlift.lift(proto).source


def test_weights_averaged() -> None:
    proto = weighted("w = ReduceMean <keepdims = 0> (p, one)", "batch, 5, 5", one=np.array([1]))
    assert found(proto) == [LAYER]
    assert "y, w = self.in_proj(x, x, x)\n" in onnxlift.lift(proto).source


@pytest.mark.parametrize("axis", [0, 2, 3])
def test_a_mean_of_something_else_is_no_part_of_the_layer(axis: int) -> None:
    sizes = ["batch", "3", "5", "5"]
    del sizes[axis]
    proto = weighted("w = ReduceMean <keepdims = 0> (p, one)", ", ".join(sizes), one=np.array([axis]))
    assert found(proto) == [LAYER, "ReduceMean"]


def test_weights_with_other_axes_are_made_outside() -> None:
    assert found(weighted("w = Transpose <perm = [0, 1, 3, 2]> (p)", "batch, 3, 5, 5")) == [LAYER, "Transpose"]


def test_scores_that_are_read_elsewhere_stay() -> None:
    assert LAYER not in found(weighted("w = Exp(scaled)", "batch, 3, 5, 5"))


def test_values_that_are_made_of_the_weights_stay() -> None:
    """The layer would need its own result."""
    made = "vr = Reshape(vs, rows) vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, heads)"
    again = f"""s = ReduceMean <keepdims = 0> (p) x2 = Mul(first, s) pw2 = MatMul(x2, W)
        packed2 = Add(pw2, in_proj_bias) split2 = Reshape(packed2, parts)
        t2 = Transpose <perm = [2, 0, 1, 3]> (split2) vs = Gather(t2, l) {made}"""
    text = TEXT.replace("vs = Gather(three, l)", "").replace(made, "")
    text = text.replace("o = MatMul(p, v)", f"{again} o = MatMul(p, v)")
    assert LAYER not in found(layer(text))


def test_zeros_behind_the_last_key() -> None:
    proto = appended(KEYS.format(K0), VALUES.format(V0), z=ZEROS)
    assert found(proto) == [LAYER]
    assert "nn.MultiheadAttention(12, 3, add_zero_attn=True, batch_first=True)" in onnxlift.lift(proto).source


@pytest.mark.parametrize(
    ("keys", "values", "zeros"),
    [
        (K0, V0, ZEROS + 1),  # no zeros
        (K0.replace("k1, z", "z, k1"), V0.replace("v1, z", "z, v1"), ZEROS),  # before the first key
        (K0, V0.replace("z)", "n)"), ZEROS),  # something else behind the last value
    ],
    ids=["ones", "in front", "not for values"],
)
def test_other_rows_stay(keys: str, values: str, zeros: Array) -> None:
    assert LAYER not in found(appended(KEYS.format(keys), VALUES.format(values), z=zeros, n=(6, 1, 4)))


@pytest.mark.parametrize(("filler", "is_layer"), [(0.0, True), (1.0, False)])
def test_a_mask_for_the_row_of_zeros(filler: float, is_layer: bool) -> None:
    text = masked("mp = Pad(m, amounts, filler) masked = Add(scaled, mp)")
    known = {"z": ZEROS, "amounts": np.array([0, 0, 0, 1]), "filler": filler}
    model = appended(KEYS.format(K0), VALUES.format(V0), text, ", float[5, 5] m", **known)
    assert (found(model) == [LAYER]) is is_layer


def test_a_mask_for_all_queries_in_one_row_stays() -> None:
    """The layer takes no mask that it would have to repeat."""
    assert LAYER not in found(layer(masked("masked = Add(scaled, m)"), more=", float[1, 5] m"))


# What is no layer.

SINGLE = """packed0 = MatMul(x, W) packed = Add(packed0, in_proj_bias)
    q, k0, v = Split <axis = AXIS, num_outputs = 3> (packed) k = Transpose <perm = [PERM]> (k0)
    qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v) ow = MatMul(o, W2) y = Add(ow, b2)"""


@pytest.mark.parametrize(
    ("shape", "axis", "order"), [("batch, 5, 12", "2", "0, 2, 1"), ("batch, 3, 5, 12", "3", "0, 1, 3, 2")]
)
def test_attention_without_heads_stays(shape: str, axis: str, order: str) -> None:
    text = SINGLE.replace("AXIS", axis).replace("PERM", order)
    assert LAYER not in found(layer(text, f"float[{shape}]", scale=12**-0.5))


def test_projections_without_heads_stay() -> None:
    text = """q = MatMul(x, W_q) k0 = MatMul(x, W_k) v = MatMul(x, W_v) k = Transpose <perm = [0, 2, 1]> (k0)
        qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v) y = MatMul(o, W2)"""
    weights = {"W_q": (12, 12), "W_k": (12, 12), "W_v": (12, 12)}
    assert LAYER not in found(named(layer(text, scale=12**-0.5, **weights)))


def test_queries_with_a_row_of_zeros_stay() -> None:
    text = TEXT.replace("q = Reshape(qt, heads)", "q2 = Concat <axis = 1> (qt, z) q = Reshape(q2, heads1)")
    proto = appended(KEYS.format(K0), VALUES.format(V0), text, z=ZEROS, output="float[2, 6, 12]")
    assert LAYER not in found(proto)


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        (
            "kt = Transpose <perm = [0, 2, 1]> (k1)",
            "kt = Transpose <perm = [0, 2, 1]> (k2)",
            "k2 = Concat <axis = 1> (k1, z)",
        ),
        ("kr = Reshape(ks, others)", "kr = Reshape(k2, values)", "k2 = Concat <axis = 0> (ks, n)"),
    ],
    ids=["zeros", "bias"],
)
def test_rows_behind_the_keys_only_stay(old: str, new: str, row: str) -> None:
    """There is one value more than keys, before these get a row."""
    assert found(three()) == [LAYER]
    bias = np.random.default_rng(1).standard_normal((1, 1, 12)).astype(np.float32).repeat(2, 1)
    assert LAYER not in found(three(text=THREE.replace(old, f"{row} {new}"), keys=7, values=8, z=ZEROS, n=bias))


@pytest.mark.parametrize(
    ("old", "new", "other"),
    [
        ("joined = Reshape(back, width)", "joined0 = Reshape(back, width) joined = Relu(joined0)", {}),
        ("back = Transpose <perm = [2, 0, 1, 3]> (o)", "back = Transpose <perm = [2, 0, 3, 1]> (o)", {}),
        ("W2", "W2", {"more": ", float[12, 12] W2"}),
        ("ob", "ob", {"W2": (12, 8), "b2": (8,), "output": "float[batch, 5, 8]"}),
        ("ob", "ob", {"b2": (1, 12)}),
        ("ob", "ob", {"in_proj_bias": (1, 1, 36)}),
    ],
    ids=["something in between", "features before heads", "a weight that is given", "width", "bias", "packed bias"],
)
def test_other_projections_stay(old: str, new: str, other: dict[str, Any]) -> None:
    model = layer(TEXT.replace(old, new), **other)
    if "more" in other:
        del model.graph.initializer[[tensor.name for tensor in model.graph.initializer].index("W2")]
    assert LAYER not in found(model)


def test_a_packed_bias_of_another_name() -> None:
    text = TEXT.replace("first = Transpose <perm = [1, 0, 2]> (x)", "first = Identity(x)").replace("in_proj_bias", "b1")
    text = text.replace("y = Transpose <perm = [1, 0, 2]> (ob)", "y = Identity(ob)")
    assert found(layer(text, shape="float[5, batch, 12]", b1=(36,))) == [LAYER]


# Projections with a weight each.


@pytest.mark.parametrize(
    ("module", "others", "is_layer"),
    [
        ("/attn/", {}, True),
        ("attn/", {}, True),
        ("/", {}, True),
        ("", {}, False),
        ("/attn/", {"p_q": "/attn/q/", "qs": "/attn/q/"}, False),
    ],
    ids=["module", "module by another exporter", "the model itself", "not told", "a module of its own"],
)
def test_where_the_projections_are_computed(module: str, others: dict[str, str], is_layer: bool) -> None:
    assert (found(named(three(""), module, **others)) == [LAYER]) is is_layer


def test_projections_with_the_batch_in_front_are_linear_layers() -> None:
    text = """p_q = MatMul(x, t_q) p_k = MatMul(x, t_k) p_v = MatMul(x, t_v)
        qs = Add(p_q, b_q) ks = Add(p_k, b_k) vs = Add(p_v, b_v)
        qr = Reshape(qs, four) kr = Reshape(ks, four) vr = Reshape(vs, four) q = Transpose <perm = [0, 2, 1, 3]> (qr)
        k = Transpose <perm = [0, 2, 3, 1]> (kr) v = Transpose <perm = [0, 2, 1, 3]> (vr)
        qk = MatMul(q, k) scaled = Mul(qk, scale) p = Softmax(scaled) o = MatMul(p, v)
        back = Transpose <perm = [0, 2, 1, 3]> (o) joined = Reshape(back, width)
        ow = MatMul(joined, W2) y = Add(ow, b2)"""
    assert LAYER not in found(named(three("", text, more="", four=np.array([0, 0, 3, 4]))))


def test_what_packed_weights_are_called() -> None:
    model = named(three(""))
    (bias,) = [tensor for tensor in model.graph.initializer if tensor.name == "b2"]
    (addition,) = [node for node in model.graph.node if "b2" in node.input]
    bias.name = addition.input[1] = "attn.out_proj.bias"
    names = simplified(model).graph.initializers.keys()
    assert {"attn.in_proj_weight", "attn.in_proj_bias"} <= set(names)


# The weights that it gives back.


@pytest.mark.parametrize(
    ("rows", "causal", "is_layer"), [(False, True, True), (True, False, True), (True, True, False)]
)
def test_weights_of_a_causal_attention_with_a_row_of_zeros(rows: bool, causal: bool, is_layer: bool) -> None:
    """Such a row counts as a later key in the attention that gives no weights back, and only there."""
    text = (masked("masked = Add(scaled, m)") if causal else TEXT) + " w = Identity(p)"
    length = 6 if rows else 5
    known = {"m": np.triu(np.full((5, length), -np.inf, np.float32), 1), "outputs": f", float[2, 3, 5, {length}] w"}
    model = layer(text, "float[2, 5, 12]", **known)
    if rows:
        model = appended(KEYS.format(K0), VALUES.format(V0), text, z=ZEROS, **known)
    assert (found(model) == [LAYER]) is is_layer


def test_weights_of_one_sequence() -> None:
    text = TEXT.replace("Transpose <perm = [1, 0, 2]> (x)", "Unsqueeze(x, one)")
    text = text.replace("y = Transpose <perm = [1, 0, 2]> (ob)", "y = Squeeze(ob, one)")
    text += " w1 = ReduceMean <keepdims = 0> (p, one) w = Squeeze(w1, zero)"
    assert found(layer(text, "float[5, 12]", outputs=", float[5, 5] w", one=np.array([1]))) == [LAYER]


# What else is read inside.


@pytest.mark.parametrize("value", ["packed", "qs"])
def test_values_that_are_outputs_stay(value: str) -> None:
    width = 36 if value == "packed" else 12
    assert LAYER not in found(layer(outputs=f", float[5, batch, {width}] {value}"))


def test_sizes_may_be_read_elsewhere() -> None:
    assert LAYER in found(layer(f"{TEXT} z = Shape(qr)", outputs=", int64[3] z"))


@pytest.mark.parametrize(("limit", "number"), [("_MAX_REGION", 4), ("_MANY", 0)])
def test_limits(limit: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multihead_attention, limit, number)
    assert LAYER not in found(layer())


def test_a_layer_in_a_branch() -> None:
    """It reads sizes of the graph around it, which stay there."""
    sizes = "shape = Shape(x) n = Gather(shape, zero) n3 = Mul(n, by) five = Concat <axis = 0> (n3, one, four)"
    keys = f"z = ConstantOfShape(five) {KEYS.format(K0)}"
    inner = TEXT.replace("kt = Transpose <perm = [1, 2, 0]> (kr) k = Reshape(kt, keys)", keys)
    inner = inner.replace("vt = Transpose <perm = [1, 0, 2]> (vr) v = Reshape(vt, heads)", VALUES.format(V0))
    text = f"""{sizes} y = If (c) <
        then_branch = then_graph () => (float[batch, 5, 12] inner) {{ {inner.replace("y = T", "inner = T")} }},
        else_branch = else_graph () => (float[batch, 5, 12] other) {{ other = Relu(x) }}
    >"""
    integers = {"by": [3], "one": [1], "four": [4], "keys": [-1, 3, 4, 6], "heads1": [-1, 3, 6, 4]}
    model = layer(text, more=", bool[1] c", **{name: np.array(numbers) for name, numbers in integers.items()})
    assert_same_numbers(model)
    (branch,) = [graph for graph in simplified(model).graphs() if graph.name == "then_graph"]
    assert [node.op_type for node in branch] == [LAYER.partition(".")[2]]
