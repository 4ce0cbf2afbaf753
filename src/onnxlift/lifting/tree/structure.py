"""Tell where a tree of modules can come from, and whether the names in a file are a promise.

The names that PyTorch's exporters write are those of the original's modules and parameters. So the tree that they give
is the original's, however long its source. Its exporters of old, and optimisers, leave only the keys of weights. These
are kept in any structure. Other programs name nodes after what they have made of the model: a name may stand for an
operation, for a wrapper, or for all that was fused into one node. Then the tree is only a proposal, and is compared
with others (`lifting/structures.py`).
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

import onnx_ir as ir

from onnxlift.ir.graph.walk import regions
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.names import is_counted_weight
from onnxlift.ir.origin.tensors import origin_of

from .paths import owner_of_weight


class Structure(Enum):
    """What the modules of a source come from."""

    NAMES = "names"
    """Names of nodes and weights; repetition in a graph without names that say anything."""
    REPETITION = "repetition"
    """Runs of equal nodes, whatever the names say."""
    NONE = "none"
    """Nothing: all is in one class."""
    TRANSCRIPT = "transcript"
    """Nothing, without idioms: the graph in one class, node by node."""


Forced = Literal["names", "repetition", "flat"]
"""A structure that can be asked for: `flat` is the transcript."""


class Promise(Enum):
    """What the names in a graph are known to be."""

    MODULES = "modules"
    """The original's modules, with the code of each: PyTorch's exporters have written scopes (the newer one as
    metadata, the older one like the path of a file). Or weights have the names of keys in a state dict, which other
    programs leave in the file, and nodes have scopes."""
    KEYS = "keys"
    """Keys of a state dict, and nothing more: nodes have no scopes. Where the layers lie is known, and which code
    belongs to a module is not."""
    NOTHING = "nothing"


def promise_of(model: ir.Model) -> Promise:
    """Tell what the names in a graph are known to be."""
    graphs = [region.graph for region in regions(model)]
    if any(map(_has_torch_scopes, graphs)):
        return Promise.MODULES
    if not any(map(_has_keys, graphs)):
        return Promise.NOTHING
    return Promise.MODULES if any(map(_has_scopes, graphs)) else Promise.KEYS


def _has_torch_scopes(graph: ir.Graph) -> bool:
    return any((node.name or "").startswith("/") or NAME_SCOPES in node.metadata_props for node in graph)


def _has_scopes(graph: ir.Graph) -> bool:
    return any("/" in (node.name or "") for node in graph)


def _has_keys(graph: ir.Graph) -> bool:
    return any(
        owner_of_weight(value) is not None and not is_counted_weight(name) and not origin_of(value).is_constant
        for name, value in graph.initializers.items()
    )
