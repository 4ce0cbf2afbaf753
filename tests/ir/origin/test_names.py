"""What the text of a name says."""

from __future__ import annotations

import pytest

from onnxlift.ir.origin.names import (
    Naming,
    is_counted_input,
    is_counted_operation,
    is_counted_weight,
    is_made_up,
    may_be_key,
    naming_of,
    says_nothing,
)

MADE_UP = [
    *("val_12", "17", "onnx::MatMul_12", "onnx::Add_3", "/attn/Constant_output_0", "/a/Add_output_0", "a::b.weight"),
    *("const", "constant", "Constant_12", "ConstantOfShape_3", "CONST_1", "const_12", "const_fold_opt__123"),
    *("pad_const__93", "model/tf_detect/Const:0", "helper.constant.3", "p2o.helper.constant.0"),
    "undefined_var_0.1",
]
SAYING_NOTHING = [
    "x_1",
    "w1",
    "Conv_4",
    "Conv__4:0",
    "permute_3",
    "view",
    "_v_12",
    "tmp_3",
    "node_Conv_3",
    *("Identity:0", "Identity_3:0", "PartitionedCall:1", "StatefulPartitionedCall_2", "ReadVariableOp:0"),
    "t" * 2000,
    "",
    None,
]
SPEAKING = [
    *("context", "logits", "Variable_1:0", "encoder.weight", "Q", "attn_mask", "node_encoder.weight", "conv2d_0.w_0"),
    *(
        "constrain.weight",
        "constrain",
        "attention.constant",
        "a.const",
        "reconstruct.weight",
        "constant_pe.weight",
        "unconstrained",
        "CONSTRAIN",
    ),
]


@pytest.mark.parametrize("name", MADE_UP)
def test_names_that_only_a_program_writes(name: str) -> None:
    assert is_made_up(name) and says_nothing(name)
    assert naming_of(name) is Naming.PROGRAM


@pytest.mark.parametrize("name", SAYING_NOTHING)
def test_names_that_say_nothing(name: str | None) -> None:
    assert says_nothing(name) and not is_made_up(name)
    assert naming_of(name) is Naming.ANYBODY


@pytest.mark.parametrize("name", SPEAKING)
def test_names_that_say_something(name: str) -> None:
    assert not says_nothing(name) and not is_made_up(name)
    assert naming_of(name) is Naming.AUTHOR


@pytest.mark.parametrize(
    "name",
    [
        *("const", "constant", "w1", "W_1", "t", "view", "tensor", "node_type", "reconstruct.weight", "a.const"),
        *("00.weight", "enc.a/b.weight", "enc.a:0.bias", "block1-0.f"),
    ],
)
def test_names_that_the_older_exporter_takes_from_the_state_dict(name: str) -> None:
    assert may_be_key(name)


@pytest.mark.parametrize(
    "name",
    [
        *("val_3", "17", "onnx::MatMul_12", "/a/Constant_output_0", "Constant_12_output_0", "const_fold_opt__1"),
        *("Conv_4", "_v_12", "const_12", "ortshared_1_0_1_0_token_9", "initializer_3", "a..weight", "t" * 2000),
        *("model/dense/kernel:0", "/enc/a.b/weight", "/enc.a/weight_scale", "onnx::enc.weight", "enc.a/b", "a/b.c:0"),
    ],
)
def test_names_that_are_no_keys(name: str) -> None:
    assert not may_be_key(name)


def test_counters() -> None:
    assert is_counted_operation("conv2d_401") and is_counted_operation("mean_2")
    assert not is_counted_operation("conv_stem") and not is_counted_operation("mean")
    assert is_counted_weight("conv2d_7.w_0") and is_counted_weight("conv2d_7.w_0_deepcopy_35")
    assert not is_counted_weight("conv2d_7.weight")
    assert is_counted_input("onnx::Add_0") and is_counted_input("12") and not is_counted_input("h0")
