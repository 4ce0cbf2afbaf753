"""The path of a model, from bytes to source: load, passes, idioms, tree, emit."""

from __future__ import annotations

import difflib
import gc
import os
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.near_misses import noting
from onnxlift.ir.load import load
from onnxlift.lifting.code.identifiers import file_stem
from onnxlift.lifting.modules.lower import Lowering
from onnxlift.lifting.modules.members.member_order import registration_order
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops import registry
from onnxlift.lifting.ops.layer_nodes import function_weights
from onnxlift.lifting.text.dump import GraphDump
from onnxlift.lifting.text.file import write_source
from onnxlift.lifting.text.source_map import readers_of
from onnxlift.lifting.text.weights import MAX_SHARD_SIZE
from onnxlift.lifting.tree.build import build_tree
from onnxlift.lifting.tree.families import find_families
from onnxlift.lifting.tree.local_activations import activate_locally
from onnxlift.lifting.tree.local_positions import count_locally
from onnxlift.lifting.tree.paths import (
    ModulePaths,
    find_inner_paths,
    find_paths,
    no_paths,
)
from onnxlift.lifting.tree.repetition import find_repetition
from onnxlift.lifting.tree.roles import name_projections
from onnxlift.rewriting.history import History
from onnxlift.rewriting.stages import IDIOMS, NORMAL_FORM, RESTORING, SIMPLIFYING, STAGES
from onnxlift.stages import Record, both

from .errors import OnnxLiftError, UnsupportedError
from .lifted import Lifted


def run(
    source: Any,
    *,
    name: str | None,
    simplify: bool,
    skip_passes: Collection[str],
    flat: bool = False,
    max_shard_size: int = MAX_SHARD_SIZE,
    explain: bool = False,
) -> Lifted:
    """The model in `source`, lifted; or only transcribed node by node into one class, if it is to be `flat`."""
    _check_names(skip_passes)
    with _collector_paused(), ExitStack() as stack:
        dump = GraphDump()
        record = Record(skip_passes, dump)
        model = load(source, record)
        name = file_stem(name or name_of(source, model))
        operators = Counter(node.op_type for node in model.graph.all_nodes())
        control_flow = [op for op in ("If", "Loop", "Scan") if op in operators]
        readers = readers_of(model)
        registered = registration_order(model.graph)
        history = History(readers) if explain else None
        if history is not None:
            history("reading", model)
            record.observer = both(dump, history)
            history.near_misses = stack.enter_context(noting(lambda: record.at[1]))
        record.run(NORMAL_FORM, model, supported=registry.is_supported, keep=registry.is_users)
        record.run(RESTORING, model)
        if simplify:
            record.run(SIMPLIFYING, model)
        if not flat:
            record.run(IDIOMS, model, function_weights=function_weights)
        paths = no_paths(model.graph) if flat else _structure(model.graph)
        lowering, root = _lower(model, paths)
        if lowering.failures:
            raise UnsupportedError(f"{name}.onnx", lowering.failures, operators.total())
        written = write_source(model, root, name, operators.total(), control_flow, max_shard_size, registered)
        return Lifted(
            name,
            written,
            root,
            model,
            record,
            node_count=operators.total(),
            readers=readers,
            warnings=tuple(lowering.warnings),
            dump=dump,
            max_shard_size=max_shard_size,
            history=history,
        )


def _structure(graph: ir.Graph) -> ModulePaths:
    """Find the module that each node belongs to, and change the graph where modules compute the same."""
    paths = find_paths(graph)
    find_families(graph, paths)
    find_repetition(graph, paths)
    if not paths.guessed:
        name_projections(graph, paths)
        find_inner_paths(graph, paths)
    count_locally(graph, paths)
    activate_locally(graph, paths)
    return paths


def _lower(model: ir.Model, paths: ModulePaths) -> tuple[Lowering, Module]:
    """Return the lowered model. Modules whose calls turn out to differ are not divided into calls the next time.

    Only their code tells whether calls are the same: equal nodes may be written otherwise, and other nodes alike. If
    calls are not told apart, their nodes are divided anew among all modules around them, whose borders change with
    that; so the whole model is lowered again. That is rare, and happens `MOST_ATTEMPTS` times at most."""
    for attempt in range(MOST_ATTEMPTS + 1):
        lowering = Lowering(model, paths)
        root = lowering.lower(build_tree(model.graph, paths))
        if not lowering.differing:
            break
        paths.undivided |= lowering.differing if attempt + 1 < MOST_ATTEMPTS else set(paths.population)
    return lowering, root


MOST_ATTEMPTS = 4
MANY_OBJECTS = 200_000
_hidden = False
"""Whether objects of a large model may be gone without the collector knowing that there is something to collect."""


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's cycle collector walks all live objects again and again while a graph grows, and finds nothing.

    The many new objects of a large model are taken for old ones afterwards, so that the collector does not begin with
    all of them. It does not count these, and would hardly ever look at them again: so we make it, at the next model."""
    global _hidden
    enabled = gc.isenabled()
    if enabled and _hidden:
        gc.collect()
        _hidden = False
    gc.disable()
    try:
        yield
    finally:
        # If somebody keeps objects frozen, unfreezing would not spare them.
        if gc.get_count()[0] > MANY_OBJECTS and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
            _hidden = True
        if enabled:
            gc.enable()


def _check_names(skip_passes: Collection[str]) -> None:
    """Refuse to skip what does not exist or always runs, and say what may have been meant."""
    steps = [step for stage in STAGES for step in stage.steps]
    optional = sorted({step.name for step in steps if step.optional})
    for name in skip_passes:
        if name in optional:
            continue
        if any(step.name == name for step in steps):
            raise OnnxLiftError(f"the step {name!r} always runs. `onnxlift passes` lists those that can be skipped.")
        similar = [other for other in optional if name in other] or difflib.get_close_matches(name, optional, 1)
        hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        raise OnnxLiftError(f"there is no step {name!r} to skip.{hint} `onnxlift passes` lists them all.")


def name_of(source: Any, model: ir.Model) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).stem
    return model.graph.name or "model"
