"""Turn a draft into a model: through the gate, with types that inference finds.

1. Outputs whose types may have changed are declared as inference finds them. Where it does not know a size, a name that
   the file gave it stays, unless it is the name of a size of an input: that would claim that both are equal.
2. All others are declared as the file says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import onnx
import onnx_ir as ir

from onnxlift.errors import Finding, InvalidModelError, LoadError, quote
from onnxlift.ir.checking.gate import check_types
from onnxlift.ir.graph.interface import INTERFACE, interface_of
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import Draft
from onnxlift.ir.stages import BUILDING, CHECKING
from onnxlift.rewriting.normal_form import constant_nodes
from onnxlift.rewriting.stages import NORMAL_FORM
from onnxlift.stages import Record

from ..declared_types import Declared
from ..values import has_type, known_type
from .edited import EditedModel

READABLE, OUTPUT_TYPE = "readable", "output-type"
"""Rules of a draft beside those of the gate: it can be read at all, and the types of its outputs are known."""


@dataclass(frozen=True)
class Built:
    """A model with types, if the draft is one as far as names go, and all that is wrong with it."""

    model: ir.Model | None
    problems: tuple[Finding, ...] = ()


def build(edited: EditedModel) -> Built:
    """Build the model of a draft, which is not changed, with the problems that can be told without normal form."""
    proto = onnx.ModelProto()
    proto.CopyFrom(edited.proto)
    draft = Draft(b"", store=edited.store, proto=proto, faithful=True)
    record = Record()
    try:
        record.run(CHECKING, draft)
        record.run(BUILDING, draft)
    except LoadError as error:
        if draft.model is not None and isinstance(error, InvalidModelError):
            return Built(draft.model, error.findings)  # a node breaks a rule: inference has looked at the others
        return Built(None, _findings(error))
    assert draft.model is not None
    model = draft.model
    refusals = infer(model)
    problems = list(_declare(model, edited.changed))
    try:
        check_types(model, refusals)
    except InvalidModelError as error:
        problems += error.findings
    return Built(model, tuple(problems))


def problems_of(built: Built) -> tuple[Finding, ...]:
    """Return all that keeps a built draft from being a valid model.

    Some rules look at constants, which must be initialisers for that, or at what a function is called with."""
    if built.model is None or built.problems:
        return built.problems
    nodes = (node for region in regions(built.model) for node in region.graph)
    try:
        if built.model.functions:
            Record().run(NORMAL_FORM, load(built.model))
        elif any(is_standard(node, "Constant") for node in nodes):
            model = load(built.model)
            constant_nodes.run(model)
            check_types(model, infer(model))
    except LoadError as error:
        return _findings(error)
    return ()


def _findings(error: LoadError) -> tuple[Finding, ...]:
    if isinstance(error, InvalidModelError):
        return error.findings
    return (Finding(READABLE, "the model", str(error)),)


def _declare(model: ir.Model, changed: Collection[str]) -> list[Finding]:
    """Declare the outputs that may have changed as inference finds them; return those whose types nobody knows."""
    interface = interface_of(model)
    types, problems = dict(interface.types), []
    symbols = {size for value in model.graph.inputs for size in shape_of(value) or () if isinstance(size, str)}
    for value in model.graph.outputs:
        name = value.name or ""
        declared = types.get(name, onnx.TypeProto())
        is_declared = declared.WhichOneof("value") is not None
        if has_type(value) and (name in changed or not is_declared):
            types[name] = _redeclared(value, declared, symbols)
        elif not is_declared:
            text = "nobody knows its type: say it with add_output(name, dtype=..., shape=...)."
            problems.append(Finding(OUTPUT_TYPE, f"output {quote(name)}", text))
    model.meta[INTERFACE] = replace(interface, types=types)
    return problems


def _redeclared(value: ir.Value, declared: onnx.TypeProto, symbols: Collection[str]) -> onnx.TypeProto:
    found = known_type(value)
    if not isinstance(value.type, ir.TensorType):
        new = onnx.TypeProto()
        assert value.type is not None
        ir.serde.serialize_type_into(new, value.type)
        return new
    shape = found.shape
    before = Declared(declared).shape
    if shape is not None and before is not None and len(before) == len(shape):
        names = [size if isinstance(size, str) and size not in symbols else None for size in before]
        shape = tuple(name if size is None else size for size, name in zip(shape, names, strict=True))
    return onnx.helper.make_tensor_type_proto(int(value.type.dtype), shape)
