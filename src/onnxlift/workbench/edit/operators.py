"""What is known of an operator where a node is to stand: its inputs and attributes, by its schema or a function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

import onnx
import onnx.defs

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.checking.form import NEWEST_OPSET
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.ir.graph.schema import schema_for

from ..values import suggestion
from .bodies import Body
from .edited import EditedModel

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_TEXT = re.compile(r"(?:(?P<domain>[^:]*)::)?(?P<name>[^:]+)(?::(?P<overload>[^:]*))?")


@dataclass(frozen=True)
class Operator:
    """An operator in force in some body. `schema` or `function` says what it takes; neither if it is a stranger's."""

    domain: str
    name: str
    overload: str = ""
    schema: onnx.defs.OpSchema | None = None
    function: onnx.FunctionProto | None = None
    opset: int = 1

    @property
    def title(self) -> str:
        return f"{self.domain}::{self.name}" if self.domain else self.name

    @property
    def is_known(self) -> bool:
        return self.schema is not None or self.function is not None

    @property
    def inputs(self) -> list[str]:
        """The names of its inputs in its definition."""
        if self.function is not None:
            return list(self.function.input)
        return [] if self.schema is None else [each.name for each in self.schema.inputs]

    @property
    def is_variadic(self) -> bool:
        return self.schema is not None and bool(self.schema.inputs) and self.schema.inputs[-1].option == _VARIADIC

    @property
    def attributes(self) -> list[str]:
        """The names of its attributes in its definition."""
        if self.function is not None:
            return [*self.function.attribute, *(each.name for each in self.function.attribute_proto)]
        return [] if self.schema is None else sorted(self.schema.attributes)

    @property
    def outputs(self) -> int:
        """How many outputs a new node has: those that are not optional."""
        if self.function is not None:
            return len(self.function.output)
        return 1 if self.schema is None else max(1, self.schema.min_output)

    def slot(self, name: str) -> int | None:
        """Return the position of an input by its name."""
        return self.inputs.index(name) if name in self.inputs else None

    def check_count(self, count: int) -> None:
        """Refuse more inputs than the operator takes."""
        if self.is_known and not self.is_variadic and count > len(self.inputs):
            takes = ", ".join(self.inputs) or "none"
            raise OnnxLiftError(f"{self.title} takes {len(self.inputs)} inputs ({takes}), not {count}.")

    def check_attribute(self, name: str) -> None:
        """Refuse an attribute that the operator does not have."""
        if self.is_known and name not in self.attributes:
            near = get_close_matches(name, [*self.attributes, *self.inputs], 2)
            meant = f"; did you mean {' or '.join(map(quote, near))}?" if near else _has(self.attributes)
            raise OnnxLiftError(f"{self.title} of opset {self.opset} has no attribute {quote(name)}{meant}")


def _has(names: list[str]) -> str:
    return f"; it has {', '.join(names)}." if names else "; it has none."


def find_operator(model: EditedModel, body: Body, text: str) -> Operator:
    """Return the operator that is meant in a body: `Clip`, or `com.microsoft::Gelu` of another domain."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise OnnxLiftError(f"{quote(text)} is no operator, such as Clip or com.microsoft::Gelu.")
    domain, name = plain_domain(match["domain"] or ""), match["name"]
    return _known(model, body, domain, name, match["overload"] or "", must_exist=True)


def operator_of(model: EditedModel, body: Body, node: onnx.NodeProto) -> Operator:
    """Return the operator of a node that is there."""
    return _known(model, body, plain_domain(node.domain), node.op_type, node.overload, must_exist=False)


def _known(model: EditedModel, body: Body, domain: str, name: str, overload: str, *, must_exist: bool) -> Operator:
    for function in model.proto.functions:
        if (plain_domain(function.domain), function.name, function.overload) == (domain, name, overload):
            return Operator(domain, name, overload, function=function)
    opset = body.opsets.get(domain) or _newest(model, domain)
    schema = schema_for(domain, name, opset)
    if schema is None and must_exist and domain in NEWEST_OPSET:
        raise OnnxLiftError(_missing(domain, name, opset))
    return Operator(domain, name, overload, schema, opset=opset)


def _missing(domain: str, name: str, opset: int) -> str:
    newer = schema_for(domain, name, NEWEST_OPSET[domain])
    if newer is not None and newer.since_version > opset:
        return (
            f"opset {opset} of the model has no {name}, which came with opset {newer.since_version}: bring the model "
            f"there first (set_opset, or `onnxlift opset {newer.since_version}`)."
        )
    known = sorted({each.name for each in onnx.defs.get_all_schemas() if plain_domain(each.domain) == domain})
    where = "" if not domain else f" in the domain {domain}"
    return f"there is no operator {quote(name)}{where}{suggestion(name, known)}."


def _newest(model: EditedModel, domain: str) -> int:
    """Return the version to import of a domain that the model does not import yet: the newest for its IR version."""
    fitting = [
        version
        for (each, version), ir_version in onnx.helper.OP_SET_ID_VERSION_MAP.items()
        if plain_domain(each) == domain and ir_version <= model.proto.ir_version
    ]
    return max(fitting, default=1)


def import_domain(model: EditedModel, body: Body, operator: Operator) -> None:
    """Let the body's model or function import the opset of an operator, if it does not yet."""
    root = body.root.proto
    holders: list[onnx.ModelProto | onnx.FunctionProto] = [
        model.proto,
        *([root] if isinstance(root, onnx.FunctionProto) else []),
    ]
    for holder in holders:
        if all(plain_domain(entry.domain) != operator.domain for entry in holder.opset_import):
            holder.opset_import.add(domain=operator.domain, version=operator.opset)
