"""The `load` of a saved file: all that it takes, and what it makes of it."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper
from safetensors.torch import save, save_file, save_model
from torch import Tensor, nn

import onnxlift
from small_graphs import Graph


def graph(*, own: bool = True) -> tuple[Graph, str]:
    """A model of two layers; `own` adds a parameter of the module itself, and a buffer that is no parameter."""
    g = Graph()
    ids = g.input("x", "n", 4)
    x = g.linear(ids, "encoder.fc", 4, 6)
    if own:
        x = g.node("Add", x, g.weight("encoder.token", 6), name="/encoder/Add")
        g.constant("mask", np.arange(6, dtype=np.float32))
        x = g.node("Mul", x, "mask", name="/Mul")
    x = g.linear(x, "head", 6, 6)
    return g, g.node("Cos", x, name="/Cos")


def tied() -> ModelProto:
    """An embedding whose matrix is that of the head as well."""
    g = Graph()
    table = g.weight("words.weight", 6, 4)
    h = g.node("Tanh", g.node("Gather", table, "ids", name="/words/Gather"), name="/Tanh")
    flat = g.node("Reshape", h, g.constant("flat", np.array([-1, 4])), name="/Reshape")
    model = g.model(g.node("Gemm", flat, table, transB=1, name="/head/Gemm"))
    model.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 3]))
    return model


def saved(folder: Path, shard: str = "5GB", *, own: bool = True) -> ModuleType:
    g, result = graph(own=own)
    return written_source(g.lift(result, max_shard_size=shard), folder)


def written_source(lifted: onnxlift.Lifted, folder: Path) -> ModuleType:
    """The file of a lifted model, imported."""
    lifted.save(folder)
    spec = importlib.util.spec_from_file_location("small", folder / "small.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pickled(state: dict[str, Tensor], *, legacy: bool = False) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=not legacy)
    return file.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


Given = Callable[[Path, dict[str, Tensor]], Any]
GIVEN: dict[str, Given] = {
    "a dict": lambda folder, state: state,
    "a path": lambda folder, state: written(folder / "ft.safetensors", save(state)),
    "a text": lambda folder, state: str(written(folder / "ft.safetensors", save(state))),
    "a path without suffix": lambda folder, state: written(folder / "ft", save(state)),
    "bytes": lambda folder, state: save(state),
    "an open file": lambda folder, state: io.BytesIO(save(state)),
    "a .pt": lambda folder, state: written(folder / "ft.pt", pickled(state)),
    "an old .pt": lambda folder, state: str(written(folder / "ft.pt", pickled(state, legacy=True))),
    "bytes of a .pt": lambda folder, state: pickled(state),
    "an open .pt": lambda folder, state: io.BytesIO(pickled(state)),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("shard", ["5GB", "100B"])
def test_load_takes(given: str, shard: str, tmp_path: Path) -> None:
    file = saved(tmp_path, shard)
    assert (len([*tmp_path.glob("small-*.safetensors")]) > 1) == (shard == "100B")
    state = {key: tensor + 1 for key, tensor in file.load().state_dict().items()}
    loaded = file.load(GIVEN[given](tmp_path, state))
    assert not loaded.training
    torch.testing.assert_close(dict(loaded.state_dict()), state)


def test_a_dict_is_not_trained_with_the_model(tmp_path: Path) -> None:
    file = saved(tmp_path)
    state = file.load().state_dict()
    before = {key: tensor.clone() for key, tensor in state.items()}
    with torch.no_grad():
        file.load(state).encoder.fc.weight.zero_()
    torch.testing.assert_close(dict(state), before)


def test_what_is_no_state_dict_is_refused(tmp_path: Path) -> None:
    """`weights_only=True`: a pickle that calls something is not run."""
    file = saved(tmp_path)
    with pytest.raises(Exception, match="Weights only"):
        file.load(written(tmp_path / "evil.pt", pickled({"a": nn.Linear(2, 2)})))  # type: ignore[dict-item]


@pytest.mark.parametrize("own", [False, True])
def test_without_weights_the_model_is_untrained_and_runs(own: bool, tmp_path: Path) -> None:
    file = saved(tmp_path, own=own)
    trained = file.load()
    torch.manual_seed(0)
    model, x = file.load(None), torch.ones(2, 4)
    shapes = {key: tensor.shape for key, tensor in trained.state_dict().items()}
    assert {key: tensor.shape for key, tensor in model.state_dict().items()} == shapes
    assert not model.training and bool(model(x).isfinite().all())
    assert not torch.equal(model.head.weight, trained.head.weight)
    if own:
        assert 0 < model.encoder.token.abs().max().item() < 0.2
        torch.testing.assert_close([*model.buffers()], [*trained.buffers()])  # a mask is not trained


def test_only_what_is_needed_is_written(tmp_path: Path) -> None:
    g, result = graph(own=False)
    source = g.lift(result).source
    assert "initialise" not in source and "json" not in source and "under_all_names" not in source, source


def test_a_table_of_which_no_row_is_looked_up_is_initialised_by_its_layer() -> None:
    g = Graph()
    x = g.node("Add", g.linear(g.input("x", 3, 4), "fc"), g.weight("positions.weight", 3, 4), name="/Add")
    source = g.lift(g.node("Cos", x, name="/Cos")).source
    assert "nn.Embedding(3, 4)" in source and "initialise" not in source, source


def test_a_weight_of_several_names_is_found_under_any_of_them(tmp_path: Path) -> None:
    """`save_model` of safetensors keeps one name, and it may be another one than ours."""
    file = written_source(onnxlift.lift(tied(), name="small"), tmp_path)
    model = file.load()
    state = dict(model.state_dict())
    for kept, dropped in (("head.weight", "words.weight"), ("words.weight", "head.weight")):
        part = {key: tensor for key, tensor in state.items() if key != dropped}
        save_file(part, tmp_path / "ft.safetensors")
        loaded = file.load(tmp_path / "ft.safetensors")
        torch.testing.assert_close(dict(loaded.state_dict()), state)
        assert loaded.get_parameter(kept) is loaded.get_parameter(dropped)
    save_model(model, str(tmp_path / "tuned.safetensors"))
    torch.testing.assert_close(dict(file.load(tmp_path / "tuned.safetensors").state_dict()), state)
