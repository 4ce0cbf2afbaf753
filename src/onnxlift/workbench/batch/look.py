"""Look at models before a batch runs, in a child: what their files hash to, and which sizes they leave open."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import shape_text
from onnxlift.ir.load import load
from onnxlift.ir.reading.weights import data_files
from onnxlift.unforeseen import answered


@dataclass(frozen=True)
class Look:
    """What is known of a model before it is worked on: a digest of its files, and its inputs.

    `open` has the inputs that leave a size open, with their shapes. There are none if the model could not be read:
    its own child will say why."""

    digest: str = ""
    inputs: tuple[str, ...] = ()
    open: Mapping[str, str] = field(default_factory=dict)


def look(task: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Look at the models of a task, and tell of each."""
    for model in task["models"]:
        try:
            with answered():
                tell(_looked(Path(model)))
        except OnnxLiftError:
            tell({"digest": digest([Path(model)])})


def _looked(path: Path) -> dict[str, Any]:
    model = load(path)
    values = [value for value in model.graph.inputs if constant(value) is None]
    shapes = {value.name or "": shape_of(value) for value in values}
    return {
        "digest": digest([path, *sorted(data_files(model))]),
        "inputs": list(shapes),
        "open": {
            name: "of unknown rank" if shape is None else shape_text(shape)
            for name, shape in shapes.items()
            if shape is None or not all(isinstance(size, int) for size in shape)
        },
    }


def digest(files: Iterable[Path]) -> str:
    """Return a digest of what is in these files; of those that cannot be read, their absence counts."""
    together = hashlib.sha256()
    for path in files:
        try:
            if path.is_file():
                with path.open("rb") as file:
                    together.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            together.update(type(error).__name__.encode())
    return together.hexdigest()
