"""Products with matrices that are no linear layers'."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.lifting.ops.layer_nodes import function_weights
from onnxlift.rewriting.idioms.layers import bare_weights
from rewriting.idioms.layers.test_bilinear import LAYER, TURNED
from rewriting.idioms.layers.test_bilinear import model as bilinear
from rewriting.idioms.recognising import Data, assert_same_numbers, parse
from rewriting.running_stages import normalise


def product(weight: str, shape: tuple[int, int] = (4, 6), bias: str = "", producer: str = "pytorch") -> onnx.ModelProto:
    transposed = int(shape == (4, 6))
    added = f', "{bias}"' if bias else ""
    text = f'y = Gemm <transB = {transposed}> (x, "{weight}"{added})'
    constants = {weight: shape} | ({bias: (4,)} if bias else {})
    model = parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **constants)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("weight", "bias", "written"),
    [
        ("inner.kernel", "", "F.linear(x, self.kernel)"),
        ("inner.kernel", "inner.bias", "F.linear(x, self.kernel, self.bias)"),
    ],
)
def test_a_parameter_with_a_name_of_its_own_keeps_it(weight: str, bias: str, written: str) -> None:
    lifted = onnxlift.lift(product(weight, bias=bias))
    assert written.replace("self.", "self.inner.") in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in (weight, bias) if name)


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("weight", (4, 6), ""), ("weight", (4, 6), "bias"), ("onnx::MatMul_7", (6, 4), "bias")],
)
def test_a_layer_that_was_exported_by_itself_has_its_keys(weight: str, shape: tuple[int, int], bias: str) -> None:
    lifted = onnxlift.lift(product(weight, shape, bias))
    assert "(nn.Linear):" in lifted.source
    assert sorted(lifted.state_dict) == sorted(name for name in ("weight", bias) if name)
    assert "= nn.Linear" in onnxlift.lift(product(weight, shape, bias, producer="other")).source


@pytest.mark.parametrize(("weight", "producer"), [("inner.weight", "pytorch"), ("inner.kernel", "other")])
def test_layers_stay(weight: str, producer: str) -> None:
    assert "nn.Linear(6, 4, bias=False)" in onnxlift.lift(product(weight, producer=producer)).source


def test_a_packed_projection_has_the_name_of_its_class() -> None:
    lifted = onnxlift.lift(product("onnx::MatMul_12", (6, 4), "attn.in_proj_bias"))
    assert {key: array.shape for key, array in lifted.state_dict.items()} == {
        "attn.in_proj_weight": (4, 6),
        "attn.in_proj_bias": (4,),
    }


@pytest.mark.parametrize(
    ("weight", "shape", "bias"),
    [("onnx::MatMul_12", (6, 4), "attn.bias"), ("onnx::MatMul_12", (4, 6), "attn.in_proj_bias")],
)
def test_other_nameless_weights_are_layers(weight: str, shape: tuple[int, int], bias: str) -> None:
    assert "nn.Linear(6, 4)" in onnxlift.lift(product(weight, shape, bias)).source


CONV = 'y = Conv(x, "inner.kernel", "inner.shift")'
NORM = 'y = LayerNormalization <axis = -1> (x, "inner.gamma", "inner.beta")'
SHAPES = {
    "kernel": (4, 4, 3),
    "shift": (4,),
    "weight": (4, 4, 3),
    "bias": (4,),
    "weight_bias": (4,),
    "gamma": (9,),
    "beta": (9,),
}


def layer(text: str, producer: str = "pytorch") -> onnx.ModelProto:
    """A convolution or norm of 4 channels, with weights called as in the text."""
    names = [name.partition('"')[0] for name in text.split(' "')[1:]]
    shapes = {name: SHAPES.get(name.rpartition(".")[2], (4, 4, 3)) for name in names}
    width = 7 if "Conv" in text else 9
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, {width}] y) {{ {text} }}", **shapes)
    model.producer_name = producer
    assert_same_numbers(model)
    return model


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (CONV, "F.conv1d(x, self.inner.kernel, self.inner.shift)"),
        (CONV.replace("kernel", "weight"), "F.conv1d(x, self.inner.weight, self.inner.shift)"),
        (CONV.replace(', "inner.shift"', ""), "F.conv1d(x, self.inner.kernel)"),
        (NORM, "F.layer_norm(x, (9,), self.inner.gamma, self.inner.beta)"),
    ],
)
def test_convolutions_and_norms_by_other_names(text: str, written: str) -> None:
    lifted = onnxlift.lift(layer(text))
    assert written in lifted.source
    assert sorted(lifted.state_dict) == sorted(name.partition('"')[0] for name in text.split(' "')[1:])


@pytest.mark.parametrize(
    ("text", "producer"),
    [
        (CONV, "other"),
        (CONV.replace("kernel", "weight").replace("shift", "bias"), "pytorch"),
        (CONV.replace("kernel", "weight").replace("shift", "weight_bias"), "pytorch"),  # of a folded BatchNorm
        (CONV.replace("inner.kernel", "onnx::Conv_12"), "pytorch"),
        (CONV.replace("inner.kernel", "mul_7").replace("shift", "bias"), "pytorch"),
    ],
)
def test_layers_by_their_names(text: str, producer: str) -> None:
    assert "nn.Conv1d(4, 4, 3)" in onnxlift.lift(layer(text, producer)).source


def noted(model: onnx.ModelProto, **notes: str) -> onnx.ModelProto:
    """The model with what the newer exporter writes beside constants."""
    for name, note in notes.items():
        key = "pkg.onnxscript.optimizer.folded_from"
        if note in ("PARAMETER", "BUFFER"):
            key = "pkg.torch.export.graph_signature.InputSpec.kind"
        model.graph.value_info.add(name=name).metadata_props.add(key=key, value=note)
    model.producer_name = "pytorch"
    assert_same_numbers(model)
    return model


SLOPE = "g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) { y = PRelu(x, val_1) }"


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((4, 1), "['inner.slope', 'val_0']"),
        ((1, 1), "['inner.slope', 'val_0']"),
        ((1, 4, 1), "['inner.slope', 'val_0']"),
        ((4, 1), "['x', 'inner.slope']"),  # and the size of an input
    ],
)
def test_a_slope_has_the_name_that_it_was_made_from(shape: tuple[int, ...], note: str) -> None:
    lifted = onnxlift.lift(noted(parse(SLOPE, val_1=shape), val_1=note))
    assert "F.prelu(x, self.inner.slope)" in lifted.source
    assert {key: array.shape for key, array in lifted.state_dict.items()} == {"inner.slope": (max(shape),)}
    assert dict(lifted.module().named_parameters()).keys() == {"inner.slope"}


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((4, 1), "['inner.slope', 'exp', 'val_0']"),
        ((4, 1), "['inner.weight', 'val_0']"),
        ((9,), "['inner.slope', 'val_0']"),
        ((4, 1), "['y', 'inner.slope']"),
    ],
    ids=["computed", "by a layer's name", "no channel's", "of something else"],
)
def test_other_slopes(shape: tuple[int, ...], note: str) -> None:
    assert "F.prelu" not in onnxlift.lift(noted(parse(SLOPE, val_1=shape), val_1=note)).source


def test_a_matrix_has_the_name_that_it_was_made_from() -> None:
    text = "g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) { y = MatMul(x, val_1) }"
    lifted = onnxlift.lift(noted(parse(text, val_1=(6, 4)), val_1="['inner.matrix']"))
    assert "F.linear(x, self.inner.matrix)" in lifted.source
    assert lifted.state_dict["inner.matrix"].shape == (4, 6)


BATCH_NORM = 'g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) { y = BatchNormalization(x, "w", "b", "m", "v") }'


@pytest.mark.parametrize(
    ("names", "kinds", "is_layer"),
    [
        ({"w": "n.gamma", "b": "n.beta", "m": "n.mean", "v": "n.var"}, {}, False),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {}, True),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {"n.weight": "BUFFER"}, False),
        ({"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"}, {"n.act.weight": ""}, True),
        (
            {"w": "n.weight", "b": "n.bias", "m": "n.running_mean", "v": "n.running_var"},
            {"n.running_mean": "BUFFER", "n.running_var": "BUFFER"},
            True,
        ),
    ],
    ids=["other names", "a layer", "nothing to train", "with modules below it", "statistics are told"],
)
def test_batch_norms(names: dict[str, str], kinds: dict[str, str], is_layer: bool) -> None:
    text = BATCH_NORM
    for short, name in names.items():
        text = text.replace(f'"{short}"', f'"{name}"')
    shapes: dict[str, tuple[int, ...]] = {name: (4,) for short, name in names.items() if short != "v"}
    model = parse(text, **shapes, **{names["v"]: np.array([0.5, 2, 1, 3], np.float32)})
    if "n.act.weight" in kinds:
        text = text.replace("y =", "a =").replace("}", 'y = PRelu(a, "n.act.weight") }')
        model = parse(text, **shapes, **{names["v"]: np.array([0.5, 2, 1, 3], np.float32), "n.act.weight": (1,)})
        kinds = {}
    lifted = onnxlift.lift(noted(model, **kinds))
    assert ("nn.BatchNorm1d(4)" in lifted.source) == is_layer
    assert {"mean", "var"} <= {name.rpartition(".")[2].removeprefix("running_") for name in lifted.state_dict}
    trained = dict(lifted.module().named_parameters())
    assert not any(name.endswith(("mean", "var")) for name in trained)


def beside(name: str, other: str, node: str = "/inner/LayerNormalization") -> onnxlift.Lifted:
    text = f'a = LayerNormalization <axis = -1> (x, "{name}.weight", "{name}.bias") y = PRelu(a, "{other}.weight")'
    shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": (9,), f"{name}.bias": (9,), f"{other}.weight": (1,)}
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) {{ {text} }}", **shapes)
    model.graph.node[0].name = node
    return onnxlift.lift(noted(model))


def test_a_module_with_modules_below_it_is_no_layer() -> None:
    lifted = beside("inner", "inner.act")
    assert "F.layer_norm(x, (9,), self.weight, self.bias)" in lifted.source
    assert sorted(lifted.state_dict) == ["inner.act.weight", "inner.bias", "inner.weight"]
    assert "nn.LayerNorm(9)" in beside("inner", "act").source


@pytest.mark.parametrize("module", ["/inner", "/inner/fc"])
def test_a_matrix_without_a_name_is_in_the_module_of_its_bias(module: str) -> None:
    text = 'h = MatMul(x, "onnx::MatMul_7") y = Add("inner.shift", h)'
    shapes: dict[str, tuple[int, ...]] = {"onnx::MatMul_7": (6, 4), "inner.shift": (4,)}
    model = parse(f"g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) {{ {text} }}", **shapes)
    for node in model.graph.node:
        node.name = f"{module}/{node.op_type}"
    lifted = onnxlift.lift(noted(model))
    assert ("F.linear(x, self.weight, self.shift)" in lifted.source) == (module == "/inner")


def test_a_single_number_is_trained_by_its_name() -> None:
    text = 'g (float[batch, 5] x) => (float[batch, 5] y) { a = Mul(x, "inner.scale") y = Add(a, "onnx::Add_7") }'
    lifted = onnxlift.lift(noted(parse(text, **{"inner.scale": (1,), "onnx::Add_7": (1,)})))
    assert dict(lifted.module().named_parameters()).keys() == {"inner.scale"}
    assert "return x * self.scale + 0.29874554" in lifted.source


def rewrites(model: onnx.ModelProto, **notes: str) -> int:
    """How often the idiom applies where no other has been before."""
    graph = load(noted(model, **notes))
    normalise(graph)
    return bare_weights.run(graph, function_weights=function_weights)


NUMBER = 'g (float[1, 5] x) => (float[1, n] y) { a = Mul(x, "inner.scale") y = Tanh(a) }'


@pytest.mark.parametrize(
    ("old", "new", "shape", "notes", "expected"),
    [
        ("", "", (1,), {}, 1),
        ("Tanh(a)", 'Sub(a, "inner.scale")', (1,), {}, 1),
        ("", "", (5,), {}, 0),
        ("inner.scale", "scale", (1,), {}, 0),
        ("inner.scale", "scale", (1,), {"scale": "PARAMETER"}, 1),
        ("inner.scale", "mul_3", (1,), {"mul_3": "['inner.scale']"}, 0),
        ("", "", (1,), {"inner.scale": "BUFFER"}, 0),
        ("Tanh(a)", 'Concat <axis = 1> (a, "inner.scale")', (1, 1), {}, 0),
    ],
    ids=[
        *("a number", "read twice", "a vector", "by a name of no module", "told as a parameter"),
        *("computed from another", "a buffer", "more than computed with"),
    ],
)
def test_numbers_to_train(old: str, new: str, shape: tuple[int, ...], notes: dict[str, str], expected: int) -> None:
    text = NUMBER.replace(old, new)
    name = text.partition('Mul(x, "')[2].partition('"')[0]
    assert rewrites(parse(text, **{name: shape}), **notes) == expected


def test_a_convolution_of_another_domain() -> None:
    graph = load(noted(layer(CONV)))
    normalise(graph)
    graph.graph[0].domain = "acme"
    assert bare_weights.run(graph, function_weights=function_weights) == 0
    graph.graph[0].domain = ""
    assert bare_weights.run(graph, function_weights=function_weights) == 1


def test_a_kernel_that_is_computed() -> None:
    model = parse(
        f'g (float[batch, 4, 9] x) => (float[batch, 4, 7] y) {{ "inner.kernel" = Sin("inner.raw") {CONV} }}',
        **{"inner.raw": (4, 4, 3), "inner.shift": (4,)},
    )
    assert "F.conv1d(x, self.raw.sin(), self.shift)" in onnxlift.lift(noted(model)).source


def test_a_kernel_has_the_name_that_it_was_made_from() -> None:
    model = layer(CONV.replace("inner.kernel", "val_1"))
    lifted = onnxlift.lift(noted(model, val_1="['inner.kernel']"))
    assert sorted(lifted.state_dict) == ["inner.kernel", "inner.shift"]


def groups(shift: str = "", number: float = 0.5) -> str:
    """The source of a group norm in a module with others below it."""
    body = "r = Reshape(x, cut) i = InstanceNormalization(r, ones, zeros) g = Reshape(i, back)"
    affine = f's = Unsqueeze("inner.gamma", last) t = Mul(g, s) a = Add(t, "{shift}")'
    body = f'{body} {affine if shift else "a = Identity(g)"} y = PRelu(a, "inner.act.weight")'
    known: dict[str, Data] = {"cut": np.array((0, 2, -1)), "back": np.array((-1, 4, 9)), "last": np.array([1])}
    known |= {"ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32), "inner.act.weight": (1,)}
    known |= {"inner.gamma": (4,), shift: np.full((4, 1), number, np.float32)} if shift else {}
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) {{ {body} }}", **known)
    for index, node in enumerate(model.graph.node):
        node.name = f"/inner/{node.op_type}_{index}"
    return onnxlift.lift(noted(model)).source


@pytest.mark.parametrize(
    ("shift", "number", "written"),
    [
        ("inner.beta", 0.5, "F.group_norm(x, 2, self.gamma, self.beta_1)"),  # as a vector, beside what is stored
        ("onnx::Add_7", 0, "F.group_norm(x, 2, self.gamma)"),
        ("onnx::Add_7", 0.5, "nn.GroupNorm(2, 4)"),
        ("", 0, "F.group_norm(x, 2)"),
    ],
    ids=["weights", "no shift", "a shift without a name", "no weights"],
)
def test_group_norms(shift: str, number: float, written: str) -> None:
    assert written in groups(shift, number)


def test_a_convolution_with_zeros_of_no_name_stays() -> None:
    text = 'y = Conv(x, "inner.kernel", "onnx::Conv_7")'
    known: dict[str, Data] = {"inner.kernel": (4, 4, 3), "onnx::Conv_7": np.zeros(4, np.float32)}
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, 7] y) {{ {text} }}", **known)
    assert "nn.Conv1d(4, 4, 3)" in onnxlift.lift(noted(model)).source


def test_a_matrix_without_a_name_of_which_no_module_is_told() -> None:
    text = "g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) { h = MatMul(x, val_7) y = Add(shift, h) }"
    lifted = onnxlift.lift(noted(parse(text, val_7=(6, 4), shift=(4,)), shift="PARAMETER"))
    assert "nn.Linear(6, 4)" in lifted.source


def again(second: str, bias: str = "", module: str = "") -> str:
    """The source of a layer that is called, and of one more product with its matrix, in a module."""
    body = f'''a = Gemm <transB = 1> (x, "fc.weight", "fc.bias") b = Tanh(a)
        c = Gemm <transB = 1> (b, "{second}"{f', "{bias}"' if bias else ""}) y = PRelu(c, "block.act.weight")'''
    shapes: dict[str, Data] = {"fc.weight": (6, 6), "fc.bias": (6,), "block.act.weight": (1,), "block.bias": (6,)}
    used = {name: shape for name, shape in shapes.items() if f'"{name}"' in body}
    model = parse(f"g (float[batch, 6] x) => (float[batch, 6] y) {{ {body} }}", **used)
    for node, place in zip(model.graph.node, ("/fc", module, module, "/block/act"), strict=True):
        node.name = f"{place}/{node.op_type}"
    return onnxlift.lift(noted(model)).source


@pytest.mark.parametrize("module", ["", "/block"])
def test_the_matrix_of_a_layer_that_is_called_besides(module: str) -> None:
    source = again("fc.weight", module=module)
    assert "F.linear(" in source and source.count("= nn.Linear(6, 6)") == 1


def test_a_layer_that_is_called_twice() -> None:
    assert "F.linear(" not in again("fc.weight", "fc.bias")


def test_a_layer_that_shares_its_matrix() -> None:
    assert "F.linear(" not in again("fc.weight", module="/head")


def test_a_matrix_with_the_bias_of_a_module_with_modules() -> None:
    assert "F.linear(" in again("fc.weight", "block.bias", "/block")


def test_a_matrix_that_very_many_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare_weights, "MOST_READERS", 2)
    assert "F.linear(" in again("fc.weight")
    monkeypatch.setattr(bare_weights, "MOST_READERS", 1)
    assert "F.linear(" not in again("fc.weight")


def test_weights_of_two_modules_with_modules_are_a_layer() -> None:
    body = """a = LayerNormalization <axis = -1> (x, "one.weight", "two.bias") b = PRelu(a, "one.act.weight")
        y = PRelu(b, "two.act.weight")"""
    shapes: dict[str, Data] = {"one.weight": (9,), "two.bias": (9,), "one.act.weight": (1,), "two.act.weight": (1,)}
    model = parse(f"g (float[batch, 4, 9] x) => (float[batch, 4, 9] y) {{ {body} }}", **shapes)
    assert "nn.LayerNorm(9)" in onnxlift.lift(noted(model)).source


def test_a_slope_of_vectors_stays() -> None:
    model = parse("g (float[4] x) => (float[4] y) { y = PRelu(x, val_1) }", val_1=(4,))
    assert "F.prelu" not in onnxlift.lift(noted(model, val_1="['inner.slope']")).source


def test_a_slope_that_is_no_number_keeps_its_name() -> None:
    slope = {"inner.slope": np.array([0.5, np.nan, 0.25, 2], np.float32)}
    model = parse('g (float[batch, 4] x) => (float[batch, 4] y) { y = PRelu(x, "inner.slope") }', **slope)
    assert [*onnxlift.lift(noted(model)).state_dict] == ["inner.slope"]


def test_a_bias_that_is_no_number_keeps_its_name() -> None:
    known: dict[str, Data] = {"val_1": (6, 4), "inner.shift": np.array([0.5, np.nan, 0.25, 2], np.float32)}
    text = 'h = MatMul(x, val_1) y = Add(h, "inner.shift")'
    model = parse(f"g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) {{ {text} }}", **known)
    lifted = onnxlift.lift(noted(model, val_1="['inner.kernel']"))
    assert sorted(lifted.state_dict) == ["inner.kernel", "inner.shift"]


@pytest.mark.parametrize("turned", [f"{TURNED} ", ""])
def test_a_bilinear_product(turned: str) -> None:
    names = {"pair.weight": "inner.kernel", "pair.bias": "inner.shift"}
    model = bilinear(f"{turned}{LAYER}", m=(4, 18))
    weight = next(t for t in model.graph.initializer if t.name in ("pair.weight", "m"))
    for tensor in model.graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    notes = {} if turned else {"m": "['inner.kernel']"}
    lifted = onnxlift.lift(noted(model, **notes))
    assert "F.bilinear(x, z, self.inner.kernel, self.inner.shift)" in lifted.source
    numbers = onnx.numpy_helper.to_array(weight)
    kernel = numbers if turned else numbers.reshape(4, 3, 6).swapaxes(0, 1)
    np.testing.assert_array_equal(lifted.state_dict["inner.kernel"], kernel)


@pytest.mark.parametrize(
    ("is_same", "kind", "expected"),
    [(True, np.float32, 1), (False, np.float32, 2), (True, np.float64, 2)],
    ids=["the same", "other numbers", "of another type"],
)
def test_a_name_that_is_taken(is_same: bool, kind: type, expected: int) -> None:
    """What is stored under the name stays, and is the weight only if it has the same numbers."""
    matrix = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    word = "float" if kind == np.float32 else "double"
    text = f"""g (float[batch, 5, 6] x, {word}[6] v) => (float[batch, 5, 4] y, {word}[4] z)
        {{ y = MatMul(x, val_1) z = MatMul("inner.matrix", v) }}"""
    stored = (matrix if is_same else np.sin(matrix)).astype(kind)
    model = parse(text, **{"val_1": np.ascontiguousarray(matrix.T), "inner.matrix": stored})
    lifted = onnxlift.lift(noted(model, val_1="['inner.matrix']"))
    found = [key for key in lifted.state_dict if key.startswith("inner.matrix")]
    assert len(found) == expected
    np.testing.assert_array_equal(lifted.state_dict["inner.matrix"], stored)


def test_integers_are_not_trained() -> None:
    text = 'g (int64[batch, 5] x) => (int64[batch, 5] y) { y = Add(x, "counter.step") }'
    lifted = onnxlift.lift(noted(parse(text, **{"counter.step": np.array([3])})))
    assert not dict(lifted.module().named_parameters())


def nameless(text: str, weight: tuple[int, ...], result: str, module: str) -> str:
    """The source of what reads a weight without a name, and `block.shift`, in a module; there is one below `block`."""
    text = f'{text} y = PRelu(a, "block.act.weight")'
    shapes: dict[str, tuple[int, ...]] = {"onnx::W_7": weight, "block.shift": (4,), "block.act.weight": (1,)}
    model = parse(f"g (float[batch, 5, 6] x) => (float[{result}] y) {{ {text} }}", **shapes)
    for node in model.graph.node:
        node.name = f"{module if node.op_type != 'PRelu' else '/block/act'}/{node.op_type}"
    return onnxlift.lift(noted(model)).source


def test_the_name_of_a_kernel_is_not_told_by_its_bias() -> None:
    source = nameless('a = Conv(x, "onnx::W_7", "block.shift")', (4, 5, 3), "batch, 4, 4", "/block")
    assert "F.conv1d(" not in source


def test_the_name_of_a_matrix_is_not_told_by_a_bias_of_another_module() -> None:
    text = 'h = MatMul(x, "onnx::W_7") a = Add(h, "block.shift")'
    assert "self.weight" in nameless(text, (6, 4), "batch, 5, 4", "/block")
    assert "self.weight" not in nameless(text, (6, 4), "batch, 5, 4", "/other")


def test_a_bias_with_another_axis_is_held_as_it_is() -> None:
    text = 'h = MatMul(x, "inner.kernel") y = Add(h, "inner.shift")'
    shapes: dict[str, tuple[int, ...]] = {"inner.kernel": (6, 4), "inner.shift": (1, 4)}
    model = noted(parse(f"g (float[batch, 5, 6] x) => (float[batch, 5, 4] y) {{ {text} }}", **shapes))
    assert_same_numbers(model)
    assert onnxlift.lift(model).state_dict["inner.shift"].shape == (1, 4)


def test_a_parameter_of_the_model_itself_keeps_its_name() -> None:
    model = product("kernel")
    model.graph.node[0].name = "/Gemm"
    assert [*onnxlift.lift(model).state_dict] == ["kernel"]
