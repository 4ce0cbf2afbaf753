"""Write attention over short sequences as two products, with a softmax between them.

    scaled_dot_product_attention(q, k, v, mask)
        →   e = exp(s - max(s)),  s = (q * scale) @ kᵀ + mask;   (e @ v) / sum(e)

Torch's own attention calls MKL for its products. Written out, they are generated as others are (products.py), and take
half of the time. What divides comes after the second product, which has fewer numbers than the scores.

When it applies: float32, heads in four axes, sequences of fixed and short lengths (the scores of a head are held in
full), and as many heads of keys as of queries. Sound: a row that is masked in full is zeros, as in torch's.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from .small_products import arguments_of

aten = torch.ops.aten
LARGEST = 256 * 256
"""Scores of a head: more would not stay in the cache until they are read again."""


def write_attention_as_products(program: ExportedProgram) -> int:
    """Change the program, and return how many attentions are products now."""
    graph = program.graph_module.graph
    found = [node for node in graph.nodes if _is_short(node)]
    for node in found:
        _rewrite(graph, node)
    graph.lint()
    program.graph_module.recompile()
    return len(found)


def _is_short(node: Node) -> bool:
    """Whether a node is attention that can be written out."""
    if node.op != "call_function" or node.target is not aten.scaled_dot_product_attention.default:
        return False
    options = arguments_of(node)
    if options["is_causal"] or options["dropout_p"] or options.get("enable_gqa"):
        return False
    tensors = [options[name].meta["val"] for name in ("query", "key", "value")]
    q, k, v = (tensor.shape for tensor in tensors)
    mask = options["attn_mask"]
    types = {tensor.dtype for tensor in tensors} | ({mask.meta["val"].dtype} if mask is not None else set())
    if types - {torch.bool} != {torch.float32} or not len(q) == len(k) == len(v) == 4:
        return False
    lengths = (q[2], k[2], q[3], v[3])
    is_known = all(isinstance(size, int) and size > 0 for size in lengths)
    return is_known and q[2] * k[2] <= LARGEST and all(q[axis] == k[axis] == v[axis] for axis in (0, 1))


def _rewrite(graph: Graph, node: Node) -> None:
    options = arguments_of(node)
    q, k, v, mask = (options[name] for name in ("query", "key", "value", "attn_mask"))

    def call(operator: Any, *arguments: Any) -> Node:
        made = graph.call_function(operator, arguments)
        made.meta["val"] = operator(*map_arg(arguments, lambda each: each.meta["val"]))
        return made

    with graph.inserting_before(node):
        batch, heads = (call(aten.sym_size.int, q, axis) if _is_open(q, axis) else _size(q, axis) for axis in (0, 1))
        rows, columns, depth, width = _size(q, 2), _size(k, 2), _size(q, 3), _size(v, 3)
        scale = 1 / math.sqrt(depth) if options["scale"] is None else options["scale"]

        def matrices(x: Node, rows: int, columns: int) -> Node:
            return call(aten.reshape.default, x, [-1, rows, columns])

        def by_head(x: Node, columns: int) -> Node:
            return call(aten.reshape.default, x, [batch, heads, rows, columns])

        queries = matrices(call(aten.mul.Tensor, q, scale), rows, depth)
        keys = call(aten.transpose.int, matrices(k, columns, depth), 1, 2)
        scores = call(aten.bmm.default, queries, keys)
        if mask is not None:
            scores = matrices(_masked(call, by_head(scores, columns), mask), rows, columns)
        largest = call(aten.amax.default, scores, [-1], True)
        if mask is not None:
            largest = call(aten.clamp_min.default, largest, torch.finfo(torch.float32).min)
        weights = call(aten.exp.default, call(aten.sub.Tensor, scores, largest))
        total = call(aten.sum.dim_IntList, weights, [-1], True)
        if mask is not None:
            total = call(aten.clamp_min.default, total, 1.0)  # less only if all are masked
        result = call(aten.div.Tensor, call(aten.bmm.default, weights, matrices(v, columns, width)), total)
        result = by_head(result, width)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _masked(call: Any, scores: Node, mask: Node) -> Node:
    if mask.meta["val"].dtype != torch.bool:
        masked: Node = call(aten.add.Tensor, scores, mask)
        return masked
    hidden: Node = call(aten.masked_fill.Scalar, scores, call(aten.logical_not.default, mask), -math.inf)
    return hidden


def _size(node: Node, axis: int) -> int:
    size: int = node.meta["val"].shape[axis]
    return size


def _is_open(node: Node, axis: int) -> bool:
    return not isinstance(_size(node, axis), int)
