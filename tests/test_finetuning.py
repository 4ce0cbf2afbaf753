"""The guide to fine-tuning is true: its code runs, its losses fall, and two processes see the losses of one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs" / "finetuning.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python(?: file=(\S+))?\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the guide defines, after it has been run in a folder of its own, which is the working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("guide"))
        patch.syspath_prepend(Path.cwd())
        patch.delitem(sys.modules, "out", raising=False)
        names: dict[str, Any] = {"__name__": "guide"}
        for file, code in BLOCKS:
            if file:
                Path(file).write_text(code, encoding="utf-8")
            else:
                exec(compile(code, "finetuning.md", "exec", dont_inherit=True), names)
        yield names
        for name in [name for name in sys.modules if name.partition(".")[0] == "out"]:
            del sys.modules[name]


def test_the_loss_falls(guide: dict[str, Any]) -> None:
    losses = guide["losses"]
    assert sum(losses[-5:]) / 5 < 0.5 * sum(losses[:5]) / 5


def test_the_tuned_model_is_saved_loaded_and_exported(guide: dict[str, Any]) -> None:
    tokens = torch.randint(20, (5, 9), generator=torch.Generator().manual_seed(2))
    expected = guide["model"](tokens)
    torch.testing.assert_close(guide["tuned"](tokens), expected)
    session = onnxruntime.InferenceSession("finetuned.onnx", providers=["CPUExecutionProvider"])
    (exported,) = session.run(None, {"tokens": tokens.numpy()})
    torch.testing.assert_close(torch.from_numpy(exported), expected.detach(), rtol=1e-4, atol=1e-5)


def test_the_tuned_weights_are_in_the_same_graph(guide: dict[str, Any]) -> None:
    tokens = torch.randint(20, (5, 9), generator=torch.Generator().manual_seed(2))
    session = onnxruntime.InferenceSession("tuned.onnx", providers=["CPUExecutionProvider"])
    (updated,) = session.run(None, {"tokens": tokens.numpy()})
    torch.testing.assert_close(torch.from_numpy(updated), guide["model"](tokens).detach(), rtol=1e-4, atol=1e-5)
    nodes = [onnx.load(name).graph.node for name in ("classifier.onnx", "tuned.onnx")]
    assert [(n.name, n.op_type, n.output) for n in nodes[0]] == [(n.name, n.op_type, n.output) for n in nodes[1]]
    assert guide["report"].passed


def test_two_processes_see_the_losses_of_one(guide: dict[str, Any]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = subprocess.run(
        [sys.executable, "train_sharded.py"],
        env=os.environ | {"MASTER_PORT": str(port), "PYTHONPATH": ""},  # onnxlift is not needed, so not there
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    sharded = [float(line) for line in run.stdout.split()]
    assert sharded == pytest.approx(guide["losses"], rel=1e-4, abs=1e-5)
