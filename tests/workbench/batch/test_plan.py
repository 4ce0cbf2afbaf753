"""What a batch will do: which models there are, where their results go, and which sizes are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from onnxlift.workbench.batch.children import Children, Ended, Limits
from onnxlift.workbench.batch.config import read_config
from onnxlift.workbench.batch.located import ConfigError
from onnxlift.workbench.batch.look import look
from onnxlift.workbench.batch.plan import Plan, entry_of, find_models, make_plan

from .small import good, save


def plan(**config: object) -> Plan:
    return make_plan(
        read_config({"output_dir": "out", "steps": [{"simplify": {"verify": False}}, "convert"], **config})
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def without_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at models in this process, which is quicker."""

    def run(self: Children, tasks: list[dict[str, Any]], limits: Limits) -> Iterator[tuple[int, Ended]]:
        for number, task in enumerate(tasks):
            told: list[Any] = []
            look(task, told.append)
            yield number, Ended(tuple(told))

    monkeypatch.setattr(Children, "run", run)


def test_a_file_a_glob_and_a_folder_name_models() -> None:
    for name in ("m/a.onnx", "m/b.onnx", "m/deep/c.onnx", "m/d.ort", "out/e.onnx"):
        save(good(), Path(name))

    def found(*inputs: object) -> list[str]:
        return find_models(read_config({"inputs": list(inputs), "output_dir": "out", "steps": ["lint"]}))

    assert found("m/a.onnx") == ["m/a.onnx"]
    assert found("m/*.o*") == ["m/a.onnx", "m/b.onnx", "m/d.ort"]
    assert found("m") == ["m/a.onnx", "m/b.onnx", "m/deep/c.onnx"]
    assert found({"path": "m", "recursive": False, "pattern": "*.ort"}, "m/a.onnx", "m") == [
        "m/d.ort",
        "m/a.onnx",
        "m/b.onnx",
        "m/deep/c.onnx",
    ]
    assert found(".") == ["m/a.onnx", "m/b.onnx", "m/deep/c.onnx"]  # and not what the batch itself has written
    with pytest.raises(ConfigError) as caught:
        found("gone.onnx", "m/*.pb", {"path": "m", "pattern": "*.tflite"})
    assert str(caught.value).splitlines() == [
        "the configuration: there is no file or folder 'gone.onnx'.",
        "the configuration: no file matches 'm/*.pb'.",
        "the configuration: no file in 'm' or below it matches '*.tflite'.",
    ]


def test_an_entry_is_a_path_or_a_glob() -> None:
    entries = {"m/*.onnx": 1, "./m/a.onnx": 2}
    assert entry_of(entries, "m/a.onnx") == "./m/a.onnx"
    assert entry_of(entries, "m/b.onnx") == "m/*.onnx"
    assert entry_of(entries, "n/b.onnx") is None


def test_all_models_that_lack_sizes_are_listed_before_anything_runs() -> None:
    for name in ("a", "b", "c", "d"):
        save(good(size="batch" if name != "d" else "3"), Path(f"m/{name}.onnx"))
    Path("m/e.onnx").write_bytes(b"\x08\x08:\xff\xff garbage")
    with pytest.raises(ConfigError) as caught:
        plan(inputs="m", input_shapes={"m/b.onnx": {"x": [1, 4]}})
    text = str(caught.value)
    assert "2 of 5 models leave sizes open that `input_shapes` does not say:" in text
    assert "  m/a.onnx: x (batch, 4)\n  m/c.onnx: x (batch, 4)\n" in text and "m/b.onnx" not in text
    assert "    m/a.onnx:\n      x: [1, 4]" in text and "open_sizes: keep" in text
    assert not Path("out").exists()


@pytest.mark.usefixtures("without_children")
def test_shapes_of_inputs_that_a_model_lacks_are_named() -> None:
    save(good(size="batch"), Path("m/a.onnx"))
    with pytest.raises(ConfigError, match=r"m/a.onnx has no input 'input_1'; its inputs are x\."):
        plan(inputs="m", input_shapes={"m/a.onnx": {"input_1": [1, 4]}}, open_sizes="keep")
    made = plan(inputs="m", input_shapes={"m/*": {"input_1": [1], "x": [5, 4]}, "gone.onnx": {"x": [1]}})
    assert made.models[0].task["shapes"] == {"x": [5, 4]}
    assert made.config.notes == ("the configuration: no model of this batch is 'gone.onnx' of `input_shapes`.",)
    assert "m/a.onnx -> a/  with x [5, 4]" in str(made)


@pytest.mark.usefixtures("without_children")
def test_a_key_depends_on_all_that_the_result_depends_on() -> None:
    model = good()
    outside = good()
    onnx.save(outside, "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    save(model, Path("n/m.onnx"))
    first = {each.model: each.key for each in plan(inputs=["m.onnx", "n"], jobs=2).models}
    assert len({*first.values()}) == 2
    assert first == {each.model: each.key for each in plan(inputs=["m.onnx", "n"], timeout=5, memory="1GB").models}
    other = plan(inputs=["m.onnx", "n"], steps=[{"simplify": {"verify": False, "portable": True}}, "convert"])
    assert not {*first.values()} & {each.key for each in other.models}
    data = Path("m.data").read_bytes()
    Path("m.data").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    changed = {each.model: each.key for each in plan(inputs=["m.onnx", "n"]).models}
    assert changed["m.onnx"] != first["m.onnx"] and changed["n/m.onnx"] == first["n/m.onnx"]


def test_a_device_that_no_step_runs_on_is_refused() -> None:
    save(good(), Path("a.onnx"))
    with pytest.raises(ConfigError, match="no step of this batch runs on a device"):
        plan(inputs="a.onnx", device="cuda")


@pytest.mark.usefixtures("without_children")
def test_models_of_the_same_name_get_folders_of_their_own() -> None:
    for name in ("m/a/model.onnx", "m/b/model.onnx", "m/b/model.ort"):
        save(good(), Path(name))
    made = plan(inputs=["m", "m/b/model.ort"])
    assert [str(each.folder.relative_to(Path("out").resolve())) for each in made.models] == [
        "a/model",
        "b/model.onnx",
        "b/model.ort",
    ]
