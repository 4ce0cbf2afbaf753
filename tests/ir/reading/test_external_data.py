"""Weights in files beside the model: what may be read, and that it is read rightly. What may not: test_broken_files."""

from __future__ import annotations

import io
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from ir.reading.broken_files import external, model
from onnxlift.errors import LoadError
from onnxlift.ir.load import load
from onnxlift.ir.reading.tensors import FileTensor, TensorStore

RNG = np.random.default_rng(11)
WEIGHT = RNG.standard_normal((3, 4)).astype(np.float32)


def write(folder: Path, location: str = "w.bin", array: np.ndarray = WEIGHT, **entries: object) -> Path:
    """A model in `folder` whose initialiser `w` is external; the data file is left to the test."""
    folder.mkdir(parents=True, exist_ok=True)
    proto = model("y = Add(x, w)")
    proto.graph.initializer.append(external(numpy_helper.from_array(array, "w"), location, **entries))
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "model.onnx"


def loaded(path: Path) -> np.ndarray:
    tensor = load(path).graph.initializers["w"].const_value
    assert isinstance(tensor, FileTensor)
    return tensor.numpy()


def test_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skipped." + WEIGHT.tobytes() + b"more")
    np.testing.assert_array_equal(loaded(write(tmp_path, offset=8, length=48)), WEIGHT)


def test_in_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(WEIGHT.tobytes())
    np.testing.assert_array_equal(loaded(write(tmp_path, "data/../data/w.bin")), WEIGHT)


def test_a_relative_path_to_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    monkeypatch.chdir(tmp_path)
    lifted = load("model.onnx")
    monkeypatch.chdir("/")  # the data is found even if the caller has moved on
    np.testing.assert_array_equal(lifted.graph.initializers["w"].const_value.numpy(), WEIGHT)


def test_a_hugging_face_cache(tmp_path: Path) -> None:
    """Both files are links from snapshots/REVISION into blobs/, under other names."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0ff1ce" / "onnx"
    write(blobs, "model.onnx_data").rename(blobs / "aa11")
    (blobs / "bb22").write_bytes(WEIGHT.tobytes())
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to("../../../blobs/aa11")
    (snapshot / "model.onnx_data").symlink_to("../../../blobs/bb22")
    np.testing.assert_array_equal(loaded(snapshot / "model.onnx"), WEIGHT)


def test_a_link_to_a_model_finds_the_data_of_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / "there")
    (tmp_path / "there" / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "link.onnx").symlink_to(path)
    np.testing.assert_array_equal(loaded(tmp_path / "link.onnx"), WEIGHT)


def test_a_link_within_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "w.bin").symlink_to("real.bin")
    np.testing.assert_array_equal(loaded(write(tmp_path)), WEIGHT)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, np.int64, np.bool_])
def test_other_types(tmp_path: Path, dtype: type) -> None:
    array = RNG.integers(-7, 7, (5, 3)).astype(dtype)
    (tmp_path / "w.bin").write_bytes(numpy_helper.from_array(array).raw_data)
    np.testing.assert_array_equal(loaded(write(tmp_path, array=array)), array)


def test_large_and_unaligned(tmp_path: Path) -> None:
    array = RNG.standard_normal((700, 1000)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(b"x" * 4099 + array.tobytes())
    np.testing.assert_array_equal(loaded(write(tmp_path, array=array, offset=4099)), array)


def test_an_empty_tensor_needs_no_file(tmp_path: Path) -> None:
    assert loaded(write(tmp_path, array=np.zeros((0, 4), np.float32))).shape == (0, 4)


def test_a_large_tensor_is_copied_without_being_read(tmp_path: Path) -> None:
    array = RNG.standard_normal((3000, 1000)).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(b"head" + array.tobytes())
    tensor = load(write(tmp_path, array=array, offset=4)).graph.initializers["w"].const_value
    with (tmp_path / "copy").open("wb") as file:
        file.write(b"<")
        tensor.tofile(file)
        file.write(b">")
    assert (tmp_path / "copy").read_bytes() == b"<" + array.tobytes() + b">"
    reader, writer = os.pipe()  # no kernel copy, and no position
    small = load(write(tmp_path, array=array[:2, :3], offset=4)).graph.initializers["w"].const_value
    with os.fdopen(writer, "wb") as file:
        small.tofile(file)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == array.tobytes()[:24]


def test_in_constants_functions_and_subgraphs(tmp_path: Path) -> None:
    proto = model(
        "c = Constant<value = bool {1}>() k = Constant<value = float[1] {1}>() f = me.F(x) "
        "y = If(c) <then_branch = a () => (float[n] t) { t = Add(f, w) },"
        "else_branch = b () => (float[n] e) { e = Neg(k) }>",
        '<domain: "me", opset_import: ["" : 17]> F (a) => (b) { b = Constant<value = float[1] {1}>() }',
    )
    tensors = (
        proto.graph.node[1].attribute[0].t,
        proto.functions[0].node[0].attribute[0].t,
        proto.graph.node[3].attribute[0].g.initializer.add(),
    )
    for index, tensor in enumerate(tensors):
        tensor.CopyFrom(external(numpy_helper.from_array(WEIGHT, "w"), "w.bin", offset=index, length=48))
    data = RNG.bytes(60)
    (tmp_path / "w.bin").write_bytes(data)
    onnx.save(proto, tmp_path / "model.onnx")
    loaded_model = load(tmp_path / "model.onnx")
    found = (
        loaded_model.graph[1].attributes["value"].as_tensor(),
        next(iter(loaded_model.functions.values()))[0].attributes["value"].as_tensor(),
        loaded_model.graph[3].attributes["then_branch"].as_graph().initializers["w"].const_value,
    )
    for index, tensor in enumerate(found):
        assert isinstance(tensor, FileTensor)
        assert tensor.tobytes() == data[index : index + 48]


def test_a_model_without_a_path_has_no_folder(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    for source in (path.read_bytes(), onnx.load(path, load_external_data=False), io.BytesIO(path.read_bytes())):
        with pytest.raises(LoadError, match=r"of tensor 'w': .* pass the path of the .onnx file"):
            load(source)


def test_an_ir_model_brings_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "inner")
    (tmp_path / "inner" / "w.bin").write_bytes(WEIGHT.tobytes())
    tensor = load(ir.load(path)).graph.initializers["w"].const_value
    assert isinstance(tensor, FileTensor)
    np.testing.assert_array_equal(tensor.numpy(), WEIGHT)
    (tmp_path / "secret").write_bytes(WEIGHT.tobytes())
    with pytest.raises(LoadError, match="outside the model's folder"):
        load(ir.load(write(tmp_path / "inner", "../secret")))


def test_a_file_that_is_replaced_by_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    tensor = load(write(tmp_path)).graph.initializers["w"].const_value
    (tmp_path / "w.bin").unlink()
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(LoadError, match="has changed"):
        tensor.numpy()


def test_a_ticket_cannot_be_forged() -> None:
    ours, theirs = TensorStore(), TensorStore()
    ticket = ours.put(ir.tensor(WEIGHT))
    assert ours.get(ticket) is not None
    assert theirs.get(ticket) is None
    assert ours.get(ticket[:-1]) is None
