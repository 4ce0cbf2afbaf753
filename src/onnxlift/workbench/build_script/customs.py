"""Operators that ONNX does not have, as declarations: `mel_bank = build.custom("MelBank", ...)`."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.build.types import dtype_text
from onnxlift.errors import OnnxLiftError, quote
from onnxlift.lifting.code.identifiers import identifier, unique

from .literals import keywords, quoted

_KINDS = {
    ir.AttributeType.INT: "int",
    ir.AttributeType.FLOAT: "float",
    ir.AttributeType.STRING: "str",
    ir.AttributeType.TENSOR: "np.ndarray",
    ir.AttributeType.INTS: "list[int]",
    ir.AttributeType.FLOATS: "list[float]",
    ir.AttributeType.STRINGS: "list[str]",
}
_RESERVED = frozenset({"name", "outputs"})


@dataclass
class Custom:
    """An operator with all that its nodes show of it."""

    name: str
    domain: str
    op_type: str
    version: int
    inputs: int = 0
    given: set[int] = field(default_factory=set)
    """The inputs that each node has."""
    least: int = 0
    """So many outputs each node has."""
    outputs: dict[int, set[ir.DataType | None]] = field(default_factory=dict)
    attributes: dict[str, ir.AttributeType] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    nodes: int = 0


class Customs:
    """The operators that have to be declared."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._found: dict[tuple[str, str], Custom] = {}

    def note(self, node: ir.Node, version: int) -> None:
        """Note what a node shows of its operator."""
        key = (node.domain, node.op_type)
        if key not in self._found:
            name = unique(identifier(_snake(node.op_type), "operator"), self._taken)
            self._taken.add(name)
            self._found[key] = Custom(name, node.domain, node.op_type, version)
        custom = self._found[key]
        custom.nodes += 1
        given = [index for index, value in enumerate(node.inputs) if value is not None]
        custom.given = set(given) if custom.nodes == 1 else custom.given & set(given)
        custom.least = len(node.outputs) if custom.nodes == 1 else min(custom.least, len(node.outputs))
        custom.inputs = max(custom.inputs, len(node.inputs))
        for index, value in enumerate(node.outputs):
            custom.outputs.setdefault(index, set()).add(value.dtype if isinstance(value.type, ir.TensorType) else None)
        for name, attribute in node.attributes.items():
            _check(node, name, attribute)
            if custom.attributes.setdefault(name, attribute.type) is not attribute.type:
                raise OnnxLiftError(f"attribute {quote(name)} of {node.op_type} is of two kinds in this model.")
            custom.counts[name] = custom.counts.get(name, 0) + 1

    def declared(self, node: ir.Node) -> tuple[str, bool]:
        """Return the name of the operator in the script, and whether all its nodes have as many outputs."""
        custom = self._found[node.domain, node.op_type]
        return custom.name, len(custom.outputs) == custom.least

    def lines(self) -> list[str]:
        """Return the declarations."""
        return [_declaration(custom) for custom in self._found.values()]


def _declaration(custom: Custom) -> str:
    inputs = [f'"x{index}{"" if index in custom.given else "?"}": None' for index in range(custom.inputs)]
    outputs = [
        f'"y{index}{"" if index < custom.least else "?"}": {_type(types)}' for index, types in custom.outputs.items()
    ]
    attributes = [
        f"{quoted(name + ('' if custom.counts[name] == custom.nodes else '?'))}: {_KINDS[kind]}"
        for name, kind in custom.attributes.items()
    ]
    named = [("domain", quoted(custom.domain))]
    named += [("version", str(custom.version))] if custom.version != 1 else []
    named += [("inputs", f"{{{', '.join(inputs)}}}"), ("outputs", f"{{{', '.join(outputs)}}}")]
    named += [("attributes", f"{{{', '.join(attributes)}}}")] if attributes else []
    return f"{custom.name} = build.custom({', '.join([quoted(custom.op_type), *keywords(named)])})"


def _type(found: set[ir.DataType | None]) -> str:
    only = next(iter(found))
    return quoted(dtype_text(only)) if len(found) == 1 and only is not None else "None"


def _check(node: ir.Node, name: str, attribute: ir.Attr) -> None:
    if attribute.type not in _KINDS or name in _RESERVED:
        raise OnnxLiftError(
            f"node {quote(node.name or '')} ({node.op_type}) has an attribute {quote(name)} of kind "
            f"{attribute.type.name}, which the builder has no way to declare."
        )


def _snake(name: str) -> str:
    from onnxlift.build.nodes import snake

    return snake(name)
