"""What each constant of a model is, and who named it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import numpy_helper

import onnxlift
from onnxlift.ir.editing.edit import initialiser, weight_initialiser
from onnxlift.ir.load import load
from onnxlift.ir.origin.exporter import Tool
from onnxlift.ir.origin.metadata import FOLDED_FROM, NAME_SCOPES, PERSISTENT, SIGNATURE, SIGNATURE_KIND
from onnxlift.ir.origin.names import Naming
from onnxlift.ir.origin.tensors import (
    Kind,
    classify,
    folded_from,
    mark_computed,
    mark_copied,
    mark_told,
    mark_trained,
    may_be_trained,
    origin_of,
)

PARAMETER, BUFFER, COMPUTED, UNTOLD = Kind.PARAMETER, Kind.BUFFER, Kind.COMPUTED, Kind.UNTOLD
AUTHOR, ANYBODY, PROGRAM = Naming.AUTHOR, Naming.ANYBODY, Naming.PROGRAM
NUMBERS = np.random.default_rng(0).random(4, np.float32)


def loaded(
    name: str,
    producer: str,
    signature: str = "",
    notes: Mapping[str, str] | None = None,
    array: np.ndarray = NUMBERS,
    has_scopes: bool = False,
) -> ir.Value:
    """The constant of that name in a file of some producer, that adds it to the input."""
    kind = onnx.helper.tensor_dtype_to_string(onnx.helper.np_dtype_to_tensor_dtype(array.dtype)).split(".")[1].lower()
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({kind}[2, 4] x) => ({kind}[2, 4] y) {{ y = Add(x, c) }}'
    )
    model.producer_name = producer
    model.graph.node[0].input[1] = name
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    if signature:
        model.graph.metadata_props.add(key=SIGNATURE, value=signature)
    if has_scopes:
        model.graph.node[0].metadata_props.add(key=NAME_SCOPES, value="['', 'add']")
    if notes:
        info = model.graph.value_info.add(name=name)
        for key, text in notes.items():
            info.metadata_props.add(key=key, value=text)
    return load(model).graph.initializers[name]


@pytest.mark.parametrize(
    ("producer", "name", "kind", "naming"),
    [
        # PyTorch's older exporter: all that is not counted is in the state dict.
        ("pytorch", "fc.weight", PARAMETER, AUTHOR),
        ("pytorch", "const", PARAMETER, AUTHOR),
        ("pytorch", "w1", PARAMETER, AUTHOR),
        ("pytorch", "view", PARAMETER, AUTHOR),
        ("pytorch", "constrain.weight", PARAMETER, AUTHOR),
        ("pytorch", "onnx::MatMul_12", COMPUTED, PROGRAM),
        ("pytorch", "17", COMPUTED, PROGRAM),
        ("pytorch", "/attn/Constant_output_0", UNTOLD, PROGRAM),
        ("pytorch", "rotary.inv_freq", UNTOLD, AUTHOR),
        # tf2onnx and keras2onnx
        ("tf2onnx", "model/dense/MatMul/ReadVariableOp:0", PARAMETER, AUTHOR),
        ("tf2onnx", "const_fold_opt__123", UNTOLD, PROGRAM),
        ("tf2onnx", "pad_const__93", UNTOLD, PROGRAM),
        ("tf2onnx", "model/tf_detect/Const:0", UNTOLD, PROGRAM),
        ("tf2onnx", "constrain.weight", PARAMETER, AUTHOR),
        ("tf2onnx", "const", UNTOLD, PROGRAM),
        ("keras2onnx", "conv2d_9/kernel:0", PARAMETER, AUTHOR),
        # Paddle
        ("PaddlePaddle", "conv2d_0.w_0", PARAMETER, AUTHOR),
        ("PaddlePaddle", "p2o.helper.constant.0", UNTOLD, PROGRAM),
        ("PaddlePaddle", "helper.constant.3", UNTOLD, PROGRAM),
        # scikit-learn's
        ("skl2onnx", "idfcst", PARAMETER, AUTHOR),
        # ONNX Runtime's tools
        ("onnx.quantize", "235", UNTOLD, PROGRAM),
        ("onnx.quantize", "fc.weight", PARAMETER, AUTHOR),
        # nobody knows whose
        ("", "onnx::MatMul_12", UNTOLD, PROGRAM),
        ("", "val_12", UNTOLD, PROGRAM),
        ("", "w1", UNTOLD, ANYBODY),
        ("", "mul_3", UNTOLD, ANYBODY),
        ("", "gamma", PARAMETER, AUTHOR),
        ("", "constrain.weight", PARAMETER, AUTHOR),
        ("", "constant_pe.weight", PARAMETER, AUTHOR),
    ],
)
def test_names_by_exporter(producer: str, name: str, kind: Kind, naming: Naming) -> None:
    origin = origin_of(loaded(name, producer))
    assert (origin.kind, origin.naming) == (kind, naming)
    assert origin.reason
    is_key = producer == "pytorch" and naming is AUTHOR
    assert origin.key == (name if is_key else None)


@pytest.mark.parametrize(
    ("name", "listed", "notes", "kind", "naming"),
    [
        ("fc.weight", "PARAMETER target='fc.weight'", {}, PARAMETER, AUTHOR),
        ("const", "PARAMETER target='const'", {}, PARAMETER, AUTHOR),
        ("val_3", "BUFFER target='val_3' persistent=True", {SIGNATURE_KIND: "BUFFER"}, BUFFER, AUTHOR),
        ("mul_1", "PARAMETER target='mul_1'", {SIGNATURE_KIND: "PARAMETER"}, PARAMETER, AUTHOR),
        ("view", "PARAMETER target='weight'", {}, UNTOLD, ANYBODY),
        ("val_12", "PARAMETER target='weight'", {}, UNTOLD, PROGRAM),
        ("view", "PARAMETER target='view'\nq: PARAMETER target='w'", {FOLDED_FROM: "['w']"}, COMPUTED, ANYBODY),
        ("view", "BUFFER target='w' persistent=False", {FOLDED_FROM: "['val_3', 'w']"}, COMPUTED, ANYBODY),
        ("view", "PARAMETER target='w'", {FOLDED_FROM: "['attn.lifted_tensor_0', 'fill']"}, Kind.CONSTANT, ANYBODY),
    ],
)
def test_names_of_the_newer_exporter(name: str, listed: str, notes: dict[str, str], kind: Kind, naming: Naming) -> None:
    origin = origin_of(loaded(name, "pytorch", f"\np: {listed}\n", notes))
    assert (origin.kind, origin.naming) == (kind, naming)
    assert origin.exporter is not None and origin.exporter.tool is Tool.PYTORCH_NEWER
    assert origin.key == (name if naming is AUTHOR else None)
    assert origin.is_told is (SIGNATURE_KIND in notes)


def test_without_a_list_the_newer_exporter_tells_no_keys() -> None:
    assert origin_of(loaded("view", "pytorch", has_scopes=True)).key is None


def test_notes_of_what_was_computed() -> None:
    value = loaded("add_3", "pytorch", notes={FOLDED_FROM: "['norm.weight', 'val_6']"})
    assert folded_from(value) == ["norm.weight", "val_6"]
    assert origin_of(value).is_computed and origin_of(value).has_lost_its_name and origin_of(value).is_unnamed
    broken = loaded("add_3", "pytorch", notes={FOLDED_FROM: "no list"})
    assert origin_of(broken).is_computed and folded_from(broken) == []


@pytest.mark.parametrize(("text", "told"), [("True", True), ("False", False), ("perhaps", None)])
def test_whether_a_buffer_is_in_the_state_dict(text: str, told: bool | None) -> None:
    origin = origin_of(loaded("rope.table", "pytorch", notes={SIGNATURE_KIND: "BUFFER", PERSISTENT: text}))
    assert origin.is_buffer and origin.persistent is told
    assert origin.is_in_state_dict is (told is not False)


def test_a_single_number_may_be_trained_if_it_has_a_name() -> None:
    number = np.array([0.5], np.float32)
    assert may_be_trained(loaded("logit_scale", "", array=number))
    assert not origin_of(loaded("logit_scale", "", array=number)).is_parameter
    assert not may_be_trained(loaded("val_3", "", array=number))


def test_integers_are_not_trained() -> None:
    value = loaded("fc.weight", "pytorch", array=np.arange(4))
    assert origin_of(value).kind is UNTOLD and not may_be_trained(value)


def test_a_weight_that_has_lost_its_name_may_be_trained_and_is_no_parameter_by_itself() -> None:
    for producer in ("pytorch", ""):
        value = loaded("onnx::MatMul_12", producer)
        assert may_be_trained(value)
        assert not origin_of(value).is_parameter and origin_of(value).is_nameless


def test_weights_of_classes_are_not_trained() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[2, 3] x, int64[2] t) => (float y)
        <float[3] importance = {1, 2, 3}> { y = SoftmaxCrossEntropyLoss(x, t, importance) }"""
    value = load(onnx.parser.parse_model(text)).graph.initializers["importance"]
    assert origin_of(value).kind is UNTOLD


def graph() -> ir.Graph:
    return ir.Graph([], [], nodes=[], name="g", opset_imports={"": 18})


def test_what_steps_make_says_so() -> None:
    made = initialiser(graph(), "axes", NUMBERS, "a test")
    assert origin_of(made).is_constant and origin_of(made).is_made and origin_of(made).reason == "a test"
    assert origin_of(made).is_programs_own and not may_be_trained(made)
    weight = weight_initialiser(graph(), "fc.weight", NUMBERS, "a test")
    assert origin_of(weight).is_parameter and origin_of(weight).is_made and origin_of(weight).key is None
    named = weight_initialiser(graph(), "w1", NUMBERS, "a test", is_named=True)
    assert origin_of(named).is_parameter and origin_of(named).key == "w1"
    nameless = weight_initialiser(graph(), "w1", NUMBERS, "a test")
    assert not origin_of(nameless).is_parameter and may_be_trained(nameless)


def test_what_steps_find_out() -> None:
    value = loaded("onnx::Add_12", "")
    mark_trained(value, "bias", "it is added to the data")
    assert origin_of(value).is_parameter and origin_of(value).word == "bias"
    mark_told(value, is_buffer=True, reason="no gradient reaches it")
    assert origin_of(value).is_buffer and origin_of(value).is_told
    mark_trained(value, "bias", "it is added to the data")
    assert origin_of(value).is_buffer
    mark_computed(value, ["fc.bias"])
    assert origin_of(value).kind is COMPUTED and folded_from(value) == ["fc.bias"]


def test_a_copy_is_what_the_original_is() -> None:
    value = loaded("norm1.weight", "pytorch")
    copy = initialiser(graph(), "norm2.weight", NUMBERS)
    mark_copied(copy, value, "stored once")
    assert origin_of(copy).is_parameter and origin_of(copy).key == "norm2.weight" and origin_of(copy).is_made
    mark_copied(copy, value, "stored once", sources=["a"])
    assert folded_from(copy) == ["a"]


def test_constants_that_no_file_has_are_judged_by_their_names() -> None:
    value = ir.Value(name="table", const_value=ir.tensor(NUMBERS))
    assert origin_of(value).is_parameter
    assert origin_of(ir.Value(name="x")).kind is UNTOLD


def test_constants_in_subgraphs_are_classified() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]> g (float[2] x, bool b) => (float[2] y) {
        y = If (b) <then_branch = t () => (float[2] p) <float[2] w = {1, 2}> { p = Add(x, w) },
            else_branch = e () => (float[2] q) { q = Neg(x) }> }"""
    proto = onnx.parser.parse_model(text)
    proto.producer_name = "pytorch"
    model = load(proto)
    classify(model)
    (value,) = (v for each in model.graphs() for v in each.initializers.values())
    assert origin_of(value).is_parameter and origin_of(value).key is None


@pytest.mark.parametrize("producer", ["", "tf2onnx", "pytorch"])
@pytest.mark.parametrize("layer", ["norm", "constrain", "reconstruct", "constants_norm"])
def test_a_norm_keeps_its_weights_whatever_it_is_called(layer: str, producer: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 4] x) => (float[2, 4] y) '
        "{ y = LayerNormalization (x, w, b) }"
    )
    model.producer_name = producer
    weights = {f"{layer}.weight": np.ones(4, np.float32), f"{layer}.bias": np.zeros(4, np.float32)}
    model.graph.node[0].input[1:] = weights
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    assert sorted(onnxlift.lift(model).state_dict) == sorted(weights)
