"""The path of a model, from bytes to source: load, passes, idioms, tree, emit."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import onnx_ir as ir

from .emit.dump import GraphDump
from .emit.file import write_source
from .emit.lower import Lowering
from .emit.weights import MAX_SHARD_SIZE
from .errors import UnsupportedError
from .ir.load import load
from .lifted import Lifted
from .tree.build import build_tree
from .tree.families import find_families
from .tree.names import identifier
from .tree.scopes import find_scopes


def run(
    source: Any,
    *,
    name: str | None,
    simplify: bool,
    skip_passes: Collection[str],
    max_shard_size: int = MAX_SHARD_SIZE,
) -> Lifted:
    model = load(source)
    name = identifier(name or name_of(source, model), "model")
    node_count = sum(1 for _ in model.graph.all_nodes())
    from .passes import normalise
    from .passes import simplify as run_simplify

    dump = GraphDump()
    normalise(model, dump)
    fired = run_simplify(model, skip_passes, dump) if simplify else {}
    scopes = find_scopes(model.graph)
    find_families(model.graph, scopes)
    root = build_tree(model.graph, scopes)
    lowering = Lowering(model, scopes)
    module = lowering.lower(root)
    if lowering.failures:
        raise UnsupportedError(f"{name}.onnx", lowering.failures, node_count)
    written = write_source(model, module, name, node_count, max_shard_size=max_shard_size)
    return Lifted(
        name, written, module, model, fired, node_count=node_count, dump=dump, max_shard_size=max_shard_size
    )


def name_of(source: Any, model: ir.Model) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).stem
    return model.graph.name or "model"
