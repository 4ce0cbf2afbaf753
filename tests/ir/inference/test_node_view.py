"""What the compiler reads off a node."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.axes import static_slice


def _known(*numbers: int) -> ir.Value:
    value = ir.Value(name="known")
    value.meta["dims"] = numbers  # as inference leaves it
    return value


def test_a_slice_without_axes_and_steps_takes_the_first_axes_one_by_one() -> None:
    node = ir.Node("", "Slice", [ir.Value(name="x"), _known(2, -3), _known(5, 9)])
    assert static_slice(node) == ((2, -3), (0, 1), (1, 1))


def test_axes_and_steps_of_a_slice_are_read() -> None:
    node = ir.Node("", "Slice", [ir.Value(name="x"), _known(2), _known(5), _known(-1), _known(3)])
    assert static_slice(node) == ((2,), (-1,), (3,))


def test_a_slice_is_unknown_if_any_of_its_numbers_comes_at_run_time() -> None:
    given = [_known(2), _known(5), _known(1), _known(3)]
    for index in (0, 2, 3):  # the end does not matter
        inputs = [ir.Value(name="late") if index == at else value for at, value in enumerate(given)]
        assert static_slice(ir.Node("", "Slice", [ir.Value(name="x"), *inputs])) is None


def test_a_slice_that_says_it_by_attributes_is_unknown() -> None:
    attributes = [ir.AttrInt64s("starts", [1]), ir.AttrInt64s("ends", [2])]
    assert static_slice(ir.Node("", "Slice", [ir.Value(name="x")], attributes)) is None
