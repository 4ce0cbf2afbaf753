"""What an exporter computes once for several layers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.rewriting.restoring import merged_computations, merged_parameters
from rewriting.exported import Note, exported, reads_of

WEIGHT = np.ones((4, 4), np.float32)
LAYERS = """a = MatMul(m, p0) k = Relu(a) q = MatMul(x, p1) s = Mul(q, k)
    r = MatMul(s, p1) y = Mul(r, k)"""
NAMES = ["layers.0.k", "layers.0.q", "layers.1.k", "layers.1.q"]
NOTES: list[Note | None] = [
    ("layers.0", "Layer", "matmul(m, p0)"),
    ("layers.0", "Layer", "relu(matmul)"),
    ("layers.0", "Layer", "matmul_1(x, p1)"),
    ("layers.0", "Layer", "mul(matmul_1, relu)"),
    ("layers.1", "Layer", "matmul_3(mul, p3)"),
    ("layers.1", "Layer", "mul_1(matmul_3, relu_1)"),
]


def layers(notes: dict[int, Note], names: list[str] = NAMES, body: str = LAYERS) -> ir.Model:
    """Two layers that read `k`, which the first of them computes of `m`; with other notes for some of the nodes."""
    stored = {"layers.0.k": WEIGHT, "layers.0.q": WEIGHT * 2}
    return exported(body, [notes.get(i, note) for i, note in enumerate(NOTES)], stored, names, "m x")


def test_each_layer_computes_it() -> None:
    model = layers({})
    assert merged_computations.run(model) == 2
    assert [node.op_type for node in model.graph] == [
        "MatMul",
        "Relu",
        "MatMul",
        "Mul",
        "MatMul",
        "Relu",
        "MatMul",
        "Mul",
    ]
    product, relu, query, last = list(model.graph)[4:]
    assert last.inputs[1] is relu.outputs[0] and relu.inputs[0] is product.outputs[0]
    assert query.outputs[0] is last.inputs[0]
    assert product.metadata_props[NAME_SCOPES] == "['', 'layers.1', 'matmul']"
    merged_parameters.run(model)
    assert reads_of(model)[4] == ["m", "layers.1.k"]


def test_what_is_read_by_its_name_is_handed_on() -> None:
    assert merged_computations.run(layers({5: ("layers.1", "Layer", "mul_1(matmul_3, relu)")})) == 0


def test_a_layer_without_the_parameters_has_it_from_the_first() -> None:
    assert merged_computations.run(layers({}, [*NAMES[:2], "layers.1.other", "layers.1.q"])) == 0


def test_a_layer_that_uses_the_parameters_otherwise_has_it_from_the_first() -> None:
    assert merged_computations.run(layers({4: ("layers.1", "Layer", "matmul_3(mul, p2)")})) == 0


def test_no_operation_is_missing() -> None:
    """Only the activation, of a value that the first layer hands on; the second has a parameter that nobody reads."""
    body = LAYERS.replace("y = Mul(r, k)", "t = Mul(r, k) y = MatMul(t, p1)")
    numbered: dict[int, Note] = {4: ("layers.1", "Layer", "matmul_2(mul, p3)")}
    notes = [numbered.get(i, note) for i, note in enumerate(NOTES)]
    stored = {"layers.0.k": WEIGHT, "layers.0.q": WEIGHT * 2}
    last: Note = ("layers.1", "Layer", "matmul_3(mul_1, p3)")
    assert merged_computations.run(exported(body, [*notes, last], stored, NAMES, "m x")) == 0
    gap: Note = ("layers.1", "Layer", "matmul_4(mul_1, p3)")
    assert merged_computations.run(exported(body, [*notes, gap], stored, NAMES, "m x")) == 2


def test_other_classes_are_no_copies() -> None:
    others: dict[int, Note] = {i: ("layers.1", "Other", note[2]) for i in (4, 5) if (note := NOTES[i]) is not None}
    assert merged_computations.run(layers(others)) == 0


def test_the_first_layer_must_read_it_in_the_same_way() -> None:
    assert merged_computations.run(layers({}, body=LAYERS.replace("s = Mul(q, k)", "s = Sub(q, k)"))) == 0


def test_masks_stay_one() -> None:
    """The second layer has a parameter that nobody reads, but what is shared is computed from none."""
    model = layers({0: ("layers.0", "Layer", "matmul(m, x)")}, body=LAYERS.replace("MatMul(m, p0)", "MatMul(m, x)"))
    assert merged_computations.run(model) == 0


def test_layers_that_a_module_around_reads() -> None:
    names = ["experts.0.w", "experts.1.w", "experts.2.w"]
    notes: list[Note | None] = [
        ("experts.0", "Expert", "matmul(x, p0)"),
        ("", "", "mul(m, matmul)"),
        ("", "", "add(matmul_2, matmul_1)"),
        ("", "", "sub(mul, add)"),
    ]
    body = "e = MatMul(x, p0) a = Mul(m, e) b = Add(e, e) y = Sub(a, b)"
    model = exported(body, notes, {"experts.0.w": WEIGHT}, names, "m x")
    assert merged_computations.run(model) == 2
    merged_parameters.run(model)
    of = {node.outputs[0]: [*node.inputs][1] for node in model.graph if node.op_type == "MatMul"}
    added = next(node for node in model.graph if node.op_type == "Add")
    weights = [of[value] for value in added.inputs if value is not None]
    assert [weight.name for weight in weights if weight is not None] == ["experts.2.w", "experts.1.w"]
    # Not if there is one more that could be meant.
    model = exported(body, notes, {"experts.0.w": WEIGHT}, [*names, "experts.3.w"], "m x")
    assert merged_computations.run(model) == 0
