"""Group normalisation: what only looks like it, and what of it is weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.metadata import FOLDED_FROM, SIGNATURE
from onnxlift.rewriting.idioms.norms import group_norm
from rewriting.idioms.recognising import Data, found, parse, simplified
from rewriting.running_stages import normalise

GROUPED = "split = Reshape(x, groups) n = InstanceNormalization(split, ones, zeros) y = Reshape(n, whole)"
AFFINE = f"{GROUPED.replace('y =', 'h =')} m = Mul(h, w) y = Add(m, b)"
EACH = "h = InstanceNormalization(x, ones, zeros) m = Mul(h, w) y = Add(m, b)"


def model(
    body: str, x: str = "batch, 6, 4, 5", y: str = "batch, 6, 4, 5", more: str = "", groups: int = 3, **known: Data
) -> onnx.ModelProto:
    numbers: dict[str, Data] = {
        "groups": np.array([0, groups, 2, 20]),
        "whole": np.array([0, 6, 4, 5]),
        "w": (6, 1, 1),
        "b": (6, 1, 1),
    }
    numbers |= {"ones": np.ones(groups, np.float32), "zeros": np.zeros(groups, np.float32), "one": 1.0} | known
    used = {name: value for name, value in numbers.items() if f"{name})" in body or f"{name}," in body}
    return parse(f"g (float[{x}] x) => (float[{y}] y{more}) {{ {body} }}", **used)


def operators(proto: onnx.ModelProto) -> list[str]:
    """What the idiom alone makes of a graph that is not simplified."""
    graph = load(proto)
    normalise(graph)
    group_norm.run(graph)
    return [node.op_type for node in graph.graph]


@pytest.mark.parametrize(("body", "groups"), [(GROUPED, 3), (AFFINE, 3), (EACH, 6)])
def test_the_layer(body: str, groups: int) -> None:
    assert found(model(body, groups=groups)) == ["onnxlift.GroupNorm"]


@pytest.mark.parametrize(
    ("body", "groups", "value", "shape", "operator"),
    [
        (GROUPED, 3, "n", "batch, 3, 2, 20", "InstanceNormalization"),
        (GROUPED, 3, "split", "batch, 3, 2, 20", "InstanceNormalization"),
        (AFFINE, 3, "h", "batch, 6, 4, 5", "Add"),
        (AFFINE, 3, "m", "batch, 6, 4, 5", "Add"),
        (EACH, 6, "h", "batch, 6, 4, 5", "Add"),
        (f"{GROUPED.replace('y =', 'h =')} y = Add(h, nothing)", 3, "h", "batch, 6, 4, 5", "Add"),
    ],
    ids=["norm", "split", "grouped", "scaled", "each", "plus nothing"],
)
def test_what_is_read_elsewhere_stays(body: str, groups: int, value: str, shape: str, operator: str) -> None:
    proto = model(f"{body} o = Exp({value})", more=f", float[{shape}] o", groups=groups, nothing=np.zeros(1, "f"))
    operators = found(proto)
    assert operator in operators and (operator == "Add" or "onnxlift.GroupNorm" not in operators)


@pytest.mark.parametrize(
    ("x", "sizes", "whole"),
    [
        ("batch, 6, 4, 5", (0, 4, 30, 1), (0, 6, 4, 5)),
        ("4, 6, 4, 5", (8, 3, 20), (4, 6, 4, 5)),
        ("batch, 6, 4, 5", (0, 3, 2, 20), (0, 6, 0, -1)),
        ("batch, 6", (0, 6, 1), (0, 6)),
        ("12", (12, 1, 1), (12,)),
    ],
    ids=["channels in two groups", "images in two", "a size of the groups", "single elements", "no channels"],
)
def test_other_sizes_stay(x: str, sizes: tuple[int, ...], whole: tuple[int, ...]) -> None:
    proto = model(GROUPED, x, ", ".join("abcd"[: len(whole)]), groups=sizes[1], whole=np.array(whole))
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array(sizes), "groups"))
    assert "onnxlift.GroupNorm" not in found(proto)
    assert "GroupNorm" not in operators(proto)


@pytest.mark.parametrize("name", ["ones", "zeros"])
@pytest.mark.parametrize(("body", "groups"), [(GROUPED, 3), (EACH, 6)])
def test_an_instance_norm_with_weights_stays(body: str, groups: int, name: str) -> None:
    assert "onnxlift.GroupNorm" not in found(model(body, groups=groups, **{name: (groups,)}))


def test_a_size_that_only_the_data_tells() -> None:
    """It is 0, which copies the size of what is reshaped: the groups have another one than x."""
    body = f"""big = ReduceMax <keepdims = 0> (x) small = Sigmoid(big) none = Floor(small) zero = Cast <to = 7> (none)
        size = Reshape(zero, single) target = Concat <axis = 0> (first, size, rest)
        {GROUPED.replace("whole)", "target)")}"""
    known = {"first": np.array([0, 6]), "rest": np.array([-1]), "single": np.array([1])}
    assert "onnxlift.GroupNorm" not in found(model(body, y="batch, 6, c, d", **known))


@pytest.mark.parametrize(
    ("y", "whole", "operators"),
    [("2, 6, 4, 5", (2, 6, 4, 5), []), ("2, 6, 20", (2, 6, 20), ["Reshape"])],
    ids=["as it was", "in a row"],
)
def test_sizes_that_may_be_zero(y: str, whole: tuple[int, ...], operators: list[str]) -> None:
    body = GROUPED.replace("Reshape(n", "Reshape <allowzero = 1> (n")
    assert found(model(body, "2, 6, 4, 5", y, whole=np.array(whole))) == [*operators, "onnxlift.GroupNorm"]


def test_sizes_that_are_copied() -> None:
    proto = model(GROUPED, "batch, 6, 2, 20", "batch, 6, 2, 20", whole=np.array([0, 6, 0, 20]))
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([0, 3, 2, -1]), "groups"))
    assert found(proto) == ["onnxlift.GroupNorm"]


@pytest.mark.parametrize("x", ["1, 6, 1", "2, 6"])
def test_single_elements_stay(x: str) -> None:
    """PyTorch refuses them in a batch of one; ONNX Runtime knows no such input without a third axis."""
    shape = (6,) if x == "2, 6" else (6, 1)
    assert operators(model(EACH, x, x, groups=6, w=shape, b=shape)) == ["InstanceNormalization", "Mul", "Add"]


@pytest.mark.parametrize("body", [EACH, GROUPED], ids=["each", "grouped"])
def test_no_channels_have_no_groups(body: str) -> None:
    known = {"w": (0, 1), "b": (0, 1), "whole": np.array([2, 0, 4]), "groups": 0}
    proto = model(
        body.replace("Reshape", "Reshape <allowzero = 1>").replace("groups)", "sizes)"),
        "2, 0, 4",
        "2, 0, 4",
        sizes=np.array([2, 0, 2, 2]),
        **known,
    )
    assert "GroupNorm" not in operators(proto)
    assert "GroupNorm" not in onnxlift.lift(proto).source


def test_only_the_first_weights_are_its_own() -> None:
    body = f"{AFFINE.replace('y =', 'z =')} s = Mul(z, v) y = Add(s, c)"
    assert found(model(body, v=(6, 1, 1), c=(6, 1, 1))) == ["onnxlift.GroupNorm", "Mul", "Add"]


@pytest.mark.parametrize(
    ("x", "weight", "bias", "rest"),
    [
        ("batch, 6, 4, 5", (6, 1, 1), (1, 6, 1, 1), []),
        ("batch, 6, 4, 5", (6, 1, 1), (1, 1, 6, 1, 1), ["Mul", "Add"]),
        ("batch, 6, 4, 5", (6, 1, 1), (6, 4, 1), ["Mul", "Add"]),
        ("batch, 6, 4, 6", (6, 1, 1), (6,), ["Mul", "Add"]),
    ],
    ids=["its channels", "more axes", "positions", "the last axis"],
)
def test_weights(x: str, weight: tuple[int, ...], bias: tuple[int, ...], rest: list[str]) -> None:
    y = f"1, {x}" if len(bias) == 5 else x
    sizes = {"groups": 3, "whole": np.array([0, 6, 4, int(x[-1])])}
    body = AFFINE.replace("groups)", "sizes)")
    proto = model(body, x, y, w=weight, b=bias, sizes=np.array([0, 3, -1]), **sizes)
    assert found(proto) == ["onnxlift.GroupNorm", *rest]


def told(weight: float, bias: float, folded: str | None = "['val_1']") -> onnx.ModelProto:
    """As the newer exporter writes what it computed weights from, beside a list of all parameters."""
    known = {name: np.full((6, 1, 1), number, np.float32) for name, number in (("w", weight), ("b", bias))}
    proto = model(AFFINE, **known)
    proto.graph.metadata_props.add(key=SIGNATURE, value="\n# inputs\np_0: PARAMETER target='conv.weight'\n")
    for name in known if folded is not None else ():
        proto.graph.value_info.add(name=name).metadata_props.add(key=FOLDED_FROM, value=folded)
    return proto


@pytest.mark.parametrize(
    ("proto", "count"),
    [
        (told(1, 0), 1),
        (told(2, 0), 3),
        (told(1, 0, "[]"), 1),
        (told(1, 0, "['conv.weight']"), 3),
        (told(1, 0, None), 3),
    ],
    ids=["made up", "another weight", "made up of nothing", "a parameter", "not told"],
)
def test_ones_and_zeros_that_an_exporter_made_are_no_weights(proto: onnx.ModelProto, count: int) -> None:
    assert found(proto) == ["onnxlift.GroupNorm"]
    (norm,) = simplified(proto).graph
    assert len(norm.inputs) == count


def test_what_is_added_alone_stays() -> None:
    body = f"{GROUPED.replace('y =', 'h =')} y = Add(h, b)"
    assert found(model(body)) == ["onnxlift.GroupNorm", "Add"]


def test_a_bias_beside_ones_that_an_exporter_made() -> None:
    graph = load(told(1, 5))
    normalise(graph)
    group_norm.run(graph)
    (norm,) = (node for node in graph.graph if node.op_type == "GroupNorm")
    assert len(norm.inputs) == 3
