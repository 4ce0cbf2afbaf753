"""What PyTorch called a constant: its key in the state dict, as far as the exporters tell.

1. The constant's own name, if that speaks of a module (`block.gamma`); or if it does not (`gamma`), but the exporter
   says that it was in the model: by its metadata, or since it names nodes after modules (`/Conv`) and other constants
   otherwise.
2. The one name in the note of what the newer exporter has computed a constant from, besides the sizes of inputs and the
   exporter's own steps. An operation of the model would be in the note as well, so the numbers are the parameter's, but
   perhaps lie otherwise: transposed, or with axes of size one.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.restoring.folded_names import only_source

IN_WEIGHT, IN_BIAS = "in_proj_weight", "in_proj_bias"


def parameter_name(value: ir.Value, node: ir.Node) -> str | None:
    """What a constant that `node` reads was called in a model from PyTorch; None if that is not known."""
    origin = origin_of(value)
    if origin.computed_from is not None:
        inputs = set() if node.graph is None else {v.name for v in node.graph.inputs}
        return only_source([source for source in origin.computed_from if source not in inputs])
    if origin.has_made_up_name:
        return None
    is_told = origin.is_told or (node.name or "").startswith("/")
    return value.name if is_told or "." in str(value.name) else None
