"""The path of a model, from bytes to source: one stage after the other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir import stages as reading
from onnxlift.ir.editing.near_misses import noting
from onnxlift.ir.graph.types import type_of
from onnxlift.ir.load import load
from onnxlift.lifting import stages as lifting
from onnxlift.lifting.code.identifiers import file_stem
from onnxlift.lifting.modules.members.member_order import registration_order
from onnxlift.lifting.modules.members.untrained import untrained_constants
from onnxlift.lifting.ops import registry
from onnxlift.lifting.ops.layer_nodes import function_weights
from onnxlift.lifting.stages import Lift
from onnxlift.lifting.structures import Candidate, Choice, check_structure, choose_structure, given_structure
from onnxlift.lifting.text.dump import GraphDump
from onnxlift.lifting.text.file import Header
from onnxlift.lifting.text.source_map import readers_of
from onnxlift.lifting.text.weights import MAX_SHARD_SIZE
from onnxlift.lifting.tree.structure import Forced, Promise, Structure, promise_of
from onnxlift.rewriting import stages as rewriting
from onnxlift.rewriting.dequantising.dequantise import may_be_dequantised, noise_of
from onnxlift.rewriting.element_type import own_type
from onnxlift.rewriting.history import History
from onnxlift.rewriting.stages import IDIOMS, NORMAL_FORM, RESTORING, SIMPLIFYING
from onnxlift.stages import Record, both, check_skipped

from .collector import collector_paused
from .lifted import Lifted
from .unforeseen import answered

Watch = Callable[[str, ir.Model], None]
"""Called with the name of a stage or an idiom, and the model as it is after it."""

STAGES = (*reading.STAGES, *rewriting.STAGES, *lifting.STAGES)
"""All stages, in the order in which a model goes through them."""


def run(
    source: Any,
    *,
    name: str | None,
    simplify: bool,
    skip_passes: Collection[str],
    structure: Forced | None = None,
    max_shard_size: int = MAX_SHARD_SIZE,
    explain: bool = False,
    dtype: ir.DataType | None = None,
    dequantize: bool = False,
    watch: Watch | None = None,
) -> Lifted:
    """The model in `source`, lifted, with its modules from names, from repetition or from nothing, if `structure` says.

    `watch` is shown the graph after the stages up to simplifying, and after each idiom."""
    check_skipped(skip_passes, STAGES)
    check_structure(structure)
    record = Record(skip_passes)
    with collector_paused(), answered(record), ExitStack() as stack:
        dump = GraphDump()
        model = load(source, record)
        name = file_stem(name or name_of(source, model))
        file_name = file_name_of(source) or f"{name}.onnx"
        operators = Counter(node.op_type for node in model.graph.all_nodes())
        control_flow = [op for op in ("If", "Loop", "Scan") if op in operators]
        readers = readers_of(model)
        history = History(readers) if explain else None
        if history is not None:
            history("reading", model)
            record.observer = history
            history.near_misses = stack.enter_context(noting(lambda: record.at[1]))
        header = Header(name, operators.total(), control_flow, file_name)
        lift = Lift(model, header, registration_order(model.graph), max_shard_size)
        takes = _takes_but_quantised if dequantize else registry.takes
        record.run(NORMAL_FORM, model, supported=registry.is_supported, takes=takes, keep=registry.is_users)
        if watch is not None:
            watch(NORMAL_FORM.name, model)
        dump("normal form", model)  # until then, values have no types that could be shown
        record.observer = dump if history is None else both(dump, history)
        stored = {value.name or "": type_of(value) for value in (*model.graph.inputs, *model.graph.outputs)}
        precisions = [own_type(model)]
        record.run(RESTORING, model, dtype=dtype, dequantize=dequantize)
        noise = noise_of(model)
        if watch is not None:
            watch(RESTORING.name, model)
        precisions.append(own_type(model))
        if simplify:
            record.run(SIMPLIFYING, model)
        if watch is not None:
            watch(SIMPLIFYING.name, model)
        first = Candidate(lift, record, dump)
        if structure == "flat":
            first.transcribe()
            choice = Choice(first)
        else:
            is_given = structure is not None or promise_of(model) is Promise.MODULES
            transcript = None if is_given else first.copied(Structure.TRANSCRIPT)
            observer = record.observer
            record.observer = observer if watch is None else both(observer, watch)
            record.run(IDIOMS, model, function_weights=function_weights)
            record.observer = observer
            choice = choose_structure(first, transcript) if structure is None else given_structure(first, structure)
        lift = choice.chosen.lift
        return Lifted(
            name,
            lift.source,
            lift.root,
            lift.model,
            choice.chosen.record,
            node_count=operators.total(),
            readers=readers,
            warnings=(
                *lift.warnings,
                *untrained_constants(lift.entries),
                *([SLOW] if precisions[-1] == ir.DataType.FLOAT16 else []),
            ),
            structures=choice.lines,
            dump=choice.chosen.dump,
            max_shard_size=max_shard_size,
            history=history,
            stored_types=stored,
            noise=None if noise is None else noise.to_dict(),
            precisions=tuple(precisions),
            lift=lift,
        )


def _takes_but_quantised(node: ir.Node) -> bool:
    """Tell whether an operator function takes a node, and no body can be dequantised in its place."""
    return registry.takes(node) and not may_be_dequantised(node)


SLOW = (
    "float16 takes seconds a layer on a CPU. To run the model there, lift it in float32 (--dtype float32), or load "
    "it in float32 (load(dtype=torch.float32))."
)


def name_of(source: Any, model: ir.Model) -> str:
    """Return the name of a model: that of its file without the suffix, or else that of its graph."""
    file_name = file_name_of(source)
    return Path(file_name).stem if file_name else model.graph.name or "model"


def file_name_of(source: Any) -> str:
    """Return the name of the file that a model comes from; empty if it comes from none."""
    if not isinstance(source, str | os.PathLike):
        source = getattr(source, "name", None) if hasattr(source, "read") else None
    return Path(source).name if isinstance(source, str | os.PathLike) else ""
