"""Find the key that a constant had in PyTorch's state dict, as far as the exporters tell.

1. It is the constant's own name, if that names a module (`block.gamma`). A name without a module (`gamma`) counts if
   the exporter says that it was in the model: by its metadata, or because it names nodes after modules (`/Conv`), and
   then gives other constants names of another form.
2. The newer exporter notes what it has computed a constant from. If the note has one name besides the sizes of inputs
   and the exporter's own steps, it is that name. An operation of the model would be in the note as well, so the numbers
   are the parameter's. But their layout may differ: transposed, or with axes of size 1.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.restoring.folded_names import only_source

IN_WEIGHT, IN_BIAS = "in_proj_weight", "in_proj_bias"


def parameter_name(value: ir.Value, node: ir.Node) -> str | None:
    """Return the name in PyTorch of a constant that `node` reads; None if it is unknown."""
    origin = origin_of(value)
    if origin.computed_from is not None:
        inputs = set() if node.graph is None else {v.name for v in node.graph.inputs}
        return only_source([source for source in origin.computed_from if source not in inputs])
    if origin.has_made_up_name:
        return None
    is_told = origin.is_told or (node.name or "").startswith("/")
    return value.name if is_told or "." in str(value.name) else None
