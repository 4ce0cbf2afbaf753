"""Samples are read one at a time, whatever they come in, and what does not fit is told with its place."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from PIL import Image

from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.quantize.samples import SampleError, Slot, check_source, read_samples, write_samples
from onnxlift.workbench.quantize.slots import slots_of
from onnxlift.workbench.report import open_model
from onnxlift.workbench.runtime.file_inputs import PictureSettings
from workbench.running import model_of

X = Slot("x", "float32", (None, 3))
K = Slot("k", "int64", ())
ROWS = np.arange(24, dtype=np.float32).reshape(4, 2, 3)


def test_the_inputs_of_a_model_are_slots() -> None:
    model = model_of("(float[n, 3] x, int64 k, float[2] w = {1, 2}) => (float[n, 3] y) { y = Identity(x) }")
    assert slots_of(open_model(model)) == [X, K, Slot("w", "float32", (2,), needed=False)]


def test_a_model_of_texts_has_no_slots() -> None:
    model = model_of("(string[n] words) => (string[n] y) { y = Identity(words) }")
    with pytest.raises(SampleError, match="input 'words' is string"):
        slots_of(open_model(model))


def test_a_folder_has_a_sample_in_each_file_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 2):
        np.savez(tmp_path / f"s{number}.npz", x=np.full((1, 3), number), k=np.int64(number))
    (tmp_path / "s11").mkdir()
    for place, array in enumerate((np.full((1, 3), 11, np.float32), np.array(11))):
        (tmp_path / "s11" / f"input_{place}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    (tmp_path / "notes.txt").write_text("no sample")
    with pytest.raises(SampleError, match="float32, and int64 is given"):
        list(read_samples(tmp_path, [X, K]))
    for number in (10, 9, 2):
        np.savez(tmp_path / f"s{number}.npz", x=np.full((1, 3), number, np.float64), k=np.int64(number))
    found = list(read_samples(tmp_path, [X, K]))
    assert [int(sample["k"]) for sample in found] == [2, 9, 10, 11]
    assert all(sample["x"].dtype == np.float32 for sample in found)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(4, 2, 3), (8, 3)], ids=["an axis more", "along the first axis"])
def test_an_archive_has_samples_along_its_first_axis(tmp_path: Path, save, shape) -> None:
    file = tmp_path / "samples.npz"
    slot = X if len(shape) == 3 else Slot("x", "float32", (2, 3))
    save(file, x=ROWS.reshape(shape), k=np.int64(5))
    found = list(read_samples(file, [slot, K]))
    np.testing.assert_array_equal([sample["x"] for sample in found], ROWS)
    assert {int(sample["k"]) for sample in found} == {5}
    assert len(list(read_samples(file, [slot, K], most=3))) == 3


def test_a_single_array_is_for_a_model_with_one_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    np.testing.assert_array_equal([sample["x"] for sample in read_samples(tmp_path / "x.npy", [X])], ROWS)
    with pytest.raises(SampleError, match="holds one array, and the model has the inputs x, k"):
        list(read_samples(tmp_path / "x.npy", [X, K]))


def test_an_archive_takes_the_memory_of_one_sample(tmp_path: Path) -> None:
    file = tmp_path / "samples.npz"
    np.savez_compressed(file, x=np.zeros((2000, 1000, 3), np.float32))  # 24 MB
    tracemalloc.start()
    count = sum(1 for _ in read_samples(file, [X]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2000 and peak < 2_000_000


def test_a_script_yields_samples_and_may_import_its_neighbours(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))  # so that it is taken back
    (tmp_path / "own_data.py").write_text("SIZE = 2\n")
    script = tmp_path / "calibrate.py"
    script.write_text(
        "import numpy as np\nfrom own_data import SIZE\n"
        "def samples():\n    for i in range(3):\n        yield np.full((SIZE, 3), i, np.float32), i\n"
    )
    found = list(read_samples(script, [X, K]))
    assert [int(sample["k"]) for sample in found] == [0, 1, 2] and found[0]["x"].shape == (2, 3)


def test_samples_of_the_caller_are_written_one_by_one(tmp_path: Path) -> None:
    folder = write_samples(({"x": row, "k": 1} for row in ROWS), [X, K], tmp_path / "written")
    np.testing.assert_array_equal([sample["x"] for sample in read_samples(folder, [X, K])], ROWS)
    with pytest.raises(SampleError, match="what was given to calibrate with is empty"):
        write_samples([], [X], tmp_path / "none")


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            {"x": np.zeros((2, 4), np.float32), "k": 1},
            r"input 'x' is declared as \(\?, 3\), which \(2, 4\) does not fit",
        ),
        ({"x": np.zeros((3,), np.float32), "k": 1}, r"which \(3,\) does not fit"),
        ({"x": ROWS[0]}, r"sample 1 has nothing for 'k'; the inputs are 'x', 'k'"),
        ({"x": ROWS[0], "k": 1, "z": 2}, r"has 'z', which the model does not take"),
        ({"x": ROWS[0].astype(np.int64), "k": 1}, r"input 'x' is float32, and int64 is given"),
        ("text", r"is a str, and not a dict of arrays"),
        ([ROWS[0], 1, 2], r"has 3 arrays, and the model has 2 inputs"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, sample, message: str) -> None:
    with pytest.raises(SampleError, match=message):
        write_samples([sample], [X, K], tmp_path / "samples")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": ROWS, "k": np.arange(3)}, "do not hold the same number of samples: x has 4, k has 3"),
        ({"x": ROWS[None], "k": np.int64(1)}, "the array 'x' has 4 axes"),
        ({"x": np.array([{}]), "k": np.int64(1)}, "holds Python objects"),
        ({"x": np.asfortranarray(ROWS), "k": np.int64(1)}, "stored column by column"),
        ({"y": ROWS}, "has nothing for 'x', 'k' and has 'y'"),
    ],
)
def test_an_archive_that_does_not_fit_is_told(tmp_path: Path, arrays, message: str) -> None:
    np.savez(tmp_path / "samples.npz", **arrays)
    with pytest.raises(SampleError, match=message):
        list(read_samples(tmp_path / "samples.npz", [X, K]))


def test_an_archive_that_ends_early_or_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "samples.npz"
    file.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(SampleError, match="cannot read samples from"):
        list(read_samples(file, [X]))


def test_places_without_samples_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match="no such file or folder"):
        check_source(tmp_path / "nowhere")
    with pytest.raises(SampleError, match=r"holds no samples: put in a .npz file for each"):
        check_source(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(SampleError, match=r"samples are a folder, a .npz or .npy file, or a Python script"):
        check_source(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no function `samples`"),
        ("def samples(): return 3", "gives no samples to go through, but a int"),
        ("def samples(): return []", "has no samples"),
    ],
)
def test_a_script_without_the_function_is_told(tmp_path: Path, monkeypatch, text: str, message: str) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "script.py").write_text(text)
    with pytest.raises(SampleError, match=message):
        list(read_samples(tmp_path / "script.py", [X]))


def test_a_tensor_that_refers_to_another_file_is_no_sample(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(ROWS[0], "x")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    (tmp_path / "x.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(SampleError, match="the tensor lies in another file"):
        list(read_samples(tmp_path, [X]))


PIXELS = Slot("pixels", "float32", (None, 3, 4, 6))


def _save_pictures(folder: Path, *values: int) -> None:
    for number, value in enumerate(values):
        Image.new("RGB", (6, 4), (value, 0, 255)).save(folder / f"p{number}.png")


def test_a_folder_of_pictures_has_a_sample_in_each(tmp_path: Path) -> None:
    _save_pictures(tmp_path, 51, 102)
    check_source(tmp_path)
    found = list(read_samples(tmp_path, [PIXELS]))
    assert [sample["pixels"].shape for sample in found] == [(1, 3, 4, 6)] * 2
    np.testing.assert_allclose(
        [sample["pixels"][0, :, 0, 0] for sample in found], [[0.2, 0, 1], [0.4, 0, 1]], rtol=1e-6
    )
    settings = PictureSettings.of(0.5, (0.5, 0.5, 0.25), "crop")
    (first,) = read_samples(tmp_path, [PIXELS], most=1, pictures=settings)
    np.testing.assert_allclose(first["pixels"][0, :, 0, 0], [-0.6, -1, 2], rtol=1e-6)


def test_pictures_beside_arrays_are_no_samples(tmp_path: Path) -> None:
    _save_pictures(tmp_path, 51)
    np.save(tmp_path / "a.npy", np.zeros((1, 3, 4, 6), np.float32))
    (sample,) = read_samples(tmp_path, [PIXELS])
    assert not sample["pixels"].any()


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ([X], r"p0\.png' is a picture, and no input of the model takes pictures \(x: float32 \(\?, 3\)\)"),
        ([PIXELS, Slot("other", "float32", (1, 3, 8, 8))], "more than one input of the model takes pictures"),
        ([PIXELS, K], "k"),
    ],
)
def test_pictures_that_fit_no_input_are_told(tmp_path: Path, slots: list[Slot], told: str) -> None:
    _save_pictures(tmp_path, 51)
    with pytest.raises(SampleError, match=told):
        list(read_samples(tmp_path, slots))


def test_a_picture_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "p0.png").write_bytes(b"no picture")
    with pytest.raises(OnnxLiftError, match=r"cannot read the picture .*p0\.png"):
        list(read_samples(tmp_path, [PIXELS]))
