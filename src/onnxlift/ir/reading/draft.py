"""A model on its way from a file to a graph: what reading, checking and building work on."""

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
"""All that a model may be given as."""


@dataclass
class Contents:
    """What the main graph or a function holds, its subgraphs included: nodes of its own, and calls of functions."""

    title: str
    own_nodes: int = 0
    calls: Counter[FunctionId] = field(default_factory=Counter)


@dataclass
class Draft:
    """One model while it is read. Each step fills in what the next ones need.

    `proto` is the file without its large tensors, which are in the `store`; external files must lie in `folder`.
    `contents` and `functions` are counted while the form is checked. `model` is there when the graph is built."""

    source: Source
    store: TensorStore = field(default_factory=TensorStore)
    folder: DataFolder = field(default_factory=DataFolder)
    proto: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    contents: Contents = field(default_factory=lambda: Contents("the graph"))
    functions: dict[FunctionId, Contents] = field(default_factory=dict)
    unheld_types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    """The types of inputs and outputs that onnx-ir cannot hold."""
    model: ir.Model | None = None
