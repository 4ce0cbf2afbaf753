"""The state dict has the original's keys, also where these are no identifiers."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import onnxlift
from onnxlift.lifting.code.identifiers import PRIVATE_ATTRIBUTES, is_attribute
from small_graphs import Graph, code, compare

NAMES = (
    "a-b",
    "_conv",
    "__x",
    "class",
    "tail_",
    "x__y",
    "type",
    "float",
    "a b",
    "{x}",
    '"',
    "é",
    "0a",
    "self",
    "_",
    "00",
)


def scope(path: str) -> str:
    return "/" + path.replace(".", "/")


def lift(g: Graph, *outputs: str) -> onnxlift.Lifted:
    lifted = g.lift(*outputs)
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_has_its_name(name: str) -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), f"enc.{name}")
    x = g.linear(g.node("Sin", x, name="/enc/Sin"), "enc.fc")
    lifted = lift(g, g.node("Mul", x, "x", name="/enc/Mul"))
    expected = {f"enc.{layer}.{role}" for layer in (name, "fc") for role in ("weight", "bias")}
    assert {*lifted.state_dict} == expected, lifted.source


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_its_name(name: str) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for path in (name, "other"):
        h = g.node("Sin", g.linear(x, f"{path}.a"), name=f"{scope(path)}/Sin")
        x = g.node("Add", g.linear(h, f"{path}.b"), x, name=f"{scope(path)}/Add")
    lifted = lift(g, g.node("Cos", x, name="/Cos"))
    assert {key.partition(".")[0] for key in lifted.state_dict} == {name, "other"}, lifted.source


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("type", "float")])
def test_a_parameter_has_its_name(name: str) -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "enc.fc")
    x = g.node("Mul", x, g.weight(f"enc.{name}", 4), name="/enc/Mul")
    lifted = lift(g, g.node("Cos", x, name="/Cos"))
    assert {*lifted.state_dict} == {f"enc.{name}", "enc.fc.weight", "enc.fc.bias"}, lifted.source


@pytest.mark.parametrize("name", ["a/b", "a:b", "a:0", "/", "a//b/"])
@pytest.mark.parametrize(("producer", "is_kept"), [("pytorch", True), ("tf2onnx", False)])
def test_slashes_and_colons_are_kept_in_keys_of_pytorch(name: str, producer: str, is_kept: bool) -> None:
    """Others part scopes by a slash, and results of a node by a colon."""
    g = Graph()
    weight, bias = g.weight(f"enc.{name}.weight", 4, 4), g.weight(f"enc.{name}.bias", 4)
    x = g.node("Gemm", g.input("x", "n", 4), weight, bias, transB=1, name="/enc/Gemm")
    x = g.linear(g.node("Mul", x, g.weight(f"enc.part{name}.scale", 4), name="/enc/Mul"), "enc.fc")
    model = g.model(g.node("Cos", x, name="/Cos"))
    model.producer_name = producer
    lifted = onnxlift.lift(model, name="small")
    compare(lifted, model, {"x": g.random.standard_normal((3, 4)).astype(np.float32)})
    wanted = {f"enc.{name}.weight", f"enc.{name}.bias", f"enc.part{name}.scale"}
    assert (wanted <= set(lifted.state_dict)) == is_kept, lifted.source
    assert is_kept or not any(mark in key for key in lifted.state_dict for mark in "/:"), lifted.source


def test_numbers_with_a_zero_in_front_are_names() -> None:
    source = code(chain(["00", "01", "02"]))
    assert 'self.add_module("00", Trunk())' in source, source


def test_what_pytorch_cannot_hold_has_another_name() -> None:
    """A parameter cannot hide a method, and no member can be called `training`."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "training")
    x = g.node("Mul", x, g.weight("enc.type", 4), name="/enc/Mul")
    lifted = lift(g, g.node("Cos", x, name="/Cos"))
    assert "training.weight" not in lifted.state_dict and "enc.type" not in lifted.state_dict


def test_names_that_look_alike_stay_apart() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for name in ("a_b", "a-b", "a b", "a__b", "_a_b"):
        x = g.node("Sin", g.linear(x, f"enc.{name}"), name=f"/enc/Sin_{len(g.nodes)}")
    lifted = lift(g, g.node("Mul", x, "x", name="/enc/Mul"))
    assert {key.split(".")[1] for key in lifted.state_dict} == {"a_b", "a-b", "a b", "a__b", "_a_b"}, lifted.source


def chain(names: Sequence[str]) -> onnxlift.Lifted:
    g = Graph()
    x = g.input("x", "n", 4)
    for name in names:
        h = g.node("Sin", g.linear(x, f"trunk.{name}.a"), name=f"/trunk/{name}/Sin")
        x = g.node("Add", g.linear(h, f"trunk.{name}.b"), x, name=f"/trunk/{name}/Add")
    lifted = lift(g, g.node("Cos", x, name="/Cos"))
    assert [*dict.fromkeys(key.split(".")[1] for key in lifted.module().state_dict())] == [*names], lifted.source
    return lifted


def test_a_chain_is_called_as_a_whole() -> None:
    source = code(chain(["block1-0", "block1-1"]))
    assert 'self.trunk = nn.Sequential(OrderedDict({"block1-0": Block1(), "block1-1": Block1()}))' in source, source
    assert "get_submodule" not in source, source


def test_many_in_a_chain_are_counted() -> None:
    source = code(chain([f"block1-{i}" for i in range(7)]))
    assert 'f"block1-{i}"' in source and "range(7)" in source, source


def test_a_prefix_that_is_no_plain_word_is_not_counted() -> None:
    source = code(chain([f"{{x}}{i}" for i in range(4)]))
    assert "range(" not in source, source


def test_a_container_may_have_members_with_the_names_of_a_dictionarys_methods(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    x = g.node("Sin", g.linear(x, "attn.keys", name="/Gemm_1"), name="/Sin")
    lifted = lift(g, g.linear(x, "attn.values", name="/Gemm_2"))
    assert {key.rpartition(".")[0] for key in lifted.state_dict} == {"attn.keys", "attn.values"}, lifted.source


def test_modules_of_one_class_have_the_same_names() -> None:
    g = Graph()
    x = g.input("x", "n", 4)
    for path, name in (("layers.0", "a-b"), ("layers.1", "a-b"), ("layers.2", "a b")):
        h = g.node("Sin", g.linear(x, f"{path}.{name}"), name=f"{scope(path)}/Sin")
        x = g.node("Add", g.linear(h, f"{path}.c"), x, name=f"{scope(path)}/Add")
    lifted = lift(g, g.node("Cos", x, name="/Cos"))
    assert "layers.2.a b.weight" in lifted.state_dict and "layers.1.a-b.weight" in lifted.state_dict
    assert lifted.report.classes == 3, lifted.source


def test_names_of_scopes_are_keys_only_in_files_of_pytorch() -> None:
    """Other tools call their scopes by what they like, and nobody has a checkpoint with these names."""
    for producer, key in (("pytorch", "enc-1"), ("tf2onnx", "enc_1")):
        g = Graph()
        x = g.input("x", "n", 4)
        for i, path in enumerate(("enc-1", "enc-2")):
            weights = [g.weight(f"onnx::MatMul_{i}{j}", 4, 4) for j in (0, 1)]
            h = g.node("Sin", g.node("MatMul", x, weights[0], name=f"/{path}/a/MatMul"), name=f"/{path}/Sin")
            x = g.node("Add", g.node("MatMul", h, weights[1], name=f"/{path}/b/MatMul"), x, name=f"/{path}/Add")
        model = g.model(g.node("Cos", x, name="/Cos"))
        model.producer_name = producer
        lifted = onnxlift.lift(model)
        assert any(name.startswith(f"{key}.") for name in lifted.state_dict), lifted.source
        lifted.module()


def test_plain_words_are_attributes() -> None:
    assert all(is_attribute(name) for name in ("conv1", "_conv", "tail_", "x__y", "match"))
    refused = ("", "_", "__x", "class", "type", "a-b", "é", "1a", "_modules", "training", "x" * 200, "a.b", "a\n")
    assert not any(is_attribute(name) for name in refused)
    assert not any(is_attribute(name) for name in keyword.kwlist)


def test_private_attributes_are_those_of_torch() -> None:
    made = (nn.Module(), nn.Sequential(), nn.ModuleList(), nn.ModuleDict(), nn.ParameterList(), nn.ParameterDict())
    real = {name for module in made for name in dir(module) if name[0] == "_" and name[:2] != "__"}
    assert real <= PRIVATE_ATTRIBUTES


def test_saved_files_load_under_these_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "enc.a-b")
    x = g.node("Mul", x, g.weight("enc.class", 4), name="/enc/Mul")
    lifted = g.lift(g.node("Cos", x, name="/Cos"))
    lifted.save(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = __import__("small").load()
    for key, value in lifted.state_dict.items():
        np.testing.assert_array_equal(loaded.state_dict()[key].numpy(), value)
    assert loaded(torch.zeros(2, 4)).shape == (2, 4)


def test_a_bare_parameter_of_a_numbered_module_has_its_key() -> None:
    """As in a Sequential of a spectrogram and a filter bank that is one tensor."""
    g = Graph()
    x = g.linear(g.input("x", "n", 4), "0.stft.conv")
    x = g.node("Sin", x, name="/0/stft/Sin")
    lifted = lift(g, g.node("Max", x, g.weight("1.melW", 1, 4), name="Max_3"))
    assert {*lifted.state_dict} == {"0.stft.conv.weight", "0.stft.conv.bias", "1.melW"}, lifted.source
    assert "self[1].melW" in lifted.source


@pytest.mark.parametrize(
    "others", [(), ("1.stft.conv",), ("0",), ("0", "2")], ids=["alone", "module", "layer", "layers"]
)
@pytest.mark.parametrize("number", ["0", "1", "3"])
def test_a_bare_parameter_of_a_numbered_module_is_found(others: tuple[str, ...], number: str) -> None:
    others = tuple(name for name in others if name != number)
    g = Graph()
    x = g.input("x", "n", 4)
    for name in others:
        x = g.linear(x, name)
    key = f"{number}.melW"
    lifted = lift(g, g.node("Max", x, g.weight(key, 1, 4), name="Max_3"))
    keys = {key} | {f"{name}.{role}" for name in others for role in ("weight", "bias")}
    assert {*lifted.state_dict} == keys == {*lifted.module().state_dict()}, lifted.source
    assert lifted.module()(torch.zeros(2, 4)).shape == (2, 4)
