"""Models give the same numbers at every opset, as ONNX Runtime or ONNX's reference computes them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.writing.proto import to_proto
from onnxlift.workbench.opset import NEWEST, OpsetError, opset
from onnxlift.workbench.opset.signature import revisions
from onnxlift.workbench.opset.step import adapters

onnxruntime = pytest.importorskip("onnxruntime")
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
IMAGE = RANDOM.standard_normal((1, 2, 5, 6)).astype(np.float32)


def model(version: int, graph: str, *, functions: str = "", domains: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}{domains}]> {graph} {functions}')


def outputs(proto: onnx.ModelProto, **inputs: Any) -> list[Any]:
    """What ONNX Runtime computes; ONNX's reference, of an opset or operator that ONNX Runtime says it lacks."""
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:
        lacks = ("is under development", "NOT_IMPLEMENTED", "is not a registered function/op", "(layout == 1)")
        assert any(reason in str(error) for reason in lacks), error
        return list(ReferenceEvaluator(proto).run(None, inputs))
    return list(session.run(None, inputs))


def assert_same_at(proto: onnx.ModelProto, targets: list[int], **inputs: Any) -> dict[int, onnx.ModelProto]:
    expected = outputs(proto, **inputs)
    results = {}
    for target in targets:
        result = opset(proto, target, verify=False).proto()
        onnx.checker.check_model(result, full_check=True)
        assert {each.domain: each.version for each in result.opset_import}[""] == target
        for actual, wanted in zip(outputs(result, **inputs), expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
        results[target] = result
    return results


def types(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_softmax_over_any_axis_goes_down_and_up(operator: str, axis: int) -> None:
    new = model(13, f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = {operator} <axis = {axis}> (x) }}")
    assert_same_at(new, [28, 12, 11, 9], x=X)
    old = model(11, f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = {operator} <axis = {axis}> (x) }}")
    assert_same_at(old, [9, 13, 17, 28], x=X)


def test_a_softmax_over_the_last_axis_stays_one_node() -> None:
    new = model(13, "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax (x) }")
    assert types(opset(new, 11, verify=False).proto()) == ["Softmax"]


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_of_reductions_become_attributes_and_inputs(operator: str, keepdims: int) -> None:
    shape = "[2, 1, 1]" if keepdims else "[2]"
    options = f"<axes = [1, -1], keepdims = {keepdims}>"
    old = model(11, f"g (float[2, 3, 4] x) => (float{shape} y) {{ y = {operator} {options} (x) }}")
    assert_same_at(old, [9, 13, 17, 18, 28], x=X)
    newest = opset(old, 28, verify=False).proto()
    assert types(opset(newest, 11, verify=False).proto()) == [operator]


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceMax"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_computed_axes_of_reductions_are_asked_one_by_one(operator: str, keepdims: int) -> None:
    for axes in ([1], [-1, 0], [0, 1, 2]):
        rank = 3 if keepdims else 3 - len(axes)
        shape = f"[{', '.join('abc'[:rank])}]" if rank else ""
        node = f"y = {operator} <keepdims = {keepdims}> (x, axes)"
        new = model(18, f"g (float[2, 3, 4] x, int64[n] axes) => (float{shape} y) {{ {node} }}")
        assert_same_at(new, [17, 13, 11], x=X, axes=np.array(axes, np.int64))


@pytest.mark.parametrize(
    ("version", "text", "targets"),
    [
        (13, "y = Squeeze (x1, axes)", [11, 9, 28]),
        (17, "y, z = Split <axis = 2> (x, parts)", [12, 9, 18, 28]),
        (18, "y, z = Split <axis = 1, num_outputs = 2> (x)", [17, 13, 11, 9]),
        (14, "y = Clip (x, low)", [11, 10, 7, 28]),
        (6, "y = Clip <max = 0.5> (x)", [10, 11, 13, 28]),
        (13, "y = Slice (x, start, end, axes)", [11, 9, 28]),
        (9, "y = Slice <starts = [0, 1], ends = [1, 3], axes = [0, 2]> (x)", [10, 13, 28]),
        (18, "y = Pad (x, pads, low, last)", [17, 11, 10, 28]),
        (19, 'y = Pad <mode = "wrap"> (x, pads2, , last)', [18, 13, 28]),
        (11, "y, z = TopK <largest = 0> (x, k)", [10, 9, 28]),
        (12, "y = ArgMax <axis = 1, select_last_index = 1> (x)", [11, 28]),
        (15, "y = Shape <start = 1, end = -1> (x)", [14, 13, 11, 28]),
        (14, "y = Trilu <upper = 0> (x)", [13, 11, 28]),
        (20, "y = Gelu (x)", [19, 13, 11, 28]),
        (17, "y = LayerNormalization (x, row)", [16, 13, 11, 28]),
        (23, "y = RMSNormalization (x, row)", [22, 17, 13, 11]),
        (14, "y = HardSwish (x)", [13, 11, 28]),
        (18, "y = Mish (x)", [17, 13, 11]),
        (18, "y = ScatterElements <axis = 1, reduction = \"max\"> (x, places, news)", [17, 15, 13]),
        (16, "y = ScatterND <reduction = \"add\"> (x, points, numbers)", [15, 13, 28]),
        (12, "y = Dropout (x, ratio)", [11, 10, 7, 28]),
        (13, "y = Unsqueeze (x, axes)", [11, 9, 28]),
        (11, "y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (image4)", [9, 13, 28]),
        (18, "y = Resize <mode = \"linear\", axes = [2, 3]> (image, , twice)", [17, 13, 11, 28]),
        (9, "y = Upsample <mode = \"nearest\"> (image, scales)", [10, 11, 13, 28]),
        (10, "y = Resize <mode = \"nearest\"> (image, mixed)", [11, 13, 28]),
        (19, "y = AveragePool <kernel_shape = [2, 2], dilations = [2, 2], pads = [1, 1, 1, 1]> (image)", [18, 13, 11]),
        (14, "y, h = LSTM <hidden_size = 2, layout = 1> (x, w, r)", [13, 11, 28]),
        (26, "axis = Constant <value_int = 1> () y = CumProd (x, axis)", [25, 17, 13]),
        (18, "i = Cast <to = 6> (x) j = BitwiseAnd (i, i) k1 = BitwiseNot (j) y = BitwiseXor (j, k1)", [17, 13, 28]),
    ],
)  # fmt: skip
def test_an_operator_means_the_same_at_other_opsets(version: int, text: str, targets: list[int]) -> None:
    constants = (
        "float[2, 3, 1, 4] x1 = {0}, int64[1] axes = {2}, int64[2] parts = {1, 3}, float low = {-0.25}, "
        "int64[1] start = {1}, int64[1] end = {3}, int64[2] pads = {1, 2}, int64[2] pads2 = {3, 6}, "
        "int64[1] last = {-1}, int64[1] k = {2}, float[4] row = {1, 2, 3, 4}, float ratio = {0.25}, "
        "float[2] twice = {2, 1.5}, int64[1, 2, 1] places = {2, 2}, float[1, 2, 1] news = {5, 0.5}, "
        "int64[3, 3] points = {0, 1, 2, 0, 1, 2, 1, 0, -1}, "
        "float[3] numbers = {1, 2, 3}, float[4] scales = {1, 1, 2, 3}, float[4] mixed = {1, 1, 2, 0.5}"
    )
    proto = model(version, f"g (float[2, 3, 4] x, float[1, 2, 5, 6] image, float[1, 8, 2, 2] image4, "
                           f"float[1, 8, 4] w, float[1, 8, 2] r) => (float y) <{constants}> {{ {text} }}")  # fmt: skip
    used = {name for node in proto.graph.node for name in node.input}
    for tensor in proto.graph.initializer:
        if tensor.name == "x1":
            tensor.CopyFrom(onnx.numpy_helper.from_array(X.reshape(2, 3, 1, 4), "x1"))
    kept = [tensor for tensor in proto.graph.initializer if tensor.name in used]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    inputs = [value for value in proto.graph.input if value.name in used]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    names = [name for name in proto.graph.node[-1].output if name]
    del proto.graph.output[:]
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    bare.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    inferred = onnx.shape_inference.infer_shapes(bare)
    proto.graph.output.extend(inferred.graph.output)
    feeds = {"x": X, "image": IMAGE, "image4": RANDOM.standard_normal((1, 8, 2, 2)).astype(np.float32),
             "w": RANDOM.standard_normal((1, 8, 4)).astype(np.float32),
             "r": RANDOM.standard_normal((1, 8, 2)).astype(np.float32)}  # fmt: skip
    assert_same_at(proto, targets, **{name: value for name, value in feeds.items() if name in used})


def test_the_axis_of_an_old_broadcast_is_kept() -> None:
    proto = model(
        6, "g (float[2, 3, 4] x, float[3] b) => (float[2, 3, 4] y) { y = Add <broadcast = 1, axis = 1> (x, b) }"
    )
    b = np.array([1, 2, 3], np.float32)
    for target in (7, 13, 28):
        result = opset(proto, target, verify=False).proto()
        np.testing.assert_allclose(outputs(result, x=X, b=b)[0], X + b[:, None], rtol=1e-6)


def test_bfloat16_is_computed_in_float_where_an_operator_lacks_it() -> None:
    proto = model(22, "g (float[2] x) => (float[2] y) { a = Cast <to = 16> (x) b = Sin (a) y = Cast <to = 1> (b) }")
    result = opset(proto, 17, verify=False).proto()
    assert types(result) == ["Cast", "Cast", "Sin", "Cast", "Cast"]


def test_integers_go_through_wider_ones_where_that_is_exact() -> None:
    proto = model(14, "g (int8[3] a, int8[3] b) => (int8[3] y) { y = Add (a, b) }")
    a, b = np.array([100, -100, 1], np.int8), np.array([100, -100, 2], np.int8)
    for target in (13, 11, 7):
        np.testing.assert_array_equal(outputs(opset(proto, target, verify=False).proto(), a=a, b=b)[0], a + b)


def test_every_adapter_stands_for_a_step_between_two_revisions_that_follow_each_other() -> None:
    for domain, op_type, old, new in adapters():
        known = [0, *revisions(domain, op_type)]
        assert abs(known.index(old) - known.index(new)) == 1, (op_type, old, new)
        assert old != 0


def test_no_step_up_is_left_to_chance() -> None:
    """Where a signature changes in a way that schemas do not explain, there is an adapter."""
    missing = []
    for schema in onnx.defs.get_all_schemas():
        if schema.domain not in NEWEST:
            continue
        known = revisions(schema.domain, schema.name)
        for old, new in pairwise(known):
            before, after = (schema_for(schema.domain, schema.name, version) for version in (old, new))
            assert before is not None and after is not None
            names = [[formal.name for formal in each.inputs] for each in (before, after)]
            renamed = any(a != b for a, b in zip(*names, strict=False))
            lost = {name for name in before.attributes if name not in after.attributes} - {"consumed_inputs"}
            if (renamed or lost or after.deprecated) and (schema.domain, schema.name, old, new) not in adapters():
                missing.append((schema.name, old, new))
    assert missing == []


def test_all_nodes_that_cannot_go_are_in_one_error() -> None:
    proto = model(
        26,
        "g (string[2] a, float[3] x) => (string[2] s, int32[3] y) { s = StringConcat (a, a) y = BitCast <to = 6> (x) }",
    )
    with pytest.raises(OpsetError) as caught:
        opset(proto, 11, verify=False)
    found = {node.op_type: node.nearest for node in caught.value.nodes}
    assert found == {"StringConcat": 20, "BitCast": 26}
    assert caught.value.would_do == {"": 26}
    assert "there is no StringConcat before opset 20" in str(caught.value)
    assert types(to_proto(opset(proto, 26, verify=False).model)) == ["StringConcat", "BitCast"]


def test_a_type_that_did_not_exist_is_the_reason() -> None:
    proto = model(19, "g (float[2] x) => (float[2] y) { a = Cast <to = 17> (x) y = Cast <to = 1> (a) }")
    with pytest.raises(OpsetError, match="Cast does not take float8e4m3fn before opset 19") as caught:
        opset(proto, 17, verify=False)
    assert caught.value.would_do == {"": 19}


def test_parameters_of_a_norm_with_types_of_their_own_come_to_one_type() -> None:
    graph = (
        "g (float16[2, 3] x, float[3] s, double[3] m) => (float16[2, 3] y) { y = BatchNormalization (x, s, s, m, m) }"
    )
    new = model(15, graph)
    inputs = {
        "x": X[:, :, 0].astype(np.float16),
        "s": np.abs(X[0, :, 1]) + 1,
        "m": np.abs(X[0, :, 2]).astype(np.float64),
    }
    expected = ReferenceEvaluator(new).run(None, inputs)[0]
    result = opset(new, 13, verify=False).proto()
    onnx.checker.check_model(result, full_check=True)
    session = onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, inputs)[0], expected, rtol=2e-3)


def test_what_a_branch_gives_cannot_be_computed_in_a_wider_type() -> None:
    new = model(
        16,
        "g (bool c, bfloat16[n] x) => (bfloat16[n] y) { y = If (c) <then_branch = t () => (bfloat16[n] a) "
        "{ a = Identity (x) }, else_branch = e () => (bfloat16[n] b) { b = Neg (x) }> }",
    )
    with pytest.raises(OpsetError, match="If does not take bfloat16 before opset 16"):
        opset(new, 15, verify=False)


def test_blocks_of_small_numbers_stay_one_node_down_to_opset_21() -> None:
    proto = model(23, "blocks (float[8] s) => (float[32] y) { y = DequantizeLinear <axis = 0, block_size = 4> (x, s) }")
    proto.graph.initializer.append(onnx.helper.make_tensor("x", onnx.TensorProto.UINT4, [32], [*range(16)] * 2))
    found = assert_same_at(proto, [22, 21], s=np.linspace(0.5, 2, 8, dtype=np.float32))
    assert {version: types(each) for version, each in found.items()} == {
        22: ["DequantizeLinear"],
        21: ["DequantizeLinear"],
    }
