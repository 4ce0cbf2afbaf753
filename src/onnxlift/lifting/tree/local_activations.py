"""Let every module that begins with an activation compute it itself.

    block.0: a = relu(x), conv(a); block.1: conv(a)   ->   block.0: conv(relu(x)); block.1: conv(relu(x))

The newer exporter merges equal nodes, even across modules. Blocks side by side may begin with the same activation of
the same value, like the residual blocks of HiFi-GAN. Without this rule, the first block would have to be taken apart,
and all blocks would take two inputs where their author gave them one.

Applies to an activation of a value from outside of a module. The modules beside it that read the result must be of the
same class, or have the same name except for the number. Does not apply if others read the result, too: the author may
have meant one module to compute it for another. Sound because an activation depends on nothing but its input. It costs
what it did in the original.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxlift.lifting.ops.layer_nodes import is_activation, is_weighted

from .build import divide_nodes
from .local_positions import copied, read_instead
from .paths import ModulePaths
from .plan import ModulePlan, child_around, homes, is_within, kind


def activate_locally(graph: ir.Graph, paths: ModulePaths) -> int:
    """Copy such activations for the modules that need them, and return the number of copies."""
    activations = [node for node in graph if is_activation(node) and not is_weighted(node) and len(_users(node)) > 1]
    if not activations:
        return 0
    root = divide_nodes(graph, paths).root
    home = homes(root)
    before = len(paths.copies)
    for node in [node for node in activations if home[node] is not root]:
        for module, readers in _beside(node, home).items():
            copies: dict[ir.Value, ir.Value] = {}
            copy = copied(node, copies)
            graph.insert_after(node, copy)
            home[copy] = module
            paths.copies[copy] = module.path
            read_instead(readers, node.outputs[0], copies[node.outputs[0]])
    return len(paths.copies) - before


def _users(node: ir.Node) -> list[ir.Node]:
    return list(dict.fromkeys(user for value in node.outputs for user, _ in value.uses()))


def _beside(node: ir.Node, home: Mapping[ir.Node, ModulePlan]) -> dict[ModulePlan, list[ir.Node]]:
    """Return the readers of an activation in the modules that are to compute it themselves, by module; none if others
    read it as well."""
    users = _users(node)
    if not all(user in home for user in users):
        return {}
    outside = [user for user in users if not is_within(home[user], home[node])]
    beside: dict[ModulePlan, list[ir.Node]] = {}
    for user in outside if len(outside) < len(users) else ():
        module = _relative(node, user, home)
        if module is None:
            return {}
        beside.setdefault(module, []).append(user)
    return beside


def _relative(node: ir.Node, user: ir.Node, home: Mapping[ir.Node, ModulePlan]) -> ModulePlan | None:
    """Return the module that `user` is in, if it stands beside the module of `node` and is of its kind."""
    around = home[node]
    while around.parent is not None and not is_within(home[user], around.parent):
        around = around.parent
    if around.parent is None or is_within(home[user], around):
        return None
    module = child_around(home[user], around.parent)
    producers = [value.producer() for value in node.inputs if value is not None]
    from_outside = all(p is None or p not in home or not is_within(home[p], around) for p in producers)
    return module if module.parent is around.parent and from_outside and kind(module) == kind(around) else None
