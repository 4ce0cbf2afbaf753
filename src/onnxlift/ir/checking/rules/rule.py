"""The form of a rule, and the node as a rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import onnx
import onnx.defs
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.schema import default_attributes, schema_for
from onnxlift.ir.graph.walk import Region
from onnxlift.ir.inference.bounds import Bounds
from onnxlift.ir.inference.infer import is_invented_size
from onnxlift.ir.inference.node_view import NodeView


class Subject(NodeView):
    """A node that is checked, with its schema and the function of the model that it calls, if there are any."""

    def __init__(self, node: ir.Node, region: Region, function: ir.Function | None) -> None:
        super().__init__(node, region.opset(node), {}, lambda: "?", Bounds())
        self.region = region
        self.function = function

    @classmethod
    def of(cls, model: ir.Model, region: Region, node: ir.Node) -> Self:
        """Return a node of the model as rules see it."""
        return cls(node, region, model.functions.get(node.op_identifier()) if model.functions else None)

    @cached_property
    def schema(self) -> onnx.defs.OpSchema | None:
        """The schema that is in force for the node; None for a call of a function, and if ONNX has none."""
        return None if self.function is not None else schema_for(self.node.domain, self.node.op_type, self.opset)

    @property
    def always_runs(self) -> bool:
        """Whether the node runs whenever the model does. A node in a branch or a loop may never run."""
        return self.region.depth == 0

    def setting(self, name: str) -> Any:
        """Return an attribute as a plain value, or the schema's default; raises Unknown if a caller gives it."""
        return self.attribute(name, default_attributes(self.node.domain, self.node.op_type, self.opset).get(name))

    def place(self) -> str:
        """Return how a message calls the node."""
        node = self.node
        operator = node.op_type if node.op_type.isidentifier() and len(node.op_type) <= 200 else quote(node.op_type)
        function = self.region.function
        where = "" if function is None else f" of function {function_title(function.identifier())}"
        return f"node {quote(node.name or '')} ({operator}){where}"


Check = Callable[[Subject], Iterable[str]]


@dataclass(frozen=True)
class Rule:
    """A rule with its identifier and stable name. `check` yields a sentence for all in a node that breaks it.

    It holds for the given operators of ONNX's default domain, or for every node if there are none. `typed` rules need
    inferred types. What a rule says of sizes holds only where the node always runs. Several functions may check one
    rule, each for operators of its own: they give the same identifier and name."""

    identifier: str
    name: str
    check: Check
    operators: frozenset[str]
    typed: bool
    about_sizes: bool

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return " ".join((self.check.__doc__ or "").split()).partition(". ")[0].rstrip(".") + "."


def rule(
    identifier: str, name: str, *operators: str, typed: bool = False, about_sizes: bool = False
) -> Callable[[Check], Rule]:
    """Declare the decorated function a rule; see `Rule` for the arguments."""

    def declare(check: Check) -> Rule:
        return Rule(identifier, name, check, frozenset(operators), typed or about_sizes, about_sizes)

    return declare


def shape_text(shape: Iterable[object]) -> str:
    """Write a shape for a message: `(batch, 3, ?)`, with a question mark for a size without a name."""
    sizes = ["?" if size is None or is_invented_size(str(size)) else str(size) for size in shape]
    return f"({', '.join(sizes[:16])}{', ...' if len(sizes) > 16 else ''}{',' if len(sizes) == 1 else ''})"
