"""What operators cost: multiply-accumulates as PyTorch counts them, and operations as the operators are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx.defs
import pytest
import torch
import torch.nn.functional as F
from onnx import numpy_helper, parser
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import onnxlift
from onnxlift.lifting.ops import registry
from onnxlift.rewriting import bodies
from onnxlift.workbench.profile import Profile
from onnxlift.workbench.profile.registry import costed_operators

CONTROL = {("", "If"), ("", "Loop"), ("", "Scan")}
"""These are counted by the graphs in them."""


def profiled(body: str, inputs: str, outputs: str = "y", domains: str = "", **weights: np.ndarray) -> Profile:
    """Profile one graph of nodes; `weights` are constants that it reads."""
    text = f'<ir_version: 10, opset_import: ["" : 23{domains}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    model = parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return onnxlift.profile(model)


def macs(report: Profile) -> Any:
    return report.total.costs.macs.plain()


def flops(report: Profile) -> Any:
    return report.total.costs.flops.plain()


def by_torch(run: Callable[[], Any]) -> int:
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


def ones(*shape: int) -> Tensor:
    return torch.ones(shape)


X = "float[2, 6, 9, 8] x"


@pytest.mark.parametrize(
    ("body", "inputs", "run"),
    [
        ("y = MatMul(a, b)", "float[5, 1, 3, 4] a, float[2, 4, 7] b", lambda: ones(5, 1, 3, 4) @ ones(2, 4, 7)),
        ("y = MatMul(a, b)", "float[4] a, float[2, 4, 7] b", lambda: ones(2, 1, 4) @ ones(2, 4, 7)),
        ("y = Gemm<transA = 1>(a, b, c)", "float[4, 3] a, float[4, 5] b, float[5] c", lambda: ones(3, 4) @ ones(4, 5)),
        (
            'y = Einsum<equation = "bij,bkj->bik">(a, b)',
            "float[2, 3, 4] a, float[2, 5, 4] b",
            lambda: torch.einsum("bij,bkj->bik", ones(2, 3, 4), ones(2, 5, 4)),
        ),
        (
            'y = Einsum<equation = "...ij,...jk">(a, b)',
            "float[2, 3, 4] a, float[2, 4, 5] b",
            lambda: torch.einsum("...ij,...jk", ones(2, 3, 4), ones(2, 4, 5)),
        ),
        (
            'y = Einsum<equation = "ab,bc,cd->ad">(a, b, c)',
            "float[2, 3] a, float[3, 4] b, float[4, 5] c",
            lambda: ones(2, 3) @ ones(3, 4) @ ones(4, 5),
        ),
        (
            "y = Conv<group = 3, strides = [2, 1], pads = [1, 0, 1, 0]>(x, w, b)",
            f"{X}, float[9, 2, 3, 3] w, float[9] b",
            lambda: F.conv2d(ones(2, 6, 9, 8), ones(9, 2, 3, 3), ones(9), (2, 1), (1, 0), groups=3),
        ),
        (
            "y = ConvTranspose<group = 2, strides = [2, 2]>(x, w)",
            f"{X}, float[6, 5, 3, 2] w",
            lambda: F.conv_transpose2d(ones(2, 6, 9, 8), ones(6, 5, 3, 2), None, 2, groups=2),
        ),
        (
            'y = LSTM<hidden_size = 3, direction = "bidirectional">(x, w, r)',
            "float[5, 2, 4] x, float[2, 12, 4] w, float[2, 12, 3] r",
            lambda: nn.LSTM(4, 3, bidirectional=True)(ones(5, 2, 4)),
        ),
        (
            "y = GRU<hidden_size = 3>(x, w, r)",
            "float[5, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r",
            lambda: nn.GRU(4, 3)(ones(5, 2, 4)),
        ),
        (
            "y = Attention<q_num_heads = 4, kv_num_heads = 2>(q, k, v)",
            "float[2, 3, 32] q, float[2, 5, 16] k, float[2, 5, 12] v",
            lambda: (ones(8, 3, 8) @ ones(8, 8, 5)) @ ones(8, 5, 6),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "=" in value else "",
)
def test_multiply_accumulates_are_those_of_torch(body: str, inputs: str, run: Callable[[], Any]) -> None:
    report = profiled(body, inputs)
    assert macs(report) == by_torch(run) > 0
    assert not report.unknown


@pytest.mark.parametrize(
    ("body", "inputs", "expected"),
    [
        ("y = Relu(x)", "float[n, 4] x", "4*n"),
        ("y = Add(x, z)", "float[n, 1] x, float[5] z", "5*n"),
        ("y = Sigmoid(x)", "float[n, 4] x", "16*n"),
        ("y = Softmax(x)", "float[n, 4] x", "20*n"),
        ("y = ReduceMean(x)", "float[3, 4] x", 13),
        ("y = Max(x, x, x)", "float[n] x", "2*n"),
        ("y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)", "float[1, 3, 4, 4] x", 48),
        ("y = Transpose(x)", "float[n, 4] x", 0),
        ("y = Cast<to = 10>(x)", "float[n, 4] x", 0),
        ('y = Einsum<equation = "i,j->ij">(x, x)', "float[n] x", "n^2"),
        ("y = Det(x)", "float[4, 4] x", 2 * 14 + 6 + 3),
        ('y = Resize<mode = "linear">(x, , s)', "float[1, 1, 2, 2] x", 16 * 7),
    ],
)
def test_operations_are_counted_as_the_operator_is_defined(body: str, inputs: str, expected: Any) -> None:
    weights = {"s": np.array([1, 1, 2, 2], np.float32)} if "Resize" in body else {}
    assert flops(profiled(body, inputs, **weights)) == expected


def test_every_operator_of_onnx_has_a_cost_or_a_body() -> None:
    def has_body(domain: str, op_type: str) -> bool:
        schema: Any = onnx.defs.get_schema(op_type, domain=domain)
        return bool(schema.has_function or schema.has_context_dependent_function)

    without = {
        (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas()
        if (schema.domain, schema.name) not in costed_operators() | CONTROL and not has_body(schema.domain, schema.name)
    }
    assert without == {("ai.onnx.preview.training", "Gradient")}


def test_every_operator_that_lifts_has_a_cost_or_a_body() -> None:
    lifted = {(each.domain, each.op_type) for each in registry.operators() if each.domain == "com.microsoft"}
    assert lifted <= costed_operators() | {*bodies.operators()}
    known = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas_with_history()}
    assert not {key for key in costed_operators() if key[0] in ("", "ai.onnx.ml")} - known


def test_what_is_picked_is_read_and_nothing_else() -> None:
    table = np.zeros((1000, 8), np.float32)
    costs = profiled("y = Gather(t, i)", "int64[n] i", t=table).total.costs
    assert costs.read.plain() == "40*n" and costs.written.plain() == "32*n"
    assert costs.parameters.plain() == 8000 and costs.weight_bytes.plain() == 32000
    assert profiled("y = Reshape(x, s)", "float[n, 4] x", s=np.array([-1])).total.costs.bytes.plain() == 0


def test_an_operator_of_onnx_runtime_is_counted_through_its_body() -> None:
    report = profiled(
        "y = com.microsoft.SkipLayerNormalization(x, z, g, b)",
        "float[n, 4, 8] x, float[n, 4, 8] z",
        domains=', "com.microsoft" : 1',
        g=np.ones(8, np.float32),
        b=np.ones(8, np.float32),
    )
    assert flops(report) == "256*n"  # an Add, and a LayerNormalization of 7 operations for each of 32 numbers
    assert report.total.costs.read.plain() == "256*n + 64"  # and no more: the sum is never in memory
    assert [row.operator for row in report.nodes] == ["com.microsoft::SkipLayerNormalization"]
    fused = profiled(
        "y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, w)",
        "float[n, 4, 8] x",
        domains=', "com.microsoft" : 1',
        w=np.ones((3, 8), np.float32),
    )
    assert macs(fused) == "96*n"


def test_an_unknown_operator_is_said_to_be_unknown_and_is_never_zero() -> None:
    report = profiled("a = com.acme.Mel(x) y = Relu(x)", "float[n, 4] x", domains=', "com.acme" : 1')
    assert flops(report) == {"least": "4*n", "most": None} and macs(report) is None
    (row,) = report.unknown
    assert (row.operator, row.reason) == ("com.acme::Mel", "nothing is known of the operator com.acme::Mel")
    assert "unknown        1 node, whose costs the sums leave out" in str(report)


def test_what_data_decides_is_unknown_with_a_reason() -> None:
    report = profiled("i = NonZero(x) y = Cast<to = 1>(i)", "float[n, 4] x")
    assert flops(report) == "4*n"  # the look at each element is known, what comes out is not
    assert report.total.costs.written.plain() is None
    assert {row.reason for row in report.unknown} == {"a size of its inputs or outputs is not known"}


TREES = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
trees (float[n, 2] x) => (float[n, 1] y) {
  y = ai.onnx.ml.TreeEnsembleRegressor<
    n_targets = 1, nodes_treeids = [0, 0, 0, 0, 0, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0],
    nodes_featureids = [0, 0, 1, 0, 0, 0], nodes_values = [0.5, 0.0, 0.1, 0.0, 0.0, 0.0],
    nodes_modes = ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
    nodes_truenodeids = [1, 0, 3, 0, 0, 0], nodes_falsenodeids = [2, 0, 4, 0, 0, 0],
    target_treeids = [0, 0, 0, 1], target_nodeids = [1, 3, 4, 0], target_ids = [0, 0, 0, 0],
    target_weights = [1.0, 2.0, 3.0, 4.0]>(x)
}"""


def test_trees_cost_between_their_shortest_and_their_longest_way() -> None:
    report = onnxlift.profile(parser.parse_model(TREES))
    assert flops(report) == {"least": "n", "most": "2*n"}


def test_a_linear_classifier_has_parameters_in_its_attributes() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]> g (float[n, 3] x) => (float[n, 2] y)
    { y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], intercepts = [1.0, 2.0],
      targets = 2>(x) }"""
    costs = onnxlift.profile(parser.parse_model(text)).total.costs
    assert (costs.macs.plain(), costs.parameters.plain()) == ("6*n", 8)
