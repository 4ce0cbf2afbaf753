"""Changes of nodes: operators, inputs, outputs, order, number."""

from __future__ import annotations

import random

import onnx

from . import hostile
from .view import NotApplicableError, View, pick

OPERATORS = tuple(sorted({(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()}))
MOST_NODES = 2000


def other_operator(choose: random.Random, view: View) -> None:
    """Make a node another operator, of the same domain if it can be."""
    _, node = pick(choose, view.nodes)
    if choose.random() < 0.1:
        node.op_type = hostile.text(choose)
        return
    same = [op for domain, op in OPERATORS if domain == node.domain] if choose.random() < 0.8 else []
    if same:
        node.op_type = choose.choice(same)
    else:
        node.domain, node.op_type = choose.choice(OPERATORS)


def other_domain(choose: random.Random, view: View) -> None:
    _, node = pick(choose, view.nodes)
    node.domain = choose.choice(hostile.DOMAINS)


def other_input(choose: random.Random, view: View) -> None:
    """Let a node read something else, of its own region, of another, or that is not there."""
    _, node = pick(choose, [each for each in view.nodes if each[1].input])
    node.input[choose.randrange(len(node.input))] = _value(choose, view)


def drop_input(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].input])
    del node.input[choose.randrange(len(node.input))]


def no_inputs(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].input])
    del node.input[:]


def add_input(choose: random.Random, view: View) -> None:
    _, node = pick(choose, view.nodes)
    for _ in range(choose.choice((1, 1, 1, 2, 5, 40))):
        node.input.insert(choose.randint(0, len(node.input)), _value(choose, view))


def swap_inputs(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if len(each[1].input) > 1])
    first, second = choose.sample(range(len(node.input)), 2)
    node.input[first], node.input[second] = node.input[second], node.input[first]


def other_output(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].output])
    node.output[choose.randrange(len(node.output))] = _value(choose, view)


def drop_output(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].output])
    del node.output[choose.randrange(len(node.output))]


def no_outputs(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if each[1].output])
    del node.output[:]


def add_output(choose: random.Random, view: View) -> None:
    _, node = pick(choose, view.nodes)
    for number in range(choose.choice((1, 1, 2, 40))):
        node.output.append(f"more_{number}" if choose.random() < 0.8 else _value(choose, view))


def swap_outputs(choose: random.Random, view: View) -> None:
    _, node = pick(choose, [each for each in view.nodes if len(each[1].output) > 1])
    first, second = choose.sample(range(len(node.output)), 2)
    node.output[first], node.output[second] = node.output[second], node.output[first]


def delete_node(choose: random.Random, view: View) -> None:
    region, _ = pick(choose, view.nodes)
    del region.node[choose.randrange(len(region.node))]


def no_nodes(choose: random.Random, view: View) -> None:
    region, _ = pick(choose, view.nodes)
    del region.node[:]


def repeat_node(choose: random.Random, view: View) -> None:
    """Put a node in a second time, as it is, or with outputs that the rest reads in its place."""
    region, node = pick(choose, view.nodes)
    copy = region.node.add()
    copy.CopyFrom(node)
    if choose.random() < 0.5:
        copy.output[:] = [f"{name}_again" for name in node.output]


def chain_node(choose: random.Random, view: View) -> None:
    """Apply a node to its own output, many times, and return the last."""
    region, node = pick(choose, [each for each in view.nodes if each[1].input and each[1].output])
    [*_, last] = list(node.output)
    for number in range(choose.choice((1, 3, 30, 200))):
        if len(region.node) > MOST_NODES:
            break
        copy = region.node.add()
        copy.CopyFrom(node)
        place = choose.randrange(len(node.input)) if choose.random() < 0.2 else 0
        copy.input[place] = last
        if choose.random() < 0.5:
            copy.input[:] = [last] * len(copy.input)  # with two inputs, what grows doubles
        copy.name = ""
        copy.output[:] = [f"{name}_{number}" for name in node.output]
        last = copy.output[0] or last
    outputs = region.output
    if outputs and isinstance(region, onnx.GraphProto):
        outputs[0].name = last
    elif outputs:
        outputs[0] = last


def move_node(choose: random.Random, view: View) -> None:
    """Put the nodes of a region into another order."""
    region, _ = pick(choose, [each for each in view.nodes if len(each[0].node) > 1])
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in region.node]
    choose.shuffle(nodes)
    del region.node[:]
    region.node.extend(nodes)


def node_of_a_stranger(choose: random.Random, view: View) -> None:
    """Take over a node of another model, which reads what there is here."""
    region = pick(choose, view.regions)
    strangers = [node for stranger in view.strangers for _, node in View.of(stranger).nodes]
    node = region.node.add()
    node.CopyFrom(pick(choose, strangers))
    for place, name in enumerate(node.input):
        if name:
            node.input[place] = _value(choose, view)
    if choose.random() < 0.7:
        _, reader = pick(choose, [each for each in view.nodes if each[1].input])
        if node.output:
            reader.input[choose.randrange(len(reader.input))] = node.output[0]


def name_node(choose: random.Random, view: View) -> None:
    _, node = pick(choose, view.nodes)
    node.name = hostile.text(choose)


def other_overload(choose: random.Random, view: View) -> None:
    _, node = pick(choose, view.nodes)
    node.overload = hostile.text(choose)


def scopes(choose: random.Random, view: View) -> None:
    """Say of nodes in which modules they lie, as exporters do: by names, or by metadata."""
    if not view.nodes:
        raise NotApplicableError
    parts = ("layers.0", "layers.1", "attn", "0", "1", "block", "self", "weight", "", "a.b", "forward", "Module")
    for _, node in view.nodes:
        path = [choose.choice(parts) for _ in range(choose.randint(0, 4))]
        if choose.random() < 0.5:
            node.name = "/" + "/".join((*path, node.op_type))
        else:
            classes = ["__main__.Net", *(f"torch.nn.{part}" for part in path)]
            for key, value in (("namespace", "/".join(path)), ("pkg.torch.onnx.name_scopes", repr(path)),
                               ("pkg.torch.onnx.class_hierarchy", repr(classes))):  # fmt: skip
                node.metadata_props.add(key=key, value=value if choose.random() < 0.9 else hostile.text(choose))


def _value(choose: random.Random, view: View) -> str:
    draw = choose.random()
    if draw < 0.1:
        return ""
    if draw < 0.2:
        return hostile.text(choose)
    return pick(choose, view.names())


CHANGES = {
    other_operator: 6,
    other_domain: 2,
    other_input: 6,
    drop_input: 4,
    no_inputs: 1,
    add_input: 3,
    swap_inputs: 3,
    other_output: 2,
    drop_output: 2,
    no_outputs: 1,
    add_output: 2,
    swap_outputs: 2,
    delete_node: 2,
    no_nodes: 1,
    repeat_node: 2,
    chain_node: 2,
    move_node: 2,
    node_of_a_stranger: 4,
    name_node: 2,
    other_overload: 1,
    scopes: 3,
}
