"""Give each module its own parameter again, if an exporter stored one for several modules because the numbers are
equal.

    LayerNormalization(x, norm1.weight, norm1.bias) in norm2 ->  LayerNormalization(x, norm2.weight, norm2.bias)
    MatMul(x, val_0) in layers.1.query                       ->  MatMul(x, val_7), computed from layers.1.query.weight

PyTorch's newer exporter stores equal initialisers once. Equal are the ones and zeros of untrained norms and biases, and
all parameters of layers that are copies of one, as in nn.TransformerEncoder. Lifted as it is, norm1 would be called
twice and norm2 be missing, or be tied to norm1 for ever.

It applies to a parameter of the main graph, and to a constant that was computed from one (the second rule). It applies
for each node that says it reads another parameter (origin/exported.py), unless the file has this parameter too. A
weight that is tied in the model stays one: it is one parameter there, with one name. Sound because no number changes.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Names, initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.origin.exported import Program, read_program
from onnxlift.ir.origin.tensors import folded_from, mark_copied
from onnxlift.stages import step


@step(
    "merged-parameters",
    after={"merged-computations": "the layers that compute for themselves again need parameters of their own"},
)
def run(model: ir.Model) -> int:
    """Give modules their parameters back; return how many."""
    program = read_program(model.graph)
    if program is None:
        return 0
    names, made = Names(model), 0
    for value in list(model.graph.initializers.values()):
        tensor = constant(value)
        if tensor is None:
            continue  # an input with a default: a caller can pass another tensor
        stored = stored_names(value, program)
        owners: dict[tuple[str, ...], list[tuple[ir.Node, int]]] = {}
        for node, place in value.uses() if stored else ():
            if node.graph is model.graph:
                owners.setdefault(program.own_names(node, value.name or "", stored), []).append((node, place))
        is_named = value.name in program.names
        for own, readers in owners.items():
            if own != stored and not any(name in model.graph.initializers for name in own):
                name = own[0] if is_named else names.like(value.name or "val")
                copy = initialiser(model.graph, name, tensor)
                copy.meta.update(value.meta)
                renamed = dict(zip(stored, own, strict=True))
                sources = None if is_named else [renamed.get(each, each) for each in folded_from(value)]
                mark_copied(copy, value, "the exporter stored one for all with the same numbers", sources=sources)
                made += 1
                for node, place in readers:
                    node.replace_input_with(place, copy)
    return made


def stored_names(value: ir.Value, program: Program) -> tuple[str, ...]:
    """Return the parameters whose numbers an initialiser has: itself, or those that it was computed from."""
    if value.name in program.names:
        return (value.name,)
    return tuple(name for name in folded_from(value) if name in program.names)
