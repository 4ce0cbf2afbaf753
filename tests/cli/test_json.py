"""With --json, all commands print the envelope of docs/workbench/json.md, and their pages name all that is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
import pytest
import safetensors.numpy

import onnxlift
from onnxlift import cli
from onnxlift.cli.app import app
from onnxlift.demo import transformer_block

Run = Callable[..., tuple[int, str, str]]
PAGES = Path(__file__).parents[2] / "docs" / "workbench"

COMMANDS: dict[str, list[str]] = {
    "batch": ["batch.yml"],
    "bench": ["a.onnx", "b.onnx", "--seconds", "0.1"],
    "bisect": ["a.onnx", "b.onnx"],
    "build_script": ["a.onnx", "-o", "out/a.py"],
    "convert": ["a.onnx", "-o", "out", "--verify"],
    "diff": ["a.onnx", "b.onnx"],
    "draw": ["a.onnx"],
    "edit": ["a.onnx", "--rename", "Q=query"],
    "export": ["a.onnx", "--static", "-o", "out/a.pt2"],
    "expose": ["a.onnx", "Q"],
    "extract": ["a.onnx", "--to", "Q"],
    "infer": ["a.onnx"],
    "inspect": ["a.onnx", "--nodes", "--weights", "--metadata"],
    "lint": ["a.onnx"],
    "merge": ["a.onnx", "c.onnx", "--map", "output=x"],
    "ops": [],
    "opset": ["13", "a.onnx"],
    "passes": [],
    "profile": ["a.onnx"],
    "quantize": ["a.onnx", "--mode", "weights", "--no-speed"],
    "run": ["a.onnx", "--profile", "trace.json"],
    "simplify": ["a.onnx"],
    "update": ["a.onnx", "--weights", "a.safetensors"],
    "verify": ["a.onnx"],
}
"""The arguments with which each command is run."""


@cache
def _weights() -> bytes:
    """The weights of the lifted model."""
    return safetensors.numpy.save(dict(onnxlift.lift(transformer_block()).state_dict))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = transformer_block()
    onnx.save(model, "a.onnx")
    model.graph.node[0].name = "another"
    onnx.save(model, "c.onnx")
    next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Sigmoid"
    onnx.save(model, "b.onnx")
    Path("a.safetensors").write_bytes(_weights())
    Path("broken.onnx").write_bytes(b"\x08\x08:\xff\xff garbage")
    Path("batch.yml").write_text("inputs: a.onnx\nsteps: [lint]\nopen_sizes: keep\n", encoding="utf-8")
    Path("broken.yml").write_text("inputs: a.onnx\nsteps: [lnit]\n", encoding="utf-8")


def test_every_command_is_here() -> None:
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} == COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_envelope_and_its_page(run: Run, command: str) -> None:
    arguments, command = COMMANDS[command], command.replace("_", "-")
    status, out, _ = run(command, *arguments, "--json")
    found = json.loads(out)
    assert list(found) == ["schema", "command", "model", "ok", "data"]
    assert (found["schema"], found["command"]) == ("onnxlift/1", command)
    assert found["ok"] is (status == 0) and status in (0, 1)
    assert found["model"] == (None if command in ("ops", "passes") else "a.onnx")
    pages = [page for page in (PAGES / f"{command}.md", PAGES / "json.md") if page.exists()]
    named = {name for page in pages for name in re.findall(r"`(\w+)`", page.read_text(encoding="utf-8"))}
    assert found["data"].keys() <= named, f"docs/workbench/ does not tell of {found['data'].keys() - named}"


@pytest.mark.parametrize("command", [name for name, arguments in COMMANDS.items() if arguments])
def test_trouble_is_an_envelope_too(run: Run, command: str) -> None:
    broken = {"a.onnx": "broken.onnx", "batch.yml": "broken.yml"}
    arguments = [broken.get(argument, argument) for argument in COMMANDS[command]]
    status, out, err = run(command.replace("_", "-"), *arguments, "--json")
    assert status == 2 and "Traceback" not in err
    found = json.loads(out)
    assert list(found) == ["schema", "command", "model", "ok", "data", "error"]
    assert found["ok"] is False and found["error"] and found["error"] in err
    assert not Path("out").exists()


def test_the_commands_are_files() -> None:
    assert all((Path(cli.__path__[0]) / f"{command}.py").exists() for command in COMMANDS)
