"""A model on its way from a file to a graph. The steps of reading, checking and building work on it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import BinaryIO

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.functions import FunctionId

from .external import DataFolder
from .tensors import TensorStore

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | onnx.ModelProto | ir.Model
"""The forms in which a model may be given."""


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
    model: ir.Model | None = None
