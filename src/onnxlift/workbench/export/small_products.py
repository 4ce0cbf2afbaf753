"""Write products of one row with a matrix as sums, which torch fuses with what comes after.

    linear(x, w, b)      x of one row                                       →   (x * w).sum(1) + b
    conv2d(x, w, b)      a kernel of one number, x of one position          →   the same

A call of oneDNN costs some 40 µs before it computes anything: a MobileNet has 18 such products, in its squeezed layers
and its head, and they take 2 to 10 µs each as sums. With more rows, oneDNN reads the matrix once for all, and wins.

When it applies: sizes are fixed, and numbers have 32 bits or more. (Sums of shorter ones would be rounded in between.)
Sound, since both are the same sums in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
TYPES = (torch.float32, torch.float64)


def write_small_products_as_sums(program: ExportedProgram) -> int:
    """Change the program, and return how many products are sums now."""
    graph = program.graph_module.graph
    found = [node for node in graph.nodes if _is_small(node)]
    for node in found:
        _rewrite(graph, node)
    graph.lint()
    program.graph_module.recompile()
    return len(found)


def _is_small(node: Node) -> bool:
    """Whether a node multiplies one row by a matrix, or computes what is the same."""
    if node.op != "call_function" or node.target not in (aten.linear.default, *CONVOLUTIONS):
        return False
    x, weight = (_shape(argument) for argument in node.args[:2])
    if x is None or weight is None or node.meta["val"].dtype not in TYPES:
        return False
    if node.target is aten.linear.default:
        return prod(x[:-1]) == 1
    options = arguments_of(node)
    is_plain = options["groups"] == 1 and not any(_numbers(options["padding"]))
    return is_plain and prod(weight[2:]) == 1 and prod((x[0], *x[2:])) == 1 and len(x) == len(weight)


def _rewrite(graph: Graph, node: Node) -> None:
    x, weight = node.args[:2]
    bias = arguments_of(node)["bias"]
    matrix = [*(_shape(weight) or ())[:2]]

    def call(operator: Any, *arguments: Any) -> Node:
        made = graph.call_function(operator, arguments)
        made.meta["val"] = operator(*(each.meta["val"] if isinstance(each, Node) else each for each in arguments))
        return made

    with graph.inserting_before(node):
        row, columns = call(aten.reshape.default, x, [1, matrix[1]]), call(aten.reshape.default, weight, matrix)
        result = call(aten.sum.dim_IntList, call(aten.mul.Tensor, row, columns), [1])
        if bias is not None:
            result = call(aten.add.Tensor, result, bias)
        result = call(aten.reshape.default, result, list(node.meta["val"].shape))
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _shape(value: object) -> tuple[int, ...] | None:
    """Return the sizes of a value; None if one is open."""
    sizes = value.meta["val"].shape if isinstance(value, Node) else ()
    return tuple(sizes) if sizes and all(isinstance(size, int) for size in sizes) else None


def arguments_of(node: Node) -> dict[str, Any]:
    """Return what a node is called with, defaults included."""
    assert isinstance(node.target, torch._ops.OpOverload)
    parameters = node.target._schema.arguments
    given = dict(zip((parameter.name for parameter in parameters), node.args, strict=False))
    return {parameter.name: parameter.default_value for parameter in parameters} | given | node.kwargs


def _numbers(value: int | Sequence[int]) -> Sequence[int]:
    return [value] if isinstance(value, int) else value
