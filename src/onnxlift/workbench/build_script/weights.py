"""The weights of a script: what each is called, and the safetensors file beside the script.

Tensors go from the model's file to the new one, a few at a time, so that memory stays flat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx_ir as ir

from onnxlift.build.weights import NAMES, TYPES_KEY
from onnxlift.ir.origin.names import Naming, naming_of
from onnxlift.lifting.code.identifiers import unique

from .literals import quoted, shape_of

Progress = Callable[[int, int], None]
LONGEST_KEY = 200
LONGEST_TEXT = 200
"""Longer texts are in the metadata of the file of weights, where there is one."""

_ROLES = {
    ("Conv", 1): "weight",
    ("Conv", 2): "bias",
    ("ConvTranspose", 1): "weight",
    ("ConvTranspose", 2): "bias",
    ("Gemm", 1): "weight",
    ("Gemm", 2): "bias",
    ("MatMul", 1): "weight",
    ("Gather", 0): "weight",
    ("Add", 0): "bias",
    ("Add", 1): "bias",
    ("Mul", 0): "scale",
    ("Mul", 1): "scale",
    ("LSTM", 1): "weight",
    ("LSTM", 2): "recurrence",
    ("LSTM", 3): "bias",
    ("GRU", 1): "weight",
    ("GRU", 2): "recurrence",
    ("GRU", 3): "bias",
    ("BatchNormalization", 1): "weight",
    ("BatchNormalization", 2): "bias",
    ("BatchNormalization", 3): "running_mean",
    ("BatchNormalization", 4): "running_var",
    ("LayerNormalization", 1): "weight",
    ("LayerNormalization", 2): "bias",
}


class WeightStore:
    """The tensors that go to the file, by their names."""

    def __init__(self, taken: set[str]) -> None:
        self.tensors: dict[str, ir.TensorProtocol] = {}
        self.texts: dict[str, str] = {}
        self.keys: dict[ir.Value, str] = {}
        self._taken = taken

    def add(self, key: str, tensor: ir.TensorProtocol) -> str:
        """Take a tensor, and return its name."""
        found = unique(_clean(key), self._taken)
        self._taken.add(found)
        self.tensors[found] = tensor
        return found

    def text(self, key: str, text: str) -> str:
        """Return what stands for a text in the script: a long one is in the file of weights, if there is one."""
        if len(text) <= LONGEST_TEXT or not self.tensors or not text.isascii():
            return quoted(text)
        found = unique(_clean(key), {*self.texts, TYPES_KEY})
        self.texts[found] = text
        return f"weights.text({quoted(found)})"

    def name(self, value: ir.Value, tensor: ir.TensorProtocol, module: str, path: str) -> None:
        """Choose the name of a weight: that of the file if it lies in the module `module` that holds it, else its role.

        `path` is the module of the node that reads it first."""
        own = value.name or ""
        prefix = f"{module}." if module else ""
        is_good = naming_of(own) is Naming.AUTHOR and own.isprintable() and len(own) <= LONGEST_KEY
        if is_good and own.startswith(prefix):
            key = own
        else:
            leaf = own.rpartition(".")[2] if is_good and "/" not in own else _role(value)
            key = f"{path}.{leaf}" if path and f"{path}.".startswith(prefix) else f"{prefix}{leaf}"
        self.keys[value] = self.add(key, tensor)


def _role(value: ir.Value) -> str:
    for node, index in value.uses():
        role = _ROLES.get((node.op_type, index))
        if role is not None:
            return role
    return "constant"


def _clean(key: str) -> str:
    text = "".join(letter if letter.isprintable() else "_" for letter in key)[:LONGEST_KEY] or "weight"
    return "weight" if text == "__metadata__" else text


def write_safetensors(
    tensors: Mapping[str, ir.TensorProtocol],
    texts: Mapping[str, str],
    path: Path,
    on_progress: Progress | None = None,
) -> Path:
    """Write the tensors to a file, one after the other, and the texts to its metadata."""
    metadata = dict(texts)
    told = {
        name: [tensor.dtype.name, list(shape_of(tensor))]
        for name, tensor in tensors.items()
        if tensor.dtype not in NAMES
    }
    if told:
        metadata[TYPES_KEY] = json.dumps(told)
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    # The widest types first, so that every tensor begins at a multiple of its element size.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize)
    end = 0
    for name, tensor in ordered:
        begin, end = end, end + tensor.nbytes
        stored = NAMES.get(tensor.dtype)
        shape = list(shape_of(tensor)) if stored else [tensor.nbytes]
        header[name] = {"dtype": stored or "U8", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in ordered:
            before = file.tell()
            if hasattr(tensor, "tofile") and not isinstance(tensor, ir.LazyTensor):
                tensor.tofile(file)
            else:
                file.write(tensor.tobytes())
            assert file.tell() - before == tensor.nbytes, f"{name}: not as many bytes as its shape needs"
            if on_progress is not None:
                on_progress(file.tell() - 8 - len(text), end)
    return path
