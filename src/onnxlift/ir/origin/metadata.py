"""What PyTorch's newer exporter and its optimiser write beside a graph. All of it is a stranger's text."""

from __future__ import annotations

import ast

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The modules around a node, and last the operation itself."""
CLASSES = "pkg.torch.onnx.class_hierarchy"
"""The classes of these modules."""
FX_NODE = "pkg.torch.onnx.fx_node"
"""The operation of PyTorch that a node is a part of, with its arguments."""
NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
SIGNATURE_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""Whether an initialiser was a PARAMETER or a BUFFER."""
PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"
"""Whether a buffer was part of the state dict: "True" or "False"; "None" for parameters."""
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""All parameters and buffers of the model, in its own order, with the names that operations know them by."""
FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
"""The initialisers and intermediate values that the optimiser computed an initialiser from."""

LONGEST_LIST = 20_000


def string_list(text: str | None) -> list[str] | None:
    """A list of strings as the exporter writes it with `repr`; None for anything else."""
    if not text or len(text) > LONGEST_LIST or not text.startswith("["):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(v, str) for v in value) else None
