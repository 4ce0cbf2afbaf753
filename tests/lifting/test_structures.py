"""What the modules come from: names that PyTorch guarantees, names that pay, repetition, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

import onnxlift
from onnxlift.errors import OnnxLiftError
from small_graphs import Graph, code

JOINTS = (";", "_")  # TensorFlow Lite's own, and what converters make of it
ACTIVATIONS = [*permutations(("Tanh", "Elu", "Sigmoid", "Softplus"), 3)]  # 24 that all differ


def classes(lifted: onnxlift.Lifted) -> list[str]:
    return re.findall(r"^class (\w+)", lifted.source, re.MULTILINE)


def lines(lifted: onnxlift.Lifted) -> int:
    """The lines that say something."""
    return sum(1 for line in lifted.source.splitlines() if line)


def fused(joint: str) -> tuple[Graph, str]:
    """Convolutions as TensorFlow Lite writes them: each activation has the names of all that was fused into it, and of
    another layer, whose constants are equal."""
    g = Graph()
    x = g.input("x", "n", 4, 6, 6)
    bounds = g.constant("low", np.float32(0)), g.constant("high", np.float32(6))
    for i, activations in enumerate(ACTIVATIONS):
        parts = [f"net/block_{i}/relu/Relu6", f"net/block_{i}/bn/FusedBatchNormV3", f"net/head_{i}/conv/Conv2D"]
        weights = g.weight(f"Conv2D_{i}/filter:0", 4, 4, 3, 3), g.weight(f"Add_{i}/y:0", 4)
        h = g.node("Conv", x, *weights, name=f"Conv__{i}", output=f"Conv__{i}:0", pads=[1] * 4)
        for activation in activations:
            h = g.node(activation, h, name=f"{activation}__{i}", output=f"{activation}__{i}:0")
        x = g.node("Clip", h, *bounds, name=joint.join(parts), output=f"Relu6__{i}:0")
    return g, x


@pytest.mark.parametrize("joint", JOINTS)
def test_joined_names_are_no_modules(joint: str) -> None:
    g, x = fused(joint)
    lifted = g.lift(x)
    assert classes(lifted) == ["Small"]
    assert lines(lifted) == min(lifted.report.structures.values()) < len(g.nodes)


@pytest.mark.parametrize("joint", JOINTS)
def test_values_of_a_converter_give_no_names(joint: str) -> None:
    g, x = fused(joint)
    assert not re.search(r"(Conv|Elu|Relu6)_", code(g.lift(x)))


def scoped(scope: str, weight: str) -> tuple[Graph, str]:
    """Layers that all differ, in scopes within scopes."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i, activations in enumerate(ACTIVATIONS):
        path = scope.format(i=i)
        x = g.node("MatMul", x, g.weight(weight.format(path=path, layer="up"), 4, 4), name=f"{path}/up/MatMul")
        for activation in activations:
            x = g.node(activation, x, name=f"{path}/{activation}")
        x = g.node("MatMul", x, g.weight(weight.format(path=path, layer="down"), 4, 4), name=f"{path}/down/MatMul")
    return g, x


def test_names_that_do_not_pay_are_left_and_the_report_says_so() -> None:
    g, x = scoped("net/part_{i}", "{path}/{layer}/kernel:0")
    lifted = g.lift(x)
    assert classes(lifted) == ["Small"]
    assert list(lifted.report.structures) == ["none", "names"]
    assert lifted.report.structures["none"] == lines(lifted) < lifted.report.structures["names"]
    assert f"structure      none ({lines(lifted)} lines of code), chosen over names (" in str(lifted.report)
    assert lifted.report.to_dict()["structures"] == dict(lifted.report.structures)


@pytest.mark.parametrize(
    ("scope", "weight"),
    [("/net/part_{i}", "{path}/{layer}/kernel:0"), ("part_{i}", "{path}.{layer}.weight")],
    ids=["scopes like paths", "keys of a state dict"],
)
def test_names_that_pytorch_guarantees_are_kept(scope: str, weight: str) -> None:
    g, x = scoped(scope, weight)
    lifted = g.lift(x)
    assert len(classes(lifted)) > len(ACTIVATIONS)
    assert not lifted.report.structures


def test_names_that_pay_are_kept() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(20):
        h = x
        for j, activation in enumerate(("Tanh", "Elu", "Sigmoid", "Softplus")):
            h = g.node("MatMul", h, g.weight(f"w_{i}_{j}", 4, 4), name=f"net/part_{i}/dense_{j}/MatMul")
            h = g.node(activation, h, name=f"net/part_{i}/{activation}")
        x = g.node("Add", x, h, name=f"net/part_{i}/add")
    lifted = g.lift(x)
    assert classes(lifted) == ["Part", "Small"]
    assert not lifted.report.structures


def test_repetition_takes_the_place_of_names_that_do_not_pay() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(24):
        h = g.node("MatMul", x, g.weight(f"up_{i}/kernel:0", 4, 4), name=f"net/up_{i}/inner_{i}/MatMul")
        h = g.node("Tanh", h, name=f"net/up_{i}/Tanh")
        h = g.node("MatMul", h, g.weight(f"down_{i}/kernel:0", 4, 4), name=f"net/down_{i}/inner_{i}/MatMul")
        x = g.node("Add", x, g.node("Elu", h, name=f"net/down_{i}/Elu"), name=f"net/add_{i}/add")
    lifted = g.lift(x)
    assert next(iter(lifted.report.structures)) == "repetition"
    assert classes(lifted) == ["MLP", "MLPBlock", "Small"]
    assert "for layer in self.layers:" in code(lifted)


def test_a_class_that_is_shared_is_kept_in_a_small_graph() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(3):
        h = g.node("Tanh", g.node("MatMul", x, g.weight(f"a{i}", 4, 4)))
        x = g.node("Add", g.node("Elu", g.node("MatMul", h, g.weight(f"b{i}", 4, 4))), x)
    assert classes(g.lift(x)) == ["MLP", "MLPBlock", "Small"]


def test_the_copy_that_is_chosen_is_recorded_like_any_other(tmp_path: Path) -> None:
    g, x = fused(";")
    lifted = onnxlift.lift(g.model(x), name="small", explain=True)
    assert lifted.report.structures
    assert "lowering" in lifted.report.steps
    assert "Conv__3" in str(lifted.explain("Conv__3"))
    texts = {path.name: path.read_text() for path in lifted.save(tmp_path) if path.suffix in (".txt", ".json")}
    assert "# As it is written" in texts["small.graph.txt"]
    assert "Conv__3" in texts["small.map.json"]


def test_scopes_of_tensorflow_are_no_modules() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for i in range(12):
        call = "StatefulPartitionedCall/PartitionedCall/net"
        for j, activation in enumerate(("Tanh", "Elu", "Sigmoid")):
            x = g.node("MatMul", x, g.weight(f"w_{i}_{j}/kernel:0", 4, 4), name=f"{call}/part_{i}/dense_{j}/MatMul")
            scale = g.constant(f"scale_{i}_{j}/y:0", np.array([1, 2, 3, 4 + i], np.float32))
            x = g.node("Mul", x, scale, name=f"{call}/part_{i}/tf.math.multiply_{i}/Mul")
            x = g.node(activation, x, name=f"{call}/part_{i}/tf_op_layer_{activation}_{i}/{activation}")
    lifted = g.lift(x)
    assert classes(lifted) == ["Part", "Small"]
    assert not re.search(r"(?i)partitioned|multiply|op_layer|\bnet\b", lifted.source)


def picked(count: int) -> tuple[Graph, str]:
    """Lookups along two axes between transposes. The idiom needs no transposes, but two tables in place of one."""
    g = Graph()
    parts = []
    for i in range(count):
        turned = g.node("Transpose", g.input(f"x{i}", "n", 5, 6), perm=[1, 2, 0])
        pairs = g.random.permutation(20).reshape(-1, 2) % (5, 6)
        found = g.node("GatherND", turned, g.constant(f"val_{1000 + i}", pairs))
        parts.append(g.node("Transpose", found, perm=[1, 0]))
    return g, g.node("Concat", *parts, axis=1)


def test_a_source_is_never_longer_than_the_transcript() -> None:
    g, x = fused(";")
    lifted, flat = g.lift(x), g.lift(x, structure="flat")
    assert next(iter(lifted.report.structures)) == "transcript"
    assert lines(lifted) == lines(flat) < lifted.report.structures["none"]
    assert f"structure      transcript ({lines(flat)} lines of code), chosen over none (" in str(lifted.report)


def test_a_small_graph_keeps_its_idioms() -> None:
    g, x = picked(3)
    lifted = g.lift(x)
    assert "x0[:, self.index, self.index_1]" in lifted.source
    assert not lifted.report.structures


def test_a_transcript_trains_what_the_source_trains() -> None:
    g = Graph()
    x = g.input("x", "n", 4, 6, 6)
    for i, activation in enumerate(("Tanh", "Elu", "Sigmoid")):
        x = g.node("Conv", x, g.weight(f"const_{i}", 4, 4, 3, 3), pads=[1] * 4)
        x = g.node(activation, g.node("Mul", x, g.weight(f"const_fold_opt__{i}", 4, 1, 1)))
    names = [{name for name, _ in g.lift(x, structure=each).module().named_parameters()} for each in (None, "flat")]
    assert {"scales.0", "scales.1", "scales.2"} <= names[0] == names[1]


def test_constants_of_the_code_are_no_keys() -> None:
    """Paddle calls them `Cast.26`, and folding leaves `helper.slice.4`."""
    g, x = fused(";")
    indices = g.node("Constant", name="Gather.0", output="Gather.0", value=numpy_helper.from_array(np.array([1, 0])))
    lifted = g.lift(g.node("Gather", x, indices, axis=1))
    assert classes(lifted) == ["Small"]
    assert lifted.report.structures


def keyed() -> tuple[Graph, str]:
    """Layers that all differ, of modules that only the keys of weights tell."""
    g = Graph()
    x = g.input("x", "n", 4)
    for i, activations in enumerate(ACTIVATIONS):
        x = g.node("MatMul", x, g.weight(f"net.part_{i}.up.weight", 4, 4))
        for activation in activations:
            x = g.node(activation, x)
        x = g.node("MatMul", x, g.weight(f"net.part_{i}.down.weight", 4, 4))
    return g, x


def test_modules_that_only_keys_tell_have_to_pay_and_keep_the_keys() -> None:
    g, x = keyed()
    lifted = g.lift(x)
    assert classes(lifted) == ["Small"]
    assert list(lifted.report.structures) == ["transcript", "names"]
    parts = range(len(ACTIVATIONS))
    assert set(lifted.state_dict) == {f"net.part_{i}.{layer}.weight" for i in parts for layer in ("up", "down")}


@pytest.mark.parametrize("named", [keyed, lambda: scoped("part_{i}", "{path}.{layer}.weight")])
def test_a_transcript_keeps_keys(named: Callable[[], tuple[Graph, str]]) -> None:
    g, x = named()
    lifted, flat = g.lift(x), g.lift(x, structure="flat")
    assert classes(flat) == ["Small"]
    assert set(flat.state_dict) == set(lifted.state_dict)


def test_a_structure_can_be_asked_for() -> None:
    g, x = scoped("part_{i}", "{path}.{layer}.weight")
    given = {each: g.lift(x, structure=each) for each in ("names", "repetition", "flat")}
    assert {name: len(classes(lifted)) > 1 for name, lifted in given.items()} == {
        "names": True,
        "repetition": False,
        "flat": False,
    }
    assert not any(lifted.report.structures for lifted in given.values())
    assert given["names"].state_dict.keys() == given["flat"].state_dict.keys()


def test_an_unknown_structure_is_an_error() -> None:
    g, x = fused(";")
    with pytest.raises(OnnxLiftError, match="there is no structure 'modules': give one of names, repetition, flat, or"):
        g.lift(x, structure="modules")
