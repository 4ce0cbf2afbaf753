"""Weights in a safetensors file, as parameters: `weights = build.weights("model.safetensors")`.

The numbers stay in the file until they are needed. Element types that safetensors does not have, such as int4, are
stored as bytes; the header of the file tells what they are. It may hold texts as well.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from .errors import BuildError, at_the_users_line, nearest
from .state import scopes
from .tensors import constant_value
from .types import Array
from .value import Value

TYPES_KEY = "onnx_types"
"""Key in the metadata of the file: the ONNX types and shapes, as JSON, of tensors that are stored as bytes."""
NAMES: dict[ir.DataType, str] = {
    ir.DataType.FLOAT: "F32",
    ir.DataType.DOUBLE: "F64",
    ir.DataType.FLOAT16: "F16",
    ir.DataType.BFLOAT16: "BF16",
    ir.DataType.FLOAT8E4M3FN: "F8_E4M3",
    ir.DataType.FLOAT8E5M2: "F8_E5M2",
    ir.DataType.INT64: "I64",
    ir.DataType.INT32: "I32",
    ir.DataType.INT16: "I16",
    ir.DataType.INT8: "I8",
    ir.DataType.UINT64: "U64",
    ir.DataType.UINT32: "U32",
    ir.DataType.UINT16: "U16",
    ir.DataType.UINT8: "U8",
    ir.DataType.BOOL: "BOOL",
}
"""What safetensors calls the element types whose bytes are the same in both."""
_ELEMENTS = {name: element for element, name in NAMES.items()}
_LONGEST_HEADER = 100_000_000


@at_the_users_line
def weights(path: str | os.PathLike[str]) -> Weights:
    """Return the weights in a safetensors file, as parameters by their names."""
    file = Path(path)
    try:
        return Weights(file, *_read(file))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BuildError(f"build.weights: {str(file)!r} is no file of weights that can be read: {error}.") from None


class Weights:
    """Weights by their names: `weights["head.bias"]`; within `build.scope("head")` also `weights("bias")`."""

    def __init__(self, file: Path, tensors: dict[str, ir.ExternalTensor], texts: dict[str, str]) -> None:
        self._file, self._tensors, self._texts = file, tensors, texts
        self._values: dict[str, Value] = {}

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __repr__(self) -> str:
        return f"<{len(self)} weights of {self._file.name}>"

    @at_the_users_line
    def __call__(self, name: str) -> Value:
        """Return the parameter of this name in the module around (`build.scope`)."""
        path = scopes().path
        return self[f"{path}.{name}" if path else name]

    @at_the_users_line
    def __getitem__(self, name: str) -> Value:
        """Return the parameter of this name: the same value each time."""
        if name not in self._values:
            self._values[name] = Value(constant_value(self.tensor(name), name, fixed=name, kind="parameter"))
        return self._values[name]

    @at_the_users_line
    def tensor(self, name: str) -> ir.ExternalTensor:
        """Return the tensor of this name, whose numbers stay in the file; for `build.constant`."""
        if name not in self._tensors:
            raise BuildError(f"there is no weight {name!r} in {self._file.name}{nearest(name, self._tensors)}")
        return self._tensors[name]

    @at_the_users_line
    def array(self, name: str) -> Array:
        """Return the numbers of this name as an array; for attributes."""
        return np.asarray(self.tensor(name).numpy())

    @at_the_users_line
    def text(self, name: str) -> str:
        """Return the text of this name in the metadata of the file."""
        if name not in self._texts:
            raise BuildError(f"there is no text {name!r} in {self._file.name}{nearest(name, self._texts)}")
        return self._texts[name]


def _read(file: Path) -> tuple[dict[str, ir.ExternalTensor], dict[str, str]]:
    """Read the header of the file: its tensors, and its texts."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("its header is longer than any")
        header: dict[str, Any] = json.loads(opened.read(length))
    texts = {str(key): str(text) for key, text in header.pop("__metadata__", {}).items()}
    told = json.loads(texts.pop(TYPES_KEY, "{}"))
    found: dict[str, ir.ExternalTensor] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        type_, shape = told.get(name) or (_ELEMENTS[entry["dtype"]].name, entry["shape"])
        found[name] = ir.ExternalTensor(
            file.name,
            8 + length + begin,
            end - begin,
            ir.DataType[type_],
            shape=ir.Shape(shape),
            name=name,
            base_dir=file.absolute().parent,
        )
    return found, texts
