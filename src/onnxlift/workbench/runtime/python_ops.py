"""Run a model with operators that are written in Python. Called in the child process only.

A Python file of custom operators holds classes as onnx's reference evaluator takes them:

    class Double(OpRun):
        op_domain = "com.acme"

        def _run(self, x, factor=2):
            return (x * factor,)

ONNX Runtime cannot call these. So the main graph is cut into pieces: nodes whose operators are written in Python, also
inside their subgraphs or functions, are run by onnx's evaluator, one by one, and all that lies between them by ONNX
Runtime. The types of what enters a piece are those of the values that have been computed.

Operators that the package onnxruntime_extensions registers (`@onnx_op`) are called by ONNX Runtime itself.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import FunctionProto, NodeProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from onnxlift.verification.children.child import loading
from onnxlift.verification.pruning import reads, subgraphs
from onnxlift.verification.session_values import run_session

from .options import session_options
from .settings import CPU

Operator = tuple[str, str]


def execute_files(paths: Sequence[str]) -> list[type[OpRun]]:
    """Execute Python files that the user has named, and return the operators that they define."""
    found: list[type[OpRun]] = []
    for path in map(Path, paths):
        module = types.ModuleType(path.stem)
        module.__file__ = str(path)
        sys.modules[module.__name__] = module
        with loading():
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
        found += [
            each
            for each in module.__dict__.values()
            if isinstance(each, type) and issubclass(each, OpRun) and each.__module__ == module.__name__
        ]
    return found


def extension_library() -> str:
    """Return the library of onnxruntime_extensions, if a file has imported it; else an empty text."""
    module = sys.modules.get("onnxruntime_extensions")
    return "" if module is None else str(module.get_library_path())


@dataclass(frozen=True)
class _Piece:
    """Nodes that follow each other in the graph, the values that they read from outside, and those that others need."""

    nodes: list[NodeProto]
    in_python: bool
    reads: list[str]
    gives: list[str]


class PythonSession:
    """A model whose custom operators are written in Python."""

    def __init__(
        self, model: onnx.ModelProto, outputs: Sequence[str], operators: Sequence[type[OpRun]], task: Mapping[str, Any]
    ) -> None:
        self.model = model
        self.folder: str = task["folder"]
        self.outputs = list(outputs)
        self.operators = operators
        self.options = session_options(task)
        self.sessions: dict[int, Any] = {}
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.pieces = self._cut()

    @property
    def nodes_in_python(self) -> int:
        """How many nodes onnx's evaluator runs."""
        return sum(len(piece.nodes) for piece in self.pieces if piece.in_python)

    def feed(self, inputs: Mapping[str, Any]) -> Any:
        return dict(inputs)

    def results(self, values: Any) -> dict[str, Any]:
        return {name: values[name] for name in self.outputs}

    def call(self, feed: Any) -> Any:
        values = dict(feed)
        for number, piece in enumerate(self.pieces):
            feeds = {name: values[name] for name in piece.reads}
            if number not in self.sessions:
                self.sessions[number] = self._open(piece, feeds)
            session = self.sessions[number]
            if piece.in_python:
                found = dict(zip(piece.gives, session.run(None, feeds), strict=True))
            else:
                found = run_session(session, {}, feeds, piece.gives)
            values.update(found)
        return values

    def _cut(self) -> list[_Piece]:
        mine = {(each.op_domain, each.__name__) for each in self.operators}
        written = _written_in_python(self.model, mine)
        runs: list[tuple[bool, list[NodeProto]]] = []
        for node in self.model.graph.node:
            in_python = _uses(node, written)
            if in_python or not runs or runs[-1][0]:
                runs.append((in_python, []))
            runs[-1][1].append(node)
        known = self._known()
        needed = set(self.outputs)
        pieces: list[_Piece] = []
        for in_python, nodes in reversed(runs):
            made = {value for node in nodes for value in node.output if value}
            gives = [value for node in nodes for value in node.output if value in needed]
            read = {name: None for node in nodes for name in reads(node) if name}
            outside = [name for name in read if name in known and name not in made and name not in self.tensors]
            needed.update(outside)
            if gives:
                pieces.append(_Piece(nodes, in_python, outside, gives))
        return pieces[::-1]

    def _known(self) -> set[str]:
        """Return the values of the main graph that are inputs, or that nodes compute."""
        graph = self.model.graph
        return {value.name for value in graph.input} | {value for node in graph.node for value in node.output}

    def _open(self, piece: _Piece, feeds: Mapping[str, Any]) -> Any:
        """Return what runs a piece: it is made of the values that it is given first."""
        names = {name for node in piece.nodes for name in reads(node)}
        graph = helper.make_graph(
            piece.nodes,
            self.model.graph.name or "piece",
            [helper.make_value_info(name, _type_of(value)) for name, value in feeds.items()],
            [onnx.ValueInfoProto(name=name) for name in piece.gives],
            [tensor for name, tensor in self.tensors.items() if name in names],
        )
        model = helper.make_model(graph, functions=list(self.model.functions), ir_version=self.model.ir_version)
        del model.opset_import[:]
        model.opset_import.extend(self.model.opset_import)
        if piece.in_python:
            onnx.load_external_data_for_model(model, self.folder)
            return ReferenceEvaluator(model, new_ops=list(self.operators))
        return onnxruntime.InferenceSession(model.SerializeToString(), self.options, [CPU])


def _written_in_python(model: onnx.ModelProto, operators: set[Operator]) -> set[Operator]:
    """Return these operators, and the functions of the model that call them."""
    functions: dict[Operator, FunctionProto] = {(each.domain, each.name): each for each in model.functions}
    found = set(operators)
    while more := {
        key
        for key, function in functions.items()
        if key not in found and any(_uses(node, found) for node in function.node)
    }:
        found |= more
    return found


def _uses(node: NodeProto, operators: set[Operator]) -> bool:
    """Tell whether a node, or one in its subgraphs, is one of these operators."""
    return any((each.domain, each.op_type) in operators for each in _with_inner(node))


def _with_inner(node: NodeProto) -> Iterator[NodeProto]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [inner for graph in subgraphs(each) for inner in graph.node]


def _type_of(value: Any) -> TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]) if value else _type_of(np.zeros(0, np.float32)))
    array = np.asarray(value)
    element = onnx.TensorProto.STRING if array.dtype.kind in "OUST" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(element, [None] * array.ndim)
