"""Code without weights that is a layer of a chain.

    net: Linear (net.0), split, gelu and product (all of net.2), Linear (net.3)   ->   net: net.0, net.2, net.3

A module without weights is code of its parent (rule 2 of `build.py`). But a chain of numbered layers is an
`nn.Sequential`, which has no code: there such a module is a layer like the others, if the chain is to stay one.

Applies to a module that was called, of which every item is numbered, in the order of the numbers, and some have
weights. A step is what has one number, and no weights. Whether it is a module is seen when it is lowered: a function
that `torch.nn` has as a layer needs none, and if the chain turns out to be none, its steps are code again.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from itertools import groupby

import onnx_ir as ir

from .scope import Scope, walk
from .scopes import LAYER_WEIGHTS, Path, Scopes
from .weights import is_parameter


def find_steps(root: Scope, scopes: Scopes) -> None:
    """Let the steps of chains be scopes of their own."""
    paths = ChainMap(scopes.shortened, scopes.paths)
    for scope in list(walk(root)):
        numbers = {item: _number(item, scope.path, paths) for item in scope.items}
        runs = [(number, [*items]) for number, items in groupby(scope.items, numbers.__getitem__)]
        in_order = [number for number, _ in runs if number is not None]
        if not scope.called or len(in_order) < len(runs) or in_order != sorted(set(in_order)):
            continue
        has_weights = [any(isinstance(item, Scope) or _holds_weights(item) for item in items) for _, items in runs]
        if not any(has_weights):
            continue
        scope.items = []
        for (number, items), is_layer in zip(runs, has_weights, strict=True):
            if not is_layer:
                path = (*scope.path, str(number))
                hint = scopes.classes.get(path)
                items = [Scope(path, items, hint, called=True, parent=scope, is_step=True)]
            scope.items += items


def _number(item: ir.Node | Scope, around: Path, paths: Mapping[ir.Node, Path]) -> int | None:
    path = item.path if isinstance(item, Scope) else paths.get(item, ())
    part = path[len(around)] if len(path) > len(around) else ""
    return int(part) if part.isascii() and part.isdigit() and len(part) < 10 else None


def _holds_weights(node: ir.Node) -> bool:
    return any(
        value is not None and value.const_value is not None and (node.op_type in LAYER_WEIGHTS or is_parameter(value))
        for value in node.inputs
    )
