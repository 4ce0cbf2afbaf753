"""Activations are computed by every module that begins with one.

    block.0: a = relu(x), conv(a); block.1: conv(a)   ->   block.0: conv(relu(x)); block.1: conv(relu(x))

The newer exporter merges equal nodes, also those of different modules. Where blocks side by side begin with the same
activation of the same value, like the residual blocks of HiFi-GAN, the first one would else have to be taken apart, and
all would take two inputs where their author gave them one.

Applies to an activation of what comes from outside of a module, for modules beside it of the same class, or of the same
name but for the number. Not if others read it, too: what a module computes for another one may be meant so.
Sound because an activation depends on nothing but its input. It costs what it did in the original.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxlift.lifting.ops.layer_nodes import is_activation, is_weighted

from .local_positions import copied
from .scope import Scope, child_around, is_within, kind, walk


def activate_locally(
    root: Scope, graph: ir.Graph, order: dict[ir.Node, int], reads: dict[ir.Node, list[ir.Value]]
) -> None:
    """Copy such nodes to the modules that need them: in the tree, in the graph, and in what is known of it."""
    home = {item: scope for scope in walk(root) for item in scope.items if isinstance(item, ir.Node)}
    activations = [node for node in graph if is_activation(node) and not is_weighted(node)]
    for node in [node for node in activations if home[node] is not root]:
        (value,) = node.outputs
        users = dict.fromkeys(user for user, _ in value.uses())
        if len(users) < 2 or not all(user in home for user in users):
            continue
        outside = [user for user in users if not is_within(home[user], home[node])]
        beside: dict[Scope, list[ir.Node]] = {}
        for user in outside if len(outside) < len(users) else ():
            module = _relative(node, user, home)
            if module is None:
                beside = {}
                break
            beside.setdefault(module, []).append(user)
        for module, readers in beside.items():
            copies: dict[ir.Value, ir.Value] = {}
            copy = copied(node, copies)
            graph.insert_after(node, copy)
            order[copy] = min(order[user] for user in readers)
            reads[copy] = list(reads[node])
            home[copy] = module
            module.items.append(copy)
            for user in readers:
                for index, read in enumerate(user.inputs):
                    if read is value:
                        user.replace_input_with(index, copies[value])
                reads[user] = [copies.get(read, read) for read in reads[user]]


def _relative(node: ir.Node, user: ir.Node, home: Mapping[ir.Node, Scope]) -> Scope | None:
    """The module that `user` is in, if it stands beside the one of `node` and is of its kind."""
    around = home[node]
    while around.parent is not None and not is_within(home[user], around.parent):
        around = around.parent
    if around.parent is None or is_within(home[user], around):
        return None
    module = child_around(home[user], around.parent)
    producers = [value.producer() for value in node.inputs if value is not None]
    from_outside = all(p is None or p not in home or not is_within(home[p], around) for p in producers)
    return module if module.parent is around.parent and from_outside and kind(module) == kind(around) else None
