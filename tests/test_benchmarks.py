"""Benchmarks are run by hand, and rarely: this holds that each can still be started, and says what it does."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
WITHOUT_A_COMMAND = {"odd_shapes.py", "speed_networks.py", "watching.py"}
"""Files that others import."""

# One process for all: what they import takes longer than the rest.
HELP = """
import contextlib, io, runpy, sys
sys.path.insert(0, sys.argv[1])
for path in sys.argv[2:]:
    sys.argv = [path, "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code = end.code
    else:
        code = "it went on after its help"
    if code or "usage:" not in said.getvalue():
        print(f"{path}: {code}: {said.getvalue()[:200]}")
"""


def test_each_benchmark_starts_and_teaches_its_use():
    paths = [str(path) for path in sorted(BENCHMARKS.glob("*.py")) if path.name not in WITHOUT_A_COMMAND]
    assert len(paths) > 15
    done = subprocess.run([sys.executable, "-c", HELP, BENCHMARKS, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_each_benchmark_names_its_command():
    for path in BENCHMARKS.glob("*.py"):
        if path.name not in WITHOUT_A_COMMAND:
            assert f"python benchmarks/{path.name}" in path.read_text(encoding="utf-8"), path
