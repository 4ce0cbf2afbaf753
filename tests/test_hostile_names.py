"""A model is a file from a stranger: no name or text in it becomes code, hides what the source relies on, or changes
what is computed."""

from __future__ import annotations

import ast
import builtins
import keyword
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from torch import nn

import onnxlift
from onnxlift.executing import to_torch
from onnxlift.lifting import kernels
from onnxlift.lifting.code.identifiers import MODULE_ATTRIBUTES, attribute, class_name, identifier, unique
from onnxlift.lifting.modules.module import DICT_METHODS
from onnxlift.lifting.names.variable_rules import LETTERS

PAYLOAD = 'open("harmed", "w")'
HOSTILE = [
    f'"""\n{PAYLOAD}\n"""',
    f"'''\n{PAYLOAD}\n'''",
    f'x"; {PAYLOAD} #',
    f"x\n{PAYLOAD}\n",
    f"x\r{PAYLOAD}",
    f"x\\\n{PAYLOAD}",
    f"{{{PAYLOAD}}}",
    f"%s {PAYLOAD} {{}} {{0}}",
    f"'] = {PAYLOAD}; x['",
    f"__import__('os').{PAYLOAD}",
    *('"', "'", "\\", '\\"', "\\'", '"""', "\n", "\r\n", "\t", "\0", "a\0b", " ", "#", "# fmt: off", "{", "}", "%d"),
    *("__class__", "__init__", "__dict__", "__import__", "__file__", "__metadata__", "__builtins__", "_", "__"),
    *("self", "torch", "nn", "F", "Tensor", "Path", "load", "load_file", "WEIGHTS", "np", "math", "super", "cls"),
    *("load_bytes", "read_weights", "initialise", "io", "BinaryIO"),
    *("forward", "training", "parameters", "state_dict", "eval", "train", "to", "type", "half", "apply", "modules"),
    *("class", "def", "lambda", "None", "True", "match", "case", "_", "print", "exec", "eval", "int", "len", "range"),
    *("keys", "values", "items", "pop", "clear", "update", "tie_weights", "weight", "bias", "0", "1", "00", "-1", "²"),
    *("a.b", "a-b", "a b", "a_b", "a/b", "a:b", "a::b", "a.0", "a.0.weight", "a.1.weight", "0.weight", "1.weight"),
    *("a", "a.a", "a.a.a", "a.weight", "a.weight.weight", "..", "...", "a..b", ".a", "a.", "/", "//", "/a/", "/a/b/c"),
    *(
        "\u202eevil",
        "\u0430",
        "\uff41",
        "\u017felf",
        "\ufb01",
        "é",
        "x\u200b",
        "x\ufeff",
        "\u2028",
        "日本語",
        "😀",
        "À.weight",
        "ª",
    ),
    *("x" * 300, "a." * 60 + "w", "/a" * 60, "A" * 61, "_" * 70, "val_1", "onnx::Add_1", "/x/y_output_0"),
    *LETTERS,
    *sorted(kernels._index())[:12],
]
TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=3).map(".".join),
    st.lists(st.sampled_from(HOSTILE), min_size=2, max_size=3).map("/".join),
)

RANDOM = np.random.default_rng(0)
INPUTS = {"x": RANDOM.standard_normal((3, 4)).astype(np.float32), "z": RANDOM.random((3, 4)).astype(np.float32)}


def base_model() -> onnx.ModelProto:
    """A little of everything that has a name: weights, layers, a branch, a function of the model, sizes."""
    model = parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        graph (float[size, 4] x, float[size, 4] z) => (float[size, 4] y, float[four, size] v)
        {
            a = MatMul(x, w1)
            b = Add(a, b1)
            c = Relu(b)
            d = MatMul(c, w2)
            e = Add(d, b2)
            f = Mul(e, scale)
            total = ReduceSum <keepdims = 0> (f)
            positive = Greater(total, zero)
            g = If (positive) <
                then_branch = then () => (float[size, 4] t) { t0 = Sin(f) t = Add(t0, b2) },
                else_branch = otherwise () => (float[size, 4] o) { o0 = Mul(f, z) o = Sub(o0, b1) }
            >
            h = local.Squash (g)
            i = local.Squash (h)
            y = Add(i, x)
            shape = Shape(z)
            rows = Gather <axis = 0> (shape, zero_index)
            turned = Concat <axis = 0> (minus_one, rows)
            v = Reshape(i, turned)
        }
        <domain: "local", opset_import: ["" : 17]>
        Squash (u) => (w) { q = Mul(u, u) r = Tanh(q) w = Add(r, u) }
        """
    )
    random = np.random.default_rng(1)
    for name, shape in {"w1": (4, 4), "b1": (4,), "w2": (4, 4), "b2": (4,), "scale": (4,)}.items():
        array = random.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    constants = {"zero": np.float32(0), "zero_index": np.array([0]), "minus_one": np.array([-1])}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    return model


@cache
def expected() -> list[np.ndarray]:
    return list(ReferenceEvaluator(base_model()).run(None, INPUTS))


class Renaming:
    """Gives every old name a new one from `draw`, different ones to different names."""

    def __init__(self, draw: Callable[[], str]) -> None:
        self.draw = draw
        self.names: dict[str, str] = {"": ""}
        self.taken: set[str] = {""}

    def __call__(self, name: str) -> str:
        if name not in self.names:
            new = self.draw()
            while new in self.taken:
                new += "'"
            self.names[name] = new
            self.taken.add(new)
        return self.names[name]

    def all(self, names: Sequence[str]) -> list[str]:
        return [self(name) for name in names]


def rename(model: onnx.ModelProto, draw: Callable[[], str]) -> onnx.ModelProto:
    """`model` with other names for everything: it computes the same."""
    values, dims = Renaming(draw), Renaming(draw)
    domain, function_name = draw() + "'", draw() + "'"
    model.producer_name, model.doc_string = draw(), draw()
    model.metadata_props.add(key=draw(), value=draw())
    rename_graph(model.graph, values, dims, draw)
    for entry in model.opset_import:
        entry.domain = domain if entry.domain == "local" else entry.domain
    for function in model.functions:
        inner = Renaming(draw)
        function.domain, function.name, function.doc_string = domain, function_name, draw()
        function.input[:], function.output[:] = inner.all(function.input), inner.all(function.output)
        rename_nodes(function.node, inner, dims, draw)
    for node in nodes_of(model.graph):
        if node.domain == "local":
            node.domain, node.op_type = domain, function_name
    return model


def rename_graph(graph: onnx.GraphProto, values: Renaming, dims: Renaming, draw: Callable[[], str]) -> None:
    graph.name, graph.doc_string = draw(), draw()
    for tensor in graph.initializer:
        tensor.name = values(tensor.name)
    for info in (*graph.input, *graph.output):
        info.name, info.doc_string = values(info.name), draw()
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = dims(dim.dim_param)
    rename_nodes(graph.node, values, dims, draw)


def rename_nodes(nodes: Sequence[onnx.NodeProto], values: Renaming, dims: Renaming, draw: Callable[[], str]) -> None:
    for node in nodes:
        node.input[:], node.output[:] = values.all(node.input), values.all(node.output)
        node.name, node.doc_string = draw(), draw()
        scopes, classes = [draw() for _ in range(3)], [draw() for _ in range(3)]
        for key, texts in {"name_scopes": scopes, "class_hierarchy": classes}.items():
            if len(texts[0]) % 3:  # sometimes a list, as the exporter writes it; sometimes anything; sometimes nothing
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=repr(texts))
            elif len(texts[1]) % 2:
                node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=f"[{texts[0]}]")
        for held in node.attribute:
            if held.HasField("g"):
                rename_graph(held.g, values, dims, draw)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for held in node.attribute:
            if held.HasField("g"):
                yield from nodes_of(held.g)


def check_source(source: str) -> None:
    """Nothing but the code that we write: judged here independently of the gate that the emitter has."""
    assert source.isascii() and all(line.isprintable() for line in source.splitlines())
    tree = ast.parse(source)
    for statement in tree.body:
        assert isinstance(
            statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.Assign | ast.Expr
        )
        if isinstance(statement, ast.Expr):
            assert statement is tree.body[0]
        if isinstance(statement, ast.Assign):
            assert ast.unparse(statement.targets[0]) in ("WEIGHTS", "CONSTANTS")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            home = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            if home == "collections":  # nn.Sequential(OrderedDict(...)), for keys that are no identifiers
                assert [name.name for name in node.names] == ["OrderedDict"]
                continue
            assert home in {"io", "pathlib", "torch", "safetensors.torch", "torch.nn", "math", "numpy", "typing"}
        if isinstance(node, ast.Name):
            assert node.id not in {"open", "__import__", "eval", "exec", "print"}
            if isinstance(node.ctx, ast.Store):
                assert not hasattr(builtins, node.id) and node.id not in {"torch", "nn", "F", "self", "Tensor"}
        if isinstance(node, ast.arg) and node.arg != "self":
            assert not hasattr(builtins, node.arg) and node.arg not in {"torch", "nn", "F", "Tensor"}


def check(model: onnx.ModelProto, inputs: dict[str, np.ndarray], outputs: Sequence[np.ndarray], name: str = "m") -> str:
    """Lift `model`, which takes `inputs` in their order; the source must be clean, and compute `outputs`."""
    lifted = onnxlift.lift(model, name=name)
    check_source(lifted.source)
    module = lifted.module()
    with torch.no_grad():
        results = module(*map(to_torch, inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    for result, output in zip(results, outputs, strict=True):
        np.testing.assert_allclose(result.detach().numpy(), output, rtol=1e-5, atol=1e-6, err_msg=lifted.source)
    assert set(lifted.state_dict) == set(module.state_dict())
    return lifted.source


@pytest.fixture(autouse=True)
def nothing_is_harmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_names_change_nothing_but_names(data: st.DataObject) -> None:
    texts = iter(data.draw(st.lists(TEXTS, min_size=20, max_size=40)) * 20)
    model = rename(base_model(), lambda: next(texts))
    check(model, INPUTS, expected(), name=next(texts))


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_one_text_everywhere(text: str) -> None:
    check(rename(base_model(), lambda: text), INPUTS, expected(), name=text)


def weights_in_a_row(op_type: str, names: Sequence[str]) -> onnx.ModelProto:
    """`sin(... sin(x op w0) op w1 ...)` with weights of these names."""
    random = np.random.default_rng(2)
    nodes, current = [], "input"
    for i, name in enumerate(names):
        nodes.append(helper.make_node(op_type, [current, name], [f"m{i}"]))
        nodes.append(helper.make_node("Sin", [f"m{i}"], [f"s{i}"]))
        current = f"s{i}"
    shape = (4, 4) if op_type == "MatMul" else (4,)
    weights = [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name) for name in names]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("input", current)]
    graph = helper.make_graph(nodes, "row", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op_type", ["MatMul", "Add"])
@pytest.mark.parametrize(
    "names",
    [
        ["a", "a.b", "a.b.c"],
        ["a.b.c", "a.b", "a"],
        ["a.weight", "a.weight.weight", "a.weight.bias"],
        ["0", "1.weight"],
        ["0.weight", "0.1.weight", "1.weight"],
        ["0.1.weight", "0.weight", "00.weight"],
        ["1.0.weight", "1.weight", "3.weight"],
        ["layers.0.weight", "layers.00.weight", "layers.1.b.weight", "layers.0.b.weight"],
        ["a.b", "a-b", "a b", "a_b", "a__b"],
        ["a" * 70 + "1", "a" * 70 + "2"],
        ["attn.keys.weight", "b.weight", "attn.values.weight", "c.weight", "attn.pop.weight", "attn.type.weight"],
        ["forward", "training.weight", "parameters", "state_dict.bias"],
        ["²", "\u0661.weight", "9" * 20 + ".weight", "9" * 5000 + ".weight"],
    ],
    ids=lambda names: ascii(names)[:60],
)
def test_weights_that_would_hide_one_another(op_type: str, names: list[str]) -> None:
    model = weights_in_a_row(op_type, names)
    x = np.random.default_rng(3).standard_normal((2, 4)).astype(np.float32)
    check(model, {"input": x}, list(ReferenceEvaluator(model).run(None, {"input": x})))


def test_an_argument_of_the_class_does_not_hide_a_parameter() -> None:
    nodes, weights, current = [], [], "x"
    random = np.random.default_rng(4)
    for i in range(2):
        names = {"scale": (4,), "size": (4,), "fc.weight": (4, 4)}
        weights += [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), f"b.{i}.{name}")
            for name, shape in names.items()
        ]
        weights.append(numpy_helper.from_array(np.float32(0.5 + i), f"factor_{i}"))
        for op_type, operand in {"Add": "b.{}.scale", "MatMul": "b.{}.fc.weight", "Mul": "factor_{}"}.items():
            nodes.append(helper.make_node(op_type, [current, operand.format(i)], [f"{op_type}_{i}_out"]))
            nodes[-1].name, current = f"/b.{i}/{op_type}", f"{op_type}_{i}_out"
        nodes.append(helper.make_node("Sub", [current, f"b.{i}.size"], [f"out_{i}"], f"/b.{i}/Sub"))
        current = f"out_{i}"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", current)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = random.standard_normal((2, 4)).astype(np.float32)
    source = check(model, {"x": x}, list(ReferenceEvaluator(model).run(None, {"x": x})))
    assert source.count("class ") == 2, source  # the blocks share one


@pytest.mark.parametrize("text", [t for t in HOSTILE if t.strip()], ids=ascii)
def test_strings_are_data(text: str) -> None:
    table = np.array([text, f"{text}{text}", "plain"], dtype=object)
    nodes = [helper.make_node("Concat", ["x", "table"], ["y"], axis=0)]
    infos = [helper.make_tensor_value_info(name, TensorProto.STRING, [size]) for name, size in (("x", 2), ("y", 5))]
    constant = TensorProto(
        name="table", data_type=TensorProto.STRING, dims=[3], string_data=[t.encode() for t in table]
    )
    graph = helper.make_graph(nodes, "strings", infos[:1], infos[1:], [constant])
    lifted = onnxlift.lift(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    check_source(lifted.source)
    result = lifted.module()(np.array(["one", "two"], dtype=object))
    assert result.tolist() == ["one", "two", *table]


@pytest.mark.parametrize("text", [*HOSTILE, "\x1b[31mred", "n" * 100_000], ids=lambda text: ascii(text)[:40])
def test_messages_stay_on_their_line(text: str) -> None:
    nodes = [helper.make_node(text or "x", ["x"], ["y"], text, domain=f"{text}'")]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(f"{text}'", 1)]
    model = helper.make_model(helper.make_graph(nodes, text, infos[:1], infos[1:]), opset_imports=opsets, ir_version=8)
    with pytest.raises(onnxlift.OnnxLiftError) as caught:
        onnxlift.lift(model)
    message = str(caught.value)
    assert len(message) < 2000 and len(message.splitlines()) <= 5
    assert all(line.isprintable() for line in message.splitlines())


LONG = 200_000


@pytest.mark.parametrize("piece", ["/a", "a.", "::", "a_", "_output_1", "1", "'", "\\", "\n", "A", "_", "const_"])
def test_endless_names_take_no_time(piece: str) -> None:
    text = piece * (LONG // len(piece))
    start = time.monotonic()
    source = check(rename(base_model(), lambda: text), INPUTS, expected(), name=text)
    assert time.monotonic() - start < 30
    assert len(source) < 12_000


def test_metadata_that_is_no_list_of_strings() -> None:
    for text in ("[" * 9000, "[" * 500 + "]" * 500, "[1, 2]", "[['a'], 'b']", "{}", "[" + "'a'," * 6000 + "]", "['']"):
        model = base_model()
        for node in model.graph.node:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=text)
            node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=text)
        check(model, INPUTS, expected())


def test_an_unused_domain_in_the_docstring() -> None:
    model = helper.make_model(
        helper.make_graph([], "g", [], [], []),
        opset_imports=[helper.make_opsetid(f'"""\n{PAYLOAD}\n"""', 1)],
        ir_version=8,
    )
    text = helper.make_tensor("y", TensorProto.FLOAT, [2], [1.5, 2.5])
    model.graph.initializer.append(text)
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    check(model, {}, [np.array([1.5, 2.5], np.float32)])


def test_sizes_that_double_with_every_node() -> None:
    """Written where they are used, they would take 2**60 characters."""
    nodes = [helper.make_node("Shape", ["x"], ["d0"])]
    nodes += [helper.make_node("Add", [f"d{i}", f"d{i}"], [f"d{i + 1}"]) for i in range(60)]
    nodes.append(helper.make_node("Cast", ["d60"], ["y"], to=TensorProto.FLOAT))
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", infos, outs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    x = np.zeros((2, 3), np.float32)
    source = check(model, {"x": x}, [np.array([2.0**61, 3 * 2.0**60], np.float32)])
    assert len(source) < 20_000


@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min"])
def test_an_operator_of_a_thousand_inputs(op_type: str) -> None:
    names = [f"i{i}" for i in range(1000)]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in (*names, "y")]
    graph = helper.make_graph([helper.make_node(op_type, names, ["y"])], "g", infos[:-1], infos[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = dict(zip(names, np.random.default_rng(5).random((1000, 2)).astype(np.float32), strict=True))
    check(model, x, list(ReferenceEvaluator(model).run(None, x)))


def test_no_attribute_of_a_module_is_missing_from_the_list() -> None:
    real = {name for name in dir(nn.Module()) if not name.startswith("_")}
    assert real - {"smart_apply"} <= MODULE_ATTRIBUTES  # transformers, which other tests import, adds this one
    methods = {name for name in dir(nn.ModuleDict()) if not name.startswith("_")} - real
    assert methods == DICT_METHODS


@given(st.text())
def test_identifiers(text: str) -> None:
    for word in (identifier(text), attribute(text), class_name(text)):
        assert word.isascii() and len(word) < 80 and not word.startswith("_") and not keyword.iskeyword(word)
        assert word.isidentifier() or (word == attribute(text) and word.isdigit())
    assert not hasattr(builtins, identifier(text)) and not hasattr(builtins, class_name(text))
    assert attribute(text) not in MODULE_ATTRIBUTES


@given(st.sets(st.integers(0, 40)))
def test_unique(numbers: set[int]) -> None:
    taken = {f"x_{number}" for number in numbers} | {"x"}
    assert unique("x", taken) not in taken
    assert unique("y", taken) == "y"
    assert unique("x", {f"x_{i}" for i in range(1, 30)} | {"x"}) == "x_30"
