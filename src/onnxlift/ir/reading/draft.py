"""A model on its way from a file to a graph. The steps of reading, checking and building work on it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.functions import FunctionId
from onnxlift.ir.graph.interface import Interface

from .external import DataFolder
from .tensors import TensorStore


class HoldsModel(Protocol):
    """The report of a verb that changes models: its result can be the next verb's source."""

    @property
    def model(self) -> ir.Model: ...


@dataclass(frozen=True)
class Skeleton:
    """A model that is parsed already: its proto has tickets in the place of tensors, which are in the store.

    Its external files must lie in `folder`."""

    proto: onnx.ModelProto
    store: TensorStore
    folder: DataFolder


Source = (
    str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | BinaryIO
    | onnx.ModelProto
    | ir.Model
    | HoldsModel
    | Skeleton
)
"""The forms in which a model may be given."""


def unwrapped(source: Any) -> Any:
    """Return the model that a report holds; any other source as it is."""
    held = getattr(source, "model", None)
    return held if isinstance(held, ir.Model) else source


@dataclass
class Contents:
    """The number of nodes in the main graph or a function, with its subgraphs: calls of functions, and all others."""

    title: str
    own_nodes: int = 0
    calls: Counter[FunctionId] = field(default_factory=Counter)


@dataclass
class Draft:
    """One model while it is read. Each step fills in fields that the next steps need.

    `proto` is the file without its large tensors, which are in `store`. External files must lie in `folder`. The check
    of the form fills `contents` and `functions`. `model` is set when the graph is built."""

    source: Source
    store: TensorStore = field(default_factory=TensorStore)
    folder: DataFolder = field(default_factory=DataFolder)
    proto: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    contents: Contents = field(default_factory=lambda: Contents("the graph"))
    functions: dict[FunctionId, Contents] = field(default_factory=dict)
    unheld_types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    """The types of inputs and outputs that onnx-ir cannot hold."""
    with_data: bool = True
    """Whether the data in external files is needed."""
    faithful: bool = False
    """Whether the model is to be written as ONNX again, so that nothing that its file says may be lost."""
    interface: Interface = field(default_factory=Interface)
    """If the draft is faithful: what the file says of the inputs and outputs."""
    model: ir.Model | None = None
