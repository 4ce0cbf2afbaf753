"""Bring a model into the form that quantisers want: batch norms folded, every type known, a recent opset."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.graph.constants import constant

from ..infer import infer
from ..opset import opset
from ..report import ModelReport
from ..simplify import simplify
from .recipe import Recipe


def prepare(model: ir.Model, recipe: Recipe) -> tuple[ir.Model, list[str]]:
    """Return the model as it is to be quantised, which computes the same, and what to tell of that."""
    report: ModelReport = simplify(model, verify=False)
    notes: list[str] = []
    version = report.model.opset_imports.get("", 1)
    if version < recipe.opset:
        report = opset(report, recipe.opset, verify=False)
        notes.append(f"the opset is {recipe.opset} now, and was {version}: this form of quantisation needs it")
    sweep(report.model, {"Gemm": _flatten_bias})
    return infer(report).model, notes


def _flatten_bias(edit: Edit, node: ir.Node) -> None:
    """Give the bias of a Gemm one axis: ONNX Runtime's quantiser (1.31) fails on (1, N) with steps for each channel."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    tensor = constant(bias)
    if bias is None or tensor is None or len(tensor.shape) != 2 or tensor.shape[0] != 1:
        return
    node.replace_input_with(2, edit.constant(f"{bias.name}_row", tensor.numpy().reshape(-1)))
