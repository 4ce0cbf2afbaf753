"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import onnxlift
from lifting.ops.checking import check, check_official, official_cases

NODE = helper.make_node
OPERATORS = (
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
)


@pytest.mark.parametrize("case", [c for c in official_cases(*OPERATORS) if c.id != "test_loop16_seq_none"])
def test_official(case: Any) -> None:
    check_official(case)


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


ABC = {"a": rand(2, 3), "b": rand(4), "c": rand(1, 5)}
CONSTRUCT = NODE("SequenceConstruct", ["a", "b", "c"], ["s"])


def code(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.startswith("        return "))


@pytest.mark.parametrize("position", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("constants", [(), ("at",)])
def test_positions(position: int, constants: tuple[str, ...]) -> None:
    inputs = {**ABC, "at": np.int64(position)}
    check([CONSTRUCT, NODE("SequenceAt", ["s", "at"], ["y"])], inputs, constants=constants)
    check([CONSTRUCT, NODE("SequenceErase", ["s", "at"], ["y"])], inputs, constants=constants)
    inputs["x"] = rand(7)
    check([CONSTRUCT, NODE("SequenceInsert", ["s", "x", "at"], ["y"])], inputs, constants=constants)


def test_without_position() -> None:
    check([CONSTRUCT, NODE("SequenceErase", ["s"], ["y"])], ABC)
    inputs = {**ABC, "x": rand(7)}
    source = check([CONSTRUCT, NODE("SequenceInsert", ["s", "x"], ["y"])], inputs)
    assert code(source) == "return [*[a, b, c], x]"


def test_what_goes_in_is_not_changed() -> None:
    nodes = [CONSTRUCT, NODE("SequenceErase", ["s"], ["t"]), NODE("SequenceInsert", ["t", "a"], ["u"])]
    lengths = [NODE("SequenceLength", [name], [f"{name}_length"]) for name in "stu"]
    sizes = [NODE("Unsqueeze", [f"{name}_length", "zero"], [f"{name}_size"]) for name in "stu"]
    together = NODE("Concat", [f"{name}_size" for name in "stu"], ["y"], axis=0)
    check([*nodes, *lengths, *sizes, together], {**ABC, "zero": np.array([0])}, constants=["zero"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("split", [None, np.int64(2), np.array([1, 3], np.int64), np.array([4, 0], np.int32)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_split(axis: int, split: Any, keepdims: int) -> None:
    inputs = {"x": rand(4, 4, 4)} if split is None else {"x": rand(4, 4, 4), "split": split}
    node = NODE("SplitToSequence", list(inputs), ["y"], axis=axis, keepdims=keepdims)
    for constants, dynamic in (((), False), (list(inputs)[1:], True)):
        check(node, inputs, constants=constants, dynamic=dynamic, reference=split is not None)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_split_of_nothing(keepdims: int) -> None:
    node = NODE("SplitToSequence", ["x"], ["y"], keepdims=keepdims)
    for dynamic in (False, True):
        check(node, {"x": rand(0, 3)}, dynamic=dynamic, expected=[[]])
    sized = NODE("SplitToSequence", ["x", "size"], ["y"])
    check(sized, {"x": rand(0, 3), "size": np.int64(2)}, dynamic=True, expected=[[]])


def test_split_of_strings() -> None:
    words = np.array([["a", "b"], ["c", "d"], ["e", "f"]], dtype=object)
    parts = [words[:2], words[2:]]
    check(NODE("SplitToSequence", ["x", "size"], ["y"]), {"x": words, "size": np.int64(2)}, expected=[parts])
    nodes = [NODE("SplitToSequence", ["x"], ["s"]), NODE("ConcatFromSequence", ["s"], ["y"], axis=1)]
    check(nodes, {"x": words}, expected=[words.reshape(1, -1)])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("new_axis", [0, 1])
def test_concatenation(axis: int, new_axis: int) -> None:
    inputs = {"a": rand(2, 3), "b": rand(2, 3) + 1}
    nodes = [NODE("SequenceConstruct", ["a", "b"], ["s"])]
    check([*nodes, NODE("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=new_axis)], inputs)


def test_map_reads_as_a_loop() -> None:
    body = helper.make_graph(
        [NODE("Mul", ["item", "factor"], ["scaled"])],
        "body",
        [helper.make_tensor_value_info("item", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("scaled", TensorProto.FLOAT, None)],
    )
    inputs = {**ABC, "factor": np.float32(2.5)}
    source = check([CONSTRUCT, NODE("SequenceMap", ["s"], ["y"], body=body)], inputs, opset=17)
    assert "for i in range(len(" in source


def test_optional_in_a_branch() -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [3])
    graph = helper.make_graph(
        [
            NODE("OptionalHasElement", ["maybe"], ["there"]),
            NODE(
                "If",
                ["there"],
                ["y"],
                then_branch=helper.make_graph(
                    [NODE("OptionalGetElement", ["maybe"], ["got"])],
                    "then",
                    [],
                    [helper.make_tensor_value_info("got", TensorProto.FLOAT, [3])],
                ),
                else_branch=helper.make_graph(
                    [NODE("Neg", ["other"], ["negated"])],
                    "else",
                    [],
                    [helper.make_tensor_value_info("negated", TensorProto.FLOAT, [3])],
                ),
            ),
        ],
        "optional",
        [
            helper.make_value_info("maybe", helper.make_optional_type_proto(kind)),
            helper.make_tensor_value_info("other", TensorProto.FLOAT, [3]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    lifted = onnxlift.lift(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    assert "if maybe is not None:" in lifted.source
    module, other = lifted.module(), torch.randn(3)
    assert torch.equal(module(None, other), -other)
    assert torch.equal(module(other + 1, other), other + 1)
