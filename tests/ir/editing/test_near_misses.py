"""Near misses: nobody hears them unless somebody listens."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.near_misses import NearMiss, near_miss, noting


def node(name: str) -> ir.Node:
    return ir.Node("", "Add", [], name=name)


def test_what_is_said_while_nobody_listens_is_not_even_put_into_words() -> None:
    class Silent:
        def __format__(self, _: str) -> str:
            raise AssertionError("formatted in vain")

    near_miss(node("a"), "{} is not a number", Silent())


def test_what_is_said_is_heard_once_with_the_step_that_runs() -> None:
    with noting(lambda: "layer-norm") as notes:
        near_miss(node("a"), "the {} is not a number", "epsilon")
        near_miss(node("a"), "the {} is not a number", "epsilon")
        near_miss(node("b"), "others read it")
    near_miss(node("c"), "too late")
    assert notes == [
        NearMiss("layer-norm", "a", "the epsilon is not a number"),
        NearMiss("layer-norm", "b", "others read it"),
    ]
