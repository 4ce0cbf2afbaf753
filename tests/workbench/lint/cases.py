"""For each rule of lint: models that break it, with a part of the message, and models next to them that do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper, parser

FLOAT32 = np.float32
RANDOM = np.random.default_rng(0)


def model(
    body: str,
    inputs: str = "float[n, 4] x",
    outputs: str = "float[n, 4] y",
    *,
    opset: int = 20,
    ir_version: int = 10,
    inside: str = "",
    weights: dict[str, np.ndarray] | None = None,
    domains: str = "",
    functions: str = "",
    named: bool = True,
) -> onnx.ModelProto:
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}{domains}]>'
    declared = f"<{inside}>" if inside else ""
    proto = parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {declared} {{ {body} }} {functions}")
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (weights or {}).items())
    for index, node in enumerate(proto.graph.node if named else ()):
        node.name = f"{node.op_type.lower()}{index}"
    return proto


def changed(proto: onnx.ModelProto, change: Any) -> onnx.ModelProto:
    change(proto.graph)
    return proto


def reversed_nodes(graph: onnx.GraphProto) -> None:
    nodes = list(graph.node)[::-1]
    del graph.node[:]
    graph.node.extend(nodes)


def same_names(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        node.name = "same"


def weight_among_inputs(graph: onnx.GraphProto) -> None:
    graph.input.append(onnx.helper.make_tensor_value_info("w", TensorProto.FLOAT, [4, 4]))


def traced(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        node.doc_string = '  File "/home/me/net.py", line 3, in forward\n' * 30


def normal(*shape: int, dtype: Any = FLOAT32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def with_one(array: np.ndarray, number: float) -> np.ndarray:
    array.flat[0] = number
    return array


def branches(then: str, other: str = "o = Neg(x)", before: str = "a = Relu(x)", then_out: str = "t") -> onnx.ModelProto:
    return model(
        f"{before} y = If (c) <then_branch = tb () => (float[n, 4] {then_out}) {{ {then} }}, "
        f"else_branch = eb () => (float[n, 4] o) {{ {other} }}>",
        "float[n, 4] x, bool c",
    )


BLOCK = '<domain: "acme", opset_import: ["" : 20]> block (a) => (b) { b = Neg(a) }'
ACME = ', "acme" : 1'
MATMUL = "y = MatMul(x, w)"
NORM = "y = BatchNormalization(x, s, b, m, v)"
IMAGE = ("float[n, 4, 2] x", "float[n, 4, 2] y")


def norm(variance: np.ndarray) -> onnx.ModelProto:
    vectors = {name: np.ones(4, FLOAT32) for name in "sbm"}
    return model(NORM, *IMAGE, weights={**vectors, "v": variance})


def halved(number: float) -> onnx.ModelProto:
    return model(
        "h = Cast<to = 10>(w) y = Add(x, h)",
        "float16[n, 4] x",
        "float16[n, 4] y",
        weights={"w": np.array([1, 2, 3, number], FLOAT32)},
    )


def gru(state: str) -> onnx.ModelProto:
    weights = {"w": normal(1, 9, 4), "r": normal(1, 9, 3), "h": np.zeros((1, 1, 3), FLOAT32)}
    return model(
        f"y = GRU<hidden_size = 3>(x, w, r, , , {state})", "float[s, n, 4] x", "float[s, 1, n, 3] y", weights=weights
    )


@dataclass(frozen=True)
class Case:
    """The models of one rule. `options` are those of `lint` that it needs."""

    broken: list[tuple[onnx.ModelProto, str]]
    sound: list[onnx.ModelProto]
    options: dict[str, Any] = field(default_factory=dict)


PLAIN = model("y = Relu(x)")
MIXED = model(
    "a = Identity(x) b = Dropout(a) d = Neg(b) y = MatMul(b, w)",
    weights={"w": np.zeros((4, 4), FLOAT32), "unused": normal(8, 8)},
)
"""A model that breaks five rules, four of which can be mended."""
CASES: dict[str, Case] = {
    "OL101": Case(
        [(model("y = Relu(x)", named=False), "node number 0 (Relu): it has no name")],
        [PLAIN, model("a = Constant<value_float = 1.0>() y = Add(x, a)")],
    ),
    "OL102": Case(
        [(changed(model("a = Relu(x) y = Neg(a)"), same_names), "another node is called 'same' as well")],
        [model("a = Relu(x) y = Neg(a)")],
    ),
    "OL103": Case(
        [(branches("a = Neg(x) t = Abs(a)"), "its value 'a' has the name of one in the graph around it")],
        [branches("t = Abs(a)"), branches("q = Neg(a) t = Abs(q)", "q = Neg(x) o = Exp(q)")],
    ),
    "OL111": Case(
        [(changed(model(MATMUL, weights={"w": normal(4, 4)}), weight_among_inputs), "it is also an input")],
        [
            model(MATMUL, weights={"w": normal(4, 4)}),
            changed(model(MATMUL, weights={"w": normal(4, 4)}, ir_version=3, opset=8), weight_among_inputs),
            model("y = Mul(x, k)", "float[n, 4] x, float k", weights={"k": np.array(2, FLOAT32)}),
        ],
    ),
    "OL112": Case(
        [
            (changed(model("a = Relu(x) y = Neg(a)"), reversed_nodes), "it reads 'a', which a later node makes"),
            (changed(branches("t = Abs(a)"), reversed_nodes), "it reads 'a', which a later node makes"),
        ],
        [model("a = Relu(x) y = Neg(a)"), branches("t = Abs(a)")],
    ),
    "OL113": Case(
        [(branches("", then_out="a"), "its output 'a' is a value of the graph around it")],
        [branches("t = Identity(a)")],
    ),
    "OL114": Case(
        [(model("y = Relu(x)", domains=ACME), "opset 1 of domain 'acme' is imported, and no node is of it")],
        [PLAIN, model("y = acme.block(x)", domains=ACME, functions=BLOCK)],
    ),
    "OL115": Case(
        [(model("y = Relu(x)", domains=ACME, functions=BLOCK), "function acme::block: nobody calls it")],
        [model("y = acme.block(x)", domains=ACME, functions=BLOCK)],
    ),
    "OL116": Case(
        [(changed(model("y = Relu(x)"), traced), "its nodes hold 1 stack traces")],
        [PLAIN],
    ),
    "OL201": Case(
        [
            (
                model("a = Relu(x) y = Neg(a)", inside="double[n, 4] a"),
                "it is declared as float64, and its node gives float32",
            ),
            (model("y = Relu(x)", outputs="int64[n, 4] y"), "output 'y': it is declared as int64"),
        ],
        [model("a = Relu(x) y = Neg(a)", inside="float[n, 4] a"), PLAIN],
    ),
    "OL202": Case(
        [
            (
                model("a = Relu(x) y = Neg(a)", inside="float[n, 5] a"),
                "it is declared as (n, 5), and its node gives (n, 4)",
            ),
            (model("y = Relu(x)", outputs="float[n, 4, 1] y"), "it is declared as (n, 4, 1)"),
            (model("y = Relu(x)", outputs="float[1, 4] y"), "it is declared as (1, 4), and its node gives (n, 4)"),
        ],
        [PLAIN, model("a = Relu(x) y = Neg(a)", inside="float[m, 4] a"), model("y = Shape(x)", outputs="int64[2] y")],
    ),
    "OL203": Case(
        [
            (
                model("y = Transpose(x)", "float[n, m] x", "float[n, m] y"),
                "its axis 0 is declared as 'n', which is a size of an input, and it is m",
            ),
            (model("y = ReduceSum(x)", outputs="float[n, 1] y"), "its axis 0 is declared as 'n'"),
        ],
        [PLAIN, model("y = Transpose(x)", "float[n, m] x", "float[a, b] y")],
    ),
    "OL204": Case(
        [
            (
                model("a = Neg(x) b = Abs(a) c = Exp(b) d = Cast<to = 11>(c) e = Sin(d) y = Cast<to = 1>(e)"),
                "node 'cast3' (Cast): from here on, float64 is computed",
            ),
        ],
        [
            PLAIN,
            model("a = Relu(x) y = Neg(a)", "double[n, 4] x", "double[n, 4] y"),
            model("y = Sin(x)", "float[n, 4] x", "float[n, 4] y"),
        ],
    ),
    "OL205": Case(
        [
            (
                model("a = Cast<to = 7>(i) y = Add(a, j)", "int32[n, 4] i, int64[n, 4] j", "int64[n, 4] y"),
                "input 'i': it is int32, and 'j' is int64",
            ),
        ],
        [model("y = Add(i, j)", "int64[n, 4] i, int64[n, 4] j", "int64[n, 4] y"), PLAIN],
    ),
    "OL211": Case(
        [
            (
                model(
                    "a = MatMul(x, w) y = MatMul(z, v)",
                    "float[n, k] x, float[n, k] z",
                    "float[n, 2] y, float[n, 2] a",
                    weights={"w": normal(5, 2), "v": normal(6, 2)},
                ),
                "it needs the size 'k' to be 6, and node 'matmul0' needs it to be 5",
            ),
        ],
        [
            model(
                "a = MatMul(x, w) y = MatMul(z, v)",
                "float[n, k] x, float[n, j] z",
                "float[n, 2] y, float[n, 2] a",
                weights={"w": normal(5, 2), "v": normal(6, 2)},
            ),
        ],
    ),
    "OL212": Case(
        [
            (
                model("y = Reshape(x, s)", outputs="float[2, 2] y", weights={"s": np.array([2, 2])}),
                "it works only if the size 'n' is 1, which is declared as open",
            ),
            (gru("h"), "node 'gru0' (GRU): it works only if the size 'n' is 1"),
            (
                model("y = Add(x, p)", "float[n, s, 4] x", "float[n, s, 4] y", weights={"p": normal(1, 16, 4)}),
                "it works only if the size 's' is 16 or 1",
            ),
            (
                model(
                    "y = MatMul(x, w)",
                    "float[n, ] x".replace("[n, ]", "[n, k]"),
                    "float[n, 2] y",
                    weights={"w": normal(5, 2)},
                ),
                "it works only if the size 'k' is 5",
            ),
        ],
        [
            PLAIN,
            gru(""),
            model("y = Reshape(x, s)", outputs="float[n, 2, 2] y", weights={"s": np.array([-1, 2, 2])}),
            model("y = Reshape(x, s)", outputs="float[n, 2, 2] y", weights={"s": np.array([0, 2, 2])}),
            model("y = Add(x, p)", weights={"p": normal(1, 4)}),
        ],
    ),
    "OL213": Case(
        [
            (
                model("y = Reshape(x, s)", "float[n, 4, 6] x", "float[1, k, 6] y", weights={"s": np.array([1, -1, 6])}),
                "its first size is 1, and its input has 'n' there, which is open",
            ),
        ],
        [
            model("y = Reshape(x, s)", "float[n, 4, 6] x", "float[n, k] y", weights={"s": np.array([0, -1])}),
            model("y = Reshape(x, s)", "float[n] x", "float[1, n] y", weights={"s": np.array([1, -1])}),
            model(
                "a = Reshape(x, s) b = Relu(a) t = Shape(x) y = Reshape(b, t)",
                "float[n, 4, 6] x",
                "float[n, 4, 6] y",
                weights={"s": np.array([1, -1, 6])},
            ),
        ],
    ),
    "OL301": Case(
        [(model(MATMUL, weights={"w": with_one(normal(4, 4), np.nan)}), "1 of its 16 numbers are NaN")],
        [model(MATMUL, weights={"w": normal(4, 4)})],
    ),
    "OL302": Case(
        [
            (
                model(MATMUL, weights={"w": with_one(normal(4, 4), np.inf)}),
                "1 of its 16 numbers are infinite (the matrix of MatMul 'matmul0')",
            ),
            (
                model("t = Transpose(w) y = MatMul(x, t)", weights={"w": with_one(normal(4, 4), -np.inf)}),
                "1 of its 16 numbers are infinite",
            ),
        ],
        [
            model(MATMUL, weights={"w": normal(4, 4)}),
            model("y = Add(x, w)", weights={"w": with_one(normal(4), -np.inf)}),
        ],
    ),
    "OL303": Case(
        [
            (
                model(MATMUL, weights={"w": np.zeros((4, 4), FLOAT32)}),
                "all its 16 numbers are 0 (the matrix of MatMul 'matmul0')",
            )
        ],
        [model(MATMUL, weights={"w": normal(4, 4)}), model("y = Add(x, w)", weights={"w": np.zeros((1, 4), FLOAT32)})],
    ),
    "OL304": Case(
        [(model(MATMUL, weights={"w": np.full((4, 4), 0.25, FLOAT32)}), "all its 16 numbers are 0.25")],
        [model(MATMUL, weights={"w": normal(4, 4)}), model(MATMUL, weights={"w": np.zeros((4, 4), FLOAT32)})],
    ),
    "OL305": Case(
        [(halved(-3.4e38), "its numbers go up to 3.4e+38, and Cast 'cast0' makes them float16")],
        [halved(65504), halved(-np.inf)],
    ),
    "OL306": Case(
        [(norm(np.array([1, 1, -0.5, 1], FLOAT32)), "its least number is -0.5 (the variance of BatchNormalization")],
        [norm(np.array([1, 1, 0, 1], FLOAT32))],
    ),
    "OL307": Case(
        [
            (
                model(MATMUL, outputs="float[n, 99] y", weights={"w": np.full((4, 99), 1e-40, FLOAT32)}),
                "396 of its 396 numbers are subnormal",
            )
        ],
        [model(MATMUL, outputs="float[n, 99] y", weights={"w": normal(4, 99)})],
    ),
    "OL308": Case(
        [
            (
                model(
                    "a = MatMul(x, w) y = MatMul(a, v)",
                    "float[n, 40] x",
                    "float[n, 40] y",
                    weights={name: np.arange(1600, dtype=FLOAT32).reshape(40, 40) for name in "wv"},
                ),
                "weight 'v': it holds the same 6.4 kB as 'w'",
            ),
        ],
        [
            model(
                "a = MatMul(x, w) y = MatMul(a, v)",
                "float[n, 40] x",
                "float[n, 40] y",
                weights={"w": normal(40, 40), "v": normal(40, 40)},
            ),
            model("a = Add(x, w) y = Mul(a, v)", weights={"w": np.ones(4, FLOAT32), "v": np.ones(4, FLOAT32)}),
        ],
    ),
    "OL401": Case(
        [
            (model("a = Neg(x) b = Abs(a) y = Relu(x)"), "node 'neg0' (Neg): no output depends on it"),
            (branches("q = Exp(a) t = Abs(x)"), "(Exp): no output depends on it"),
        ],
        [PLAIN, branches("t = Abs(a)")],
    ),
    "OL402": Case(
        [(model("y = Relu(x)", weights={"w": normal(4, 4)}), "weight 'w': no node reads it (64 bytes)")],
        [model(MATMUL, weights={"w": normal(4, 4)})],
    ),
    "OL403": Case(
        [(model("y = Relu(x)", "float[n, 4] x, bool flag"), "input 'flag': no node reads it")],
        [PLAIN, branches("t = Abs(a)")],
    ),
    "OL404": Case(
        [(model("a = Identity(x) y = Relu(a)"), "node 'identity0' (Identity): it passes its input on")],
        [model("y = Identity(x)"), branches("t = Identity(a)")],
    ),
    "OL405": Case(
        [
            (model("a = Dropout(x) y = Relu(a)"), "(Dropout): it passes its input on"),
            (
                model(
                    "r = Constant<value_float = 0.5>() f = Constant<value = bool {0}>() "
                    "a = Dropout(x, r, f) y = Relu(a)"
                ),
                "(Dropout): it passes its input on",
            ),
        ],
        [PLAIN, model("a = Dropout(x, r, t) y = Relu(a)", weights={"r": np.array(0.5, FLOAT32), "t": np.array(True)})],
    ),
    "OL406": Case(
        [
            (model("a = Cast<to = 1>(x) y = Relu(a)"), "its input is float32 already"),
            (model("a = Cast<to = 11>(x) b = Cast<to = 1>(a) y = Relu(b)"), "float32 was cast to float64 and back"),
        ],
        [model("a = Cast<to = 10>(x) b = Cast<to = 1>(a) y = Relu(b)"), model("y = Cast<to = 1>(x)")],
    ),
    "OL407": Case(
        [
            (
                model(
                    "c = Constant<value = bool {1}>() "
                    "y = If (c) <then_branch = tb () => (float[n, 4] t) { t = Abs(x) }, "
                    "else_branch = eb () => (float[n, 4] o) { o = Neg(x) }>"
                ),
                "its condition is always True",
            ),
        ],
        [branches("t = Abs(a)")],
    ),
    "OL408": Case(
        [
            (
                model("s = Shape(x) t = Add(s, s) y = Reshape(z, t)", "float[2, 3] x, float[24] z", "float[4, 6] y"),
                "node 'add1' (Add): it and the node before it compute what is known: (4, 6)",
            ),
            (model("w = Transpose(v) y = MatMul(x, w)", weights={"v": normal(4, 4)}), "it computes what is known"),
        ],
        [PLAIN, model("s = Shape(x) y = Reshape(z, s)", "float[n, 4] x, float[m] z")],
    ),
    "OL411": Case(
        [
            (
                model(
                    "y, a, c = BatchNormalization<training_mode = 1>(x, s, b, m, v)",
                    *IMAGE,
                    weights={n: np.ones(4, FLOAT32) for n in "sbmv"},
                ),
                "it is in training mode",
            ),
            (
                model("y = Dropout(x, r, t)", weights={"r": np.array(0.5, FLOAT32), "t": np.array(True)}),
                "it drops numbers at random",
            ),
        ],
        [norm(np.ones(4, FLOAT32)), model("y = Dropout(x)")],
    ),
    "OL412": Case(
        [(model("r = RandomNormalLike(x) y = Add(x, r)"), "it draws its numbers at random")],
        [PLAIN],
    ),
    "OL501": Case(
        [
            (
                model("y = Relu(x)", opset=21, ir_version=9),
                "it imports opset 21 of ai.onnx, and onnxruntime 1.17 takes up to 20",
            )
        ],
        [model("y = Relu(x)", opset=20, ir_version=9)],
        {"target": "onnxruntime==1.17.3"},
    ),
    "OL502": Case(
        [(model("y = Relu(x)", opset=20, ir_version=10), "it has IR version 10, and onnxruntime 1.17 takes up to 9")],
        [model("y = Relu(x)", opset=20, ir_version=9)],
        {"target": "onnxruntime==1.17"},
    ),
    "OL503": Case(
        [(model("y = Relu(x)", opset=6, ir_version=3), "it imports opset 6; runtimes promise to run 7 and newer ones")],
        [PLAIN],
    ),
    "OL504": Case(
        [
            (
                model("y = com.microsoft.Gelu(x)", domains=', "com.microsoft" : 1'),
                "operator 'com.microsoft::Gelu': 1 node; only ONNX Runtime has it",
            ),
            (model("y = acme.Swish(x)", domains=ACME), "only a library of custom operators has it"),
        ],
        [PLAIN, model("y = acme.block(x)", domains=ACME, functions=BLOCK)],
    ),
    "OL505": Case(
        [
            (
                model("y = Relu(x)", opset=27, ir_version=10),
                "it imports opset 27 of ai.onnx; onnxruntime 1.31 takes up to 26",
            )
        ],
        [PLAIN],
    ),
}
