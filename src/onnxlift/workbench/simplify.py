"""`simplify`: the smallest ONNX model that computes the same.

    reading, checking, building ─▶ normal form ─▶ (simplifying ─▶ fusing), until both rest ─▶ writing

These are the stages of lifting, but for what they do for the sake of source: nothing is restored, no parameter is kept
for its name, and equal expressions are computed once wherever they stand. The stage fusing is for runtimes alone
(rewriting/fusing/). Inputs and outputs keep their names, types, order and sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.editing.names import name_apart
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import all_nodes, mark_flat, regions
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.origin.tensors import mark_made
from onnxlift.rewriting.normal_form import inline_functions
from onnxlift.rewriting.stages import FUSING, NORMAL_FORM, SIMPLIFYING, STANDARD
from onnxlift.sizes import format_bytes
from onnxlift.stages import Record, check_skipped
from onnxlift.unforeseen import answered

from .opset.convert import align_versions
from .opset.errors import OpsetError
from .portable import defined_by_onnx, settle_bodies
from .report import Checking, ModelReport, name_of, open_model, weight_bytes
from .sizes import fix_sizes

STAGES = (NORMAL_FORM, SIMPLIFYING, FUSING, STANDARD)
_NAMES = {stage.name for stage in STAGES}
MOST_ROUNDS = 8
"""How often simplifying and fusing may follow each other."""


@dataclass(frozen=True)
class SimplifyReport(ModelReport):
    """What became of a model: its operators before and after, and the steps that changed something."""

    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    """The number of nodes by operator."""
    bytes_before: int = 0
    bytes_after: int = 0
    """The size of all weights."""
    steps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Stage -> step -> number of changes."""

    @property
    def nodes(self) -> tuple[int, int]:
        """The number of nodes before and after."""
        return sum(self.before.values()), sum(self.after.values())

    def facts(self) -> dict[str, Any]:
        before, after = self.nodes
        return {
            "nodes": {"before": before, "after": after},
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            "operators": {
                name: {"before": self.before.get(name, 0), "after": self.after.get(name, 0)}
                for name in sorted({*self.before, *self.after})
            },
            "steps": {stage: dict(counts) for stage, counts in self.steps.items()},
        }

    def lines(self) -> list[str]:
        before, after = self.nodes
        size = f"{format_bytes(self.bytes_before)} -> {format_bytes(self.bytes_after)}"
        lines = [f"  nodes          {before:,} -> {after:,}", f"  weights        {size}"]
        rows = sorted({*self.before, *self.after}, key=lambda name: (-self.before.get(name, 0), name))
        changed = [name for name in rows if self.before.get(name, 0) != self.after.get(name, 0)]
        width = max(map(len, changed), default=0)
        for name in changed:
            old, new = self.before.get(name, 0), self.after.get(name, 0)
            lines.append(f"    {name:{width}}  {old:>6,} -> {new:>6,}  {new - old:+,}")
        for stage, counts in self.steps.items():
            fired = ", ".join(f"{name} {count:,}" for name, count in counts.items())
            lines.append(f"  {stage:15}{fired}")
        return lines


def simplify(
    source: Any,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    keep: Collection[str] = (),
    portable: bool = False,
    fuse_standard: bool = False,
    skip_passes: Collection[str] = (),
    verify: bool = True,
    **checking: Any,
) -> SimplifyReport:
    """Return the model in `source` with fewer nodes, computing the same.

    `shapes` of inputs and sizes of named dimensions (`dims`) are fixed for good, and what follows from them is folded.
    Values in `keep` stay under their names. With `portable`, operators that ONNX does not define, such as those that
    ONNX Runtime's optimiser writes, are taken apart into standard ones; PortableError lists those for which that is not
    possible. With `fuse_standard`, several nodes that mean LayerNormalization, Gelu, Attention or the like become that
    operator, if the opset has it. `skip_passes` leaves out single steps (`onnxlift passes`). Unless `verify`
    is False, the result is compared with the original at two sizes; `checking` takes the options of `verify`."""
    check_skipped(skip_passes, STAGES)
    record = Record(skip_passes)
    with answered(record):
        model = open_model(source, record)
        before, bytes_before = _operators(model), weight_bytes(model)
        fix_sizes(model, shapes or {}, dims or {})
        with _kept(model, keep):
            simplify_graph(model, record, portable=portable, fuse_standard=fuse_standard, name=name_of(source, model))
        report = SimplifyReport(
            name_of(source, model),
            model,
            before=before,
            after=_operators(model),
            bytes_before=bytes_before,
            bytes_after=weight_bytes(model),
            steps={stage: counts for stage, counts in record.fired().items() if stage in _NAMES},
        )
    return report.verified(source, Checking(verify, shapes=shapes or {}, dims=dims or {}, **checking))


def simplify_graph(
    model: ir.Model,
    record: Record,
    *,
    portable: bool = False,
    fuse_standard: bool = False,
    name: str = "the model",
) -> None:
    """Simplify a model that was opened for writing, in place."""
    _to_normal_form(model, record, portable, name)
    for region in regions(model):
        for value in region.graph.initializers.values():
            mark_made(value, "nobody trains an ONNX file")
    _simplify_and_fuse(model, record)
    if fuse_standard:
        record.run(STANDARD, model)
        infer(model)
        _simplify_and_fuse(model, record)
    name_apart(model)
    _drop_imports(model)


def _to_normal_form(model: ir.Model, record: Record, portable: bool, name: str) -> None:
    """Run the stage normal form. Nodes of functions, and of bodies, come to the opsets of the model.

    A function whose nodes cannot come there as they are stays a function, unless the model is to be portable: then they
    are converted, and what cannot be is an error."""
    others = {key[:2] for key, function in model.functions.items() if _means_other(function, model)}
    if portable:
        record.run(NORMAL_FORM, model, for_runtime=True, supported=defined_by_onnx(model))
        settle_bodies(model, name)
        mark_flat(model)
        return
    kept = others if others and not _can_align(model) else set()
    record.run(NORMAL_FORM, model, for_runtime=True, keep=lambda domain, name: (domain, name) in kept)
    if others and not kept:
        align_versions(model, name=name)
        mark_flat(model)


def _can_align(model: ir.Model) -> bool:
    """Tell whether the nodes of all functions can come to the opsets of the model as they are, by trying it on a copy.

    Runtimes do not agree on a function whose operators mean something else in the opset of the model: ONNX says that
    those of the function are in force, and ONNX Runtime (1.31) takes those of the model."""
    copy = model.clone()
    inline_functions.run(copy)
    before = _spelled(copy)
    try:
        align_versions(copy)
    except OpsetError:
        return False
    return _spelled(copy) == before


def _spelled(model: ir.Model) -> list[tuple[str, str, int, str]]:
    """Return operator and attributes of every node but constants."""
    return [
        (node.domain, node.op_type, len(node.inputs), str(sorted(map(str, node.attributes.values()))))
        for node in all_nodes(model.graph)
        if not is_standard(node, "Constant")
    ]


def _simplify_and_fuse(model: ir.Model, record: Record) -> None:
    """Run simplifying and fusing by turns until both rest."""
    for _ in range(MOST_ROUNDS):
        done = _changes(record)
        record.run(SIMPLIFYING, model, for_runtime=True)
        infer(model)
        record.run(FUSING, model)
        infer(model)
        if _changes(record) == done:
            break


def _means_other(function: ir.Function, model: ir.Model) -> bool:
    """Tell whether an operator of a function means something else in the opsets that the model imports."""
    for node in all_nodes(function.graph):
        here = schema_for(node.domain, node.op_type, model.opset_imports.get(node.domain, 1))
        there = schema_for(node.domain, node.op_type, function.opset_imports.get(node.domain, 1))
        if (here and here.since_version) != (there and there.since_version):
            return True
    return False


def _drop_imports(model: ir.Model) -> None:
    """Drop the imports of domains that no node is of any more, except that of the default domain."""
    used = {node.domain for region in regions(model) for node in region.graph}
    for domain in [domain for domain in model.opset_imports if domain and domain not in used]:
        del model.opset_imports[domain]


def _changes(record: Record) -> int:
    return sum(sum(record.changes.get(stage.name, Counter()).values()) for stage in (SIMPLIFYING, FUSING))


@contextmanager
def _kept(model: ir.Model, names: Collection[str]) -> Iterator[None]:
    """Make values outputs of the graph for a while, so that no step takes them away or renames them."""
    values = {value.name: value for node in model.graph for value in node.outputs if value.name}
    outputs = {value.name for value in model.graph.outputs}
    for name in names:
        if name not in values:
            raise OnnxLiftError(f"there is no value {quote(name)} in the main graph to keep.")
    wanted = [name for name in dict.fromkeys(names) if name not in outputs]
    model.graph.outputs.extend(values[name] for name in wanted)
    try:
        yield
    finally:
        count = len(model.graph.outputs) - len(wanted)
        del model.graph.outputs[count:]


def _operators(model: ir.Model) -> dict[str, int]:
    counts = Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for graph in (model.graph, *(function.graph for function in model.functions.values()))
        for node in all_nodes(graph)
    )
    return dict(counts)
