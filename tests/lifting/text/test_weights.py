"""The safetensors files: read by the real library, they hold what the model holds, in the types that torch has."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import onnxlift
from onnxlift.demo import tiny_resnet
from onnxlift.errors import OutputError
from onnxlift.executing import to_torch
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.text.weights import BATCH, plan_shards, write_weights
from onnxlift.sizes import parse_size

RANDOM = np.random.default_rng(0)


def entry(array: np.ndarray, transform=None, dtype: ir.DataType | None = None) -> Entry:  # type: ignore[no-untyped-def]
    value = ir.Value(name="w", const_value=ir.tensor(array, dtype))
    shape = array.shape if transform is None else transform(array).shape
    return Entry(Weight(value, shape, transform), is_parameter=True)


def write(tmp_path: Path, entries: dict[str, Entry], size: int = 10**9) -> list[Path]:
    return write_weights(entries, tmp_path, "m", size)


TYPES = [
    *(
        np.float64,
        np.float32,
        np.float16,
        np.int64,
        np.int32,
        np.int16,
        np.int8,
        np.uint64,
        np.uint32,
        np.uint16,
        np.uint8,
    ),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2),
    *(ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2),
    *(ml_dtypes.uint2, ml_dtypes.float4_e2m1fn, np.complex64, np.bool_),
]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_every_type_comes_back_as_lifted_code_carries_it(dtype: type, tmp_path: Path) -> None:
    powers = np.array([1, 2])  # one of the types has nothing but these
    array = RANDOM.choice(powers if dtype is ml_dtypes.float8_e8m0fnu else [0, 1], (3, 5)).astype(dtype)
    (path,) = write(tmp_path, {"w": entry(array)})
    expected = to_torch(array)
    (found,) = load_file(path).values()
    assert found.dtype == expected.dtype
    assert found.to(torch.complex64).equal(expected.to(torch.complex64))


def test_transformed_scalar_and_empty_tensors(tmp_path: Path) -> None:
    matrix = RANDOM.standard_normal((3, 4)).astype(np.float32)
    entries = {
        "turned": entry(matrix, np.transpose),
        "scalar": entry(np.float64(2.5) * np.ones(())),
        "empty": entry(np.empty((0, 7), np.int64)),
    }
    (path,) = write(tmp_path, entries)
    found = load_file(path)
    assert found["turned"].equal(to_torch(matrix.T))
    assert found["scalar"].item() == 2.5 and found["scalar"].shape == ()
    assert found["empty"].shape == (0, 7)


@pytest.mark.parametrize("shape", [(256, 256), (300, 1000), (1, 70000), (513, 257)])
def test_large_matrices_are_turned_in_tiles(shape: tuple[int, int], tmp_path: Path) -> None:
    matrix = RANDOM.standard_normal(shape).astype(np.float32)
    (path,) = write(
        tmp_path, {"w": entry(matrix, np.transpose), "int4": entry(matrix.astype(ml_dtypes.int4), np.transpose)}
    )
    found = load_file(path)
    assert found["w"].equal(to_torch(matrix.T))
    assert found["int4"].equal(to_torch(matrix.astype(ml_dtypes.int4).T))


def test_a_byte_other_than_one_is_true_as_well(tmp_path: Path) -> None:
    raw = np.array([0, 1, 2, 255], np.uint8)
    (path,) = write(tmp_path, {"w": entry(raw.view(np.bool_))})
    assert path.read_bytes()[-4:] == b"\0\1\1\1"


def test_tensors_are_aligned_and_the_header_is_padded(tmp_path: Path) -> None:
    entries = {"a": entry(np.ones(3, np.uint8)), "b": entry(np.ones(3, np.float64)), "c": entry(np.ones(1, np.float16))}
    (path,) = write(tmp_path, entries)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert [header[key]["data_offsets"] for key in "bca"] == [[0, 24], [24, 26], [26, 29]]


def test_shards_are_those_of_hugging_face(tmp_path: Path) -> None:
    arrays = {f"layer.{i}": RANDOM.standard_normal((4, 10)).astype(np.float32) for i in range(5)}  # 160 bytes each
    files = write(tmp_path, {key: entry(array) for key, array in arrays.items()}, size=330)
    assert [file.name for file in files] == [
        "m-00001-of-00003.safetensors",
        "m-00002-of-00003.safetensors",
        "m-00003-of-00003.safetensors",
        "m.safetensors.index.json",
    ]
    index = json.loads(files[-1].read_text())
    assert index["metadata"] == {"total_size": 800}
    assert list(index["weight_map"].values()) == [files[i].name for i in (0, 0, 1, 1, 2)]
    for key, home in index["weight_map"].items():
        with safe_open(tmp_path / home, "np") as file:
            np.testing.assert_array_equal(file.get_tensor(key), arrays[key])


def test_a_tensor_larger_than_a_shard_has_one_of_its_own() -> None:
    entries = {"a": entry(np.ones(1, np.int8)), "b": entry(np.ones(9, np.int8)), "c": entry(np.ones(1, np.int8))}
    assert plan_shards(entries, 4) == [["a"], ["b"], ["c"]]


def test_no_weights_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, {}) == []
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    entries = {"a": entry(np.ones(BATCH, np.uint8)), "b": entry(np.ones(BATCH, np.uint8))}
    write_weights(entries, tmp_path, "m", 10**9, lambda done, total: seen.append((done, total)))
    assert seen == [(BATCH, 2 * BATCH), (2 * BATCH, 2 * BATCH)]


def test_weights_that_are_written_side_by_side_do_not_mix(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {f"w{i}": random.standard_normal((700, 500 + i), np.float32) for i in range(9)}
    entries = {
        key: entry(array, transform=np.transpose if i % 2 else None) for i, (key, array) in enumerate(arrays.items())
    }
    write(tmp_path, entries)
    with safe_open(tmp_path / "m.safetensors", "np") as file:
        for i, (key, array) in enumerate(arrays.items()):
            np.testing.assert_array_equal(file.get_tensor(key), array.T if i % 2 else array)


def test_a_type_that_safetensors_lacks_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="'w' is of type complex128"):
        write(tmp_path, {"w": entry(np.ones(2, np.complex128))})


@pytest.mark.parametrize(
    ("text", "size"), [("5GB", 5 * 10**9), ("2 gib", 2 << 30), ("1.5kB", 1500), (7, 7), ("0.1", 1)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "0", "5XB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(OutputError, match="is not a size"):
        parse_size(text)


def test_a_disk_that_is_too_full_says_so_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)  # some systems lack it
    lifted = onnxlift.lift(tiny_resnet())
    with pytest.raises(OutputError, match="No space left"):
        lifted.save(tmp_path / "out")
    assert not (tmp_path / "out").exists()
