"""Leave out shape arithmetic whose result is one of its own inputs.

    Where(Equal(s, -1), ones, s)   ->   s      if no element of s can be -1

PyTorch's exporter writes `x.expand(...)` so: -1 keeps a size, and the graph looks for it at run time.

In general, a node goes if inference knows all elements of its output, and one of its inputs has the same elements, type
and rank (`Mul(s, 1)`, `Max(s, 0)`, `Abs(s)`). The same value may also be found a few nodes before, among the sizes that
the node is computed from (`batch * seq // batch`). Sound because names are sizes, so they are not negative, and equal
names are equal sizes.

Equal values elsewhere in the model are not used: `x.shape[0]` read again from the local x is better code than a size
handed down from far away.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import elements_of
from onnxlift.stages import step

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_MAX_SOURCES = 16


@step("shape-values", after={"static-shapes": "what is known as numbers is not taken from elsewhere"}, repeats=True)
def run(model: ir.Model) -> int:
    """Remove shape arithmetic without effect; return how many nodes."""
    return sweep(model, _visit)


def _visit(edit: Edit, node: ir.Node) -> None:
    if len(node.outputs) != 1 or "dims" not in node.outputs[0].meta:
        return
    output = node.outputs[0]
    elements = elements_of(output)
    if elements is None or None in elements or not elements:
        return
    for source in _sources(edit, node):
        if source.dtype != output.dtype or source.shape is None or output.shape is None:
            continue
        if len(source.shape) == len(output.shape) and elements_of(source) == elements:
            edit.bypass(node, source)
            return


def _sources(edit: Edit, node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that the node reads, and then those that they were computed from by arithmetic on sizes, for a
    few nodes."""
    pending = [value for value in node.inputs if value is not None]
    for position in range(_MAX_SOURCES):
        if position >= len(pending):
            return
        yield pending[position]
        producer = pending[position].producer()
        if producer is not None and producer.graph is edit.graph and is_standard(producer, *_ARITHMETIC):
            pending += [value for value in producer.inputs if value is not None]
