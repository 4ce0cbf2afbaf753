"""Weights come from files that nobody vouches for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from onnxlift import LoadError, OnnxLiftError
from onnxlift.workbench.update.given import read_weights

WEIGHTS = {
    "a": torch.randn(2, 3),
    "b": torch.randn(4).to(torch.bfloat16),
    "c": torch.arange(3, dtype=torch.int8),
    "d": torch.tensor(2.0, dtype=torch.float16),
    "e": torch.randn(3).to(torch.float8_e4m3fn),
    "f": torch.zeros(0, 2),
}


def _assert_same(source: object) -> None:
    given = read_weights(source)
    assert sorted(given) == sorted(WEIGHTS)
    for key, tensor in WEIGHTS.items():
        assert given.header(key).shape == given.array(key).shape == tuple(tensor.shape)
        assert given.header(key).dtype == given.array(key).dtype
        np.testing.assert_array_equal(given.array(key).astype(np.float32), tensor.to(torch.float32).numpy())


def test_all_forms_hold_the_same(tmp_path: Path) -> None:
    save_file(WEIGHTS, tmp_path / "w.safetensors")
    torch.save(WEIGHTS, tmp_path / "w.pt")
    for number, keys in enumerate(("abc", "def")):
        save_file({key: WEIGHTS[key] for key in keys}, tmp_path / f"{number}.safetensors")
    homes = {key: f"{number}.safetensors" for number, keys in enumerate(("abc", "def")) for key in keys}
    (tmp_path / "w.safetensors.index.json").write_text(json.dumps({"weight_map": homes}))
    for source in ("w.safetensors", "w.pt", "w.safetensors.index.json"):
        _assert_same(tmp_path / source)
    _assert_same(WEIGHTS)


def _write(path: Path, header: object, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}},
        {"a": {"dtype": "Q7", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
        {"a": 3},
        [1],
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(LoadError, match=r"damaged|safetensors has not"):
        read_weights(_write(tmp_path / "w.safetensors", header, bytes(4)))


@pytest.mark.parametrize("data", [b"", b"\xff" * 100, (5).to_bytes(8, "little") + b"[[[[[", b"PK\x03\x04" + bytes(60)])
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "w.safetensors").write_bytes(data)
    with pytest.raises(LoadError, match="damaged"):
        read_weights(tmp_path / "w.safetensors")


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch evil",)


def test_no_code_of_a_pt_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": _Evil()}, "w.pt")
    with pytest.raises(LoadError, match="torch cannot read"):
        read_weights("w.pt")
    assert not Path("evil").exists()


def test_an_index_may_not_leave_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    with pytest.raises(LoadError, match="not the index"):
        read_weights(path)


@pytest.mark.parametrize("source", [3, {"a": "text"}, None])
def test_what_holds_no_weights_is_refused(source: object) -> None:
    with pytest.raises(OnnxLiftError, match=r"not a tensor|weights are a module"):
        read_weights(source)
