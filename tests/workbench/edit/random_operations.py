"""Random operations on an editor: most make sense, some do not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from onnxlift.errors import InternalError, OnnxLiftError
from onnxlift.workbench.edit import Editor, Operation

UNARY = ["Relu", "Neg", "Identity", "Abs", "Sigmoid", "Transpose", "Shape", "Nonsense", "com.acme::Own"]
LITERALS: list[Any] = [0, 1.5, True, "x", [1, 1], [0.5], None, [], [[1.0, 2.0]], "float16"]


def random_operation(choose: random.Random, m: Editor) -> Operation:
    """An operation that may be possible."""
    nodes, values = m.nodes() or ["none"], m.values() or ["none"]
    node, value, other = choose.choice(nodes), choose.choice(values), choose.choice(values)
    fresh = f"new_{choose.randrange(1000)}"
    array = {"dtype": "float32", "shape": [2], "data": [1.0, -1.0]}
    literal = choose.choice([*LITERALS, array])
    given: list[dict[str, Any]] = [
        {"op": "rename", "old": value, "new": choose.choice([fresh, other])},
        {"op": "rename", "old": node, "new": fresh, "kind": "node"},
        {"op": "delete", "node": node},
        {"op": "delete", "node": node, "bridge": True},
        {"op": "insert_after", "value": value, "operator": choose.choice(UNARY)},
        {"op": "insert_after", "value": value, "operator": "Clip", "arguments": {"min": 0, "max": 6.0}},
        {"op": "insert_after", "value": value, "operator": "Mul", "inputs": [choose.choice([2, other, 0.5])]},
        {"op": "insert_before", "node": node, "operator": choose.choice(UNARY), "at": choose.choice([0, 1, "A"])},
        {"op": "replace", "node": node, "operator": choose.choice(UNARY)},
        {"op": "replace", "node": node, "operator": "Add", "inputs": [value, 1]},
        {"op": "replace_value", "old": value, "new": other},
        {"op": "set_input", "node": node, "input": choose.choice([0, 1, 2, "B"]), "value": choose.choice([other, 1])},
        {"op": "set_attribute", "node": f"{node}.{choose.choice(['axis', 'to', 'perm', 'alpha'])}", "value": literal},
        {"op": "remove_attribute", "node": node, "attribute": choose.choice(["axis", "perm"])},
        {"op": "set_constant", "name": value, "value": literal},
        {"op": "add_constant", "name": fresh, "value": literal},
        {"op": "add_input", "name": choose.choice([fresh, value]), "dtype": "float32", "shape": ["batch", 3]},
        {"op": "remove_input", "name": value, "value": choose.choice([None, 1])},
        {"op": "add_output", "value": value},
        {"op": "remove_output", "name": choose.choice(m.outputs or ["none"])},
        {"op": "set_size", "name": choose.choice(["batch", "sequence", "n"]), "size": choose.choice([2, "N"])},
        {"op": "set_type", "input": value, "shape": [2, 3]},
        {"op": "remove_unused"},
        {"op": "set_metadata", "key": fresh, "value": "x"},
    ]
    return Operation.from_dict(choose.choice(given))


def do_randomly(choose: random.Random, m: Editor, count: int) -> Iterator[Operation]:
    """Do random operations, and yield those that were possible. The others must say why in an OnnxLiftError."""
    for _ in range(count):
        operation = random_operation(choose, m)
        try:
            m.do(operation)
        except OnnxLiftError as error:
            assert not isinstance(error, InternalError), (operation, error.__cause__)
            assert len(str(error)) < 2000
        else:
            yield operation


def bytes_or_none(m: Editor) -> bytes | None:
    """The bytes of the saved model; None if it is not valid."""
    try:
        return m.report(run=False).to_bytes()
    except OnnxLiftError as error:
        assert not isinstance(error, InternalError), error.__cause__
        return None
