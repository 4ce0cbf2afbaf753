"""Changes of what stands beside the graph: functions, opsets, metadata."""

from __future__ import annotations

import random

import onnx

from . import hostile
from .view import View, pick


def other_version(choose: random.Random, view: View) -> None:
    """Let the model, or a function, be of another opset."""
    imports = [entry for holder in (view.model, *view.model.functions) for entry in holder.opset_import]
    pick(choose, imports).version = choose.choice(hostile.VERSIONS)


def near_version(choose: random.Random, view: View) -> None:
    imports = [entry for holder in (view.model, *view.model.functions) for entry in holder.opset_import]
    entry = pick(choose, [each for each in imports if abs(each.version) < 1000])
    entry.version += choose.choice((-3, -2, -1, 1, 2))


def opsets(choose: random.Random, view: View) -> None:
    """Drop an opset, repeat one, or add one."""
    holder = choose.choice((view.model, *view.model.functions))
    if holder.opset_import and choose.random() < 0.4:
        del holder.opset_import[choose.randrange(len(holder.opset_import))]
    else:
        holder.opset_import.add(domain=choose.choice(hostile.DOMAINS), version=choose.choice(hostile.VERSIONS))


def ir_version(choose: random.Random, view: View) -> None:
    view.model.ir_version = choose.choice((*range(-1, 15), 1 << 40))


def outline(choose: random.Random, view: View) -> None:
    """Move a node into a function of the model, and call that; the function may call itself."""
    _, node = pick(choose, [each for each in view.nodes if each[1].output])
    function = view.model.functions.add(name=f"F{len(view.model.functions)}", domain="local")
    function.opset_import.extend(view.model.opset_import)
    if not any(entry.domain == "local" for entry in view.model.opset_import):
        view.model.opset_import.add(domain="local", version=1)
    function.opset_import.add(domain="local", version=1)
    function.input.extend(dict.fromkeys(name for name in node.input if name))
    function.output.extend(name for name in node.output if name)
    function.node.append(node)
    inner = function.node[0]
    if choose.random() < 0.3 and inner.attribute:
        attribute = choose.choice(inner.attribute)
        function.attribute.append(attribute.name)
        attribute.ref_attr_name = attribute.name
    if choose.random() < 0.15:
        calling = function.node.add(op_type=choose.choice([each.name for each in view.model.functions]), domain="local")
        calling.input.extend(function.input)
        calling.output.extend(f"{name}_" for name in function.output)
    node.op_type, node.domain = function.name, "local"
    inputs, outputs = list(function.input), list(function.output)
    node.input[:], node.output[:] = inputs, outputs
    if choose.random() < 0.7:
        del node.attribute[:]


def change_function(choose: random.Random, view: View) -> None:
    function = pick(choose, list(view.model.functions))
    draw = choose.randrange(6)
    if draw == 0:
        function.name = choose.choice(
            (hostile.text(choose), *(each.name for each in view.model.functions), "Relu", "Add")
        )
    elif draw == 1:
        function.domain = choose.choice(hostile.DOMAINS)
    elif draw == 2:
        function.attribute.append(hostile.text(choose))
    elif draw == 3:
        del function.node[:]
    elif draw == 4:
        part = choose.choice((function.input, function.output))
        part.append(hostile.text(choose))
    else:
        view.model.functions.append(function)


def metadata(choose: random.Random, view: View) -> None:
    holder = choose.choice((view.model, view.model.graph, *(node for _, node in view.nodes[:20]), *view.values[:20]))
    keys = ("pkg.torch.onnx.original_node_name", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy",
            "namespace", "pkg.torch.export.graph_signature.InputSpec.kind", "pkg.onnxscript.optimizer.folded_from",
            "pkg.torch.onnx.fx_node", "author")  # fmt: skip
    values = ("[]", "['a', 'b']", "[1]", "['", "{}", "None", "[['a']]", "PARAMETER", "BUFFER", *hostile.TEXTS)
    for _ in range(choose.choice((1, 2, 5))):
        holder.metadata_props.add(key=choose.choice((*keys, hostile.text(choose))), value=choose.choice(values))


def producer(choose: random.Random, view: View) -> None:
    view.model.producer_name = choose.choice(("pytorch", "tf2onnx", "keras2onnx", "skl2onnx", "", hostile.text(choose)))
    view.model.producer_version = choose.choice(("", "1", "2.13.0", "x", "1.2.3.4.5", "9" * 40, hostile.text(choose)))


def graph_name(choose: random.Random, view: View) -> None:
    graphs = [region for region in view.regions if isinstance(region, onnx.GraphProto)]
    graph = choose.choice(graphs)
    graph.name = hostile.text(choose)
    graph.doc_string = hostile.text(choose)


CHANGES = {
    other_version: 5,
    near_version: 4,
    opsets: 3,
    ir_version: 1,
    outline: 5,
    change_function: 3,
    metadata: 3,
    producer: 1,
    graph_name: 1,
}
