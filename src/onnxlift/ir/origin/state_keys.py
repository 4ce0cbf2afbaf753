"""Which initialisers are called by their key in the state dict, be it one that an exporter might have counted as well.

    self.const = nn.Parameter(...), self.w1, self.node_embedding   ->   const, w1, node_embedding

1. PyTorch's newer exporter lists all parameters and buffers (`exported.py`). What its optimiser computes may have the
   name of one by chance, but then a note tells what it was computed from.
2. The older one calls what it has computed `onnx::MatMul_12`, or a mere number, and what stands in a node
   `/attn/Constant_output_0`. All other initialisers of such a file are in the state dict; but for those that look like
   a counter of one of the programs that may have had the file since, which keep the exporter's name in it.
"""

from __future__ import annotations

import re

import onnx_ir as ir

from onnxlift.ir.graph.marks import STATE_KEY

from .exported import state_names
from .metadata import FOLDED_FROM, NAME_SCOPES

LONGEST_KEY = 1000

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_COUNTER = re.compile(
    r"""_* (?: (?:val|v|tmp|tensor|node|initializer|const|constant)_?\d+ | const\w*_\d+ | [A-Z][a-z]\w*_\d+ | \d+
        | \w*_output_\d+ | \w*_token_\d+ | ortshared_\w* ) (?:_quantized|_scale|_zero_point)?""",
    re.VERBOSE,
)


def mark_keys(model: ir.Model) -> None:
    """Mark such initialisers of the main graph."""
    graph = model.graph
    listed = state_names(graph)
    is_older = (
        not listed
        and model.producer_name == "pytorch"
        and not any(NAME_SCOPES in node.metadata_props for node in graph)  # which the newer one writes, list or no list
    )
    for name, value in graph.initializers.items() if listed or is_older else ():
        if FOLDED_FROM not in value.metadata_props and (name in listed or (is_older and _is_key(name))):
            value.meta[STATE_KEY] = True


def _is_key(name: str) -> bool:
    """Whether a name is what the older exporter calls a parameter or buffer."""
    return len(name) <= LONGEST_KEY and bool(_KEY.fullmatch(name)) and not _COUNTER.fullmatch(name)
