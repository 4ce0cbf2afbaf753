"""Inputs that are made up fit what the model does with them; those given are checked."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import onnxlift
from onnxlift.errors import VerifyError
from onnxlift.ir.load import load
from onnxlift.verification.files import read_inputs
from onnxlift.verification.inputs import make_inputs
from onnxlift.verification.values import read_values, write_values
from rewriting.running_stages import normalise


def inputs(model: onnx.ModelProto, **options: object) -> dict[str, np.ndarray]:
    loaded = load(model)
    normalise(loaded)
    return make_inputs(loaded.graph, **options)  # type: ignore[arg-type]


def graph(signature: str, body: str, **constants: np.ndarray) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> g {signature} {{ {body} }}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


EMBEDDING = graph(
    "(int64[batch, seq] ids, int64[batch, seq] attention_mask) => (float[batch, seq, 5] y)",
    "axes = Constant<value_ints = [1]>() column = Unsqueeze(ids, axes) flat = Squeeze(column, axes) "
    "e = Gather(table, flat) m = Cast<to = 1>(attention_mask) last = Constant<value_ints = [2]>() "
    "w = Unsqueeze(m, last) y = Mul(e, w)",
    table=np.arange(15, dtype=np.float32).reshape(3, 5),
)


@pytest.mark.parametrize("seed", range(3))
def test_indices_stay_inside_the_table_and_masks_are_zeros_and_ones(seed: int) -> None:
    made = inputs(EMBEDDING, dims={"batch": 30, "seq": 9}, seed=seed)
    assert list(made) == ["ids", "attention_mask"]
    assert made["ids"].shape == (30, 9) and made["ids"].dtype == np.int64
    assert set(made["ids"].flat) == {0, 1, 2}
    assert set(made["attention_mask"].flat) == {0, 1}
    assert made["attention_mask"].max(axis=1).all()


@pytest.mark.parametrize(("count", "shape"), [(9, (1, 1, 9)), (3, (3,))])
@pytest.mark.parametrize("operands", ["column, table", "table, column"])
def test_what_is_compared_with_all_numbers_is_one_of_them(count: int, shape: tuple[int, ...], operands: str) -> None:
    """JAX writes one-hot rows so (Magika); a mask of zeros and ones would try two of the numbers."""
    body = f"last = Constant<value_ints = [2]>() column = Unsqueeze(x, last) y = Equal({operands})"
    model = graph(f"(int32[n, 50] x) => (bool[n, 50, {count}] y)", body, table=np.arange(count, dtype=np.int32))
    model.graph.initializer[0].dims[:] = shape
    assert set(inputs(model)["x"].flat) == set(range(count))


@pytest.mark.parametrize("table", [[0, 1], [0, 2, 4], [1, 2, 3]])
def test_what_is_compared_with_some_numbers_is_a_mask(table: list[int]) -> None:
    body = "last = Constant<value_ints = [2]>() column = Unsqueeze(x, last) y = Equal(column, table)"
    model = graph(f"(int32[n, 50] x) => (bool[n, 50, {len(table)}] y)", body, table=np.array(table, np.int32))
    assert set(inputs(model)["x"].flat) == {0, 1}


def test_the_seed_decides() -> None:
    first, again, other = (inputs(EMBEDDING, seed=seed)["ids"] for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_positions_lengths_and_plain_integers() -> None:
    model = graph(
        "(int64[b, s] position_ids, int64[b] lengths, uint8[b, 64] image, int64[b] n) => (int64[b] y)", "y = Add(n, n)"
    )
    made = inputs(model, dims={"s": 4, "b": 3})
    assert made["position_ids"].tolist() == [[0, 1, 2, 3]] * 3
    assert made["lengths"].min() >= 1
    assert made["image"].max() > 127


def test_sizes_given_named_and_computed() -> None:
    model = graph("(float[batch, seq, 8] x, float[batch, seq] m, float[2, k] z) => (float[batch, seq] y)", "y = Neg(m)")
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "seq + 1"
    made = inputs(model, shapes={"x": (4, 6, 8)})
    assert [array.shape for array in made.values()] == [(4, 6, 8), (4, 6), (2, 7)]
    made = inputs(model, given={"m": np.zeros((3, 2))})
    assert made["x"].shape == (3, 2, 8)
    assert made["m"].dtype == np.float32


def test_images_of_unknown_size_are_large_enough_to_convolve() -> None:
    weight = np.ones((1, 3, 7, 7), np.float32)
    model = graph("(float[N, 3, H, W] x) => (float[N, 1, H, W] y)", "y = Conv(x, w)", w=weight)
    assert inputs(model)["x"].shape == (2, 3, 64, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"bath": 4}}, "no input has a dimension named bath; they are batch, seq"),
        ({"shapes": {"x": (1,)}}, "no input named 'x'; its inputs are ids, attention_mask"),
        ({"shapes": {"ids": (1, 2, 3)}}, "has 2 dimensions"),
        ({"shapes": {"ids": (2, 3), "attention_mask": (2, 4)}}, "cannot be both 3 and 4"),
        ({"dims": {"batch": 10**9, "seq": 10**9}}, "choose smaller sizes"),
        ({"given": {"ids": np.ones((2, 3), np.float32)}}, "is int64, and float32 is given"),
        ({"given": [np.ones((2, 3))] * 3}, "3 inputs are given, and the model has 2"),
    ],
)
def test_what_does_not_fit_is_told(options: dict[str, object], message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        inputs(EMBEDDING, **options)


def test_a_declared_size_beyond_all_memory() -> None:
    with pytest.raises(VerifyError, match="choose smaller sizes"):
        inputs(graph("(float[1000000, 1000000, 1000000] x) => (float[n] y)", "y = Neg(x)"))


def test_files(tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((2, 3))
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "all.npz", ids=array, mask=array[0])
    for i in range(11):
        tensor = numpy_helper.from_array(np.array(i))
        (tmp_path / f"input_{i}.pb").write_bytes(tensor.SerializeToString())
    np.testing.assert_array_equal(read_inputs([tmp_path / "x.npy"])[0], array)
    by_name = read_inputs([tmp_path / "all.npz"])
    assert isinstance(by_name, dict) and list(by_name) == ["ids", "mask"]
    assert [int(value) for value in read_inputs([tmp_path])] == list(range(11))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"no array")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "x.txt").write_text("1 2 3")
    leak = helper.make_tensor("x", TensorProto.FLOAT, [0], [])
    leak.data_location = TensorProto.EXTERNAL
    leak.external_data.add(key="location", value="bad.npy")
    (tmp_path / "leak.pb").write_bytes(leak.SerializeToString())
    for name in ("bad.npy", "objects.npy", "x.txt", "leak.pb", "nothing.npy"):
        with pytest.raises(VerifyError, match=name):
            read_inputs([tmp_path / name])


def test_values_travel_between_processes(tmp_path: Path) -> None:
    import ml_dtypes

    random = np.random.default_rng(0)
    values = {
        "f": random.standard_normal((3, 2)).astype(np.float32)[:, ::-1],
        "b": random.standard_normal(5).astype(ml_dtypes.bfloat16),
        "scalar": np.array(3),
        "empty": np.empty((0, 2), np.float16),
        "text": np.array([["a"], ["ü\n"]], dtype=object),
        "sequence": [np.arange(3), None, {"k": np.array(1.5)}],
    }
    write_values(tmp_path / "v", values)
    read = read_values(tmp_path / "v")
    for name in ("f", "b", "scalar", "empty", "text"):
        np.testing.assert_array_equal(read[name], values[name])
        assert read[name].dtype == values[name].dtype
    assert read["sequence"][0].tolist() == [0, 1, 2] and read["sequence"][1] is None
    assert read["sequence"][2]["k"] == 1.5


def test_public_name_stays_a_function() -> None:
    """The package with the code has another name, since importing a submodule would hide the function."""
    importlib.import_module("onnxlift.verification.verify")
    assert callable(onnxlift.verify)
