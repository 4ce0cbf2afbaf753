"""Equal modules share a class; what differs in numbers becomes an argument; what differs otherwise does not share."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np
import pytest

import onnxlift
from onnxlift.lifting.code.expr import Binary, Literal, Name
from onnxlift.lifting.modules.classes.class_arguments import find_arguments
from onnxlift.lifting.modules.classes.number_groups import ABSENT, Number
from onnxlift.lifting.text.write import Numbers
from small_graphs import Graph, code, step


def classes(lifted: onnxlift.Lifted) -> dict[str, list[str]]:
    """Class name -> the arguments of its constructor."""
    found: dict[str, list[str]] = {}
    for item in ast.parse(lifted.source).body:
        if isinstance(item, ast.ClassDef):
            methods = {m.name: m for m in item.body if isinstance(m, ast.FunctionDef)}
            init = methods.get("__init__")
            found[item.name] = [argument.arg for argument in init.args.args[1:]] if init is not None else []
    return found


def blocks(g: Graph, sizes: Sequence[int], op_types: Sequence[str] = (), factors: Sequence[float] = ()) -> str:
    """Blocks of two layers around an activation, each with its own hidden size, activation and factor."""
    x = g.input("x", "n", 4)
    for i, size in enumerate(sizes):
        h = g.linear(x, f"blocks.{i}.up", 4, size)
        h = g.node(op_types[i] if op_types else "Sin", h, name=f"/blocks.{i}/Act")
        if factors:
            h = g.node("Mul", h, g.constant(f"factor{i}", np.float32(factors[i])), name=f"/blocks.{i}/Mul")
        h = g.linear(h, f"blocks.{i}.down", size, 4)
        x = g.node("Add", h, x, name=f"/blocks.{i}/Add")
    return g.node("Cos", x, name="/Cos")


def test_equal_blocks_share_a_class_without_arguments() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [8, 8, 8]))
    assert list(classes(lifted).values()) == [[], []]
    assert "nn.ModuleList(Block() for _ in range(3))" in lifted.source


def test_a_size_that_differs_is_one_argument_wherever_it_stands() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [8, 6, 8]))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert len(arguments) == 1, lifted.source  # out of `up` and into `down`: the same number everywhere
    assert "Block(8), Block(6), Block(8)" in lifted.source


def test_a_number_in_forward_that_differs_is_an_argument() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [8, 8], factors=[0.5, 0.25]))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert arguments == ["scale"]
    assert "self.scale = scale" in lifted.source and "* self.scale" in lifted.source


def test_numbers_that_agree_everywhere_stay_literals() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [8, 8], factors=[0.5, 0.5]))
    assert "* 0.5" in lifted.source and all(not arguments for arguments in classes(lifted).values())


def test_different_structure_is_different_classes() -> None:
    g = Graph()
    lifted = g.lift(blocks(g, [8, 8, 8], op_types=["Sin", "Tanh", "Sin"]))
    assert len(classes(lifted)) == 3
    assert lifted.source.count(".tanh()") == 1 and lifted.source.count(".sin()") == 1


def test_an_axis_is_what_the_code_says_and_not_an_argument() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, axis in enumerate((-1, 0)):
        x = g.linear(x, f"blocks.{i}.a")
        x = g.node("Softmax", x, axis=axis, name=f"/blocks.{i}/Softmax")
        x = g.linear(x, f"blocks.{i}.b")
    lifted = g.lift(g.node("Sin", x, name="/Sin"))
    assert all(not arguments for arguments in classes(lifted).values())
    assert "softmax(-1)" in lifted.source and "softmax(0)" in lifted.source


@pytest.mark.parametrize("second", ["Encoder", "Decoder"])
def test_the_exporters_classes_are_kept_apart(second: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for name, kind in (("first", "Encoder"), ("second", second)):
        for layer in ("a", "b"):
            weight = g.weight(f"{name}.{layer}.weight", 4, 4)
            scopes = ["", name, f"{name}.{layer}", "linear"]
            kinds = ["net.Net", f"net.{kind}", "torch.nn.modules.linear.Linear", "aten.linear.default"]
            x = g.node("Gemm", x, weight, transB=1, scopes=scopes, classes=kinds)
            x = g.node("Sin", x, scopes=["", name, "sin"], classes=["net.Net", f"net.{kind}", "aten.sin.default"])
    lifted = g.lift(x)
    assert set(classes(lifted)) == {"Net", "Encoder", second}
    assert "self.first = Encoder()" in lifted.source and f"self.second = {second}()" in lifted.source


def test_classes_of_classes() -> None:
    """Equal parents of equal children: found from the leaves up."""
    g = Graph()
    x = g.input("x", "n", 4)
    for stage in range(2):
        for block in range(2):
            path = f"stages.{stage}.blocks.{block}"
            h = g.linear(x, f"{path}.a")
            h = g.linear(g.node("Sin", h, name=f"/stages.{stage}/blocks.{block}/Sin"), f"{path}.b")
            x = g.node("Add", h, x, name=f"/stages.{stage}/blocks.{block}/Add")
        x = g.linear(x, f"stages.{stage}.out")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert len(classes(lifted)) == 3, code(lifted)
    assert len(lifted.state_dict) == 2 * (2 * 2 + 1) * 2


def test_nan_and_infinity_as_arguments() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, limit in enumerate((np.inf, 1.5)):
        h = g.linear(x, f"blocks.{i}.a")
        h = g.node("Min", h, g.constant(f"limit{i}", np.float32(limit)), name=f"/blocks.{i}/Min")
        x = g.linear(h, f"blocks.{i}.b")
    lifted = g.lift(g.node("Sin", x, name="/Sin"))
    assert "Block(1.5)" in lifted.source and 'float("inf")' in lifted.source


def convolutions(g: Graph, sizes: Sequence[tuple[int, int]]) -> str:
    """Blocks of two convolutions to so many channels with such a kernel, of which the first adds zeros around."""
    x, before = g.input("x", "n", 3, 9, 9), 3
    for i, (channels, kernel) in enumerate(sizes):
        for name, width in (("a", before), ("b", channels)):
            weight = g.weight(f"blocks.{i}.{name}.weight", channels, width, kernel, kernel)
            pads = [kernel // 2] * 4
            x = g.node("Conv", x, weight, name=f"/blocks.{i}/{name}/Conv", pads=pads, kernel_shape=[kernel, kernel])
            x = g.node("Tanh", x, name=f"/blocks.{i}/Tanh_{name}")
        before = channels
    return g.node("Cos", x, name="/Cos")


def test_a_kernel_that_happens_to_be_as_large_as_a_width_is_another_argument() -> None:
    g = Graph()
    lifted = g.lift(convolutions(g, [(3, 3), (5, 5), (3, 3)]))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert arguments == ["in_channels", "channels", "kernel"], lifted.source


def test_a_padding_that_is_half_of_the_kernel_is_written_as_that() -> None:
    g = Graph()
    lifted = g.lift(convolutions(g, [(4, 3), (4, 5), (4, 7)]))
    assert "kernel, padding=kernel // 2" in lifted.source, lifted.source


def test_a_multiple_is_written_as_that() -> None:
    g = Graph()
    x, before = g.input("x", "n", 4), 4
    for i, width in enumerate((4, 6, 6, 10)):
        x = g.linear(x, f"into.{i}", before, width)
        h = g.node("Sin", g.linear(x, f"blocks.{i}.up", width, 3 * width), name=f"/blocks.{i}/Act")
        x = g.node("Add", g.linear(h, f"blocks.{i}.down", 3 * width, width), x, name=f"/blocks.{i}/Add")
        before = width
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "self.up = nn.Linear(dim, 3 * dim)" in lifted.source, lifted.source
    assert "self.down = nn.Linear(3 * dim, dim)" in lifted.source


def test_an_argument_that_often_is_pytorchs_default_has_that_default() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 30, 30)
    for i, stride in enumerate((1, 2, 1)):
        for name in ("a", "b"):
            weight = g.weight(f"blocks.{i}.{name}.weight", 4, 4, 3, 3)
            x = g.node("Conv", x, weight, name=f"/blocks.{i}/{name}/Conv", strides=[stride] * 2)
            x = g.node("Sin", x, name=f"/blocks.{i}/Sin_{name}")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "stride: int = 1" in lifted.source and "Block(), Block(stride=2), Block()" in lifted.source, lifted.source


@pytest.mark.parametrize(("paddings", "default"), [([1, 0, 0, 2, 3], True), ([1, 0, 3, 2, 3], False)])
def test_a_default_of_layers_that_is_often_there_is_one_of_the_class(paddings: list[int], default: bool) -> None:
    widths, padding = Number((object(), "0"), "in_channels", 8), Number((object(), "1"), "padding", 1)
    found = find_arguments([padding, widths], [paddings, [8, 4, 6, 2, 5]], set())
    assert found is not None and found.defaults == ({"padding": 0} if default else {})
    assert list(found.values) == ["in_channels", "padding"]


def rows(g: Graph, x: str, path: str) -> str:
    """A linear layer without bias on the last of three axes."""
    scope = re.sub(r"[.](?![0-9])", "/", path)
    return g.node("MatMul", x, g.weight(f"{path}.weight", 8, 8), name=f"/{scope}/MatMul")


def test_heads_are_an_argument_however_few() -> None:
    g = Graph()
    x = g.input("x", "n", 5, 8)
    for i, heads in enumerate((2, 4)):
        h = rows(g, x, f"blocks.{i}.up")
        shape = g.constant(f"shape{i}", np.array([0, 0, heads, 8 // heads]))
        h = g.node("Reshape", h, shape, name=f"/blocks.{i}/Reshape")
        h = g.node("Softmax", h, name=f"/blocks.{i}/Softmax", axis=-1)
        h = g.node("Reshape", h, g.constant("back", np.array([0, 0, 8])), name=f"/blocks.{i}/Reshape_1")
        x = rows(g, h, f"blocks.{i}.down")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert arguments == ["heads"] and "unflatten(-1, (self.heads, -1))" in lifted.source, lifted.source


def chains(g: Graph, kinds: dict[str, tuple[int, int, str]]) -> str:
    """Numbered chains of a layer, an activation and a layer: path -> widths and the activation."""
    x = g.input("x", "n", 4)
    for path, (hidden, after, activation) in kinds.items():
        scope = "/" + path.replace(".", "/")
        x = g.linear(x, f"{path}.0", 4, hidden, name=f"{scope}/0/Gemm")
        x = g.node(activation, x, name=f"{scope}/1/{activation}")
        x = g.linear(x, f"{path}.2", hidden, after, name=f"{scope}/2/Gemm")
    return g.node("Cos", x, name="/Cos")


def test_activations_that_differ_are_an_argument() -> None:
    g = Graph()
    widths = {"a": (8, 4), "b": (9, 4), "c": (10, 4), "d": (11, 4)}
    acts = ("Relu", "Relu", "Sigmoid", "Tanh")
    kinds = {path: (*width, act) for (path, width), act in zip(widths.items(), acts, strict=True)}
    lifted = g.lift(chains(g, kinds))
    assert "def __init__(self, hidden: int, activation: type[nn.Module]) -> None:" in lifted.source, lifted.source
    assert "self.c = MLP(10, nn.Sigmoid)" in lifted.source and "activation()" in lifted.source


def test_activations_with_arguments_are_part_of_the_class() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, alpha in enumerate((1.0, 0.5)):
        x = g.linear(x, f"blocks.{i}.net.0", name=f"/blocks.{i}/net/net.0/Gemm")
        x = g.node("Elu", x, name=f"/blocks.{i}/net/net.1/Elu", alpha=alpha)
        x = g.linear(x, f"blocks.{i}.net.2", name=f"/blocks.{i}/net/net.2/Gemm")
        x = g.node("Sin", g.linear(x, f"blocks.{i}.out"), name=f"/blocks.{i}/Sin")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "nn.ELU()" in lifted.source and "nn.ELU(0.5)" in lifted.source, lifted.source


def test_the_chains_of_one_place_are_written_out() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(4):
        h = g.linear(x, f"blocks.{i}.mlp.0", 4, 6 + i, name=f"/blocks.{i}/mlp/mlp.0/Gemm")
        h = g.node("Relu", h, name=f"/blocks.{i}/mlp/mlp.1/Relu")
        h = g.linear(h, f"blocks.{i}.mlp.2", 6 + i, 4, name=f"/blocks.{i}/mlp/mlp.2/Gemm")
        x = g.node("Add", x, h, name=f"/blocks.{i}/Add")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert len(classes(lifted)) == 2, lifted.source
    assert "self.mlp = nn.Sequential(nn.Linear(4, " in lifted.source


def test_a_width_inside_that_is_a_multiple_is_a_variable_of_the_constructor() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, (before, after) in enumerate([(4, 6), (6, 10)]):
        h = g.node("Sin", g.linear(x, f"blocks.{i}.first", before, 3 * after), name=f"/blocks.{i}/Sin")
        h = g.node("Tanh", g.linear(h, f"blocks.{i}.second", 3 * after, 3 * after), name=f"/blocks.{i}/Tanh")
        x = g.linear(h, f"blocks.{i}.third", 3 * after, after)
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "def __init__(self, in_dim: int, out_dim: int) -> None:" in lifted.source, lifted.source
    assert "hidden = 3 * out_dim\n" in lifted.source and "nn.Linear(hidden, hidden)" in lifted.source
    assert "Block(4, 6), Block(6, 10)" in lifted.source


def test_shifts_are_an_argument_however_small_and_whichever_way() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, shift in enumerate((1, 2)):
        x = g.linear(x, f"blocks.{i}.up", 4, 6)
        for number, start in enumerate((shift, 6 - shift)):
            bounds = [g.constant(f"{name}{i}{number}", [value]) for name, value in (("a", start), ("b", 6), ("c", 0))]
            axis = g.constant("axis", [1])
            tail = g.node("Slice", x, bounds[0], bounds[1], axis, name=f"/blocks.{i}/Slice{number}")
            head = g.node("Slice", x, bounds[2], bounds[0], axis, name=f"/blocks.{i}/Head{number}")
            x = g.node("Concat", tail, head, axis=1, name=f"/blocks.{i}/Concat{number}")
            x = g.node("Sin", x, name=f"/blocks.{i}/Sin{number}")
        x = g.linear(x, f"blocks.{i}.down", 6, 4)
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert arguments == ["shift"], lifted.source
    assert "roll(-self.shift, " in lifted.source and "roll(self.shift, " in lifted.source


def test_a_size_that_is_the_square_or_a_multiple_of_another_is_computed() -> None:
    g = Graph()
    x = g.input("x", "n", 36 * 4)
    for i, side in enumerate((3, 2, 6)):
        scope, size = f"/blocks.{i}", 36 * 4
        x = g.linear(x, f"blocks.{i}.mix", size, size)
        for number, shape in enumerate([(-1, side, side), (-1, 2 * side, 2), (-1, side**2, 4), (-1, size)]):
            target = g.constant(f"shape{i}{number}", list(shape))
            x = g.node("Sin", g.node("Reshape", x, target, name=f"{scope}/R{number}"), name=f"{scope}/Sin{number}")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    (arguments,) = (a for a in classes(lifted).values() if a)
    assert arguments == ["size"], lifted.source
    assert "self.size**2, 4)" in lifted.source and "(-1, 2 * self.size, 2)" in lifted.source
    assert [line for line in lifted.source.splitlines() if " = size" in line] == ["        self.size = size"]


@pytest.mark.parametrize(
    ("value", "place", "text"),
    [
        (8, "self.size", "x // self.size"),
        (8, "2 * self.size", "x // (2 * self.size)"),
        (-8, "-self.size", "x // -self.size"),
        (-8, "-(self.size // 2)", "x // -(self.size // 2)"),  # and not the next number below the half of -size
    ],
)
def test_a_number_that_forward_computes_is_in_parentheses_where_it_must_be(value: int, place: str, text: str) -> None:
    number = Literal(value)
    assert Numbers(str, {number: place}, lambda element: None).text(Binary("//", Name("x"), number)) == text


@pytest.mark.parametrize(
    ("areas", "offsets", "arguments"),
    [
        ([16, 4], [49, 9], ["size"]),
        ([16, 4], [49, 10], ["length", "offsets"]),
        ([18, 4], [49, 9], ["length", "offsets"]),  # no square
    ],
)
def test_a_table_of_offsets_in_a_square_window(areas: list[int], offsets: list[int], arguments: list[str]) -> None:
    places = [Number((object(), "0"), "length", areas[0]), Number((object(), "0"), "offsets", offsets[0])]
    found = find_arguments(places, [areas, offsets], set())
    assert found is not None and list(found.values) == arguments
    if arguments == ["size"]:
        assert found.values["size"] == [4, 2]
        assert [found.texts[place.where] for place in places] == ["size ** 2", "(2 * size - 1) ** 2"]


@pytest.mark.parametrize(
    ("heads", "widths", "arguments", "text"),
    [
        ([4, 8], [6, 6], ["heads"], "-1"),
        ([4, 4], [6, 9], [], "-1"),
        ([4, 4], [6, 6], [], None),
    ],
)
def test_the_width_of_a_head_follows(heads: list[int], widths: list[int], arguments: list[str], text: str) -> None:
    places = [Number(Literal(heads[0]), "heads", heads[0]), Number(Literal(widths[0]), "head_dim", widths[0])]
    found = find_arguments(places, [heads, widths], set())
    assert found is not None and list(found.values) == arguments
    assert found.texts.get(places[1].where) == text


def test_a_width_beside_what_is_left_over_is_said() -> None:
    g = Graph()
    x = g.node("Concat", *[g.input("x", "n", 5, "m")] * 12, name="/Concat", axis=2)
    for i, width in enumerate((3, 4)):
        h = g.node("Reshape", x, g.constant(f"shape{i}", np.array([0, 0, -1, width])), name=f"/blocks.{i}/Reshape")
        h = g.node("MatMul", h, g.weight(f"blocks.{i}.mix.weight", width, width), name=f"/blocks.{i}/mix/MatMul")
        h = g.node("Reshape", h, g.constant("back", np.array([0, 0, -1])), name=f"/blocks.{i}/Reshape_1")
        x = g.node("Sin", h, name=f"/blocks.{i}/Sin")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert "unflatten(-1, (-1, self.dim))" in lifted.source, lifted.source  # and not -1 twice


@pytest.mark.parametrize(
    ("rows", "columns", "arguments"),
    [([4, 8], [4, 8], ["size"]), ([4, 8], [4, 6], ["heads"])],
)
def test_as_many_rows_as_columns_are_no_heads(rows: list[int], columns: list[int], arguments: list[str]) -> None:
    places = [Number(Literal(rows[0]), "heads", rows[0]), Number(Literal(columns[0]), "head_dim", columns[0])]
    found = find_arguments(places, [rows, columns], set())
    assert found is not None and list(found.values) == arguments


@pytest.mark.parametrize(
    ("role", "arguments"),
    [("in_features", ["in_dim", "out_dim"]), ("heads", ["out_dim", "heads", "shortcut"])],
)
def test_only_widths_of_layers_say_whether_a_part_is_there(role: str, arguments: list[str]) -> None:
    places = [Number((object(), "0"), role, 8), Number((object(), "0"), "out_features", 8)]
    flag = Number((object(), "there"), "shortcut", True)
    found = find_arguments([*places, flag], [[8, 2], [8, 16], [True, False]], set())
    assert found is not None and list(found.values) == arguments


@pytest.mark.parametrize(
    ("width", "text"), [(16, "4 * dim"), (17, "")], ids=["a multiple", "a width that nothing else has"]
)
def test_a_width_of_an_optional_part_is_a_multiple_of_one_that_all_have(width: int, text: str) -> None:
    places = [
        Number((object(), "0"), "in_features", 5, "first"),
        Number((object(), "1"), "out_features", 4, "first"),
        Number((object(), "0"), "in_features", 5, "part"),
        Number((object(), "1"), "out_features", 16, "part"),
        Number((object(), "0"), "in_features", 4, "last"),
    ]
    flag = Number((object(), "there"), "shortcut", True)
    columns = [[5, 9, 24], [4, 6, 6], [5, 9, ABSENT], [width, 24, ABSENT], [4, 6, 6], [True, True, False]]
    found = find_arguments([*places, flag], columns, set())
    assert (found is None) == (not text)
    if found is not None:
        assert found.values["in_dim"] == [5, 9, 24], found.values
        assert found.texts[places[3].where] == text
        assert found.texts[flag.where] == "in_dim != 4 * dim"


class OptionalLayer:
    """A part of which some instances have none."""

    member = ("shortcut",)


@pytest.mark.parametrize(
    ("inputs", "arguments", "text"),
    [([4, 8], ["in_dim"], "in_dim != 8"), ([4, 6], ["in_dim", "shortcut"], "shortcut")],
    ids=["what comes in", "nothing that is known"],
)
def test_a_width_that_always_comes_out_says_whether_a_part_is_there(
    inputs: list[int], arguments: list[str], text: str
) -> None:
    layer = object()
    places = [
        Number((object(), "0"), "in_features", 4, ("up",)),
        Number((layer, "0"), "in_features", 4, ("shortcut",)),
        Number((layer, "1"), "out_features", 8, ("shortcut",)),
    ]
    flag = Number((OptionalLayer(), "there"), "shortcut", True)
    found = find_arguments([*places, flag], [inputs, [4, ABSENT], [8, ABSENT], [True, False]], set())
    assert found is not None and list(found.values) == arguments
    assert found.texts[flag.where] == text and found.texts[places[1].where] == "in_dim"


@pytest.mark.parametrize(("dilation", "text"), [(1, None), (2, "dilation")])
def test_the_default_of_an_optional_layer_is_not_said(dilation: int, text: str | None) -> None:
    places = [Number((object(), "0"), "dilation", dilation), Number((object(), "0"), "dilation", dilation, "shortcut")]
    flag = Number((object(), "there"), "shortcut", True)
    found = find_arguments([*places, flag], [[dilation, 4], [dilation, ABSENT], [True, False]], set())
    assert found is not None and found.texts.get(places[1].where) == text


def test_a_computed_number_that_forward_reads_too_is_a_variable() -> None:
    dilation, *paddings = (Number((object(), "0"), role, 2) for role in ("dilation", "padding", "padding"))
    read = Number(Literal(-4), "size", 4, negated=True)
    found = find_arguments([dilation, *paddings, read], [[2, 3], [4, 6], [4, 6], [4, 6]], set())
    assert found is not None and found.variables == {"padding": "2 * dilation"}
    assert found.texts[paddings[0].where] == "padding" and found.texts[read.where] == "-self.padding"


def test_whether_a_part_is_there_is_said_last() -> None:
    flag, groups = Number((object(), "there"), "shortcut", True), Number((object(), "0"), "groups", 1)
    found = find_arguments([flag, groups], [[True, True, False], [1, 1, 4]], set())
    assert found is not None and list(found.values) == ["groups", "shortcut"]


def two_stacks(*paths: str) -> onnxlift.Lifted:
    """Layers of two kinds, two of each, at these paths."""
    g = Graph()
    x = g.input("x", "n", 4)
    for path, op_type in zip(paths, ("Sin", "Exp"), strict=True):
        for i in range(2):
            h = g.node(op_type, g.linear(x, f"{path}.{i}.up"), name=f"/{path.replace('.', '/')}.{i}/Act")
            x = g.linear(h, f"{path}.{i}.down")
        x = g.node("Tanh", g.linear(x, f"{path.partition('.')[0]}.last"), name=f"/{path.partition('.')[0]}/Tanh")
    return g.lift(x)


def test_classes_of_one_name_are_told_apart_by_their_owners() -> None:
    assert {"VisionLayer", "TextLayer"} <= classes(two_stacks("vision.layers", "text.layers")).keys()


def in_a_list(g: Graph, x: str, path: str, part: str, op_type: str) -> str:
    """A layer of a list with one part of its own, and what it computes."""
    scope = f"/{path.replace('.', '/')}"
    h = g.node(op_type, g.linear(x, f"{path}.{part}.up"), name=f"{scope}/{part}/Act")
    return g.node("Add", x, g.linear(h, f"{path}.{part}.down"), name=f"{scope}/Add")


def test_classes_of_one_name_are_told_apart_by_their_only_part_and_their_side() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for side, op_type in (("encoder", "Sin"), ("decoder", "Exp")):
        for i in range(2):
            x = in_a_list(g, x, f"{side}.block.{i}.layer.0", "attn", op_type)
            x = in_a_list(g, x, f"{side}.block.{i}.layer.1", "dense", "Cos")
        x = g.node("Tanh", g.linear(x, f"{side}.last"), name=f"/{side}/Tanh")
    found = classes(g.lift(x))
    assert {"EncoderAttentionLayer", "DecoderAttentionLayer", "DenseLayer"} <= found.keys(), [*found]


@pytest.mark.parametrize(("root", "name"), [("deit", "DeitModel"), ("model", "BaseModel")])
def test_a_part_called_as_the_whole(root: str, name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = g.node("Sin", g.linear(x, f"{root}.up"), name=f"/{root}/Act")
    h = g.node("Add", g.linear(h, f"{root}.down"), x, name=f"/{root}/Add")
    found = classes(onnxlift.lift(g.model(g.linear(h, "last")), name=root))
    assert [*found] == [name, root.title()]


def test_classes_without_different_owners_are_told_apart_by_where_they_stand() -> None:
    """`stages` is a list, and not whose layer it is."""
    assert {"Layer", "EarlyLayer"} <= classes(two_stacks("stages.0.layers", "stages.1.layers")).keys()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("attention.self", "SelfAttention"),  # and not `Self`
        ("cross_attn", "CrossAttention"),
        ("pos_embed", "PositionEmbedding"),
        ("mlp_head", "MLPHead"),
        ("moe", "MoE"),
        ("ff", "FF"),
        ("encoder.layers.0", "EncoderLayer"),
        ("model.layers.0", "Layer"),  # a `model` says nothing
        ("attnet", "Attnet"),  # no abbreviation
    ],
)
def test_a_class_has_the_name_of_its_place_written_out(path: str, name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    h = g.node("Sin", g.linear(x, f"{path}.up"), name=f"/{path}/Act".replace(".", "/"))
    h = g.node("Add", g.linear(h, f"{path}.down"), x, name=f"/{path}/Add".replace(".", "/"))
    assert name in classes(g.lift(g.linear(h, "last")))


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (("inception3a", "inception3b"), "Inception"),
        (("down1", "down2"), "Down"),
        (("conv_1_1", "conv_1_2"), "Conv"),
        (("w2v1", "w2v2"), "W2v"),  # only what counts them is left out
        (("ff1", "ff2"), "FF"),
        (("time_mix", "channel_mix"), "Mix"),
        (("mix_time", "mix_channels"), "Mix"),
        (("first", "second"), "First"),  # nothing in common
        (("conv2d",), "Conv2d"),
    ],
)
def test_a_class_of_several_places_is_called_by_what_their_names_have_in_common(paths: list[str], name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for path in paths:
        h = g.node("Sin", g.linear(x, f"{path}.up"), name=f"/{path}/Act")
        x = g.node("Mul", g.linear(h, f"{path}.down"), x, name=f"/{path}/Mul")
    assert name in classes(g.lift(g.linear(x, "last")))


def test_classes_come_in_the_order_in_which_they_are_used() -> None:
    """First the parts of a class, then the class, then what comes after it; not all small ones first."""
    g = Graph()
    x = g.input("x", "n", 4)
    for path, op_type in (("attention.heads", "Sin"), ("attention.output", "Exp"), ("mixer", "Cos")):
        h = g.node(op_type, g.linear(x, f"{path}.up"), name=f"/{path}/Act".replace(".", "/"))
        x = g.node("Add", g.linear(h, f"{path}.down"), x, name=f"/{path}/Add".replace(".", "/"))
    found = list(classes(g.lift(g.node("Tanh", x, name="/Tanh"))))
    assert found[:-1] == ["Heads", "Output", "Attention", "Mixer"]


def test_a_docstring_names_as_many_instances_as_fit_into_a_line() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(4):
        for word in ("first_of_these", "second_of_these", "third_of_these"):
            path = f"a_rather_long_name.stages.{i}.layers.{word}"
            h = g.node("Sin", g.linear(x, f"{path}.up"), name=f"/{path}/Act".replace(".", "/"))
            x = g.node("Add", g.linear(h, f"{path}.down"), x, name=f"/{path}/Add".replace(".", "/"))
    text = g.lift(g.node("Tanh", x, name="/Tanh")).source
    assert '"""a_rather_long_name.stages.*.layers.first_of_these, ...' in text
    assert max(map(len, text.splitlines())) <= 100


def padded(g: Graph, sizes: Sequence[tuple[int, int, int]]) -> onnxlift.Lifted:
    """Causal convolutions, each with a padding in front, a kernel and a dilation."""
    x = g.input("x", "n", 4, 20)
    for i, (padding, kernel, dilation) in enumerate(sizes):
        pads = g.constant(f"pads{i}", np.array([0, 0, padding, 0, 0, 0]))
        h = g.node("Pad", g.node("Sin", x, name=f"/blocks.{i}/Sin"), pads, name=f"/blocks.{i}/Pad")
        weight = g.weight(f"blocks.{i}.conv.weight", 4, 4, kernel)
        h = g.node("Conv", h, weight, dilations=[dilation], kernel_shape=[kernel], name=f"/blocks.{i}/conv/Conv")
        x = g.node("Tanh", h, name=f"/blocks.{i}/Tanh")
    return g.lift(g.node("Cos", x, name="/Cos"))


def test_a_padding_that_follows_from_the_dilation_is_no_argument() -> None:
    lifted = padded(Graph(), [(2, 3, 1), (4, 3, 2), (8, 3, 4)])
    assert "Block(1), Block(2), Block(4)" in lifted.source and "self.padding = 2 * dilation" in lifted.source


def test_a_small_padding_is_a_number_like_others() -> None:
    lifted = padded(Graph(), [(1, 2, 1), (2, 2, 1), (5, 2, 1)])
    assert [arguments for arguments in classes(lifted).values() if arguments] == [["padding"]], lifted.source
    assert "F.pad(x.sin(), (self.padding, 0))" in lifted.source


def test_equal_modules_share_a_class_wherever_they_are() -> None:
    """`middle` has no relatives; one of the relatives of the blocks that it equals has a module in it."""
    g = Graph()
    x = g.input("x", "n", 4)
    for path in ("downs.0.0", "middle", "downs.1.0"):
        x = step(g, x, path)
    h = g.node("Tanh", g.linear(x, "downs.0.1.net.a"), name="/downs.0.1/net/Tanh")
    x = g.node("Mul", g.linear(h, "downs.0.1.net.b"), x, name="/downs.0.1/Mul")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert lifted.source.count("self.b(self.a(x).sin())") == 1, lifted.source


def test_a_convolution_under_many_names_is_called_by_what_it_is() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 9)
    for path in ("stem", "reduce", "expand"):
        weight = g.weight(f"{path}.conv.weight", 4, 4, 1)
        h = g.node("Conv", x, weight, kernel_shape=[1], name=f"/{path}/conv/Conv")
        x = g.node("Mul", h, g.node("Sin", h, name=f"/{path}/Sin"), name=f"/{path}/Mul")
    assert "ConvBlock" in classes(g.lift(g.node("Cos", x, name="/Cos")))


def test_names_that_clash_say_whose_the_class_is() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        x = step(g, x, f"layers.{i}.attention.output")
        h = g.node("Tanh", g.linear(x, f"layers.{i}.output.dense"), name=f"/layers.{i}/output/Tanh")
        x = g.node("Mul", x, h, name=f"/layers.{i}/output/Mul")
    names = classes(g.lift(g.node("Cos", x, name="/Cos")))
    assert {"AttentionOutput", "Output"} <= names.keys(), names


def test_the_attention_in_an_attention() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(2):
        x = step(g, x, f"layers.{i}.attention.attention")
        x = g.node("Mul", x, g.linear(x, f"layers.{i}.attention.dense"), name=f"/layers.{i}/attention/Mul")
    names = classes(g.lift(g.node("Cos", x, name="/Cos")))
    assert {"SelfAttention", "Attention"} <= names.keys(), names


def test_whether_a_layer_has_a_bias_is_an_argument() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i, has_bias in enumerate((True, False, True)):
        biases = [g.weight(f"blocks.{i}.a.bias", 4)] if has_bias else []
        h = g.node("Gemm", x, g.weight(f"blocks.{i}.a.weight", 4, 4), *biases, transB=1, name=f"/blocks.{i}/a/Gemm")
        x = g.linear(g.node("Sin", h, name=f"/blocks.{i}/Sin"), f"blocks.{i}.b")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    assert classes(lifted)["Block"] == ["bias"], lifted.source
    assert "blocks.1.a.bias" not in lifted.state_dict


def convolution(g: Graph, x: str, path: str, channels: int, kernel: int = 1) -> str:
    weight = g.weight(f"{path}.conv.weight", channels, 4, kernel, kernel)
    scope = "/" + re.sub("[.](?![0-9])", "/", path)
    h = g.node("Conv", x, weight, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, name=f"{scope}/conv/Conv")
    return g.node("Mul", h, g.node("Sigmoid", h, name=f"{scope}/Sigmoid"), name=f"{scope}/Mul")


def test_a_list_of_all_that_a_model_is_made_of() -> None:
    """One entry equals a part of another one; and a number is no name."""
    g = Graph()
    x = convolution(g, g.input("x", "n", 4, 5, 5), "model.0", 4, 3)
    h = convolution(g, x, "model.1.cv1", 4)
    pooled = g.node("MaxPool", h, kernel_shape=[3, 3], pads=[1] * 4, name="/model.1/m/MaxPool")
    h = g.node("Concat", h, pooled, axis=2, name="/model.1/Concat")
    y = convolution(g, h, "model.1.cv2", 4)
    last = g.node("Concat", convolution(g, x, "model.2.cv1", 4), y, axis=2, name="/model.2/Concat")
    lifted = g.lift(g.node("Tanh", last, name="/model.2/Tanh"))
    names = classes(lifted)
    assert {"ConvSiLU", "PyramidPooling", "Head"} <= names.keys() and len(names) == 4, lifted.source
    assert names["ConvSiLU"] == ["kernel"], lifted.source
