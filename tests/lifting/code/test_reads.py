"""Which variables expressions and statements read."""

from __future__ import annotations

from onnxlift.lifting.code.expr import Literal, Local, Ref
from onnxlift.lifting.code.reads import values_read, variables_behind, variables_read
from onnxlift.lifting.code.statements import Assign, Block, Branch, ForLoop, expressions

X, Y, Z = (Ref(name) for name in "xyz")
INDEX = Local("i")


def test_an_expression_reads_its_variables_in_the_order_of_the_text() -> None:
    assert list(variables_read(X + Y * X)) == ["x", "y", "x"]


def test_what_is_assigned_is_not_read() -> None:
    assert list(variables_read(Assign([Z], X + Y))) == ["x", "y"]


def test_a_statement_reads_what_the_blocks_under_it_read() -> None:
    branch = Branch(X, Block([Assign([Z], Y)]), Block([ForLoop([INDEX], X, Block([Assign([Z], INDEX + Y)]))]))
    assert list(variables_read(branch)) == ["x", "y", "x", INDEX, "y"]
    assert list(variables_read(Block([branch, branch]))) == ["x", "y", "x", INDEX, "y"] * 2
    assert list(variables_read(*expressions(branch))) == ["x"]


def test_a_local_is_no_value_of_the_graph() -> None:
    assert list(values_read(INDEX + X)) == ["x"]


def test_what_is_inlined_is_read_in_the_place_of_its_variable() -> None:
    assert list(variables_behind(X + Y, {"x": Y * Z, "z": Literal(2)})) == ["y", "y"]
