"""Saving: all files or none, nothing overwritten unasked, and the saved file runs on its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

import onnxlift
from onnxlift.errors import OutputError
from onnxlift.saving import save_files

RANDOM = np.random.default_rng(1)


def model() -> onnx.ModelProto:
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> tiny (float[n, 4] x) => (float[n, 3] y) '
        "{ h = MatMul(x, fc_weight) b = Add(h, fc_bias) y = Relu(b) }"
    )
    for name, shape in {"fc_weight": (4, 3), "fc_bias": (3,)}.items():
        proto.graph.initializer.append(numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name))
    return proto


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_and_their_order(tmp_path: Path) -> None:
    paths = onnxlift.lift(model(), name="tiny").save(tmp_path / "a" / "b")
    assert [path.name for path in paths] == ["tiny.py", "tiny.safetensors", "tiny.graph.txt", "tiny.map.json"]
    assert names(tmp_path / "a" / "b") == sorted(path.name for path in paths)


def test_the_dump_shows_the_graph_and_what_became_of_it(tmp_path: Path) -> None:
    paths = onnxlift.lift(model(), name="tiny").save(tmp_path)
    text = paths[2].read_text()
    assert text.startswith("# After normal form\n\ninput x: float32 (n, 4)\n")
    assert "MatMul(x, fc_weight) -> h float32 (n, 3)" in text
    assert "constant fc_weight: float32 (4, 3)\n" in text
    assert "# As it is written" in text


@pytest.mark.parametrize("shard", ["5GB", "40B"])
def test_a_fresh_process_loads_what_was_saved(shard: str, tmp_path: Path) -> None:
    onnxlift.lift(model(), name="tiny", max_shard_size=shard).save(tmp_path)
    code = (
        "import sys; sys.modules['onnxlift'] = None\n"
        "import tiny; m = tiny.load(); print({k: tuple(v.shape) for k, v in m.state_dict().items()}, m.training)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "(3, 4)" in done.stdout and "False" in done.stdout


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    lifted = onnxlift.lift(model(), name="tiny")
    (tmp_path / "tiny.py").write_text("mine")
    with pytest.raises(OutputError, match=r"already holds tiny\.py: pass --force"):
        lifted.save(tmp_path)
    assert names(tmp_path) == ["tiny.py"]
    lifted.save(tmp_path, force=True)
    assert (tmp_path / "tiny.py").read_text() == lifted.source


def test_force_takes_shards_of_an_earlier_save_away(tmp_path: Path) -> None:
    onnxlift.lift(model(), name="tiny", max_shard_size="40B").save(tmp_path)
    (tmp_path / "other-00001-of-00002.safetensors").write_bytes(b"not ours")
    assert "tiny.safetensors.index.json" in names(tmp_path)
    onnxlift.lift(model(), name="tiny").save(tmp_path, force=True)
    assert names(tmp_path) == [
        "other-00001-of-00002.safetensors",
        *("tiny.graph.txt", "tiny.map.json", "tiny.py", "tiny.safetensors"),
    ]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), RuntimeError("a bug")])
def test_a_failure_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    def write(folder: Path) -> list[Path]:
        (folder / "m.safetensors").write_bytes(b"half")
        raise error

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        save_files(tmp_path / "out", "m", write, ours=re.compile("m.py"), last="m.py")
    assert names(tmp_path) == []
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("stays")
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        save_files(tmp_path / "out", "m", write, ours=re.compile("m.py"), last="m.py")
    assert names(tmp_path / "out") == ["mine.txt"]


def test_the_source_appears_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[str] = []
    real = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (moved.append(target.name), real(self, target))[1])
    onnxlift.lift(model(), name="tiny").save(tmp_path)
    assert moved[-1] == "tiny.py"


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot write to .*: it is a file, and no folder"):
        onnxlift.lift(model(), name="tiny").save(tmp_path / "out")


def test_target_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").mkdir()
    with pytest.raises(OutputError, match="is a folder"):
        onnxlift.lift(model(), name="tiny").save(tmp_path, force=True)


def test_the_models_own_data_is_never_replaced(tmp_path: Path) -> None:
    proto = model()
    data = proto.graph.initializer[0].raw_data
    (tmp_path / "tiny.safetensors").write_bytes(data)
    weight = proto.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="tiny.safetensors")
    (tmp_path / "tiny.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(OutputError, match="belongs to the ONNX model"):
        onnxlift.lift(tmp_path / "tiny.onnx").save(tmp_path, force=True)
    assert (tmp_path / "tiny.safetensors").read_bytes() == data


def test_report_and_state_dict() -> None:
    proto = model()
    lifted = onnxlift.lift(proto, name="tiny")
    report = lifted.report
    assert (report.nodes, report.parameters, report.weight_bytes, report.classes) == (3, 15, 60, 1)
    assert report.lines == len(lifted.source.splitlines())
    assert "15 (60 bytes of weights)" in str(report)
    json.dumps(report.to_dict())
    weight = numpy_helper.to_array(proto.graph.initializer[0])
    (matrix,) = (array for array in lifted.state_dict.values() if array.ndim == 2)
    np.testing.assert_array_equal(matrix, weight.T)
