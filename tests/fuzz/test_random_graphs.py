"""Random graphs give the same numbers lifted as in ONNX Runtime. `benchmarks/fuzz.py` runs thousands; these are the
first few."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

from fuzz.check import Kind, add_rounding_errors, check, variants_for
from fuzz.generate import generate
from fuzz.runtime import Array, run_model
from fuzz.shrink import shrink


@pytest.mark.parametrize("seed", range(150))
def test_lifted_numbers_are_those_of_onnx_runtime(seed: int) -> None:
    case = generate(seed)
    outcome = check(case.model, case.feeds, variants_for(seed))
    # A refusal by either side is no mismatch, and few enough to be seen by the count of benchmarks/fuzz.py.
    assert not outcome.is_failure, f"{outcome.variant}: {outcome.detail}"


@pytest.mark.parametrize("seed", [20999])
def test_simplified_graphs_that_once_failed(seed: int) -> None:
    """20999: a bias of one number was taken for a table of relative positions."""
    case = generate(seed)
    outcome = check(case.model, case.feeds, ["simplified", "standard"])
    assert not outcome.is_failure, f"{outcome.variant}: {outcome.detail}"


def test_a_seed_is_always_the_same_graph() -> None:
    first, second = generate(7), generate(7)
    assert first.model == second.model
    assert generate(8).model != first.model
    for name, array in first.feeds[0].items():
        np.testing.assert_array_equal(array, second.feeds[0][name])


def test_most_graphs_are_accepted_for_other_sizes_too() -> None:
    """Otherwise nothing would show that a symbolic size is never baked in."""
    outcomes = []
    for seed in range(120):
        case = generate(seed)
        is_symbolic = any(d.dim_param for v in case.model.graph.input for d in v.type.tensor_type.shape.dim)
        if is_symbolic:
            outcomes.append(check(case.model, case.feeds[1:2], []).kind)
    assert outcomes.count(Kind.MATCHED) >= len(outcomes) / 3


def test_shrinking_keeps_only_what_fails() -> None:
    case = next(c for c in map(generate, range(100)) if _count(c.model, "Transpose") and len(c.model.graph.node) > 8)

    def fails(model: onnx.ModelProto, feeds: dict[str, Array]) -> bool:
        return _count(model, "Transpose") > 0 and check(model, [feeds], []).kind == Kind.MATCHED

    model, _ = shrink(case.model, dict(case.feeds[0]), fails)
    assert [node.op_type for node in model.graph.node] == ["Transpose"]


def _count(model: onnx.ModelProto, op_type: str) -> int:
    return sum(node.op_type == op_type for node in model.graph.node)


@pytest.mark.parametrize("element", ["float", "float16", "double"])
def test_rounding_errors_tell_equal_numbers_apart(element: str) -> None:
    header = '<ir_version: 9, opset_import: ["" : 18]>'
    model = onnx.parser.parse_model(f"{header} g ({element}[40] x) => ({element}[40] y) {{ y = Softmax(x) }}")
    x = np.zeros(40, helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type))
    [exact] = run_model(model, {"x": x})
    add_rounding_errors(model, np.random.default_rng(1))
    [rounded] = run_model(model, {"x": x})
    assert len(set(exact.tolist())) == 1 < len(set(rounded.tolist()))
    np.testing.assert_allclose(rounded, exact, rtol=6 * float(np.finfo(x.dtype).eps))


def test_joining_what_does_not_go_together_is_refused() -> None:
    """ONNX Runtime overlooks what has no elements: here that along which the others have three."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, 2] x, float[3, 1] z) => (y) { y = Concat <axis = 1> (x, z) }"""
    feeds = {"x": np.zeros((0, 2), np.float32), "z": np.full((3, 1), 0.5, np.float32)}
    assert check(onnx.parser.parse_model(text), [feeds]).kind == Kind.REFUSED
