"""What an export needs is told before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnxlift
from onnxlift.verification.children.child import Limits
from onnxlift.workbench.export.needs import check_compiler, check_exporter, check_memory


def test_the_memory_that_is_missing_is_told() -> None:
    limits = Limits(memory=8_000_000_000)
    check_memory("m.onnx", "pt2", 5_000_000_000, limits)
    with pytest.raises(onnxlift.OnnxLiftError) as caught:
        check_memory("m.onnx", "aoti", 5_000_000_000, limits)
    assert "m.onnx needs about" in str(caught.value) and "8.0 GB may be taken" in str(caught.value)
    assert "without --aoti or --onnx, needs less" in str(caught.value)


def test_a_compiler_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(onnxlift.OnnxLiftError, match=r"no compiler \(g\+\+, c\+\+, clang\+\+\) on this machine"):
        check_compiler()
    with pytest.raises(onnxlift.OnnxLiftError, match="no compiler"):
        onnxlift.export(b"", aoti=True)
    compiler = tmp_path / "mine"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    check_compiler()


def test_the_exporter_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(onnxlift.OnnxLiftError, match=r"needs onnxscript: pip install 'onnxlift\[export\]'"):
        check_exporter()
