from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

import onnxlift
from onnxlift.ir.load import load
from onnxlift.rewriting.idioms.layers import linear
from rewriting.idioms.recognising import Data, assert_same_numbers, found, parse, simplified
from rewriting.running_stages import normalise

X = "float[batch, seq, 6] x"


def test_product_and_bias_on_either_side() -> None:
    for add in ("Add(h, b)", "Add(b, h)"):
        model = parse(f"g ({X}) => (float[batch, seq, 4] y) {{ h = MatMul(x, w) y = {add} }}", w=(6, 4), b=(4,))
        assert found(model) == ["onnxlift.Linear"]


def test_without_bias() -> None:
    assert found(parse(f"g ({X}) => (float[batch, seq, 4] y) {{ y = MatMul(x, w) }}", w=(6, 4))) == ["onnxlift.Linear"]


def test_one_axis() -> None:
    model = parse("g (float[6] x) => (float[4] y) { h = MatMul(x, w) y = Add(h, b) }", w=(6, 4), b=(4,))
    assert found(model) == ["onnxlift.Linear"]


def test_transposed_weight_keeps_its_own_layout() -> None:
    model = parse(
        f"g ({X}) => (float[batch, seq, 4] y) {{ t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }}", w=(4, 6)
    )
    assert found(model) == ["onnxlift.Linear"]
    (linear,) = simplified(model).graph
    assert [value.name for value in linear.inputs] == ["x", "w"] and linear.attributes["transposed"].value == 1


def test_name_is_that_of_the_product_and_the_output_keeps_its_own() -> None:
    model = parse(f"g ({X}) => (float[batch, seq, 4] y) {{ h = MatMul(x, w) y = Add(h, b) }}", w=(6, 4), b=(4,))
    for node, name in zip(model.graph.node, ("/fc/MatMul", "/fc/Add"), strict=True):
        node.name = name
    (linear,) = simplified(model).graph
    assert (linear.name, linear.outputs[0].name) == ("/fc/MatMul", "y")


@pytest.mark.parametrize("bias", [(4,), (1, 4)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(transposed: int, bias: tuple[int, ...]) -> None:
    text = f"g (float[batch, 6] x) => (float[batch, 4] y) {{ y = Gemm <transB = {transposed}> (x, w, b) }}"
    assert found(parse(text, w=(4, 6) if transposed else (6, 4), b=bias)) == ["onnxlift.Linear"]


def test_gemm_without_bias() -> None:
    assert found(parse("g (float[batch, 6] x) => (float[batch, 4] y) { y = Gemm(x, w) }", w=(6, 4))) == [
        "onnxlift.Linear"
    ]


@pytest.mark.parametrize(
    ("attributes", "shape", "bias"),
    [
        ("alpha = 0.5", "batch, 6", (4,)),
        ("beta = 0.5", "batch, 6", (4,)),
        ("transA = 1", "6, batch", (4,)),
        ("alpha = 1.0", "batch, 6", (1,)),
        ("alpha = 1.0", "3, 6", (3, 1)),
    ],
)
def test_other_gemms_stay(attributes: str, shape: str, bias: tuple[int, ...]) -> None:
    text = f"g (float[{shape}] x) => (float[p, 4] y) {{ y = Gemm <{attributes}> (x, w, b) }}"
    assert "onnxlift.Linear" not in found(parse(text, w=(6, 4), b=bias))


def test_constant_on_the_left_stays() -> None:
    model = parse("g (float[batch, 6, 5] x) => (float[batch, 4, 5] y) { y = MatMul(w, x) }", w=(4, 6))
    assert found(model) == ["MatMul"]


def test_stack_of_matrices_stays() -> None:
    model = parse("g (float[batch, 3, 6] x) => (float[2, 3, 4] y) { y = MatMul(x, w) }", w=(1, 6, 4))
    assert found(model) == ["MatMul"]


def test_integers_stay() -> None:
    model = parse("g (int32[batch, 6] x) => (int32[batch, 4] y) { y = MatMul(x, w) }", w=np.arange(24, dtype=np.int32))
    model.graph.initializer[0].dims[:] = [6, 4]
    assert "onnxlift.Linear" not in [f"{n.domain}.{n.op_type}" for n in simplified(model).graph]


@pytest.mark.parametrize("shape", [(1,), (5, 1), (5, 4), (2, 1, 1, 4)])
def test_bias_of_another_shape_stays(shape: tuple[int, ...]) -> None:
    model = parse("g (float[2, 5, 6] x) => (float y) { h = MatMul(x, w) y = Add(h, b) }", w=(6, 4), b=shape)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    operators = [node.op_type for node in simplified(model).graph]
    assert operators == ["Linear", "Add"]


def test_bias_stays_if_the_product_is_read_elsewhere() -> None:
    outputs = "float[batch, seq, 4] y, float[batch, seq, 4] z"
    text = f"g ({X}) => ({outputs}) {{ h = MatMul(x, w) y = Add(h, b) z = Neg(h) }}"
    assert sorted(found(parse(text, w=(6, 4), b=(4,)))) == ["Add", "Neg", "onnxlift.Linear"]


def test_bias_stays_if_the_product_is_an_output() -> None:
    text = f"g ({X}) => (float[batch, seq, 4] y, float[batch, seq, 4] h) {{ h = MatMul(x, w) y = Add(h, b) }}"
    assert found(parse(text, w=(6, 4), b=(4,))) == ["onnxlift.Linear", "Add"]


def test_one_weight_for_two_products() -> None:
    text = f"g ({X}) => (float[batch, seq, 6] y) {{ h = MatMul(x, w) y = MatMul(h, w) }}"
    assert found(parse(text, w=(6, 6))) == ["onnxlift.Linear"] * 2


CONV1D = """g (float[batch, seq, 6] x) => (float[batch, seq, 4] y) {{
    flat = Reshape(x, rows)
    h = Gemm(flat, w, b)
    shape = Shape <start = 0, end = {axes}> (x)
    target = Concat <axis = 0> (shape, out)
    y = Reshape(h, target)
}}"""


def test_reshapes_around_it_go() -> None:
    model = parse(CONV1D.format(axes=2), rows=np.array([-1, 6]), out=np.array([4]), w=(6, 4), b=(4,))
    assert found(model) == ["onnxlift.Linear"]


def test_reshapes_of_two_modules_stay() -> None:
    text = CONV1D.format(axes=2)
    model = parse(text, rows=np.array([-1, 6]), out=np.array([4]), w=(6, 4), b=(4,))
    for number, node in enumerate(model.graph.node):
        node.name = f"/fc/{node.op_type}_{number}"
    assert found(model) == ["onnxlift.Linear"]
    next(node for node in model.graph.node if node.op_type == "Reshape").name = "/norm/Reshape"
    assert "Reshape" in found(model)


def test_reshape_of_heads_before_it_is_all_that_is_left() -> None:
    text = CONV1D.replace("float[batch, seq, 6] x", "float[batch, seq, 3, 2] x").format(axes=2)
    model = parse(text, rows=np.array([-1, 6]), out=np.array([4]), w=(6, 4), b=(4,))
    assert found(model) == ["Reshape", "onnxlift.Linear"]


def test_reshapes_stay_if_they_change_the_rows() -> None:
    text = """g (float[batch, 4, 6] x) => (float[p, 4, 4] y) {
        flat = Reshape(x, rows)
        h = Gemm(flat, w, b)
        y = Reshape(h, target)
    }"""
    model = parse(text, rows=np.array([-1, 12]), target=np.array([-1, 4, 4]), w=(12, 8), b=(8,))
    assert found(model) == ["Reshape", "onnxlift.Linear", "Reshape"]


def test_reshapes_stay_if_the_rows_are_read_elsewhere() -> None:
    text = CONV1D.format(axes=2).replace("4] y)", "4] y, float[r, 4] z)").replace("y =", "z = Neg(h) y =")
    model = parse(text, rows=np.array([-1, 6]), out=np.array([4]), w=(6, 4), b=(4,))
    assert "Reshape" in found(model)


def test_inside_a_branch() -> None:
    text = """g (bool c, float[2, 6] x) => (float[2, 4] y) {
        y = If (c) <
            then_branch = t () => (float[2, 4] p) { h = MatMul(x, w) p = Add(h, b) },
            else_branch = e () => (float[2, 4] q) { q = MatMul(x, w) }
        >
    }"""
    model = simplified(parse(text, w=(6, 4), b=(4,)))
    (branch,) = model.graph
    inner = [[node.op_type for node in branch.attributes[name].as_graph()] for name in ("then_branch", "else_branch")]
    assert inner == [["Linear"], ["Linear"]]


def test_a_product_outside_of_the_branch_is_not_swallowed_by_it() -> None:
    text = """g (bool c, float[2, 6] x) => (float[2, 4] y) {
        h = MatMul(x, w)
        y = If (c) <
            then_branch = t () => (float[2, 4] p) { p = Add(h, b) },
            else_branch = e () => (float[2, 4] q) { q = Neg(h) }
        >
    }"""
    model = simplified(parse(text, w=(6, 4), b=(4,)))
    assert [node.op_type for node in model.graph] == ["Linear", "If"]


@pytest.mark.parametrize(
    ("producer", "weight", "operators"),
    [
        ("pytorch", "c_fc.weight", ["MatMul", "Add"]),
        ("pytorch", "onnx::MatMul_12", ["onnxlift.Linear"]),
        ("tf2onnx", "c_fc.weight", ["onnxlift.Linear"]),
    ],
)
def test_a_matrix_that_pytorch_holds_as_it_is_used_is_no_linear_layers(
    producer: str, weight: str, operators: list[str]
) -> None:
    text = f"""g ({X}) => (float[batch, seq, 4] y) {{
        rows = Reshape(x, flat) h = Gemm(rows, w, b) s = Shape(x) lead = Slice(s, zero, two)
        target = Concat <axis = 0> (lead, four) y = Reshape(h, target)
    }}"""
    sizes = {"flat": np.array([-1, 6]), "zero": np.array([0]), "two": np.array([2]), "four": np.array([4])}
    model = parse(text, w=(6, 4), b=(4,), **sizes)
    model.producer_name = producer
    model.graph.initializer[0].name = model.graph.node[1].input[1] = weight
    assert found(model) == operators


def test_a_matrix_of_pytorch_that_is_transposed_in_the_graph_is_a_linear_layers() -> None:
    model = parse("g (float[batch, 6] x) => (float[batch, 4] y) { y = Gemm <transB = 1> (x, w, b) }", w=(4, 6), b=(4,))
    model.producer_name = "pytorch"
    model.graph.initializer[0].name = model.graph.node[0].input[1] = "fc.weight"
    assert found(model) == ["onnxlift.Linear"]


@pytest.mark.parametrize(
    ("producer", "shape", "kind"),
    [("pytorch", (4,), "PARAMETER"), ("pytorch", (1, 4), ""), ("pytorch", (4,), "BUFFER"), ("tf2onnx", (1, 4), "")],
)
def test_what_pytorch_adds_to_a_layer_is_not_always_its_bias(producer: str, shape: tuple[int, ...], kind: str) -> None:
    model = parse(
        f"g ({X}) => (float[batch, seq, 4] y) {{ h = MatMul(x, val_1) y = Add(h, b) }}", val_1=(6, 4), b=shape
    )
    model.producer_name = producer
    info = model.graph.value_info.add(name="b")
    info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    is_bias = producer != "pytorch" or (len(shape) == 1 and kind != "BUFFER")
    assert found(model) == (["onnxlift.Linear"] if is_bias else ["onnxlift.Linear", "Add"])


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("g (float[batch, 6] x, float[6, 4] k) => (float[batch, 4] y) { h = Gemm(x, k) y = Add(h, w) }", (4,)),
        (
            "g (float[batch, 6] x, float[4, 6] k) => (float[batch, 4] y) {"
            " t = Transpose <perm = [1, 0]> (k) h = MatMul(x, t) y = Add(h, w) }",
            (4,),
        ),
        ("g (float[batch, 6] x) => (float[batch, 0] y) { y = MatMul(x, w) }", (6, 0)),
        ("g (float[batch, 6] x) => (float[batch, 0] y) { y = Gemm <transB = 1> (x, w) }", (0, 6)),
    ],
    ids=["an input in a Gemm", "an input that is transposed", "no columns", "no rows"],
)
def test_another_matrix_is_no_weight(text: str, weight: tuple[int, ...]) -> None:
    assert "onnxlift.Linear" not in found(parse(text, w=weight))


@pytest.mark.parametrize(("order", "count"), [("[1, 0]", 1), ("[0, 1]", 0)])
def test_a_transpose_that_leaves_the_weight_as_it_is(order: str, count: int) -> None:
    text = f"g (float[batch, 6] x) => (float[batch, 6] y) {{ t = Transpose <perm = {order}> (w) y = MatMul(x, t) }}"
    graph = load(parse(text, w=(6, 6)))
    normalise(graph)
    assert linear.run(graph) == count


def test_a_second_bias_stays() -> None:
    text = f"g ({X}) => (float[batch, seq, 4] y) {{ h = MatMul(x, w) k = Add(h, b) y = Add(k, c) }}"
    assert found(parse(text, w=(6, 4), b=(4,), c=(4,))) == ["onnxlift.Linear", "Add"]


@pytest.mark.parametrize(
    ("bias", "shape"), [(1.5, "batch, seq, 4"), ((1, 1, 1, 4), "1, batch, seq, 4")], ids=["a number", "axes"]
)
def test_what_is_one_number_or_adds_axes_is_no_bias(bias: Data, shape: str) -> None:
    model = parse(f"g ({X}) => (float[{shape}] y) {{ h = MatMul(x, w) y = Add(h, b) }}", w=(6, 4), b=bias)
    assert found(model) == ["onnxlift.Linear", "Add"]


@pytest.mark.parametrize(("shape", "operators"), [((4,), ["Linear"]), ((1, 4), ["Linear", "Add"])])
def test_a_product_with_any_number_of_axes(shape: tuple[int, ...], operators: list[str]) -> None:
    """An axis before the outputs of a bias may be one too many for it."""
    text = """g (float[6] x) => (float[n, 4] y) {
        s = ReduceSum <keepdims = 0> (x) c = Greater(s, s2)
        i = If (c) <then_branch = t () => (float[m] p) { p = Neg(x) }, else_branch = e () => (float[k, 6] q) {
            q = Unsqueeze(x, zero) }>
        h = MatMul(i, w) y = Add(h, b)
    }"""
    model = parse(text, w=(6, 4), b=shape, s2=0.1, zero=np.array([0]))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert [node.op_type for node in simplified(model).graph][-len(operators) :] == operators
    assert_same_numbers(model)


def test_before_opset_7_a_sum_says_which_axis_it_is_along() -> None:
    text = "g (float[4, 6] x) => (float[4, 4] y) { h = MatMul(x, w) y = Add <broadcast = 1, axis = 0> (h, b) }"
    model = parse(text, 6, w=(6, 4), b=(4,))
    weight, bias = (onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    with torch.no_grad():
        result = onnxlift.lift(model).module()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(result, x @ weight + bias[:, None], rtol=1e-5, atol=1e-6)


FLATTENED = "r = Reshape(x, rows) h = MatMul(r, w) y = Reshape(h, target)"
EMPTY = f"x = Slice(z, zero, zero, zero) {FLATTENED}"


@pytest.mark.parametrize(
    ("shape", "rows", "weight", "target", "operators"),
    [
        ("batch, 2, 3, 6", [-1, 6], (6, 4), [-1, 2, 3, 4], ["onnxlift.Linear"]),
        ("batch, 2, 3, 6", [-1, 6], (6, 4), [-1, 3, 2, 4], ["Reshape", "onnxlift.Linear", "Reshape"]),
        ("3, 5", [15, 1], (1, 4), [3, 5, 4], ["Reshape", "onnxlift.Linear"]),
    ],
    ids=["same axes", "other axes", "an axis more"],
)
def test_reshapes_go_only_if_the_axes_stay(
    shape: str, rows: list[int], weight: tuple[int, ...], target: list[int], operators: list[str]
) -> None:
    known = {"rows": np.array(rows), "target": np.array(target), "w": weight}
    sizes = ", ".join("abcd"[: len(target)])
    assert found(parse(f"g (float[{shape}] x) => (float[{sizes}] y) {{ {FLATTENED} }}", **known)) == operators


def test_a_reshape_to_no_axes_stays() -> None:
    known = {"rows": np.array([6]), "target": np.array([], np.int64), "w": (6, 1)}
    graph = load(parse(f"g (float[2, 3] x) => (float y) {{ {FLATTENED} }}", **known))
    normalise(graph)
    assert linear.run(graph) == 1
    assert [node.op_type for node in graph.graph] == ["Reshape", "Linear", "Reshape"]


@pytest.mark.parametrize(
    ("rows", "weight", "target"), [([0, 6], (6, 4), [0, 5, 7]), ([0, 12], (12, 4), [0, 5, 4])], ids=["out", "in"]
)
def test_without_rows_anything_can_be_reshaped(rows: list[int], weight: tuple[int, ...], target: list[int]) -> None:
    known = {"rows": np.array(rows), "target": np.array(target), "w": weight, "zero": np.array([0])}
    model = parse(f"g (float[batch, 5, 6] z) => (float[a, 5, c] y) {{ {EMPTY} }}", **known)
    assert found(model)[-3:] == ["Reshape", "onnxlift.Linear", "Reshape"]


def test_rows_that_are_read_elsewhere_are_not_computed_twice() -> None:
    text = CONV1D.format(axes=2).replace("4] y)", "4] y, float[r, 4] z)").replace("y =", "z = Neg(h) y =")
    model = parse(text, rows=np.array([-1, 6]), out=np.array([4]), w=(6, 4), b=(4,))
    assert found(model).count("onnxlift.Linear") == 1


SCOPES = "pkg.torch.onnx.name_scopes"
SUM = "g (float[batch, 6] x) => (float[batch, 4] y) { h = MatMul(x, val_1) y = Add(h, b) }"


@pytest.mark.parametrize(
    ("product", "addition", "scopes", "is_bias"),
    [
        ("/fc/MatMul", "/fc/Add", (), True),
        ("/fc/MatMul", "/Add", (), False),
        ("/fc/MatMul", "add", (), True),
        ("matmul", "/head/Add", (), True),
        ("matmul", "add", ("['', 'fc', 'matmul']", "['', 'fc', 'add']"), True),
        ("matmul", "add", ("['', 'fc', 'matmul']", "['', 'head', 'add']"), False),
    ],
)
def test_pytorch_adds_a_bias_in_the_module_that_multiplies(
    product: str, addition: str, scopes: tuple[str, ...], is_bias: bool
) -> None:
    model = parse(SUM, val_1=(6, 4), b=(4,))
    model.producer_name = "pytorch"
    model.graph.node[0].name, model.graph.node[1].name = product, addition
    for node, scope in zip(model.graph.node, scopes, strict=False):
        node.metadata_props.add(key=SCOPES, value=scope)
    assert found(model) == (["onnxlift.Linear"] if is_bias else ["onnxlift.Linear", "Add"])


FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"


@pytest.mark.parametrize(
    ("name", "sources", "is_bias"),
    [
        ("onnx::Add_13", None, True),
        ("b", "['fc.bias']", True),
        ("b", "['fc.weight', 'fc.bias']", False),
    ],
    ids=["a name that tells nothing", "a copy", "computed"],
)
def test_what_pytorch_computes_from_parameters_is_no_bias(name: str, sources: str | None, is_bias: bool) -> None:
    model = parse(SUM.replace("(h, b)", f'(h, "{name}")'), val_1=(6, 4), **{name: (4,)})
    model.producer_name = "pytorch"
    if sources is not None:
        info = model.graph.value_info.add(name=name)
        info.metadata_props.add(key=FOLDED_FROM, value=sources)
    assert found(model) == (["onnxlift.Linear"] if is_bias else ["onnxlift.Linear", "Add"])


@pytest.mark.parametrize(("sources", "operators"), [(None, ["MatMul"]), ("['fc.weight']", ["onnxlift.Linear"])])
def test_a_matrix_that_pytorchs_optimiser_has_transposed_is_a_linear_layers(
    sources: str | None, operators: list[str]
) -> None:
    text = 'g (float[batch, 6] x) => (float[batch, 4] y) { y = MatMul(x, "fc.turned") }'
    model = parse(text, **{"fc.turned": (6, 4)})
    model.producer_name = "pytorch"
    if sources is not None:
        info = model.graph.value_info.add(name="fc.turned")
        info.metadata_props.add(key=FOLDED_FROM, value=sources)
    assert found(model) == operators


@pytest.mark.parametrize(("domain", "op_type"), [("acme", "Linear"), ("onnxlift", "Bilinear")])
def test_other_nodes_are_not_taken_for_products_in_the_end(domain: str, op_type: str) -> None:
    text = f'g (float[batch, 6] x) => (float[batch, 4] y) {{ y = {domain}.{op_type}(x, "fc.weight") }}'
    model = parse(text, **{"fc.weight": (6, 4)})
    model.producer_name = "pytorch"
    model.opset_import.add(domain=domain, version=1)
    graph = load(model)
    normalise(graph)
    assert linear.run(graph) == 0
