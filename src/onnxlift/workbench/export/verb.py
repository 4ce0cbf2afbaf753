"""`export`: lift a model, trace it by `torch.export`, write it, load it again, and compare it with ONNX Runtime.

    lift ─▶ torch.export ─▶ .pt2                              (the default)
                        ├─▶ AOTInductor ─▶ .pt2, compiled     (aoti=True)
                        └─▶ torch.onnx ─▶ .onnx               (onnx=True)

Torch runs in a child process with limits of time and memory, and this process never imports it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.api import lift
from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import Dim, type_of
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import infer, is_invented_size
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.lifted import Lifted
from onnxlift.sizes import parse_size
from onnxlift.unforeseen import answered
from onnxlift.verification.children.child import ChildError, Limits, run_child
from onnxlift.verification.given import Given, Inputs, read_given
from onnxlift.verification.judge import Judge
from onnxlift.verification.model_file import model_file
from onnxlift.verification.models import title
from onnxlift.verification.values import write_values

from ..report import Checking, name_of, open_model, weight_bytes
from ..sizes import fix_sizes
from .comparing import ExportedPair
from .failures import ExportError, explain, locate
from .needs import check_compiler, check_exporter, check_memory
from .report import ONNX, PACKAGE, PROGRAM, BackReport, ExportReport, Facts, Folder

WORKER = "onnxlift.workbench.export.worker"


def export(
    source: Any,
    *,
    static: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    aoti: bool = False,
    onnx: bool = False,
    verify: bool = True,
    inputs: Inputs = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> ExportReport | BackReport:
    """Return the model in `source` as a program of `torch.export`, with every size open that the model leaves open.

    `shapes` of inputs and sizes of named dimensions (`dims`) are fixed for good; with `static`, all sizes are. With
    `aoti`, the program is compiled for the CPU of this machine by AOTInductor. With `onnx`, it is written as an ONNX
    model by torch's exporter, and the report is that of a verb which gives a model. The result is loaded again, and,
    unless `verify` is False, compared with ONNX Runtime on `inputs`, or on some that are made up, at two sizes where
    sizes are open. What data decides, and torch cannot follow, is an ExportError that names the node and the line.
    Every run may take `timeout` seconds and `memory` bytes."""
    if aoti and onnx:
        raise OnnxLiftError("an export is either compiled (--aoti) or an ONNX model (--onnx): choose one.")
    kind = PACKAGE if aoti else ONNX if onnx else PROGRAM
    check = {PACKAGE: check_compiler, ONNX: check_exporter}.get(kind)
    if check is not None:
        check()
    if hasattr(source, "read"):
        source = source.read()
    limits = Limits(timeout, None if memory is None else parse_size(memory))
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    folder = tempfile.TemporaryDirectory(prefix="onnxlift-")
    with answered(), tempfile.TemporaryDirectory(prefix="onnxlift-") as job:
        work = _Export(source, kind, given, Path(job), folder, limits, Judging(rtol, atol, verify))
        return work.run(static)


@dataclass(frozen=True)
class Judging:
    """What the result is judged by: the tolerances, and whether it is compared at all."""

    rtol: float | None
    atol: float | None
    wanted: bool


class _Export:
    """One export, in the folder `job`. The product is written to `folder`, which outlives it."""

    def __init__(
        self, source: Any, kind: str, given: Given, job: Path, folder: Folder, limits: Limits, judging: Judging
    ) -> None:
        self.source, self.kind, self.given, self.job, self.limits = source, kind, given, job, limits
        self.folder, self.judging = folder, judging
        self.product = Path(folder.name) / f"product.{'onnx' if kind == ONNX else 'pt2'}"
        self.original = load(unwrapped(source))
        infer(self.original)
        self.name = name_of(source, self.original)
        self.notes: list[str] = []
        check_inputs(self.original.graph)
        check_memory(self.name, kind, weight_bytes(self.original), limits)

    def run(self, static: bool) -> ExportReport | BackReport:
        pair = self._pair()
        sets = [self.given.make(self.original.graph)]
        if self.judging.wanted:
            sets = pair.run_originals(self.given, once=static)
        # Torch is first shown inputs without sizes of one, if there are any: it takes one for a constant.
        shown = sorted(range(len(sets)), key=lambda number: 1 in self._open_sizes(sets[number]))
        values = sets[shown[0]]
        lifted = self._lifted(_shapes(values) if static else None)
        axes = self._open_axes(values, static)
        for number, each in enumerate(sets):
            write_values(self.job / f"inputs_{number}", each)
        task = {
            **self._task(lifted, axes),
            "inputs": "inputs_0",
            "shown": shown,
            "runs": len(sets) * self.judging.wanted,
        }
        answer = self._child(task, lifted)
        refuses = any(answer.get("refusals", ()))
        found = [each for each in answer["fixed"] if each["certain"] or refuses]
        fixed = self._judge_fixed(found, values, axes, lifted, pair)
        facts = self._facts(lifted, axes, fixed, answer["operators"], values)
        notes = tuple(self.notes)
        if self.kind == ONNX:
            back = BackReport(self.name, open_model(self.product), notes=notes, exported=facts, folder=self.folder)
            return back.verified(self.source, self._checking(values, static))
        compared = None
        if self.judging.wanted:
            named = title(self.source, "the original")
            compared = pair.compare_all(sets, answer["refusals"], named, answer["runtime"])
        return ExportReport(self.name, facts, self.product, self.folder, compared, notes)

    def _pair(self) -> ExportedPair:
        """Return the two sides of the comparison."""
        file = model_file(self.source, data_files(self.original), self.job, "original")
        judge = Judge(self.original.graph, self.judging.rtol, self.judging.atol)
        return ExportedPair(self.job, self.original, self.original, (file, file), self.limits, judge)

    def _lifted(self, fixed: Mapping[str, Sequence[int]] | None) -> Lifted:
        """Lift the model, with the sizes fixed that are to be."""
        name = Path(self.name).stem if isinstance(self.source, str | os.PathLike) else None
        shapes = fixed if fixed is not None else self.given.shapes or {}
        shapes = {name: shape for name, shape in shapes.items() if _is_tensor(self.original.graph, name)}
        if not shapes and not self.given.dims:
            return lift(self.source, name=name)
        model = open_model(self.source)
        fix_sizes(model, shapes, {} if fixed is not None else self.given.dims)
        return lift(model, name=name or self.name)

    def _open_sizes(self, values: Mapping[str, Any]) -> list[int]:
        """Return the sizes of inputs that the model leaves open."""
        return [
            size
            for value in self.original.graph.inputs
            for size, dim in zip(_shape_of(values[value.name or ""]), type_of(value).shape or (), strict=False)
            if isinstance(dim, str)
        ]

    def _open_axes(self, values: Mapping[str, Any], static: bool) -> list[dict[int, str]]:
        """Return the axes of each input that are to stay open, with their names."""
        chosen = self.given.sizes(self.original.graph).chosen
        shapes = self.given.shapes or {}
        declared = {value.name or "": type_of(value).shape or () for value in self.original.graph.inputs}
        settled = {*self.given.dims, *(dim for name in shapes for dim in declared.get(name, ()))}
        axes: list[dict[int, str]] = []
        for value in self.original.graph.inputs:
            name, sizes = value.name or "", _shape_of(values[value.name or ""])
            own = {axis: dim for axis, dim in enumerate(declared[name]) if isinstance(dim, str)}
            own = {axis: dim for axis, dim in own.items() if not static and dim not in settled and name not in shapes}
            for axis in [axis for axis, dim in own.items() if sizes[axis] == 1 and dim in chosen]:
                dim = own.pop(axis)  # we choose no size of one, unless the original takes no other
                self.notes.append(f"{_told(dim)} of {name!r} is fixed at 1: ONNX Runtime takes no other that was tried")
            axes.append(own)
        return axes

    def _task(self, lifted: Lifted, axes: Sequence[Mapping[int, str]]) -> dict[str, Any]:
        """Return what the child is told."""
        graph = self.original.graph
        names = [value.name or "" for value in graph.inputs]
        return {
            "side": "export",
            "kind": self.kind,
            "job": str(self.job),
            "source": str(lifted.save(self.job / "lifted_files")[0]),
            "product": str(self.product),
            "open": [list(own) for own in axes],
            "names": names,
            "outputs": [value.name or "" for value in graph.outputs],
            "external_data": weight_bytes(self.original) > LARGEST_INSIDE,
            "interface": {
                "model": self.name,
                "inputs": {name: str(type_of(value)) for name, value in zip(names, graph.inputs, strict=True)},
                "outputs": {value.name or "": str(type_of(value)) for value in graph.outputs},
                "open": [{str(axis): dim for axis, dim in own.items()} for own in axes],
            },
        }

    def _child(self, task: dict[str, Any], lifted: Lifted) -> dict[str, Any]:
        """Let torch make the product."""
        try:
            return run_child(self.job, task, "torch", self.limits, WORKER)
        except ChildError as error:
            raise explain(error, self._phase(), lifted, self._operators()) from error

    def _phase(self) -> str:
        phase = self.job / "phase"
        return phase.read_text(encoding="utf-8") if phase.exists() else ""

    def _operators(self) -> dict[str, str]:
        """Return the operator of each node of the model."""
        return {node.name: node.op_type for node in all_nodes(self.original.graph) if node.name}

    def _judge_fixed(
        self,
        found: Sequence[Mapping[str, Any]],
        values: Mapping[str, Any],
        axes: Sequence[dict[int, str]],
        lifted: Lifted,
        pair: ExportedPair,
    ) -> dict[str, int]:
        """Return the sizes that torch has fixed, by name. One that the original takes in others is an error."""
        names = list(values)
        fixed: dict[str, int] = {}
        for each in found:
            dim, size, name = axes[each["input"]].pop(each["axis"]), each["size"], names[each["input"]]
            if self.judging.wanted and (dim in fixed or not self._takes_another(dim, size, pair)):
                fixed[dim] = size
                self.notes.append(
                    f"{_told(dim)} of {name!r} is fixed at {size}: ONNX Runtime takes no other that was tried"
                )
                continue
            place, nodes, line = locate([each["line"]], lifted, self._operators())
            option = f"--shape {name}=..." if is_invented_size(dim) else f"--dim {dim}={size}"
            raise ExportError(
                f"torch cannot leave {_told(dim)} of input {quote(name)} open: it takes {size} for the only "
                f"size{place}. Fix it ({option}), or fix all sizes (--static).",
                nodes,
                line,
            )
        return fixed

    def _takes_another(self, dim: str, size: int, pair: ExportedPair) -> bool:
        """Tell whether the original takes another size of a dimension."""
        return any(pair.takes(self.given, {dim: other}) for other in (size + 1, size * 2))

    def _facts(
        self,
        lifted: Lifted,
        axes: Sequence[Mapping[int, str]],
        fixed: Mapping[str, int],
        operators: Mapping[str, int],
        values: Mapping[str, Any],
    ) -> Facts:
        """Return what is told of the export."""
        left = dict.fromkeys(dim for own in axes for dim in own.values())
        known: dict[str, int] = {**self.given.dims, **fixed}
        for value in self.original.graph.inputs:
            for axis, dim in enumerate(type_of(value).shape or ()):
                if isinstance(dim, str) and dim not in left:
                    known.setdefault(dim, _shape_of(values[value.name or ""])[axis])
        graph = lifted.model.graph
        return Facts(
            self.kind,
            {value.name or "": str(type_of(value)) for value in graph.inputs},
            {value.name or "": str(type_of(value)) for value in graph.outputs},
            tuple(dict.fromkeys("?" if is_invented_size(dim) else dim for dim in left)),
            {dim: size for dim, size in known.items() if not is_invented_size(dim)},
            operators,
        )

    def _checking(self, values: Mapping[str, Any], static: bool) -> Checking:
        """Return how an ONNX model that torch wrote is compared with the original."""
        return Checking(
            self.judging.wanted,
            inputs=self.given.values,
            shapes=_shapes(values) if static else self.given.shapes or {},
            dims={} if static else self.given.dims,
            seed=self.given.seed,
            rtol=self.judging.rtol,
            atol=self.judging.atol,
            timeout=self.limits.seconds,
            memory=self.limits.memory,
        )


LARGEST_INSIDE = 1_800_000_000
"""Bytes of weights that an ONNX file holds itself."""


def check_inputs(graph: ir.Graph) -> None:
    """Raise an error if an input is of a kind that no program of torch takes."""
    for value in graph.inputs:
        kind = type_of(value)
        name = quote(value.name or "")
        if kind.dtype == ir.DataType.STRING or kind.kind in ("map", "list of maps"):
            raise ExportError(f"input {name} is {kind}, and programs of torch take only tensors and numbers.")
    for value in graph.outputs:
        kind = type_of(value)
        if kind.dtype == ir.DataType.STRING or kind.kind in ("map", "list of maps"):
            raise ExportError(f"output {quote(value.name or '')} is {kind}, and programs of torch give only tensors.")


def _is_tensor(graph: ir.Graph, name: str) -> bool:
    return any(value.name == name and type_of(value).kind == "tensor" for value in graph.inputs)


def _shape_of(value: Any) -> tuple[int, ...]:
    if isinstance(value, list | tuple):
        return _shape_of(value[0]) if value else ()
    return np.shape(value)


def _shapes(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: np.shape(value) for name, value in values.items() if isinstance(value, np.ndarray)}


def _told(dim: Dim) -> str:
    """Return what to call a size in a message."""
    return "a size without a name" if is_invented_size(str(dim)) else f"dimension {dim!r}"
