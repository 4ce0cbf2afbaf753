"""Remove Identity nodes, except where only a node can connect two ends.

1. y = Identity(w), w an initialiser of the file  ->  a separate initialiser y with the same tensor object
2. y = Identity(x) otherwise                      ->  x instead of y; if y is a graph output, x takes its name

Rule 1 is there because PyTorch's exporter stores weights of equal value once and keeps their names by an Identity
(`layer.1.bias = Identity(layer.0.bias)`). They are distinct parameters, so both names must stay. It does not apply if
the newer exporter says which modules the node is in: then the model itself copies a parameter (`weight.clone()`).

An Identity stays if it connects a graph input, an initialiser or another output to a graph output, or a value of an
outer graph to the output of a subgraph. A value can have only one name and one owner.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.stages import step


@step(
    "identities",
    after={
        "gradients": "a Gradient may name the output of an Identity",
        "constant-nodes": "the copy of a weight is told from that of a constant, which is marked",
    },
    optional=False,
)
def run(model: ir.Model) -> int:
    """Remove Identity nodes; return how many."""
    return sweep(model, {"Identity": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    (source,), (output,) = node.inputs, node.outputs
    assert source is not None
    tensor = constant(source)
    separate = tensor is not None and source.graph is edit.graph and not origin_of(source).is_constant
    separate = separate and NAME_SCOPES not in node.metadata_props
    if separate and tensor is not None and not edit.is_output(output):
        name, output.name = output.name, None
        if name is None:
            return
        copy = weight_initialiser(edit.graph, name, tensor, "it is a copy of another, by an Identity")
        edit.redirect(output, copy)
        edit.drop(node)
        edit.changes += 1
    else:
        edit.bypass(node, source)
