"""A forward that is too long is divided into methods where few variables cross, and computes the same."""

from __future__ import annotations

import ast
import random

import numpy as np
import onnxruntime
import pytest
import torch

import onnxlift
from onnxlift.lifting.text.methods import INDENT, Origin, Piece, divide
from onnxlift.lifting.text.name_flow import flow_of
from onnxlift.lifting.text.narrow_cuts import LONGEST, find_cuts
from small_graphs import Graph


def residual(g: Graph, x: str, steps: int, first: int = 0) -> str:
    """Steps that each write a line of their own, since their inputs are read twice."""
    for i in range(first, first + steps):
        x = g.node("Mul", g.linear(x, f"fc{i}"), g.node("Sigmoid", x))
        x = g.node("Softmax", x) if i % 7 == 3 else x
    return x


def long_chain(steps: int = 60) -> tuple[Graph, str]:
    g = Graph()
    return g, residual(g, g.input("x", "n", 4), steps)


def functions(source: str) -> dict[str, ast.FunctionDef]:
    """The methods of the model's class, but those that make its members."""
    cls = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)][-1]
    found = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    return {function.name: function for function in found if function.name not in ("__init__", "tie_weights")}


def test_a_long_forward_has_methods_and_computes_the_same() -> None:
    g, y = long_chain()
    lifted = g.lift(y, structure="flat")  # compares with the reference
    found = functions(lifted.source)
    assert [*found] == ["stem", "head", "forward"]
    assert ast.unparse(found["forward"].body) == "x = self.stem(x)\nreturn self.head(x)"
    assert all(len(function.body) <= LONGEST for function in found.values())


def test_several_stages_stand_between_stem_and_head() -> None:
    g, y = long_chain(150)
    found = functions(g.lift(y, structure="flat").source)
    assert [*found] == ["stem", "stage1", "stage2", "head", "forward"]


def test_a_forward_that_can_be_read_stays_whole() -> None:
    g, y = long_chain(LONGEST // 2)
    assert [*functions(g.lift(y, structure="flat").source)] == ["forward"]


def test_very_many_methods_are_called_by_methods() -> None:
    g, y = long_chain(1800)
    found = functions(g.lift(y, structure="flat").source)
    assert max(len(function.body) for function in found.values()) <= LONGEST
    assert {"stem", "part1", "head"} <= found.keys()


def test_the_step_can_be_skipped() -> None:
    g, y = long_chain()
    assert [*functions(g.lift(y, structure="flat", skip_passes=["methods"]).source)] == ["forward"]


def test_nothing_else_changes() -> None:
    g, y = long_chain()
    model = g.model(y)
    divided, whole = (onnxlift.lift(model, structure="flat", skip_passes=skipped) for skipped in ([], ["methods"]))
    assert [*divided.state_dict] == [*whole.state_dict]
    assert divided.source == onnxlift.lift(model, structure="flat").source
    assert computed(whole) == [line for line in computed(divided) if not line.startswith("self.")]


def computed(lifted: onnxlift.Lifted) -> list[str]:
    """What the statements of all methods compute, in the order of the text."""
    rows = [statement for function in functions(lifted.source).values() for statement in function.body]
    return [ast.unparse(row.value) for row in rows if isinstance(row, ast.Assign | ast.Return) and row.value]


def test_a_cut_is_where_few_values_cross() -> None:
    """The three branches of the middle cross no border: only their input does, with its gate."""
    g = Graph()
    x = residual(g, g.input("x", "n", 4), 22)
    branches = [residual(g, x, 6, 100 * i) for i in range(1, 4)]
    x = residual(g, g.node("Concat", *branches, axis=1), 0)
    x = residual(g, g.linear(x, "mix", 12), 20, 500)
    for function in functions(g.lift(x, structure="flat").source).values():
        assert len(function.args.args) <= 3, ast.unparse(function)


def test_what_crosses_is_handed_on_with_its_type() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    rows = g.node("Gather", g.node("Shape", x), g.constant("zero", np.int64(0)))
    y = residual(g, x, 60)
    shape = g.node(
        "Concat",
        g.node("Unsqueeze", rows, g.constant("axis", np.array([0]))),
        g.constant("two", np.array([2, 2])),
        axis=0,
    )
    y = g.node("Add", g.node("Reshape", y, shape), g.node("Reshape", x, shape))
    found = functions(g.lift(y, structure="flat").source)
    head = next(function for name, function in found.items() if name == "head")
    assert all(argument.annotation is not None for argument in head.args.args[1:])
    assert ast.unparse(found["forward"]).count("self.head(") == 1


def test_methods_do_not_take_the_name_of_a_member() -> None:
    g = Graph()
    x = residual(g, g.linear(g.input("x", "n", 4), "stem"), 60)
    found = functions(g.lift(g.linear(x, "head"), structure="flat").source)
    assert not {"stem", "head"} & found.keys() and len(found) == 3


def test_the_source_map_finds_the_lines_in_methods() -> None:
    g, y = long_chain()
    g.nodes[0].name, g.nodes[-1].name = "first", "last"
    lifted = g.lift(y, structure="flat")
    lines = lifted.source.splitlines()
    inside, call = lifted.source_map.lines_of("first")[:2]
    assert "self.fc0" in lines[inside - 1] and "self.stem(" in lines[call - 1]
    assert "first" in lifted.source_map.nodes_at(inside) and "last" not in lifted.source_map.nodes_at(call)


def test_explain_knows_methods_and_where_variables_are() -> None:
    g, y = long_chain()
    lifted = g.lift(y, structure="flat")
    (thing,) = lifted.explain("stem").things
    assert (thing.kind, thing.where, thing.name.why) == ("method", "Small", "it comes first")
    assert {thing.where for thing in lifted.explain("x").things} <= {"Small.forward", "Small.stem", "Small.head"}


def test_values_in_methods_are_traced() -> None:
    g, y = long_chain()
    model = g.model(y)
    for number, node in enumerate(model.graph.node):
        node.name = node.name or f"node{number}"
    report = onnxlift.verify(model, trace=True)
    assert report.passed, str(report)


def test_a_divided_forward_compiles_and_exports() -> None:
    g, y = long_chain()
    module, x = g.lift(y, structure="flat").module(), torch.randn(3, 4)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    torch.testing.assert_close(program.module()(torch.ones(5, 4)), module(torch.ones(5, 4)))
    torch.testing.assert_close(compiled(x), module(x))


def test_onnxruntime_agrees() -> None:
    g, y = long_chain()
    model, x = g.model(y), np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run([y], {"x": x})
    with torch.no_grad():
        np.testing.assert_allclose(onnxlift.lift(model).module()(torch.from_numpy(x)), expected, rtol=1e-4, atol=1e-6)


# Texts


@pytest.mark.parametrize(
    ("text", "reads", "writes", "may_write"),
    [
        ("x = x + y", "x y", "x", "x"),
        ("a, (b, _) = f(x)", "f x", "a b _", "a b _"),
        ("if c:\n    a = x\nelse:\n    a = y\n    b = a", "c x y", "a", "a b"),
        ("for i in r:\n    x = x + i\n    y = x", "r x", "", "i x y"),
        ("while m:\n    m = x", "m x", "", "m x".replace(" x", "")),
        ("with c():\n    y = x", "c x", "y", "y"),
        ("y = [x[i] for i in z]", "x z", "y", "y"),
        ("return x", "x", "", ""),
    ],
)
def test_what_a_statement_reads_and_writes(text: str, reads: str, writes: str, may_write: str) -> None:
    flow = flow_of(text.splitlines())
    assert {*flow.reads} == {*reads.split()} and {*flow.writes} == {*writes.split()}
    assert {*flow.may_write} == {*may_write.split()}


def test_no_cut_where_a_variable_may_be_missing() -> None:
    """`t` is only written in a branch, and read behind it in another one: it cannot be an argument."""
    lines = ["a = x"] * 30 + ["if a:\n    t = a"] + ["a = a + x"] * 30 + ["if a:\n    a = t"] + ["a = a + x"] * 30
    flows = [flow_of(line.splitlines()) for line in lines]
    cuts = find_cuts(flows, [line.count("\n") + 1 for line in lines], ["x"], [])
    assert cuts and not any(30 < cut <= 61 for cut in cuts)


def test_no_cut_where_a_variable_of_unknown_type_crosses() -> None:
    flows = [flow_of([line]) for line in (["n = x"] + ["x = x + 1"] * 60 + ["x = n"])]
    assert find_cuts(flows, [1] * len(flows), ["x"], ["n"]) in ([], [1])
    assert 20 < find_cuts(flows, [1] * len(flows), ["x"], [])[0] < 42


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same_in_methods(seed: int) -> None:
    """Straight code, branches and loops over a few variables, divided and run."""
    names, source = [*"abcdef"], random.Random(seed)

    def line(depth: int = 0) -> list[str]:
        kind = source.random()
        if depth == 0 and kind < 0.12:
            return [
                f"if {source.choice(names)} % 3:",
                *("    " + row for row in line(1)),
                "else:",
                *("    " + row for row in line(1)),
            ]
        if depth == 0 and kind < 0.2:
            return [f"for _ in range({source.choice(names)} % 4):", *("    " + row for row in line(1))]
        one, two, target = (source.choice(names[: 2 + seed % 5]) for _ in range(3))
        return [f"{target} = ({one} * 3 + {two} + {source.randrange(9)}) % 101"]

    rows = [line() for _ in range(120)]
    pieces = []
    for row in [*rows, [f"return {', '.join(names)}"]]:
        indented = [INDENT + text for text in row]
        flow = flow_of(indented)
        count = sum(1 for each in ast.walk(ast.parse("\n".join(row))) if isinstance(each, ast.stmt))
        types = dict.fromkeys(flow.may_write, "int")
        pieces.append(Piece(indented, [Origin((), ())] * count, [None] * count, types, row[0].startswith("return")))
    methods, rest = divide(pieces, dict.fromkeys(names, "int"), set(), ())
    assert methods, "every program of this length can be divided"
    text = ["class Divided:"]
    for method in methods:
        text += [f"    {method.head('tuple')}", *(row for piece in method.body for row in piece.lines)]
    text += [f"    def forward(self, {', '.join(names)}):", *(row for piece in rest for row in piece.lines)]
    whole = [
        f"def whole({', '.join(names)}):",
        *(f"    {text}" for row in rows for text in row),
        f"    return {', '.join(names)}",
    ]
    space: dict[str, object] = {"Tensor": object}
    exec("\n".join([*text, *whole]), space)
    for start in range(5):
        given = range(start, start + len(names))
        assert space["Divided"]().forward(*given) == space["whole"](*given)


def test_a_method_may_give_nothing() -> None:
    lines = ["seen.append(x)"] * 60 + ["return seen"]
    pieces = [Piece([INDENT + line], [Origin((), ())], [None], {}, line.startswith("return")) for line in lines]
    methods, rest = divide(pieces, {"x": "int", "seen": "list"}, set(), ())
    assert methods[0].head("list") == "def prepare(self, x: int, seen: list) -> None:"
    assert [line.strip() for piece in rest for line in piece.lines] == [
        "self.prepare(x, seen)",
        "return self.finish(x, seen)",
    ]


def test_what_division_does_not_help_stays_whole() -> None:
    """An early value of each of many lines is read at the end: everywhere in between, too much would cross."""
    g = Graph()
    x = g.input("x", "n", 4)
    lines = [residual(g, g.node("Sin", x), 1, i) for i in range(30)]
    ends = [g.node("Mul", line, g.node("Cos", line)) for line in lines]
    lifted = g.lift(g.node("Sum", *ends, *lines), structure="flat")
    found = functions(lifted.source)
    assert [*found] == ["forward"] and len(found["forward"].body) > LONGEST, lifted.source
