"""Models in another precision: what is converted, what stays, and what the source computes."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper, parser

import onnxlift
from onnxlift.errors import OnnxLiftError

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'
RANDOM = np.random.default_rng(0)


def model(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    proto = parser.parse_model(f"{HEAD} {text}")
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


HALF = """g (float[n, 4] x) => (float[n, 3] y) {
    h = Cast<to = 10>(x) m = MatMul(h, weight) r = Relu(m) y = Cast<to = 1>(r) }"""
MASKED = """g (int64[n, t] ids, int64[n, t] mask) => (float[n, t, 4] y) {
    e = Gather(table, ids) one = Constant<value_float = 1.0>() low = Constant<value_float = -3.4e38>()
    m = Cast<to = 1>(mask) inverted = Sub(one, m) bias = Mul(inverted, low) axes = Constant<value_ints = [2]>()
    b = Unsqueeze(bias, axes) y = Add(e, b) }"""


def half() -> onnx.ModelProto:
    return model(HALF, weight=RANDOM.standard_normal((4, 3)).astype(np.float16))


def run(lifted: onnxlift.Lifted, *inputs: np.ndarray, **options: object) -> torch.Tensor:
    with torch.no_grad():
        return lifted.module(**options)(*map(torch.from_numpy, inputs))


def test_a_half_model_follows_the_type_of_its_weights() -> None:
    lifted = onnxlift.lift(half())
    assert ".half()" not in lifted.source and "x.to(self.linear.weight.dtype)" in lifted.source
    x = RANDOM.standard_normal((5, 4)).astype(np.float32)
    exact = np.maximum(
        x.astype(np.float16).astype(np.float32) @ lifted.state_dict["linear.weight"].T.astype(np.float32), 0
    )
    np.testing.assert_allclose(run(lifted, x), exact, rtol=2e-3, atol=2e-3)
    wide = np.maximum(x @ lifted.state_dict["linear.weight"].T.astype(np.float32), 0)
    np.testing.assert_allclose(run(lifted, x, dtype=torch.float32), wide, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(lifted, x, dtype="bfloat16"), wide, rtol=5e-2, atol=5e-2)
    assert lifted.module().float()(torch.from_numpy(x)).dtype == torch.float32


def test_lifted_in_float32_there_are_no_casts() -> None:
    lifted = onnxlift.lift(half(), dtype="float32")
    assert ".to(" not in lifted.source.partition("WEIGHTS")[0] and ".float()" not in lifted.source
    assert lifted.state_dict["linear.weight"].dtype == np.float32
    assert lifted.report.steps["restoring"]["element-type"] > 0


def test_the_saved_file_takes_a_type(tmp_path, monkeypatch) -> None:
    onnxlift.lift(half(), name="halfway").save(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    from halfway import load

    x = torch.randn(2, 4)
    assert load().linear.weight.dtype == torch.float16
    assert load(dtype=torch.float32).linear.weight.dtype == torch.float32
    assert load(dtype=torch.float32)(x).shape == load()(x).shape == (2, 3)


def test_a_cast_that_rounds_keeps_its_meaning_in_a_float32_model() -> None:
    text = "g (float[n, 4] x) => (float[n, 3] y) { h = Cast<to = 10>(x) f = Cast<to = 1>(h) y = MatMul(f, weight) }"
    weight = RANDOM.standard_normal((4, 3)).astype(np.float32)
    for dtype in (None, "float32"):
        lifted = onnxlift.lift(model(text, weight=weight), dtype=dtype)
        assert "x.half().float()" in lifted.source
        x = RANDOM.standard_normal((5, 4)).astype(np.float32)
        np.testing.assert_allclose(
            run(lifted, x), x.astype(np.float16).astype(np.float32) @ weight, rtol=1e-5, atol=1e-6
        )


def test_deliberate_rounding_in_a_half_model_is_the_same_number() -> None:
    text = """g (float[n, 4] x) => (float[n, 4] y, float16[n, 4] z) {
        h = Cast<to = 10>(x) y = Cast<to = 1>(h) z = Mul(h, scale) }"""
    lifted = onnxlift.lift(model(text, scale=np.arange(1, 5, dtype=np.float16)))
    x = RANDOM.standard_normal((5, 4)).astype(np.float32)
    y, _ = run(lifted, x)
    np.testing.assert_array_equal(y, x.astype(np.float16).astype(np.float32))


def masked() -> onnx.ModelProto:
    proto = model(MASKED)
    proto.graph.initializer.append(
        numpy_helper.from_array(RANDOM.standard_normal((9, 4)).astype(np.float32), "table.weight")
    )
    proto.graph.node[0].input[0] = "table.weight"
    return proto


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float16", 65504.0), ("bfloat16", float(ml_dtypes.finfo("bfloat16").max))]
)
def test_a_number_too_large_for_the_new_type_becomes_its_largest(dtype: str, largest: float) -> None:
    lifted = onnxlift.lift(masked(), dtype=dtype)
    y = run(lifted, np.array([[1, 2]]), np.array([[1, 0]]))
    assert y.dtype == getattr(torch, dtype) and y.isfinite().all()
    assert y[0, 1].float().eq(-largest).all()


def test_what_is_computed_from_integers_keeps_its_precision() -> None:
    lifted = onnxlift.lift(masked(), dtype="float16")
    assert "mask.float()" in lifted.source  # and rounded where it meets the weights
    assert re.search(r"\.to\(\s*self\.table\.weight\.dtype\s*\)", lifted.source), lifted.source


def test_an_operator_that_takes_no_other_type_keeps_its_own() -> None:
    text = """g (float[1, n, 4] boxes, float[1, 2, n] scores) => (int64[k, 3] y, float[1, n, 4] z) {
        y = NonMaxSuppression(boxes, scores) z = Mul(boxes, scale) }"""
    lifted = onnxlift.lift(model(text, scale=np.ones(4, np.float32)), dtype="float16")
    (value,) = (v for v in lifted.model.graph.inputs if v.name == "boxes")
    assert value.dtype == onnxlift.lifted.ir.DataType.FLOAT16
    boxes = RANDOM.random((1, 3, 4)).astype(np.float16)
    y, z = run(lifted, boxes, RANDOM.random((1, 2, 3)).astype(np.float16))
    assert y.dtype == torch.int64 and z.dtype == torch.float16


def test_branches_are_converted_with_all_that_they_read() -> None:
    text = """g (float[n, 4] x, bool c) => (float[n, 4] y) {
        three = Constant<value_float = 3.0>() s = Shape(x) f = Cast<to = 1>(s)
        p = ReduceProd<keepdims = 0>(f)
        a = If (c) <then_branch = t () => (float[n, 4] u) { u = Mul(x, p) },
                    else_branch = e () => (float[n, 4] v) { v = Add(x, three) }>
        y = Mul(a, scale) }"""
    proto = model(text, scale=np.arange(1, 5, dtype=np.float32))
    x = np.ones((2, 4), np.float32)
    for dtype in ("float16", "bfloat16", "float64"):
        module = onnxlift.convert(proto, dtype=dtype)
        for condition, factor in ((True, 8.0), (False, 4.0)):
            y = module(torch.from_numpy(x).to(getattr(torch, dtype)), torch.tensor(condition))
            assert y.dtype == getattr(torch, dtype)
            np.testing.assert_array_equal(y.detach().float(), factor * x * np.arange(1, 5))


def test_integers_and_models_without_floats_stay() -> None:
    proto = model("g (int64[n] x) => (int64[n] y) { y = Add(x, table) }", table=np.array([3]))
    assert onnxlift.lift(proto, dtype="float16").source == onnxlift.lift(proto).source


def test_other_types_are_refused() -> None:
    with pytest.raises(OnnxLiftError, match="cannot have the dtype 'int8': it is one of float32, float16"):
        onnxlift.lift(half(), dtype="int8")
    with pytest.raises(OnnxLiftError, match="'float8'"):
        onnxlift.lift(half()).module(dtype="float8")


def test_a_warning_says_that_half_precision_is_slow_on_a_cpu() -> None:
    assert any("--dtype float32" in warning for warning in onnxlift.lift(half()).report.warnings)
    assert not onnxlift.lift(half(), dtype="float32").report.warnings
