"""Samples of a model's inputs, one at a time: from a folder, a .npz or .npy file, a script, or the caller's own.

    a folder     each file (.npz by name, .npy, .pb) or folder of input_0.pb, ... in it is a sample, in order of names;
                 or each picture, for the input that looks like one
    a .npz file  arrays by the names of inputs, with the samples along their first axis; a .npy file for a single input
    a script     a Python file with a function `samples()`, which yields a dict of arrays by name for each sample

Nothing is read before its turn, so a thousand samples take the memory of one.
"""

from __future__ import annotations

import math
import re
import runpy
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, VerifyError, quote
from onnxlift.ir.graph.types import ValueType
from onnxlift.verification.files import read_inputs
from onnxlift.verification.values import read_values, write_values

from ..runtime.file_inputs import PICTURES, PictureSettings, read_picture, takes_pictures

Array = np.ndarray[Any, Any]
Sample = dict[str, Array]
FUNCTION = "samples"
"""The name of the function that a script must have."""
WRITTEN = "onnxlift-sample-"
"""How the names of samples begin that `write_samples` wrote."""
_GROUPS = ("b", "iu", "fc")


class SampleError(OnnxLiftError):
    """Samples cannot be read, or do not fit the model."""


@dataclass(frozen=True)
class Slot:
    """An input that samples must have: its name, numpy's name of its type, its sizes (None where they are open).

    It is not `needed` if the model has a default value for it."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    needed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for a child."""
        return asdict(self)

    @property
    def kind(self) -> ValueType:
        """The type of the input."""
        return ValueType(ir.DataType.from_numpy(np.dtype(self.dtype)), self.shape)

    @property
    def sizes(self) -> str:
        """Its sizes, for people."""
        return f"({', '.join('?' if size is None else str(size) for size in self.shape or ())})"


def check_source(path: Path) -> None:
    """Raise a SampleError if no samples can be read from here, before anything is worked out."""
    if not path.exists():
        raise SampleError(f"there are no samples at {str(path)!r}: no such file or folder.")
    if path.is_dir() and not _sample_files(path):
        raise SampleError(
            f"the folder {str(path)!r} holds no samples: put in a .npz file for each, with arrays by the names of the "
            "inputs (or .npy, .pb, folders of input_0.pb, ...), or pictures."
        )
    if not path.is_dir() and path.suffix.lower() not in (".npz", ".npy", ".py"):
        raise SampleError(f"samples are a folder, a .npz or .npy file, or a Python script, and not {str(path)!r}.")


def write_samples(samples: Iterable[Any], slots: Sequence[Slot], folder: Path) -> Path:
    """Write samples that the caller of the verb has at hand to a folder, for a child; return the folder."""
    folder.mkdir()
    count = 0
    for count, sample in enumerate(samples, 1):
        write_values(folder / f"{WRITTEN}{count:09}", fitted(sample, slots, f"sample {count}"))
    if not count:
        raise SampleError("there are no samples: what was given to calibrate with is empty.")
    return folder


def read_samples(
    path: Path, slots: Sequence[Slot], most: int | None = None, pictures: PictureSettings | None = None
) -> Iterator[Sample]:
    """Yield the samples at `path`, at most so many, each checked against the inputs of the model.

    `pictures` says how pixels become numbers."""
    count = 0
    for count, (where, sample) in enumerate(_raw(path, slots, pictures or PictureSettings()), 1):
        yield fitted(sample, slots, where)
        if most is not None and count >= most:
            return
    if not count:
        raise SampleError(f"{str(path)!r} has no samples.")


def _raw(path: Path, slots: Sequence[Slot], pictures: PictureSettings) -> Iterator[tuple[str, Any]]:
    if path.is_dir():
        for file in _sample_files(path):
            is_picture = file.suffix.lower() in PICTURES
            yield f"{str(file)!r}", _read_picture(file, slots, pictures) if is_picture else _read_file(file)
    elif path.suffix.lower() == ".py":
        yield from _run_script(path)
    elif path.suffix.lower() == ".npy":
        if len(slots) != 1:
            names = ", ".join(slot.name for slot in slots)
            raise SampleError(f"{str(path)!r} holds one array, and the model has the inputs {names}: use a .npz file.")
        yield from _numbered(path, ({slots[0].name: row} for row in _pieces(slots[0], _mapped(path))))
    else:
        yield from _numbered(path, _rows(path, slots))


def _numbered(path: Path, samples: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for number, sample in enumerate(samples):
        yield f"sample {number} of {str(path)!r}", sample


def _sample_files(folder: Path) -> list[Path]:
    """Return the files and folders of a folder that are a sample each, in the order of the numbers in their names.

    Pictures are samples where there are no arrays: beside arrays, they are there to be looked at."""
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    found = [path for path in paths if _is_sample(path)]
    return sorted(found or [path for path in paths if path.suffix.lower() in PICTURES], key=_order)


def _is_sample(path: Path) -> bool:
    return path.suffix.lower() in (".npz", ".npy", ".pb") or _is_written(path) or (path / "input_0.pb").exists()


def _is_written(path: Path) -> bool:
    return path.name.startswith(WRITTEN) and path.suffix == ".json"


def _order(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _read_file(file: Path) -> Any:
    if _is_written(file):
        return read_values(file)
    try:
        return read_inputs([file])
    except VerifyError as error:
        raise SampleError(str(error)) from error


def _read_picture(file: Path, slots: Sequence[Slot], settings: PictureSettings) -> Sample:
    kinds = {slot.name: slot.kind for slot in slots}
    fitting = [name for name, kind in kinds.items() if takes_pictures(kind)]
    if len(fitting) != 1:
        told = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        raise SampleError(
            f"{str(file)!r} is a picture, and {'more than one' if fitting else 'no'} input of the model takes "
            f"pictures ({told}): give arrays by the names of the inputs (.npz)."
        )
    return {fitting[0]: read_picture(file, fitting[0], kinds[fitting[0]], settings)}


def _run_script(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what the function `samples` of a script yields. The script is the user's own, and runs as such."""
    sys.path.insert(0, str(path.absolute().parent))
    names = runpy.run_path(str(path), run_name="__onnxlift_samples__")
    function = names.get(FUNCTION)
    if not callable(function):
        raise SampleError(
            f"the script {str(path)!r} has no function `{FUNCTION}`: write `def {FUNCTION}():`, and let it yield a "
            "dict of arrays by the names of the inputs for each sample."
        )
    made = function()
    if not isinstance(made, Iterable):
        raise SampleError(f"`{FUNCTION}` of {str(path)!r} gives no samples to go through, but a {type(made).__name__}.")
    yield from _numbered(path, made)


def _mapped(path: Path) -> Array:
    try:
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SampleError(f"cannot read samples from {str(path)!r}: {error}.") from error
    return mapped


def _rows(path: Path, slots: Sequence[Slot]) -> Iterator[Sample]:
    """Yield the samples of a .npz file, from all its arrays at once. What an array holds once is in all of them."""
    by_name = {slot.name: slot for slot in slots}
    try:
        with zipfile.ZipFile(path) as archive, ExitStack() as stack:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            _check_names(members, slots, f"{str(path)!r}")
            streams: dict[str, Iterator[Array]] = {}
            held: Sample = {}
            counts: dict[str, int] = {}
            for name, member in members.items():
                file = stack.enter_context(archive.open(member))
                counts[name], streams[name] = _stored(by_name[name], file)
                if counts[name] == 1:
                    held[name] = next(streams[name])
            many = {name: count for name, count in counts.items() if count != 1}
            if len(set(many.values())) > 1:
                told = ", ".join(f"{name} has {count:,}" for name, count in many.items())
                raise SampleError(f"the arrays of {str(path)!r} do not hold the same number of samples: {told}.")
            for _ in range(next(iter(many.values()), 1)):
                yield {**held, **{name: next(streams[name]) for name in many}}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise SampleError(f"cannot read samples from {str(path)!r}: {error}.") from error


def _stored(slot: Slot, file: IO[bytes]) -> tuple[int, Iterator[Array]]:
    """Return the number of samples in an array that is stored in an archive, and an iterator that reads them."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"the array {slot.name!r} is in a format of numpy that is not known")
    shape, is_fortran, dtype = read_header[version](file)
    if dtype.hasobject or (is_fortran and len(shape) > 1):
        raise ValueError(f"the array {slot.name!r} holds Python objects, or is stored column by column")
    count, piece = _split(slot, shape)
    return count, (_next_piece(slot, file, dtype, piece) for _ in range(count))


def _next_piece(slot: Slot, file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    size = dtype.itemsize * math.prod(shape)
    data = file.read(size)
    if len(data) != size:
        raise EOFError(f"the array {slot.name!r} ends too early")
    return np.frombuffer(data, dtype).reshape(shape)


def _pieces(slot: Slot, whole: Array) -> Iterator[Array]:
    """Yield the samples in an array."""
    count, piece = _split(slot, whole.shape)
    rows = whole.reshape(count, *piece)
    for number in range(count):
        yield np.array(rows[number])


def _split(slot: Slot, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return how many samples an array of this shape holds, and the shape of each.

    It has one axis more than the input, the first, or else several samples joined along the first axis."""
    if slot.shape is None or len(shape) == len(slot.shape) + 1:
        return shape[0] if shape else 1, shape[1:]
    if len(shape) != len(slot.shape):
        raise SampleError(
            f"the array {slot.name!r} has {len(shape)} axes: the input has {slot.sizes}, and the samples "
            "are along one axis more, or along the first."
        )
    if not shape:
        return 1, ()
    batch = slot.shape[0] or 1
    if shape[0] % batch:
        raise SampleError(
            f"the array {slot.name!r} has {shape[0]} rows, which are no whole samples of {batch} rows each."
        )
    return shape[0] // batch, (batch, *shape[1:])


def fitted(sample: Any, slots: Sequence[Slot], where: str) -> Sample:
    """Return a sample as arrays by name in the types of the inputs. Raises a SampleError if it does not fit."""
    if isinstance(sample, np.ndarray | list | tuple) and not isinstance(sample, Mapping):
        values = [sample] if isinstance(sample, np.ndarray) else list(sample)
        if len(values) > len(slots):
            raise SampleError(f"{where} has {len(values)} arrays, and the model has {len(slots)} inputs.")
        sample = dict(zip((slot.name for slot in slots), values, strict=False))
    if not isinstance(sample, Mapping):
        raise SampleError(f"{where} is a {type(sample).__name__}, and not a dict of arrays by the names of the inputs.")
    _check_names(sample, slots, where)
    return {slot.name: _fitted(sample[slot.name], slot, where) for slot in slots if slot.name in sample}


def _check_names(names: Iterable[str], slots: Sequence[Slot], where: str) -> None:
    given, known = list(map(str, names)), [slot.name for slot in slots]
    missing = [slot.name for slot in slots if slot.needed and slot.name not in given]
    unknown = [name for name in given if name not in known]
    if missing or unknown:
        wrong = [f"has nothing for {', '.join(map(quote, missing))}"] if missing else []
        wrong += [f"has {', '.join(map(quote, unknown))}, which the model does not take"] if unknown else []
        raise SampleError(f"{where} {' and '.join(wrong)}; the inputs are {', '.join(map(quote, known))}.")


def _fitted(value: Any, slot: Slot, where: str) -> Array:
    array = np.asarray(value)
    wanted = np.dtype(getattr(ml_dtypes, slot.dtype, slot.dtype))
    if array.dtype != wanted:
        is_same = any(array.dtype.kind in group and wanted.kind in group for group in _GROUPS)
        if not is_same and "V" not in (array.dtype.kind, wanted.kind):
            raise SampleError(f"{where}: input {quote(slot.name)} is {slot.dtype}, and {array.dtype.name} is given.")
        array = array.astype(wanted)
    declared = slot.shape
    if declared is not None and not (
        len(declared) == array.ndim
        and all(size in (None, own) for size, own in zip(declared, array.shape, strict=True))
    ):
        raise SampleError(
            f"{where}: input {quote(slot.name)} is declared as {slot.sizes}, which {array.shape} does not fit."
        )
    return array
