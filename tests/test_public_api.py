"""The names that `import onnxlift` offers, and what their signatures promise."""

from __future__ import annotations

import inspect
import io
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

import onnxlift
from models.handmade import transformer_block

NAMES = (
    {
        "Lifted",
        "InternalError",
        "InvalidModelError",
        "LoadError",
        "OnnxLiftError",
        "OutputError",
        "UnsupportedError",
        "VerifyError",
    }
    | {
        "convert",
        "lift",
        "op",
        "verify",
    }
    | {
        "batch",
        "bench",
        "bisect",
        "build_script",
        "diff",
        "draw",
        "edit",
        "export",
        "expose",
        "extract",
        "infer",
        "inspect",
        "lint",
        "merge",
        "opset",
        "profile",
        "quantize",
        "run",
        "simplify",
        "update",
    }
)


def test_public_names() -> None:
    assert set(onnxlift.__all__) == NAMES <= set(dir(onnxlift))
    for name in NAMES:
        assert getattr(onnxlift, name).__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'lifft'"):
        onnxlift.lifft  # noqa: B018


def test_every_error_is_ours() -> None:
    for name in NAMES:
        if name.endswith("Error"):
            assert issubclass(getattr(onnxlift, name), onnxlift.OnnxLiftError)


def test_options_are_keywords() -> None:
    for function in (onnxlift.lift, onnxlift.verify):
        first, *rest = inspect.signature(function).parameters.values()
        assert first.name == "source"
        assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in rest)


def test_a_model_comes_in_many_forms(tmp_path: Path) -> None:
    model = transformer_block()
    path = tmp_path / "block.onnx"
    onnx.save(model, path)
    data = path.read_bytes()
    forms = [path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data), model, ir.from_proto(model)]
    sources = {onnxlift.lift(form, name="block").source for form in forms}
    assert len(sources) == 1
    with pytest.raises(TypeError, match="a model is a path, bytes"):
        onnxlift.lift(3)


def test_lifted() -> None:
    lifted = onnxlift.lift(transformer_block(), name="block")
    module = lifted.module()
    assert not module.training and isinstance(module, torch.nn.Module)
    assert lifted.name == "block" and lifted.source.startswith('"""Lifted from block.onnx')
    assert set(lifted.state_dict) == set(module.state_dict())
    assert all(isinstance(array, np.ndarray) for array in lifted.state_dict.values())
    assert lifted.report.nodes == 30
    assert type(onnxlift.convert(transformer_block(), name="block")).__name__ == type(module).__name__
    assert lifted.module() is not module


def test_the_caller_keeps_their_model() -> None:
    model = transformer_block()
    before = model.SerializeToString(deterministic=True)
    onnxlift.lift(model)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("linaer", "there is no step 'linaer' to skip. Did you mean 'linear'? `onnxlift passes` lists them all."),
        ("types", "the step 'types' always runs. `onnxlift passes` lists those that can be skipped."),
    ],
)
def test_a_step_that_cannot_be_skipped(name: str, message: str) -> None:
    with pytest.raises(onnxlift.OnnxLiftError) as caught:
        onnxlift.lift(transformer_block(), skip_passes=["gelu", name])
    assert str(caught.value) == message


def test_steps_of_every_stage_can_be_skipped() -> None:
    lifted = onnxlift.lift(transformer_block(), skip_passes=["folded-names", "no-ops", "linear"])
    assert "linear" not in lifted.report.steps.get("idioms", {})
