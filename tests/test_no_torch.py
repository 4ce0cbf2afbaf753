"""The compiler never imports torch: not to lift, not to save, not on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import onnxlift
from models.handmade import beam_step, tiny_resnet

CHECK = "\nassert not any(name.partition('.')[0] == 'torch' for name in sys.modules), 'torch was imported'"
SOURCE = str(Path(onnxlift.__file__).parents[1])  # the same that this test imports, installed or not
TEXT = "import sys\nsys.path.insert(0, {source!r})\nsys.argv = {argv!r}\n{code}"
COMMAND = (
    "from onnxlift.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    onnx.save(tiny_resnet(), folder / "tiny_resnet.onnx")
    onnx.save(beam_step(), folder / "beam_step.onnx")
    return folder


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], "import onnxlift; onnxlift.lift; onnxlift.op; onnxlift.UnsupportedError; dir(onnxlift)"),
        (
            [],
            "import onnxlift; x = onnxlift.lift('tiny_resnet.onnx'); x.report; x.source_map; dict(x.state_dict)",
        ),
        ([], "import onnxlift; onnxlift.lift('beam_step.onnx', simplify=False).save('out')"),
        (
            [],
            "import onnxlift; x = onnxlift.lift('tiny_resnet.onnx'); "
            "new = {k: v + 1 for k, v in x.state_dict.items()}; "
            "assert x.update(new, verify=False).tensors",
        ),
        (["onnxlift", "convert", "tiny_resnet.onnx", "-o", "converted"], COMMAND),
        (["onnxlift", "draw", "tiny_resnet.onnx", "-o", "drawn.svg"], COMMAND),
        (["onnxlift", "inspect", "tiny_resnet.onnx"], COMMAND),
        (["onnxlift", "run", "tiny_resnet.onnx", "--shape", "x=1,3,224,224"], COMMAND),
        (["onnxlift", "ops"], COMMAND),
        (["onnxlift", "passes"], COMMAND),
        (["onnxlift", "--help"], COMMAND),
    ],
    ids=["import", "lift", "save", "update", "convert", "draw", "inspect", "run", "ops", "passes", "help"],
)
def test_torch_stays_out(argv: list[str], code: str, models: Path) -> None:
    text = TEXT.format(source=SOURCE, argv=argv, code=code) + CHECK
    done = subprocess.run([sys.executable, "-c", text], cwd=models, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
