"""The weights of an `nn.MultiheadAttention`, from three projections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.ir.editing.edit import Edit, Names, weight_initialiser
from onnxlift.ir.graph.walk import Region
from onnxlift.rewriting.idioms.attention.multihead.projection_weights import arranged, weights_of
from onnxlift.rewriting.idioms.attention.multihead.projections import Projection
from rewriting.idioms.attention.multihead_graphs import LAYER, TEXT, THREE, layer, named, three
from rewriting.idioms.recognising import found

# A projection: its weight, the first of its rows and their number, its bias, and the first number of that.
Spec = tuple[str, int, int, str, int]
SHAPES = {
    "in_proj_weight": (36, 12),
    "longer_weight": (48, 12),
    "empty_weight": (36, 0),
    "in_proj_bias": (36,),
    "reconstructed.in_proj_bias": (36,),
    "longer.in_proj_bias": (48,),
    "row.in_proj_bias": (1, 36),
    "onnx::kv": (24, 12),
    "onnx::kv_of_8": (24, 8),
    "onnx::k_of_8": (12, 8),
    "onnx::24": (24,),
    "onnx::24_more": (24,),
    "b_q": (12,),
    "onnx::b_q": (12,),
    "onnx::b_k": (12,),
    "onnx::b_v": (12,),
}
PACKED: list[Spec] = [
    ("in_proj_weight", 0, 12, "in_proj_bias", 0),
    ("in_proj_weight", 12, 12, "in_proj_bias", 12),
    ("in_proj_weight", 24, 12, "in_proj_bias", 24),
]
OWN: list[Spec] = [
    ("onnx::q", 0, 12, "onnx::b_q", 0),
    ("onnx::k", 0, 12, "onnx::b_k", 0),
    ("onnx::v", 0, 12, "onnx::b_v", 0),
]
PAIR: list[Spec] = [OWN[0], ("onnx::kv", 0, 24, "onnx::24", 0), ("onnx::kv", 0, 24, "onnx::24", 0)]


def made(specs: list[Spec]) -> tuple[Edit, list[Projection]]:
    graph = ir.Graph([], [], nodes=[], name="g", opset_imports={"": 18})
    random, values = np.random.default_rng(3), dict[str, ir.Value]()
    for name in [name for spec in specs for name in (spec[0], spec[3]) if name]:
        if name not in values:
            array = random.standard_normal(SHAPES.get(name, (12, 12))).astype(np.float32)
            values[name] = weight_initialiser(graph, name, array, "a test")
    x = ir.Value(name="x")
    projections = [
        Projection(x, values[weight], values.get(bias), start, rows, SHAPES.get(weight, (12, 12))[1], True, bias_start)
        for weight, start, rows, bias, bias_start in specs
    ]
    return Edit(Region(graph, {"": 18}), Names(ir.Model(graph, ir_version=9))), projections


def weights(old: list[Spec], *names: str) -> list[Spec]:
    return [(name, *spec[1:]) for spec, name in zip(old, names, strict=True)]


def biases(old: list[Spec], *ends: tuple[str, int]) -> list[Spec]:
    return [(*spec[:3], *end) for spec, end in zip(old, ends, strict=True)]


@pytest.mark.parametrize(
    ("specs", "starts"),
    [
        (PACKED, [0, 12, 24]),
        (biases(PACKED, ("", 0), ("", 0), ("", 0)), [0, 12, 24]),
        (OWN, [0, 12, 24]),
        (biases(OWN, ("", 0), ("", 0), ("", 0)), [0, 12, 24]),
        (biases(OWN, ("in_proj_bias", 0), ("in_proj_bias", 12), ("in_proj_bias", 24)), [0, 12, 24]),
        (weights(OWN, "a.q_proj_weight", "a.k_proj_weight", "a.v_proj_weight"), [0, 12, 24]),
        (weights(OWN, "onnx::q", "onnx::k_of_8", "onnx::v"), [0, 12, 24]),
        (PAIR, [0, 12, 12]),
    ],
    ids=["packed", "no bias", "own", "own, no bias", "own, one bias", "own names", "other widths", "keys and values"],
)
def test_arranged(specs: list[Spec], starts: list[int]) -> None:
    result = arranged(made(specs)[1])
    assert result is not None and [projection.start for projection in result] == starts


@pytest.mark.parametrize(
    "specs",
    [
        PACKED[:2],
        weights(PACKED, *3 * ["longer_weight"]),
        weights(biases(PACKED, *3 * [("", 0)]), *3 * ["empty_weight"]),
        biases(PACKED, ("in_proj_bias", 0), ("in_proj_bias", 24), ("in_proj_bias", 12)),
        biases(PACKED, *(("longer.in_proj_bias", start) for start in (0, 12, 24))),
        biases(PACKED, *(("row.in_proj_bias", start) for start in (0, 12, 24))),
        biases(PACKED, ("in_proj_bias", 0), ("reconstructed.in_proj_bias", 12), ("in_proj_bias", 24)),
        [("in_proj_weight", start, 12, "in_proj_bias", start) for start in (6, 18, 24)],
        [("onnx::kv", 0, 12, *OWN[0][3:]), *OWN[1:]],
        [*OWN[:2], ("onnx::kv", 0, 24, "onnx::24", 0)],
        [OWN[0], *2 * [("onnx::kv_of_8", 0, 24, "onnx::24", 0)]],
        [PAIR[0], PAIR[1], ("onnx::kv", 0, 24, "onnx::24_more", 0)],
        weights(OWN, "onnx::q", "wk", "onnx::v"),
        weights(OWN, "onnx::q", "a.q_proj_weight", "onnx::v"),
        biases(OWN, ("in_proj_bias", 0), ("in_proj_bias", 24), ("in_proj_bias", 12)),
        biases(OWN, *(("longer.in_proj_bias", start) for start in (0, 12, 24))),
        biases(OWN, ("in_proj_bias", 0), ("onnx::b_k", 12), ("in_proj_bias", 24)),
        biases(OWN, ("onnx::b_q", 0), ("in_proj_bias", 12), ("onnx::b_v", 0)),
        biases(OWN, ("", 0), ("onnx::b_k", 0), ("", 0)),
        biases(OWN, ("onnx::b_q", 0), ("", 0), ("onnx::b_v", 0)),
        biases(OWN, ("b_q", 0), ("onnx::b_k", 0), ("onnx::b_v", 0)),
        biases(OWN, ("onnx::b_q", 0), ("onnx::24", 0), ("onnx::b_v", 0)),
    ],
    ids=[
        "two",
        "more rows",
        "no columns",
        "order of biases",
        "more biases",
        "a row of biases",
        "two biases",
        "not thirds",
        "part of a weight",
        "too many rows",
        "two of another width",
        "one weight with two biases",
        "a name of its own",
        "the name of another",
        "own, order of biases",
        "own, more biases",
        "one of its own",
        "one packed",
        "no bias for queries",
        "no bias for keys",
        "a bias with a name",
        "part of a bias",
    ],
)
def test_not_arranged(specs: list[Spec]) -> None:
    assert arranged(made(specs)[1]) is None


def test_weights_that_are_stored_otherwise() -> None:
    projections = made(OWN)[1]
    assert arranged([projections[0], replace(projections[1], is_transposed=False), projections[2]]) is None


@pytest.mark.parametrize("is_transposed", [True, False])
def test_joined(is_transposed: bool) -> None:
    edit, projections = made(OWN)
    result = arranged([replace(projection, is_transposed=is_transposed) for projection in projections])
    assert result is not None
    weights = weights_of(edit, result, "attn.")
    arrays = [projection.weight.const_value.numpy() for projection in projections if projection.weight.const_value]
    assert weights.weight.name == "attn.in_proj_weight" and weights.weight.const_value is not None
    np.testing.assert_array_equal(weights.weight.const_value.numpy(), np.concatenate(arrays, 0 if is_transposed else 1))
    assert weights.bias is not None and weights.bias.name == "attn.in_proj_bias"


@pytest.mark.parametrize("bias", ["in_proj_bias", "reconstructed.in_proj_bias"])
def test_a_bias_that_is_packed_already_stays(bias: str) -> None:
    """Whatever its name begins with."""
    edit, projections = made(biases(OWN, (bias, 0), (bias, 12), (bias, 24)))
    result = arranged(projections)
    assert result is not None and weights_of(edit, result, "").bias is projections[0].bias


def test_weights_of_other_widths_stay_apart() -> None:
    edit, projections = made(weights(OWN, "onnx::q", "onnx::k_of_8", "onnx::v"))
    result = arranged(projections)
    assert result is not None and weights_of(edit, result, "").key_weight is projections[1].weight


def test_packed_weights_stay() -> None:
    edit, projections = made(PACKED)
    assert weights_of(edit, projections, "").weight is projections[0].weight


# In whole models, where the numbers tell.


def test_four_parts_of_which_three_are_used() -> None:
    model = layer(W=(12, 48), in_proj_bias=(48,), parts=np.array([0, 0, 4, 12]))
    assert LAYER not in found(model)


def test_the_packed_bias_is_part_of_another() -> None:
    text = TEXT.replace("packed = Add(pw, in_proj_bias)", "b9, b8 = Split(in_proj_bias, half) packed = Add(pw, b9)")
    assert LAYER not in found(layer(text, in_proj_bias=(72,), half=np.array([36, 36])))


@pytest.mark.parametrize(("bias", "is_layer"), [("b_kv", True), ("b_other", False)])
def test_keys_and_values_with_one_weight(bias: str, is_layer: bool) -> None:
    text = THREE.replace("CUTS", "").replace("t_k", "t_kv").replace("t_v)", "t_kv)").replace("b_k)", "b_kv)")
    text = (
        text.replace("b_v)", f"{bias})").replace("(ks, others)", "(k9, others)").replace("(vs, values)", "(v9, values)")
    )
    halves = "k9, k8 = Split <axis = 2, num_outputs = 2> (ks) v8, v9 = Split <axis = 2, num_outputs = 2> (vs) qr ="
    shapes = {"t_q": (12, 12), "t_kv": (12, 24), "b_q": (12,), "b_kv": (24,), "b_other": (24,)}
    model = named(three(" ", text.replace("qr =", halves), **shapes))
    assert (found(model) == [LAYER]) is is_layer
