"""Editors know the operators: the stubs are those that the tool writes, and mypy checks programs by them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "operator_stubs.py"))

PROGRAM = """
from onnxlift import build
from onnxlift.build import op

x = build.input("x", "float32", ["n", 4])
y = op.Relu(x) @ op.Transpose(x, perm=[1, 0]) + 1.0
a, b = op.Split(y, outputs=2, axis=1)
values, indices = op.MaxPool(x, kernel_shape=[2], outputs=2)
build.model([x], {"y": op.Cast(op.Concat(a, b, axis=0), to="float16")})
"""


@pytest.mark.parametrize("name", TOOL["FILES"])
def test_the_stubs_are_up_to_date(name: str) -> None:
    """Run `python tools/operator_stubs.py` if they are not."""
    written = (TOOL["FOLDER"] / f"{name}.pyi").read_text(encoding="utf-8")
    assert written == TOOL["stub"](name)


def checked(program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(file)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout


def test_a_program_is_checked_by_them(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert "Success" in checked(PROGRAM, tmp_path)
    found = checked(PROGRAM.replace("perm=", "prem=").replace("axis=1)", 'axis="1")'), tmp_path)
    assert 'Unexpected keyword argument "prem"' in found and "Found 2 errors" in found
