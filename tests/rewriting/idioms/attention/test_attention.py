from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from rewriting.idioms.recognising import SIZES, found, parse, random_inputs, simplified

HEADS = "float[batch, 3, seq, 8] q, float[batch, 3, keys, 8] k, float[batch, 3, keys, 8] v"
SCALED = "t = Transpose <perm = [0, 1, 3, 2]> (k) qk = MatMul(q, t) s = Mul(qk, scale)"
ROOT = 1 / math.sqrt(8)
INFINITY = -np.inf
LOWEST = float(np.finfo(np.float32).min)


def model(
    body: str, inputs: str = HEADS, output: str = "float[batch, 3, seq, 8] y", opset: int = 18, **numbers: object
) -> onnx.ModelProto:
    known = {"scale": ROOT, "zero": 0.0, "infinity": INFINITY, "lowest": LOWEST} | numbers
    used = {name: value for name, value in known.items() if name in body}
    return parse(f"g ({inputs}) => ({output}) {{ {body} }}", opset, **used)


def attention(proto: onnx.ModelProto) -> tuple[list[str], dict[str, object]]:
    """The inputs and attributes of the one attention that is all of the model's computation."""
    (node,) = [node for node in simplified(proto).graph if node.op_type == "Attention"]
    return [str(v.name) for v in node.inputs if v is not None], {n: a.value for n, a in node.attributes.items()}


def test_default_scale_is_left_out() -> None:
    proto = model(f"{SCALED} p = Softmax <axis = -1> (s) y = MatMul(p, v)")
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {})


def test_other_scale_is_kept() -> None:
    proto = model(f"{SCALED} p = Softmax <axis = -1> (s) y = MatMul(p, v)", scale=0.5)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[1] == {"scale": 0.5}


def test_without_scale_it_is_one() -> None:
    body = "t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, t) p = Softmax <axis = 3> (s) y = MatMul(p, v)"
    assert found(model(body)) == ["onnxlift.Attention"]
    assert attention(model(body))[1] == {"scale": 1.0}


@pytest.mark.parametrize(
    "scores",
    [
        "t = Transpose <perm = [0, 1, 3, 2]> (k) qk = MatMul(q, t) s = Div(qk, divisor)",
        "qs = Mul(q, scale) t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(qs, t)",
        "qs = Mul(q, root) t = Transpose <perm = [0, 1, 3, 2]> (k) ts = Mul(root, t) s = MatMul(qs, ts)",
        "ks = Mul(k, scale) t = Transpose <perm = [0, 1, 3, 2]> (ks) s = MatMul(q, t)",
    ],
)
def test_scale_in_other_places(scores: str) -> None:
    numbers = {"divisor": math.sqrt(8), "root": math.sqrt(ROOT)}
    proto = model(f"{scores} p = Softmax <axis = -1> (s) y = MatMul(p, v)", **numbers)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {})


TURNED = "float[batch, 3, 8, seq] q, float[batch, 3, keys, 8] k, float[batch, 3, keys, 8] v"


def test_scale_before_the_queries_are_transposed() -> None:
    body = """qs = Mul(q, scale) qt = Transpose <perm = [0, 1, 3, 2]> (qs) t = Transpose <perm = [0, 1, 3, 2]> (k)
        s = MatMul(qt, t) p = Softmax <axis = -1> (s) y = MatMul(p, v)"""
    proto = model(body, TURNED)
    assert sorted(found(proto)) == ["Transpose", "onnxlift.Attention"]
    assert attention(proto)[1] == {}


def test_transposed_queries_that_are_read_elsewhere_stay_scaled() -> None:
    body = """qs = Mul(q, scale) qt = Transpose <perm = [0, 1, 3, 2]> (qs) t = Transpose <perm = [0, 1, 3, 2]> (k)
        s = MatMul(qt, t) p = Softmax <axis = -1> (s) y = MatMul(p, v) z = Neg(qt)"""
    proto = model(body, TURNED, output="float[batch, 3, seq, 8] y, float[batch, 3, seq, 8] z")
    assert sorted(found(proto)) == ["Mul", "Neg", "Transpose", "onnxlift.Attention"]
    assert attention(proto)[1] == {"scale": 1.0}


def test_three_axes() -> None:
    inputs = "float[batch, seq, 8] q, float[batch, keys, 8] k, float[batch, keys, 5] v"
    body = "t = Transpose <perm = [0, 2, 1]> (k) qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"
    assert found(model(body, inputs, "float[batch, seq, 5] y")) == ["onnxlift.Attention"]


def test_two_axes_stay() -> None:
    inputs = "float[seq, 8] q, float[keys, 8] k, float[keys, 5] v"
    body = "t = Transpose <perm = [1, 0]> (k) qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"
    assert "onnxlift.Attention" not in found(model(body, inputs, "float[seq, 5] y"))


def test_keys_transposed_together_with_the_heads() -> None:
    inputs = HEADS.replace("float[batch, 3, keys, 8] k", "float[batch, keys, 3, 8] k")
    body = SCALED.replace("[0, 1, 3, 2]", "[0, 2, 3, 1]") + " p = Softmax(s) y = MatMul(p, v)"
    proto = model(body, inputs)
    assert found(proto) == ["Transpose", "onnxlift.Attention"]
    assert list(next(iter(simplified(proto).graph)).attributes["perm"].value) == [0, 2, 1, 3]


def test_keys_that_come_transposed() -> None:
    inputs = HEADS.replace("float[batch, 3, keys, 8] k", "float[batch, 3, 8, keys] k")
    body = "qk = MatMul(q, k) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"
    assert found(model(body, inputs)) == ["Transpose", "onnxlift.Attention"]


def test_keys_transposed_by_way_of_three_axes() -> None:
    body = """three = Reshape(k, merged) turned = Transpose <perm = [0, 2, 1]> (three)
        shape = Shape(k) lead = Slice(shape, from, to) n = Slice(shape, to, last)
        target = Concat <axis = 0> (lead, eight, n)
        t = Reshape(turned, target) qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"""
    inputs = HEADS.replace("keys", "5")
    numbers = {"merged": [-1, 5, 8], "from": [0], "to": [2], "last": [3], "eight": [8]}
    proto = model(body, inputs, **{name: np.array(value) for name, value in numbers.items()})
    assert found(proto) == ["onnxlift.Attention"]


def test_keys_split_into_heads_after_the_transpose() -> None:
    inputs = "float[batch, 3, 4, 8] q, float[4, p, 8] k, float[batch, 3, 4, 8] v"
    body = """turned = Transpose <perm = [1, 2, 0]> (k) t = Reshape(turned, heads)
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"""
    proto = model(body, inputs, "float[batch, 3, 4, 8] y", heads=np.array([-1, 3, 8, 4]))
    operators = [node.op_type for node in simplified(proto).graph]
    assert operators == ["Transpose", "Reshape", "Attention"]


def test_added_mask() -> None:
    proto = model(
        f"{SCALED} m = Add(s, mask) p = Softmax(m) y = MatMul(p, v)", f"{HEADS}, float[batch, 1, seq, keys] mask"
    )
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[0] == ["q", "k", "v", "mask"]


def test_added_mask_on_the_other_side() -> None:
    body = f"{SCALED} m = Add(mask, s) p = Softmax(m) y = MatMul(p, v)"
    assert found(model(body, f"{HEADS}, float[seq, keys] mask")) == ["onnxlift.Attention"]


def test_mask_before_the_scale_stays() -> None:
    body = SCALED.replace("s = Mul(qk, scale)", "m = Add(qk, mask) s = Mul(m, scale)")
    operators = found(model(f"{body} p = Softmax(s) y = MatMul(p, v)", f"{HEADS}, float[batch, 1, seq, keys] mask"))
    assert "onnxlift.Attention" not in operators


def test_mask_of_one_axis_gets_another() -> None:
    body = f"{SCALED} m = Add(s, mask) p = Softmax(m) y = MatMul(p, v)"
    assert found(model(body, f"{HEADS}, float[keys] mask")) == ["Unsqueeze", "onnxlift.Attention"]


BOOLEAN = f"{HEADS}, bool[batch, 1, seq, keys] mask"


@pytest.mark.parametrize(
    "masked",
    [
        "w = Where(mask, zero, infinity) m = Add(s, w)",
        "m = Where(mask, s, infinity)",
    ],
)
def test_boolean_mask(masked: str) -> None:
    proto = model(f"{SCALED} {masked} p = Softmax(m) y = MatMul(p, v)", BOOLEAN)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[0] == ["q", "k", "v", "mask"]


def test_boolean_mask_of_what_is_hidden() -> None:
    body = f"{SCALED} hidden = Not(mask) m = Where(hidden, infinity, s) p = Softmax(m) y = MatMul(p, v)"
    assert found(model(body, BOOLEAN)) == ["Not", "Not", "onnxlift.Attention"]


@pytest.mark.parametrize(
    "masked",
    [
        "w = Where(mask, zero, lowest) m = Add(s, w)",
        "m = Where(mask, s, lowest)",
        "hidden = Not(mask) m = Where(hidden, lowest, s)",
    ],
)
def test_lowest_number_in_the_place_of_infinity_is_added(masked: str) -> None:
    """A row without any key is the mean of the values then, not 0: the mask cannot be boolean."""
    proto = model(f"{SCALED} {masked} p = Softmax(m) y = MatMul(p, v)", BOOLEAN)
    assert found(proto)[-2:] == ["Where", "onnxlift.Attention"]
    nothing = model(f"none = And(mask, never) {SCALED} {masked} p = Softmax(m) y = MatMul(p, v)", BOOLEAN, never=False)
    for node in nothing.graph.node:
        if node.op_type in ("Where", "Not"):
            node.input[:] = ["none" if name == "mask" else name for name in node.input]
    assert "onnxlift.Attention" in found(nothing)


@pytest.mark.parametrize(
    ("masked", "everything"),
    [
        ("w = Where(all, zero, lowest) m = Add(s, w)", True),
        ("m = Where(all, s, lowest)", True),
        ("m = Where(all, lowest, s)", False),
    ],
)
def test_a_mask_that_hides_nothing_goes(masked: str, everything: bool) -> None:
    sizes = "n = Shape <end = 1> (q) one = Constant <value_ints = [1, 1, 1]> () sizes = Concat <axis = 0> (n, one)"
    body = f"{sizes} all = Expand(flags, sizes) {SCALED} {masked} p = Softmax(m) y = MatMul(p, v)"
    proto = model(body, HEADS, flags=np.full((1, 1, 1, 1), everything))
    assert found(proto) == ["onnxlift.Attention"] and attention(proto)[0] == ["q", "k", "v"]
    other = model(body, HEADS, flags=np.full((1, 1, 1, 1), not everything))
    assert found(other) != ["onnxlift.Attention"]


@pytest.mark.parametrize(("number", "is_added"), [(0.0, False), (-0.0, False), (0.5, True)])
def test_adding_nothing_to_the_scores_is_no_mask(number: float, is_added: bool) -> None:
    proto = model(f"{SCALED} m = Add(s, number) p = Softmax(m) y = MatMul(p, v)", HEADS, number=number)
    assert ("onnxlift.Attention" not in found(proto)) == is_added


SHIFT = "n = Shape <end = 1> (q) one = Constant <value_ints = [1, 1, 1]> () sizes = Concat <axis = 0> (n, one)"
SHIFT += " all = Expand(flags, sizes) shift = Cast <to = 1> (all)"


@pytest.mark.parametrize(
    ("masked", "inputs"),
    [("m = Add(s, shift)", []), ("total = Add(mask, shift) m = Add(s, total)", ["mask"])],
)
@pytest.mark.parametrize("flags", [np.full((1, 1, 1, 1), True), np.full((1, 1, 1, 1), 0.5)])
def test_a_number_that_is_added_to_all_scores_goes(masked: str, inputs: list[str], flags: np.ndarray) -> None:
    body = f"{SHIFT} {SCALED} {masked} p = Softmax(m) y = MatMul(p, v)"
    proto = model(body, f"{HEADS}, float[seq, keys] mask", flags=flags)
    assert "onnxlift.Attention" in found(proto) and attention(proto)[0] == ["q", "k", "v", *inputs]


@pytest.mark.parametrize(
    ("flags", "masked"),
    [
        (np.array([[[[True]], [[False]], [[True]]]]), "m = Add(s, shift)"),  # differs from head to head, at least
        (np.full((1, 1, 1, 1), -np.inf), "m = Add(s, shift)"),
        (np.full((2, 1, 1, 1), 0.5, np.float32), "m = Add(s, flags)"),  # a parameter
    ],
)
def test_other_numbers_that_are_added_stay(flags: np.ndarray, masked: str) -> None:
    proto = model(f"{SHIFT} {SCALED} {masked} p = Softmax(m) y = MatMul(p, v)", HEADS, flags=flags)
    assert attention(proto)[0] != ["q", "k", "v"]


def test_small_negative_number_stays() -> None:
    proto = model(f"{SCALED} m = Where(mask, s, low) p = Softmax(m) y = MatMul(p, v)", BOOLEAN, low=-2.0)
    assert "onnxlift.Attention" not in found(proto)


GUARD = "p = Softmax(m) nan = IsNaN(p) c = Where(nan, zero, p) y = MatMul(c, v)"


def test_guard_against_rows_without_keys() -> None:
    """Only the first row keeps a key; PyTorch gives 0 for the others, as the guard does."""
    body = f"few = And(mask, first) {SCALED} w = Where(few, zero, infinity) m = Add(s, w) {GUARD}"
    first = np.array([[True], [False], [False], [False]])
    proto = model(body, BOOLEAN.replace("seq", "4"), "float[batch, 3, 4, 8] y", first=first)
    assert found(proto) == ["And", "onnxlift.Attention"]


def test_guard_with_another_number_stays() -> None:
    body = f"{SCALED} m = Where(mask, s, infinity) {GUARD}".replace("Where(nan, zero, p)", "Where(nan, scale, p)")
    assert "onnxlift.Attention" not in found(model(body, BOOLEAN))


@pytest.mark.parametrize("as_bool", [True, False])
def test_constant_causal_mask(as_bool: bool) -> None:
    causal = np.tri(4, 6, dtype=bool)
    data = causal if as_bool else np.where(causal, 0, INFINITY).astype(np.float32)
    masked = "m = Where(triangle, s, infinity)" if as_bool else "m = Add(s, triangle)"
    inputs = HEADS.replace("seq", "4").replace("keys", "6")
    proto = model(f"{SCALED} {masked} p = Softmax(m) y = MatMul(p, v)", inputs, triangle=data)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {"is_causal": 1})


@pytest.mark.parametrize("is_same", [True, False])
def test_a_triangle_for_each_batch_is_causal_if_they_are_the_same(is_same: bool) -> None:
    triangles = np.where(np.tri(4, 6, dtype=bool), 0, LOWEST).astype(np.float32)[None, None].repeat(2, 0)
    triangles[1, 0, 2, 5] = LOWEST if is_same else 0
    inputs = HEADS.replace("batch", "2").replace("seq", "4").replace("keys", "6")
    body = f"{SCALED} m = Add(s, triangles) p = Softmax(m) y = MatMul(p, v)"
    proto = model(body, inputs, "float[2, 3, 4, 8] y", triangles=triangles)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[1] == ({"is_causal": 1} if is_same else {})


def test_shifted_triangle_is_a_mask() -> None:
    inputs = HEADS.replace("seq", "4").replace("keys", "6")
    body = f"{SCALED} m = Where(triangle, s, infinity) p = Softmax(m) y = MatMul(p, v)"
    proto = model(body, inputs, triangle=np.tri(4, 6, 2, dtype=bool))
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[1] == {}


TRIANGLE = """a = Shape <start = 2, end = 3> (q) b = Shape <start = 2, end = 3> (k) n = Concat <axis = 0> (a, b)
    ones = Expand(one, n) lower = Trilu <upper = 0> (ones) after = Equal(lower, zero)"""


@pytest.mark.parametrize("fill", [INFINITY, LOWEST])
def test_triangle_of_the_size_of_the_scores_is_causal(fill: float) -> None:
    body = f"{TRIANGLE} w = Where(after, fill, zero) {SCALED} m = Add(s, w) p = Softmax(m) y = MatMul(p, v)"
    proto = model(body, one=1.0, fill=fill)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[1] == {"is_causal": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [("upper = 0", "upper = 1"), ("(ones)", "(ones, shift)"), ("Where(after, fill, zero)", "Where(after, zero, fill)")],
)
def test_another_triangle_is_a_mask(old: str, new: str) -> None:
    body = f"{TRIANGLE} w = Where(after, fill, zero) {SCALED} m = Add(s, w) p = Softmax(m) y = MatMul(p, v)"
    proto = model(body.replace(old, new), one=1.0, fill=LOWEST, shift=np.int64(1))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert attention(proto)[1] == {}


UPPER = TRIANGLE.replace("(ones)", "(ones, shift)").replace("upper = 0", "upper = 1")
ATTENDED = "p = Softmax(m) y = MatMul(p, v)"


@pytest.mark.parametrize(
    ("triangle", "masked", "filled"),
    [
        (TRIANGLE, "kept = Not(after) m = Where(kept, s, fill)", 1.0),
        (TRIANGLE, "kept = Cast <to = 9> (lower) rows = Unsqueeze(kept, axes) m = Where(rows, s, fill)", 1.0),
        (UPPER, "hidden = Not(after) m = Where(hidden, fill, s)", 1.0),
        (UPPER, "m = Where(after, s, fill)", 1.0),
        (UPPER, "m = Add(s, lower)", INFINITY),
        (
            UPPER.replace("Expand(one, n)", "ConstantOfShape <value = float[1] {1}> (n)"),
            "m = Where(after, s, fill)",
            1.0,
        ),
        (UPPER, "m = Add(lower, s)", LOWEST),
    ],
)
def test_triangles_however_they_are_said_are_causal(triangle: str, masked: str, filled: float) -> None:
    axes = np.array([0, 1])
    proto = model(f"{triangle} {SCALED} {masked} {ATTENDED}", one=filled, fill=LOWEST, shift=np.int64(1), axes=axes)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto)[1] == {"is_causal": 1}


@pytest.mark.parametrize(
    ("triangle", "masked", "filled"),
    [
        (UPPER, "m = Where(after, fill, s)", 1.0),
        (UPPER, "m = Where(after, s, fill)", 0.0),
        (UPPER, "m = Add(s, lower)", -2.0),
        (UPPER.replace("upper = 1", "upper = 0"), "m = Add(s, lower)", LOWEST),
        (UPPER.replace("(ones, shift)", "(ones)"), "m = Add(s, lower)", LOWEST),
        (TRIANGLE, "m = Add(s, lower)", 1.0),
        (TRIANGLE, "other = Equal(lower, one) m = Where(other, fill, s)", 1.0),
        (TRIANGLE.replace("(ones)", "(q)"), "m = Where(after, fill, s)", 1.0),
    ],
)
def test_other_triangles_are_masks(triangle: str, masked: str, filled: float) -> None:
    inputs = HEADS.replace("seq", "8").replace("keys", "8") if "(q)" in triangle else HEADS
    proto = model(f"{triangle} {SCALED} {masked} {ATTENDED}", inputs, one=filled, fill=LOWEST, shift=np.int64(1))
    assert found(proto)[-1] == "onnxlift.Attention"
    assert "is_causal" not in attention(proto)[1]


def by_position(comparison: str, branches: str = "zero, lowest") -> onnx.ModelProto:
    body = f"""sq = Shape(q) n = Gather(sq, axis) sk = Shape(k) l = Gather(sk, axis) rows = Range(first, n, step)
        keys = Range(first, l, step) queries = Unsqueeze(rows, last) later = Add(queries, step)
        c = {comparison} w = Where(c, {branches}) {SCALED} m = Add(s, w) p = Softmax(m) y = MatMul(p, v)"""
    numbers = {"axis": np.int64(2), "first": np.int64(0), "step": np.int64(1), "last": np.array([-1])}
    return model(body, **numbers)


@pytest.mark.parametrize(
    "case",
    [
        ("LessOrEqual(keys, queries)", "zero, lowest"),
        ("GreaterOrEqual(queries, keys)", "zero, lowest"),
        ("Less(keys, later)", "zero, lowest"),
        ("Greater(keys, queries)", "lowest, zero"),
    ],
)
def test_keys_up_to_the_position_of_the_query_are_causal(case: tuple[str, str]) -> None:
    assert found(by_position(*case)) == ["onnxlift.Attention"]
    assert attention(by_position(*case))[1] == {"is_causal": 1}


@pytest.mark.parametrize(
    "case",
    [
        ("Less(keys, queries)", "zero, lowest"),
        ("LessOrEqual(keys, later)", "zero, lowest"),
        ("LessOrEqual(queries, keys)", "zero, lowest"),
        ("LessOrEqual(keys, queries)", "lowest, zero"),
    ],
)
def test_keys_up_to_another_position_are_not(case: tuple[str, str]) -> None:
    assert found(by_position(*case))[-1] == "onnxlift.Attention"
    assert attention(by_position(*case))[1] == {}


def test_hidden_keys_added_as_infinity_are_a_boolean_mask() -> None:
    body = (
        f"{SCALED} hidden = Not(mask) w = Where(hidden, infinity, zero) m = Add(w, s) p = Softmax(m) y = MatMul(p, v)"
    )
    assert found(model(body, BOOLEAN)) == ["Not", "Not", "onnxlift.Attention"]


def test_keys_and_values_shared_by_heads() -> None:
    inputs = "float[batch, 6, seq, 8] q, float[batch, 2, keys, 8] k, float[batch, 2, keys, 8] v"
    repeat = """{0}u = Unsqueeze({0}, two)
        {0}b = Shape <start = 0, end = 1> ({0}) {0}n = Shape <start = 2, end = 3> ({0})
        {0}es = Concat <axis = 0> ({0}b, two, three, {0}n, eight) {0}e = Expand({0}u, {0}es)
        {0}rs = Concat <axis = 0> ({0}b, six, {0}n, eight) {0}r = Reshape({0}e, {0}rs)"""
    body = f"""{repeat.format("k")} {repeat.format("v")} t = Transpose <perm = [0, 1, 3, 2]> (kr)
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, vr)"""
    numbers = {"two": [2], "three": [3], "six": [6], "eight": [8]}
    arrays = {name: np.array(value) for name, value in numbers.items()}
    proto = model(body, inputs, "float[batch, 6, seq, 8] y", **arrays)
    assert found(proto) == ["onnxlift.Attention"]
    assert attention(proto) == (["q", "k", "v"], {"enable_gqa": 1})


SHARED = "float[batch, 6, seq, 8] q, float[batch, 2, keys, 8] k, float[batch, 2, keys, 8] v"
TILED = "{0}u = Unsqueeze({0}, two) {0}t = Tile({0}u, copies) {0}r = Reshape({0}t, heads)"
JOINED = "{0}u = Unsqueeze({0}, two) {0}t = Concat <axis = 2> ({0}u, {0}u, {0}u) {0}r = Reshape({0}t, heads)"
KEYS_AT_ONCE = "t = Transpose <perm = [0, 1, 3, 2]> (kr)"
KEYS_IN_ROWS = """rows = Reshape(kt, flat) turned = Transpose <perm = [0, 2, 1]> (rows)
    t = Reshape(turned, unflat)"""


@pytest.mark.parametrize("keys", [KEYS_AT_ONCE, KEYS_IN_ROWS])
@pytest.mark.parametrize("repeat", [TILED, JOINED])
def test_keys_and_values_repeated_in_other_spellings(repeat: str, keys: str) -> None:
    inputs = SHARED.replace("keys", "5")
    body = f"""{repeat.format("k")} {repeat.format("v")} {keys}
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, vr)"""
    shapes = {
        "heads": [-1, 6, 5, 8],
        "flat": [-1, 5, 8],
        "unflat": [-1, 6, 8, 5],
        "copies": [1, 1, 3, 1, 1],
        "two": [2],
    }
    proto = model(body, inputs, "float[batch, 6, seq, 8] y", **{name: np.array(shapes[name]) for name in shapes})
    assert attention(proto) == (["q", "k", "v"], {"enable_gqa": 1})


@pytest.mark.parametrize("wider", ["Unsqueeze(turned, one)", "Reshape(turned, heads)"])
def test_keys_that_get_an_axis_of_heads_after_their_transpose(wider: str) -> None:
    inputs = "float[batch, 1, seq, 8] q, float[batch, keys, 8] k, float[batch, 1, keys, 8] v"
    body = f"""turned = Transpose <perm = [0, 2, 1]> (k) t = {wider}
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, v)"""
    known = {"one": np.array([1]), "heads": np.array([0, 1, 8, -1])}
    proto = model(body, inputs, "float[batch, 1, seq, 8] y", **{name: known[name] for name in known if name in body})
    assert found(proto) == ["Unsqueeze", "onnxlift.Attention"]
    assert "k.unsqueeze(1)" in onnxlift.lift(proto).source


def test_repeated_blocks_of_heads_are_not_shared_heads() -> None:
    """Heads 0, 1, 0, 1, ... instead of 0, 0, ..., 1, 1: the axis of copies is in front of that of heads."""
    repeat = TILED.replace("two", "one").replace("copies", "blocks")
    body = f"""{repeat.format("k")} {repeat.format("v")} {KEYS_AT_ONCE}
        qk = MatMul(q, t) s = Mul(qk, scale) p = Softmax(s) y = MatMul(p, vr)"""
    shapes = {"heads": [-1, 6, 5, 8], "blocks": [1, 3, 1, 1, 1], "one": [1]}
    known = {name: np.array(shapes[name]) for name in shapes}
    proto = model(body, SHARED.replace("keys", "5"), "float[batch, 6, seq, 8] y", **known)
    assert "enable_gqa" not in attention(proto)[1]


@pytest.mark.parametrize("axis", [1, 2])
def test_softmax_over_another_axis_stays(axis: int) -> None:
    inputs = HEADS.replace("keys", "seq")
    operators = found(model(f"{SCALED} p = Softmax <axis = {axis}> (s) y = MatMul(p, v)", inputs))
    assert "onnxlift.Attention" not in operators


def test_softmax_of_old_opsets() -> None:
    """Until opset 12 the default axis was 1, and all axes from it on were one."""
    assert "onnxlift.Attention" not in found(model(f"{SCALED} p = Softmax(s) y = MatMul(p, v)", opset=12))
    assert found(model(f"{SCALED} p = Softmax <axis = 3> (s) y = MatMul(p, v)", opset=12)) == ["onnxlift.Attention"]


@pytest.mark.parametrize("part", ["p", "s", "qk"])
def test_stays_if_a_part_is_an_output(part: str) -> None:
    output = f"float[batch, 3, seq, 8] y, float[batch, 3, seq, keys] {part}"
    operators = found(model(f"{SCALED} p = Softmax(s) y = MatMul(p, v)", output=output))
    assert "onnxlift.Attention" not in operators


def test_stays_if_the_probabilities_are_read_elsewhere() -> None:
    body = f"{SCALED} p = Softmax(s) z = ReduceMax(p) y = MatMul(p, v)"
    operators = found(model(body, output="float[batch, 3, seq, 8] y, float[1, 1, 1, 1] z"))
    assert "onnxlift.Attention" not in operators


def test_scaled_queries_that_are_read_elsewhere_stay_scaled() -> None:
    body = """qs = Mul(q, scale) z = Neg(qs) t = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(qs, t)
        p = Softmax(s) y = MatMul(p, v)"""
    proto = model(body, output="float[batch, 3, seq, 8] y, float[batch, 3, seq, 8] z")
    assert sorted(found(proto)) == ["Mul", "Neg", "onnxlift.Attention"]
    assert attention(proto)[1] == {"scale": 1.0}


DROPPED = f"{SCALED} p = Softmax <axis = -1> (s)"


@pytest.mark.parametrize("training", [False, True])
def test_dropout_of_the_probabilities_is_for_training(training: bool) -> None:
    numbers = {"ratio": 0.25, "mode": np.array(training)}
    proto = model(f"{DROPPED} d = Dropout(p, ratio, mode) y = MatMul(d, v)", **numbers)
    assert attention(proto)[1] == {"dropout": 0.25, "trains": int(training)}
    lifted = onnxlift.lift(proto)
    assert "dropout_p=0.25 if self.training else 0.0" in lifted.source
    assert bool(lifted.report.warnings) is training
    kept = model(f"{DROPPED} y = MatMul(p, v)")
    q, k, v = (torch.from_numpy(array) for array in random_inputs(proto, SIZES[0], 0).values())
    torch.testing.assert_close(lifted.module()(q, k, v), onnxlift.convert(kept)(q, k, v))
    assert not torch.equal(lifted.module(train=True)(q, k, v), onnxlift.convert(kept)(q, k, v))


@pytest.mark.parametrize(
    ("call", "inputs", "output"),
    [
        ("d, m = Dropout(p, ratio, mode)", "", ", bool[batch, 3, seq, keys] m"),
        ("d = Dropout <seed = 3> (p, ratio, mode)", "", ""),
        ("d = Dropout(p, share, mode)", ", float share", ""),
        ("d = Dropout(p, ratio, trains)", ", bool trains", ""),
    ],
)
def test_other_dropouts_are_no_part_of_attention(call: str, inputs: str, output: str) -> None:
    numbers = {"ratio": 0.25, "mode": np.array(True)}
    text = f"{DROPPED} {call} y = MatMul(d, v)"
    proto = model(text, HEADS + inputs, f"float[batch, 3, seq, 8] y{output}", **numbers)
    assert not [node for node in simplified(proto).graph if node.op_type == "Attention"]
