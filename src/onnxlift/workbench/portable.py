"""Write operators that ONNX does not define in terms of those that it does: the part of `simplify` behind --portable.

    com.microsoft::BiasGelu(x, b)   ->   Gelu(Add(x, b)) at opset 20, its body in Div, Erf, Add and Mul before that

A node is foreign if ONNX has no schema for it. Normal form replaces it by its body (rewriting/bodies/), which is
written for one opset; the nodes of the body are then brought to the opset of the model, like those of a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import regions
from onnxlift.rewriting.normal_form.expansion import Operators
from onnxlift.rewriting.standard.attention import wide_mask

from .opset.convert import align_versions
from .opset.errors import OpsetError

_MOST_SHOWN = 30
_BLOCKED = "com.microsoft.nchwc"


@dataclass(frozen=True)
class ForeignNode:
    """A node that cannot be written in standard ONNX, with the reason."""

    name: str
    op_type: str
    domain: str
    reason: str

    @property
    def title(self) -> str:
        title = f"{self.domain}::{self.op_type}" if self.domain else self.op_type
        return title if title.isprintable() else quote(title)


class PortableError(OnnxLiftError):
    """Some nodes cannot be written in standard ONNX. `nodes` lists every one of them, not only the first."""

    def __init__(self, model_name: str, nodes: Sequence[ForeignNode], hint: str = "") -> None:
        self.model_name = model_name
        self.nodes = tuple(nodes)
        groups: dict[tuple[str, str], list[ForeignNode]] = {}
        for node in self.nodes:
            groups.setdefault((node.title, node.reason), []).append(node)
        count = f"{len(self.nodes)} node{'s' if len(self.nodes) != 1 else ''} cannot go"
        lines = [f"cannot write {model_name} in standard ONNX: {count}", ""]
        for (title, reason), members in list(groups.items())[:_MOST_SHOWN]:
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            lines.append(f"  {title} {quote(members[0].name)}{more}: {reason}.")
        if len(groups) > _MOST_SHOWN:
            lines.append(f"  ... and {len(groups) - _MOST_SHOWN} other kinds")
        super().__init__("\n".join([*lines, "", hint] if hint else lines))


def defined_by_onnx(model: ir.Model) -> Operators:
    """Return a function that tells whether ONNX defines an operator, given by domain and op type."""
    opsets = dict(model.opset_imports)

    def is_defined(domain: str, op_type: str) -> bool:
        return schema_for(domain, op_type, opsets.get(domain, 1)) is not None

    return is_defined


def settle_bodies(model: ir.Model, name: str) -> None:
    """Bring the nodes of bodies to the opsets of the model, in place.

    Raises PortableError with every node that is still foreign, and every one whose body needs another opset."""
    stuck: list[ForeignNode] = []
    hint = ""
    try:
        align_versions(model, name=name)
    except OpsetError as error:
        stuck = [ForeignNode(node.name, node.op_type, node.domain, node.reason) for node in error.nodes]
        would_do = error.would_do.get("")
        if would_do is not None:
            hint = f"Some of them need a newer opset: run onnxlift opset {would_do} {name} -o OUT first."
    foreign = [
        ForeignNode(node.name or "", node.op_type, node.domain, _reason(node))
        for region in regions(model)
        for node in region.graph
        if schema_for(node.domain, node.op_type, region.opset(node)) is None
    ]
    if foreign or stuck:
        raise PortableError(name, [*foreign, *stuck], hint)
    sweep(model, {"Attention": _widen_mask})


def _widen_mask(edit: Edit, node: ir.Node) -> None:
    q, mask = node.inputs[0], (*node.inputs, None, None)[3]
    if q is not None and mask is not None:
        node.replace_input_with(3, wide_mask(edit, node, q, mask))


def _reason(node: ir.Node) -> str:
    if node.domain == _BLOCKED:
        return (
            "it was written for the processor of one machine; let ONNX Runtime optimise with ORT_ENABLE_EXTENDED "
            "instead of ORT_ENABLE_ALL"
        )
    return str(node.meta.get("reason") or "no standard operators are known that compute it")
