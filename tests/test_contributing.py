"""CONTRIBUTING.md is true: its examples are put where their titles say, in a copy of the source, and work there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r'```python title="(\S+)"\n(.*?)```', PAGE, re.DOTALL))
SOURCES = [path for path in EXAMPLES if path.startswith("src/")]
TESTS = [path for path in EXAMPLES if path.startswith("tests/")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the examples of the page in it."""
    folder = tmp_path_factory.mktemp("contributing")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path, code in EXAMPLES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(code, encoding="utf-8")
    return folder


def run(project: Path, *arguments: str) -> str:
    """What a Python process with that copy prints; it must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_a_file_of_its_own_with_a_test() -> None:
    assert len(SOURCES) == len(TESTS) == 5
    for path in SOURCES:
        assert not (ROOT / path).exists(), f"an example of CONTRIBUTING.md is called {path}: take another name"
        mirrored = Path(path.replace("src/onnxlift/", "tests/", 1))
        assert str(mirrored.with_name(f"test_{mirrored.name}")) in TESTS


def test_the_tests_of_the_examples_pass(project: Path) -> None:
    ran = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS)
    assert re.search(r"\b1\d passed", ran), ran


def test_what_was_added_is_listed(project: Path) -> None:
    listed = run(project, "-m", "onnxlift", "passes")
    assert "absolute-value" in listed and "The larger of a tensor and its negative is its absolute value." in listed
    assert "double-negation" in listed
    assert "NegPos" in run(project, "-m", "onnxlift", "ops", "--domain", "ai.onnx.contrib")
    assert "ChannelNorm" in run(project, "-m", "onnxlift", "ops", "--domain", "com.acme")
    assert re.search(r"\bsource +Print the source", run(project, "-m", "onnxlift", "--help"))


def test_the_examples_are_written_as_the_rest_is(project: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", project)
    run(project, "-m", "ruff", "check", *EXAMPLES)
    run(project, "-m", "ruff", "format", "--check", *EXAMPLES)


def test_the_table_and_the_files_that_the_page_names_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for goal in re.findall(r"^make (\S+)", PAGE, re.MULTILINE):
        assert f"\n{goal}:" in makefile, goal
