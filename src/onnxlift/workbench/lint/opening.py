"""Open a model for `lint`: as the file has it, and as a graph with types. What the gate refuses becomes findings."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import onnx

from onnxlift.errors import Finding, InvalidModelError
from onnxlift.ir.checking.gate import check_types
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.stages import BUILDING, CHECKING, READING
from onnxlift.rewriting.normal_form import constant_nodes
from onnxlift.rewriting.stages import NORMAL_FORM
from onnxlift.stages import Record
from onnxlift.workbench.runtimes import Runtime

from .subject import File, Graph


@dataclass(frozen=True)
class Opened:
    """A model, as far as it could be opened. `refused` is what the gate has found.

    There is no file if its form is broken, and no graph if a node is."""

    refused: tuple[Finding, ...] = ()
    file: File | None = None
    graph: Graph | None = None


def held(source: Any) -> Any:
    """Return a source that can be read twice: the bytes of an open file, any other as it is."""
    return source.read() if hasattr(source, "read") and not isinstance(source, io.TextIOBase) else source


def open_for_lint(source: Any, record: Record, runtime: Runtime | None = None) -> Opened:
    """Open a model. Raises LoadError only if it cannot be read at all."""
    draft = Draft(source, faithful=True)
    try:
        record.run(READING, draft)
        record.run(CHECKING, draft)
    except InvalidModelError as error:
        return Opened(error.findings)
    proto = onnx.ModelProto()
    proto.CopyFrom(draft.proto)  # the next stage brings it into one spelling
    file = File(proto, runtime)
    try:
        record.run(BUILDING, draft)
        assert draft.model is not None
        constant_nodes.run(draft.model)
        check_types(draft.model, infer(draft.model))
        if draft.model.functions:
            _check_calls(source)
    except InvalidModelError as error:
        return Opened(error.findings, file)
    return Opened((), file, Graph(draft.model, file))


def _check_calls(source: Any) -> None:
    """Check functions as they are called: some rules can only tell with the types and attributes of a call."""
    Record().run(NORMAL_FORM, load(source))
