"""`onnxlift quantize` on the command line: files, pages, pipes, exit codes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from onnxlift.cli import main
from workbench.quantize.networks import convnet, samples

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(convnet(), "net.onnx")
    np.savez("samples.npz", x=np.stack([sample["x"] for sample in samples()]))


def test_a_model_its_page_and_its_json(run: Run) -> None:
    command = [
        "quantize",
        "net.onnx",
        "-o",
        "small.onnx",
        "--calibrate",
        "samples.npz",
        "--no-speed",
        "--html",
        "r.html",
    ]
    status, out, err = run(*command, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "") and found["ok"] and found["data"]["written"] == ["small.onnx"]
    assert found["data"]["samples"] == {"calibrated": 4, "measured": 4, "made_up": False}
    assert found["data"]["notes"] == ["the page is 'r.html'"] and "<svg" in Path("r.html").read_text(encoding="utf-8")
    onnx.checker.check_model("small.onnx")
    status, _, err = run(*command)
    assert status == 2 and "'r.html' is there already: pass --force" in err


def test_noise_is_an_answer_and_not_written(run: Run) -> None:
    Path("poor.py").write_text(
        "import numpy as np\ndef samples():\n    yield {'x': np.zeros((1, 3, 8, 8), 'float32')}\n"
    )
    np.savez("real.npz", x=samples()[0]["x"] * 100)
    status, out, _ = run(
        "quantize", "net.onnx", "-o", "small.onnx", "--calibrate", "poor.py", "--input", "real.npz", "--no-speed"
    )
    assert status == 1 and "TOO LOW" in out and "not written    an output is below 10 dB" in out
    assert not Path("small.onnx").exists()


def test_trouble_is_told_and_leaves_nothing(run: Run) -> None:
    Path("empty").mkdir()
    status, out, err = run("quantize", "net.onnx", "-o", "small.onnx", "--calibrate", "empty")
    assert (status, out) == (2, "") and err.startswith("onnxlift: the folder 'empty' holds no samples")
    status, _, err = run("quantize", "net.onnx", "--mode", "float12")
    assert status == 2 and "'float12' is no mode" in err
    status, _, err = run("quantize", "net.onnx", "net.onnx", "--html", "r.html")
    assert status == 2 and "a page is for one model" in err
    assert {path.name for path in Path().iterdir()} == {"net.onnx", "samples.npz", "empty"}


def test_pipes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("net.onnx").read_bytes())))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, write_through=True))
    monkeypatch.setattr(sys, "argv", ["onnxlift", "quantize", "-", "-o", "-", "--mode", "weights", "--no-verify"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code and "weights in 8 bits" in capsys.readouterr().err
    names = [tensor.name for tensor in onnx.load_from_string(written.getvalue()).graph.initializer]
    assert "w2_quantized" in names


def test_pictures_are_samples(run: Run) -> None:
    random = np.random.default_rng(0)
    Path("photos").mkdir()
    for number in range(3):
        Image.fromarray(random.integers(0, 256, (9, 12, 3), dtype=np.uint8)).save(f"photos/{number}.png")
    pixels = ["--mean", "0.5", "--std", "0.25,0.25,0.5"]
    status, out, err = run(
        "quantize", "net.onnx", "-o", "small.onnx", "--calibrate", "photos", *pixels, "--no-speed", "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["data"]["samples"] == {"calibrated": 3, "measured": 3, "made_up": False}
