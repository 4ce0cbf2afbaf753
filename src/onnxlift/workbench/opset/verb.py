"""`opset`: the same model at another opset.

    reading, checking, building ─▶ revision by revision (convert.py) ─▶ IR version ─▶ writing

Inputs and outputs keep their names, types, order and sizes. Nodes that mean the same at the new opset stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.walk import regions
from onnxlift.stages import Record
from onnxlift.unforeseen import answered

from ..report import Checking, ModelReport, name_of, open_model
from ..runtimes import runtime_for
from .convert import NEWEST, align_versions, convert_opsets
from .errors import OpsetError
from .ir_versions import set_ir_version


@dataclass(frozen=True)
class OpsetReport(ModelReport):
    """What became of a model: its opsets before and after, and the operators that were changed on the way."""

    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    """The opsets by domain."""
    ir_version: tuple[int, int] = (0, 0)
    """The IR version before and after."""
    nodes: tuple[int, int] = (0, 0)
    """The number of nodes before and after."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """How many steps between revisions were taken, by operator."""

    def facts(self) -> dict[str, Any]:
        return {
            "opsets": {
                "before": {domain or "ai.onnx": version for domain, version in self.before.items()},
                "after": {domain or "ai.onnx": version for domain, version in self.after.items()},
            },
            "ir_version": {"before": self.ir_version[0], "after": self.ir_version[1]},
            "nodes": {"before": self.nodes[0], "after": self.nodes[1]},
            "steps": dict(self.steps),
        }

    def lines(self) -> list[str]:
        rows = [
            f"  {domain or 'ai.onnx':15}{self.before.get(domain, '-')} -> {self.after.get(domain, '-')}"
            for domain in {**self.before, **self.after}
            if domain in NEWEST
        ]
        rows.append(f"  IR version     {self.ir_version[0]} -> {self.ir_version[1]}")
        rows.append(f"  nodes          {self.nodes[0]:,} -> {self.nodes[1]:,}")
        if self.steps:
            steps = ", ".join(f"{name} {count:,}" for name, count in sorted(self.steps.items()))
            rows.append(f"  revisions      {steps}")
        return rows


def opset(
    source: Any,
    version: int | None = None,
    *,
    domains: Mapping[str, int] | None = None,
    ir_version: int | None = None,
    runtime: str | None = None,
    verify: bool = True,
    **checking: Any,
) -> OpsetReport:
    """Return the model in `source` at opset `version`, computing the same.

    `domains` are the versions of other domains, such as `{"ai.onnx.ml": 3}`. With `runtime="onnxruntime==1.17"` what is
    newer than that runtime takes comes down, opsets and IR version, and all else stays. Raises OpsetError with every
    node that cannot go. Unless `verify` is False, the result is compared with the original at two sizes; `checking`
    takes the options of `verify`."""
    record = Record()
    with answered(record):
        model = open_model(source, record)
        name = name_of(source, model)
        before, old_ir, old_nodes = dict(model.opset_imports), model.ir_version, _count(model)
        targets = _targets(model, version, domains or {})
        if runtime is not None:
            limits = runtime_for(runtime)
            for domain, newest in limits.opsets.items():
                if domain in model.opset_imports:
                    targets[domain] = min(targets.get(domain, model.opset_imports[domain]), newest)
            ir_version = min(ir_version or old_ir, limits.ir_version)
        if not targets and ir_version is None:
            raise OnnxLiftError("say which opset, IR version or runtime the model is to be for.")
        steps = convert_opsets(model, targets, name=name) if targets else {}
        notes: list[str] = []
        if ir_version is not None:
            inlined = set_ir_version(model, ir_version)
            if inlined:
                align_versions(model, name=name)
                notes.append(
                    f"{inlined:,} calls of functions were inlined, which IR version {ir_version} does not have"
                )
        report = OpsetReport(
            name,
            model,
            before=before,
            after=dict(model.opset_imports),
            ir_version=(old_ir, model.ir_version),
            nodes=(old_nodes, _count(model)),
            steps=steps,
            notes=tuple(notes),
        )
    return report.verified(source, Checking(verify, **checking))


def _targets(model: ir.Model, version: int | None, domains: Mapping[str, int]) -> dict[str, int]:
    targets = {"" if domain in ("", "ai.onnx") else domain: number for domain, number in domains.items()}
    if version is not None:
        targets[""] = version
    for domain in [domain for domain in targets if domain and domain not in model.opset_imports]:
        del targets[domain]  # nothing to bring there
    return targets


def _count(model: ir.Model) -> int:
    return sum(len(region.graph) for region in regions(model))


__all__ = ["OpsetError", "OpsetReport", "opset"]
