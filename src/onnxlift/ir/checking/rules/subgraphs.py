"""Rules on the graphs that a node holds: they take and give what the node says."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from .rule import Subject, rule


@rule("OL040", "if-branches", "If")
def branches_give_what_the_node_gives(n: Subject) -> Iterable[str]:
    """Both branches of an If give as many values as the node has outputs. (What they read, they read from outside.)"""
    for name in ("then_branch", "else_branch"):
        branch = _graph(n, name)
        if branch is not None and len(branch.outputs) != len(n.node.outputs):
            yield f"its {name} gives {len(branch.outputs)} values, and the node has {len(n.node.outputs)} outputs."


@rule("OL041", "loop-body", "Loop")
def the_body_of_a_loop_fits_its_operands(n: Subject) -> Iterable[str]:
    """The body of a Loop takes a counter, a condition and each carried value, and gives condition, values and scans."""
    body = _graph(n, "body")
    if body is None:
        return
    carried = max(len(n.inputs) - 2, 0)
    if len(body.inputs) != 2 + carried:
        yield (
            f"its body takes {len(body.inputs)} inputs; with {carried} carried values it must take {2 + carried}: "
            "the iteration, the condition, and each value."
        )
    if len(body.outputs) < 1 + carried or len(body.outputs) != 1 + len(n.node.outputs):
        yield (
            f"its body gives {len(body.outputs)} outputs; with {carried} carried values and {len(n.node.outputs)} "
            f"outputs of the node it must give {1 + max(len(n.node.outputs), carried)}: the condition, then these."
        )
    if any(value is None for value in n.inputs[2:]):
        yield "one of its carried values has no initial value."


@rule("OL042", "scan-body", "Scan")
def the_body_of_a_scan_fits_its_operands(n: Subject) -> Iterable[str]:
    """The body of a Scan takes each state and a slice of each scanned input, and gives states and scanned outputs."""
    body, scanned = _graph(n, "body"), n.node.attributes.get("num_scan_inputs")
    if body is None or scanned is None or scanned.is_ref() or scanned.type is not ir.AttributeType.INT:
        return
    count = scanned.as_int()
    inputs = len(n.inputs) - (1 if n.opset < 9 else 0)  # opset 8 begins with the lengths of the sequences
    if not 1 <= count <= inputs:
        yield f"its attribute num_scan_inputs is {count}, and it has {inputs} inputs: at least one is scanned."
        return
    if len(body.inputs) != inputs:
        yield f"its body takes {len(body.inputs)} inputs, and the node passes {inputs}."
    if len(body.outputs) != len(n.node.outputs) or len(body.outputs) < inputs - count:
        yield (
            f"its body gives {len(body.outputs)} outputs; the node has {len(n.node.outputs)}, and {inputs - count} "
            "states."
        )
    if any(value is None for value in n.inputs[1 if n.opset < 9 else 0 :]):
        yield "one of its inputs is left out."
    for name, length in (
        ("scan_input_axes", count),
        ("scan_input_directions", count),
        ("directions", count),
        ("scan_output_axes", len(n.node.outputs) - (inputs - count)),
        ("scan_output_directions", len(n.node.outputs) - (inputs - count)),
    ):
        given = n.node.attributes.get(name)
        if given is not None and not given.is_ref() and given.type is ir.AttributeType.INTS:
            numbers = given.as_ints()
            if len(numbers) != length:
                yield f"its attribute {name} has {len(numbers)} numbers, and must have {length}."
            elif name.endswith("directions") and any(number not in (0, 1) for number in numbers):
                yield f"its attribute {name} has a number other than 0 (forward) and 1 (backward)."


@rule("OL043", "map-body", "SequenceMap")
def the_body_of_a_map_fits_its_operands(n: Subject) -> Iterable[str]:
    """The body of a SequenceMap takes an element of each input, and gives an element of each output."""
    body = _graph(n, "body")
    if body is not None and len(body.inputs) != len(n.inputs):
        yield f"its body takes {len(body.inputs)} inputs, and the node passes {len(n.inputs)}."
    if body is not None and len(body.outputs) != len(n.node.outputs):
        yield f"its body gives {len(body.outputs)} outputs, and the node has {len(n.node.outputs)}."


def _graph(n: Subject, name: str) -> ir.Graph | None:
    attribute = n.node.attributes.get(name)
    is_graph = attribute is not None and not attribute.is_ref() and attribute.type is ir.AttributeType.GRAPH
    return attribute.as_graph() if attribute is not None and is_graph else None
