"""A network that an If holds twice, with what is past and without, is one network that decides where they differ."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxlift
from onnxlift.ir.graph.walk import all_nodes, subgraphs
from onnxlift.ir.load import load
from rewriting.idioms.recognising import Data, parse
from rewriting.running_stages import normalise, simplify
from small_graphs import code

ROWS = 3
FEEDS = {"x": (1, 4, 8), **{f"past{i}": (1, 5, 8) for i in range(ROWS)}}


def attention(i: int, past: bool, prefix: str) -> str:
    """A layer that attends to keys of the past and of now, or of now alone, and gives these keys."""
    h, p = f"{prefix}h{i}", prefix
    keys = f"{p}c{i} = Concat <axis = 1> (past{i}, {p}k{i})" if past else f"{p}c{i} = Identity({p}k{i})"
    return f"""{p}q{i} = MatMul({h}, wq{i}) {p}k{i} = MatMul({h}, wk{i}) {keys}
        {p}t{i} = Transpose <perm = [0, 2, 1]> ({p}c{i}) {p}s{i} = MatMul({p}q{i}, {p}t{i}) {p}a{i} = Softmax({p}s{i})
        {p}o{i} = MatMul({p}a{i}, {p}c{i}) {p}h{i + 1} = Add({h}, {p}o{i})"""


def branch(past: bool, rows: int = ROWS) -> str:
    p = "t" if past else "e"
    body = " ".join(attention(i, past, p) for i in range(rows))
    given = ", ".join(f"float[a, b{i}, c{i}] {p}c{i}" for i in range(rows))
    return f"{p} () => (float[a, s, 8] {p}h{rows}, {given}) {{ {p}h0 = Relu(x) {body} }}"


def decoder(rows: int = ROWS, then: str = "", other: str = "", **known: Data) -> onnx.ModelProto:
    keys = [f"present{i}" for i in range(rows)]
    pasts = ", ".join(f"float[batch, before, 8] past{i}" for i in range(rows))
    text = f"""g (bool c, float[batch, seq, 8] x, {pasts})
        => (float[batch, seq, 8] y, {", ".join(f"float[batch, n{i}, 8] {key}" for i, key in enumerate(keys))}) {{
            y, {", ".join(keys)} = If (c) <then_branch = {then or branch(True, rows)},
                                          else_branch = {other or branch(False, rows)}>
        }}"""
    weights: dict[str, Data] = {f"w{kind}{i}": (8, 8) for i in range(rows) for kind in "qk"}
    return parse(text, 18, **(weights | known))


def left(model: onnx.ModelProto) -> tuple[Counter[str], Counter[str]]:
    """The operators outside and inside of branches after simplifying. The lifted module takes either branch rightly."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    module = onnxlift.convert(model)
    numbers = np.random.default_rng(0)
    for condition in (True, False):
        feeds: dict[str, np.ndarray] = {"c": np.array(condition)}
        for each in session.get_inputs()[1:]:
            feeds[each.name] = numbers.standard_normal(FEEDS[each.name]).astype(np.float32)
        results = module(*(torch.from_numpy(feeds[each.name]) for each in session.get_inputs()))
        results = results if isinstance(results, tuple) else (results,)
        for expected, result in zip(session.run(None, feeds), results, strict=True):
            np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    graph = load(model)
    normalise(graph)
    simplify(graph)
    outside = Counter(node.op_type for node in graph.graph)
    inside = [inner for node in graph.graph for body in subgraphs(node) for inner in all_nodes(body)]
    return outside, Counter(node.op_type for node in inside)


def test_what_both_branches_have_is_shared() -> None:
    outside, inside = left(decoder())
    assert outside["MatMul"] == 4 * ROWS and outside["If"] == ROWS
    assert inside == {"Concat": ROWS, "Identity": ROWS}


def test_the_source_decides_about_keys_alone() -> None:
    source = code(onnxlift.lift(decoder(), structure="repetition"))
    assert "for layer, feature in zip(self.layers, (past0, past1, past2)):" in source
    assert (
        "if c:\n            present0 = torch.cat((past0, tk0), 1)\n        else:\n            present0 = tk0\n"
        in source
    )


def test_branches_of_few_layers_stay() -> None:
    outside, _ = left(decoder(1))
    assert outside == {"If": 1}


def test_layers_with_other_weights_stay_apart() -> None:
    other = branch(False).replace("wq", "vq").replace("wk", "vk")
    outside, _ = left(decoder(other=other, **{f"v{kind}{i}": (8, 8) for i in range(ROWS) for kind in "qk"}))
    assert outside == {"If": 1}


def test_two_networks_of_one_kind_stay_two() -> None:
    """Voice detectors have one for each of two rates. An If that chooses each weight would be no help."""

    def network(p: str, weight: str) -> str:
        lines = [f"{p}m{i} = MatMul({p}{i}, {weight}{i}) {p}{i + 1} = Relu({p}m{i})" for i in range(6)]
        return f"{p} () => (float[a, s, 8] {p}6) {{ {p}0 = Sin(x) {' '.join(lines)} }}"

    text = f"""g (bool c, float[batch, seq, 8] x, float[batch, before, 8] past0) => (float[batch, seq, 8] y) {{
            y = If (c) <then_branch = {network("t", "w")}, else_branch = {network("e", "v")}>
        }}"""
    weights = np.random.default_rng(1).standard_normal((12, 8, 8)).astype(np.float32) * np.float32(0.3)
    model = parse(text, 18, **{f"{'wv'[i // 6]}{i % 6}": each for i, each in enumerate(weights)})
    outside, _ = left(model)
    assert outside == {"If": 1}


def test_another_order_of_nodes_is_the_same_network() -> None:
    swapped = branch(False)
    for i in range(ROWS):
        q, k = f"eq{i} = MatMul(eh{i}, wq{i})", f"ek{i} = MatMul(eh{i}, wk{i})"
        swapped = swapped.replace(f"{q} {k}", f"{k} {q}")
    outside, _ = left(decoder(other=swapped))
    assert outside["MatMul"] == 4 * ROWS


def test_layers_in_another_order_do_not_read_what_comes_later() -> None:
    """Two pairs that cross cannot both be shared."""
    other = branch(False)
    for old, new in (("wq0", "first"), ("wq1", "wq0"), ("first", "wq1")):
        other = other.replace(old, new)
    outside, _ = left(decoder(other=other))
    assert outside["If"]


def test_constants_of_both_branches_may_have_one_name() -> None:
    given = "half = Constant <value_float = 0.5> () {0}b0 = Tanh(x) {0}h0 = Mul({0}b0, half)"
    then = branch(True).replace("th0 = Relu(x)", given.format("t"))
    other = branch(False).replace("eh0 = Relu(x)", given.replace("0.5", "0.25").format("e"))
    outside, _ = left(decoder(then=then, other=other))
    assert outside["MatMul"] == 4 * ROWS


def test_numbers_are_computed_in_the_branches() -> None:
    """Nobody writes `n = past.shape[1] if c else x.shape[1]` for each of them."""
    sizes = "{0}z = Shape({1}) {0}n = Gather <axis = 0> ({0}z, place) {0}f = Cast <to = 1> ({0}n) {0}h0 = Mul(x, {0}f)"
    model = decoder(
        then=branch(True).replace("th0 = Relu(x)", sizes.format("t", "past0")),
        other=branch(False).replace("eh0 = Relu(x)", sizes.format("e", "x")),
        place=np.array(1),
    )
    outside, inside = left(model)
    assert outside["MatMul"] == 4 * ROWS and not outside.keys() & {"Gather", "Cast"} and inside["Mul"] == 2


def variant(choose: random.Random, prefix: str, steps: list[tuple[str, int]]) -> str:
    """A branch with these steps, some left out, some added, and some in another order."""
    lines, values = [f"{prefix}0 = Relu(x)"], [f"{prefix}0"]
    for number, (kind, weight) in enumerate(steps, 1):
        old = values[-1] if choose.random() < 0.85 else choose.choice(values)
        name = f"{prefix}{number}"
        if choose.random() < 0.1:
            kind = "Tanh"
        if kind == "MatMul":
            lines.append(f"{name} = MatMul({old}, w{weight})")
        elif kind == "Add":
            lines.append(f"{name} = Add({old}, {choose.choice(values)})")
        elif kind == "Concat":
            both = f"{name}c = Concat <axis = 1> ({old}, past0)" if choose.random() < 0.5 else f"{name}c = Neg({old})"
            lines.append(f"{both} {name} = Slice({name}c, zero, four, one)")
        else:
            lines.append(f"{name} = {kind}({old})")
        values.append(name)
    results = f"float[a, s, 8] {values[-1]}, float[b, t, 8] {values[len(values) // 2]}"
    return f"{prefix} () => ({results}) {{ {' '.join(lines)} }}"


@pytest.mark.parametrize("seed", range(40))
def test_random_branches_compute_the_same(seed: int) -> None:
    choose = random.Random(seed)
    kinds = ["MatMul", "MatMul", "Add", "Sin", "Concat", "Abs"]
    steps = [(choose.choice(kinds), choose.randrange(6)) for _ in range(choose.randint(6, 24))]
    text = f"""g (bool c, float[batch, 4, 8] x, float[batch, before, 8] past0)
        => (float[batch, 4, 8] y, float[batch, 4, 8] z) {{
            y, z = If (c) <then_branch = {variant(choose, "t", steps)}, else_branch = {variant(choose, "e", steps)}>
        }}"""
    numbers: dict[str, Data] = {"zero": np.array([0]), "four": np.array([4]), "one": np.array([1])}
    weights = np.random.default_rng(seed).standard_normal((6, 8, 8)).astype(np.float32) * np.float32(0.3)
    left(parse(text, 18, **{f"w{i}": weights[i] for i in range(6)}, **numbers))


def test_what_both_branches_give_from_outside_is_no_decision() -> None:
    text = """g (bool c, float[batch, seq, 8] x, float[batch, before, 8] past0)
        => (float[batch, seq, 8] y, float[batch, seq, 8] z) {
            h = Abs(x)
            a, z = If (c) <then_branch = t () => (float[p, q, 8] ta, float[p, q, 8] tz)
                               { ta = Identity(h) tz = Sin(h) },
                           else_branch = e () => (float[p, q, 8] ea, float[p, q, 8] ez)
                               { eb = Identity(h) ea = Identity(eb) ez = Cos(h) }>
            y = Neg(a)
        }"""
    left(parse(text, 18))
    source = " ".join(code(onnxlift.lift(parse(text, 18))).split())
    assert "if c: z = x.sin() else: z = x.cos() return -x, z" in source, source
