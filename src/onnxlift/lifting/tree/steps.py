"""Make code without weights a layer, if it is an item of a chain of layers.

    net: Linear (net.0), split, gelu and product (all of net.2), Linear (net.3)   ->   net: net.0, net.2, net.3

A module without weights is code of its parent (rule 2 of `build.py`). But a chain of numbered layers is an
`nn.Sequential`, which has no code. If the chain is to stay one, such a module must be a layer like the others: a step.

Applies to a module that was called, if each of its items has a number, the items are in the order of their numbers, and
some have weights. A step is all code under one number that has no weights. Lowering decides later whether it becomes a
module: a function that `torch.nn` has as a layer needs none, and if the chain turns out to be none, its steps are code
again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from itertools import groupby

import onnx_ir as ir

from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.ops.layer_nodes import is_weighted

from .paths import ModulePaths, Path
from .plan import ModulePlan, walk


def find_steps(root: ModulePlan, module_paths: ModulePaths) -> None:
    """Make the steps of chains plans of their own."""
    paths = ChainMap(module_paths.shortened, module_paths.by_node)
    for plan in list(walk(root)):
        numbers = {item: _number(item, plan.path, paths) for item in plan.items}
        runs = [(number, [*items]) for number, items in groupby(plan.items, numbers.__getitem__)]
        in_order = [number for number, _ in runs if number is not None]
        if not plan.called or len(in_order) < len(runs) or in_order != sorted(set(in_order)):
            continue
        has_weights = [any(isinstance(item, ModulePlan) or _holds_weights(item) for item in items) for _, items in runs]
        if not any(has_weights):
            continue
        plan.items = []
        for (number, items), is_layer in zip(runs, has_weights, strict=True):
            if not is_layer:
                path = (*plan.path, str(number))
                hint = module_paths.classes.get(path)
                items = [ModulePlan(path, items, hint, called=True, parent=plan, is_step=True)]
            plan.items += items


def _number(item: ir.Node | ModulePlan, around: Path, paths: Mapping[ir.Node, Path]) -> int | None:
    path = item.path if isinstance(item, ModulePlan) else paths.get(item, ())
    part = path[len(around)] if len(path) > len(around) else ""
    return int(part) if part.isascii() and part.isdigit() and len(part) < 10 else None


def _holds_weights(node: ir.Node) -> bool:
    return any(
        value is not None and value.const_value is not None and (is_weighted(node) or origin_of(value).is_parameter)
        for value in node.inputs
    )
