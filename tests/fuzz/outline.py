"""`outline`: some nodes of a model as a function that the model calls."""

from __future__ import annotations

import random

import onnx
from onnx import helper

from fuzz.runtime import captured_names

DOMAIN = "local"


def outline(model: onnx.ModelProto, choose: random.Random) -> None:
    """Put a random run of nodes into a model-local function, in place."""
    graph = model.graph
    start = choose.randrange(len(graph.node))
    end = choose.randint(start + 1, min(start + 8, len(graph.node)))
    body, rest = list(graph.node[start:end]), [*graph.node[:start], *graph.node[end:]]
    made = [name for node in body for name in node.output if name]
    read = {*captured_names(rest), *(value.name for value in graph.output)}
    inputs, outputs = captured_names(body), [name for name in made if name in read]
    if not outputs:
        return
    imports = [helper.make_opsetid("", model.opset_import[0].version)]
    model.functions.append(helper.make_function(DOMAIN, "Block", inputs, outputs, body, imports))
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    call = helper.make_node("Block", inputs, outputs, name="call_of_block", domain=DOMAIN)
    nodes = [*graph.node[:start], call, *graph.node[end:]]
    del graph.node[:]
    graph.node.extend(nodes)
