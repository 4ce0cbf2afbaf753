"""Infer one node at a time, while a graph grows.

What a node says of sizes for the nodes before it is not taken into account: there is no second sweep, as `infer` does
over a whole graph. So a size may get a generated name here and a formula there, but never another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.walk import inner_nodes

from .infer import REVISITS, Inference


class Stepwise(Inference):
    """Inference of nodes that are in no model yet."""

    def __init__(self, fresh: Callable[[], str], functions: Iterable[ir.Function] = ()) -> None:
        """`fresh` returns names for sizes of which nothing is known. `functions` are those that nodes may call."""
        graph = ir.Graph([], [], nodes=[], name="nodes on their own")
        super().__init__(ir.Model(graph, ir_version=onnx.IR_VERSION, functions=list(functions)))
        self._fresh = fresh
        self._runs = True

    def fresh(self) -> str:
        return self._fresh()

    def always_runs(self, node: ir.Node) -> bool:
        return self._runs and node.graph is None

    def infer(self, node: ir.Node, opsets: Mapping[str, int], *, always_runs: bool = True) -> str | None:
        """Set types and shapes of the outputs of `node`, and of all in its subgraphs, from those of its inputs.

        Return why ONNX's own inference refuses the node; None if it does not, or cannot be asked about all of it."""
        self._runs = always_runs
        self.visits = REVISITS + sum(1 for _ in inner_nodes(node))
        self.visit(node, opsets, {})
        refusal = self.refusals.pop(node, None)
        # ONNX is asked without the attributes that the caller of a function gives.
        return None if any(each.is_ref() for each in node.attributes.values()) else refusal
