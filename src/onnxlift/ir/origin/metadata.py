"""The keys of the metadata that PyTorch's newer exporter and its optimiser write beside a graph.

The metadata is text that anybody may have written, and must be checked before use.
"""

from __future__ import annotations

import ast
from functools import lru_cache

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The paths of the modules around a node, from the outermost to the innermost, and last the operation itself."""
CLASSES = "pkg.torch.onnx.class_hierarchy"
"""The classes of the modules in NAME_SCOPES, and last the operation itself."""
FX_NODE = "pkg.torch.onnx.fx_node"
"""The operation of PyTorch that a node is a part of, with its arguments."""
NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
SIGNATURE_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
"""The kind of an initialiser: "PARAMETER" or "BUFFER"."""
PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"
"""Says whether a buffer was in the state dict: "True" or "False"; "None" for parameters."""
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
"""The list of all parameters and buffers of the original, in its own order, with their names in operations."""
FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
"""The names of the initialisers and intermediate values from which the optimiser computed an initialiser."""

LONGEST_LIST = 20_000


def string_list(text: str | None) -> list[str] | None:
    """Return a list of strings that the exporter wrote with `repr`; None for any other text."""
    if not text or len(text) > LONGEST_LIST or not text.startswith("["):
        return None
    found = _parsed(text)
    return None if found is None else [*found]


@lru_cache(maxsize=4096)  # the nodes of one module have the same texts, and several steps read them
def _parsed(text: str) -> tuple[str, ...] | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return tuple(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else None
