"""The six networks of docs/building.md: the code of the page, and the programs for onnx.helper beside it."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlift import build
from onnxlift.build import nn

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "building.md").read_text(encoding="utf-8")
IMPORTS = re.findall(r"```python\n(import.*?)```", PAGE, re.DOTALL)[0]
SECTIONS = {
    title: (text, code)
    for text, title, code in re.findall(r'\n### .*?\n(.*?)```python title="(\w+)"\n(.*?)```', PAGE, re.DOTALL)
}
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Network:
    """A network of the page: the module, and the model that was built of it."""

    module: nn.Module
    model: build.Model


def network(name: str) -> Network:
    """Run the code of the page."""
    modules: list[nn.Module] = []
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    code = SECTIONS[name][1]
    line, *others = [line for line in code.splitlines() if line.startswith("model = ")]
    called = re.search(r": (\w[\w.]*\(.*?\))\(x\)", line)
    assert called is not None and not others
    names["taken"] = lambda module: modules.append(module) or module
    exec(code.replace(called[1], f"taken({called[1]})"), names)
    return Network(modules[0], names["model"])


def before(name: str) -> onnx.ModelProto:
    """Run the program for onnx.helper, and make all weights differ from 0 and 1, so that none can be missed."""
    np.random.seed(0)
    model: onnx.ModelProto = runpy.run_path(str(HERE / "before" / f"{name}.py"))["model"]
    random = np.random.default_rng(1)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.int64 and array.ndim:  # numpy 2 makes float64 of what was float32 with numpy 1
            moved = array.astype(np.float32) + random.uniform(0.02, 0.1, array.shape).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
    return model


def weights_of(name: str, model: onnx.ModelProto) -> Arrays:
    """The weights of a program for onnx.helper, by the names that they have in the network of the page."""
    given = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return WEIGHTS[name](given)


def _linear(given: Arrays, name: str, weight: str, bias: str) -> Arrays:
    return {f"{name}.weight": given[weight].T, f"{name}.bias": given[bias]}


def _norm(given: Arrays, name: str, prefix: str, letters: str = "") -> Arrays:
    parts = zip(
        ("scale", "bias", "mean", "var"), "sbmv", ("weight", "bias", "running_mean", "running_var"), strict=True
    )
    return {
        f"{name}.{key}": given[f"{prefix}{letter}" if letters else f"{prefix}_{long}"] for long, letter, key in parts
    }


def _mlp(given: Arrays) -> Arrays:
    return {k: v for i in (1, 2, 3) for k, v in _linear(given, f"fc{i}", f"fc{i}_W", f"fc{i}_b").items()}


def _cnn(given: Arrays) -> Arrays:
    found: Arrays = {}
    for i in (1, 2, 3):
        found |= {f"block{i}.conv.weight": given[f"conv{i}_W"], f"block{i}.conv.bias": given[f"conv{i}_b"]}
        found |= _norm(given, f"block{i}.bn", f"bn{i}")
    return found | _linear(given, "fc1", "fc1_W", "fc1_b") | _linear(given, "fc2", "fc2_W", "fc2_b")


def _lstm(given: Arrays) -> Arrays:
    def to_torch(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        i, o, f, c = np.split(array, 4)
        return np.concatenate([i, f, c, o])

    biases = np.split(given["lstm_B"][0], 2)
    return {
        "lstm.weight_ih_l0": to_torch(given["lstm_W"][0]),
        "lstm.weight_hh_l0": to_torch(given["lstm_R"][0]),
        "lstm.bias_ih_l0": to_torch(biases[0]),
        "lstm.bias_hh_l0": to_torch(biases[1]),
        **_linear(given, "fc", "fc_W", "fc_b"),
    }


def _transformer(given: Arrays) -> Arrays:
    found: Arrays = {}
    for name, suffix in {"q": "Q", "k": "K", "v": "V", "out": "O", "ff1": "ff1", "ff2": "ff2"}.items():
        found |= _linear(given, name, f"W_{suffix}", f"b_{suffix}")
    for i in (1, 2):
        found |= {f"norm{i}.weight": given[f"ln{i}_scale"], f"norm{i}.bias": given[f"ln{i}_bias"]}
    return found


def _resnet(given: Arrays) -> Arrays:
    found = {"conv.weight": given["stem_out_cW"], "conv.bias": given["stem_out_cb"]}
    found |= _norm(given, "bn", "stem_out_bn", "short") | _linear(given, "head", "fc_W", "fc_b")
    for path, name in {"1.0": "1a", "1.1": "1b", "2.0": "2a", "2.1": "2b"}.items():
        block, old = f"layer{path}", f"layer{name}"
        found |= {f"{block}.conv1.weight": given[f"{old}_mid_cW"], f"{block}.conv1.bias": given[f"{old}_mid_cb"]}
        found |= {f"{block}.conv2.weight": given[f"{old}_c2W"], f"{block}.conv2.bias": given[f"{old}_c2b"]}
        found |= _norm(given, f"{block}.bn1", f"{old}_mid_bn", "short") | _norm(
            given, f"{block}.bn2", f"{old}_bn2", "short"
        )
        if f"{old}_sW" in given:
            found |= {f"{block}.shortcut.weight": given[f"{old}_sW"], f"{block}.shortcut.bias": given[f"{old}_sb"]}
    return found


WEIGHTS: dict[str, Any] = {
    "linear_regression": lambda given: _linear(given, "linear", "W", "b"),
    "mlp": _mlp,
    "cnn": _cnn,
    "lstm": _lstm,
    "transformer": _transformer,
    "resnet": _resnet,
}
SHAPES = {
    "linear_regression": (3, 8),
    "mlp": (3, 784),
    "cnn": (3, 3, 32, 32),
    "lstm": (20, 3, 16),
    "transformer": (3, 10, 64),
    "resnet": (2, 3, 224, 224),
}


def sample(name: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """An input of a network."""
    return np.random.default_rng(seed).standard_normal(SHAPES[name]).astype(np.float32)
