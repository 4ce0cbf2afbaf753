"""What the written constructors make is known without torch, and must be the weights that are there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import onnx_ir as ir
import pytest
import torch
from torch import nn

import onnxlift
from onnxlift.executing import execute
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.text.built_weights import WeightsDoNotFitError, check_weights
from small_graphs import Graph

IMPORTS = """
from collections import OrderedDict
import torch
from torch import nn
"""
CONSTRUCTORS = {
    "arguments, defaults and variables": """
        class Block(nn.Module):
            def __init__(self, dim: int, hidden: int = 6, bias: bool = False) -> None:
                super().__init__()
                wide = 2 * hidden
                self.a = nn.Linear(dim, wide, bias=bias)
                self.b = nn.Linear(wide, dim // 2)

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.blocks = nn.ModuleList([Block(4), Block(8, 5, bias=True)])
    """,
    "lists, generators and powers": """
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = nn.ModuleList(nn.Linear(2**i, 3) for i in range(4))
                self.b = nn.Sequential(nn.Linear(3, 3), *(nn.Conv1d(n, 2 ** (n % 3), 1) for n in (1, 2, 4)))
                self.c = nn.ModuleDict({"x": nn.Linear(1, 2), "0": nn.PReLU(3)})
                self.d = nn.ParameterList([nn.Parameter(torch.empty(2, 3)) for _ in range(2)])
                self.e = nn.ParameterDict({"k": nn.Parameter(torch.empty(()))})
                self.f = nn.Sequential(OrderedDict(u=nn.Linear(1, 1), v=nn.ReLU()))
                self.g = nn.Sequential(
                    OrderedDict({"a-b": nn.Linear(1, 1), **{f"c-{i}": nn.PReLU() for i in range(3)}})
                )
    """,
    "parts that are not always there": """
        class Block(nn.Module):
            def __init__(self, dim: int, out: int, norm: bool) -> None:
                super().__init__()
                self.down = nn.Conv2d(dim, out, 1) if dim != out else nn.Identity()
                self.norm = nn.Identity()
                if norm:
                    self.norm = nn.BatchNorm2d(out)
                self.register_buffer("mask", torch.empty(out) if norm else None)

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.x, self.y = Block(3, 3, True), Block(3, 5, norm=False)
    """,
    "registered members": """
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for i in range(3):
                    self.add_module(f"layer{i + 1}", nn.Linear(2 + i * 4, 3))
                self.register_parameter("a-b", nn.Parameter(torch.empty(3, 4)))
                self.register_buffer("index", torch.empty(3, dtype=torch.int64))
                self.inner = nn.Module()
                self.inner.keys = nn.Linear(2, 2)
                self.type = nn.Linear(2, 3)
    """,
    "classes that are containers or layers": """
        class Chain(nn.Sequential):
            def __init__(self, dim: int, act: type[nn.Module]) -> None:
                super().__init__(nn.Linear(dim, dim), act(), nn.Linear(dim, 2))

        class Named(nn.Sequential):
            def __init__(self) -> None:
                super().__init__()
                self.one = Chain(3, nn.Tanh)

        class Recurrent(nn.LSTM):
            def __init__(self) -> None:
                super().__init__(3, 4, num_layers=2)

        class Model(nn.ModuleList):
            def __init__(self) -> None:
                super().__init__([Named(), Recurrent(), Chain(5, nn.ReLU)])
    """,
    "layers that compute their weights": """
        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.a = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 5), dim=1)
                self.b = nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(3, 4, 5))
                self.c = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
    """,
}


def entry(shape: tuple[int, ...], *, persistent: bool = True) -> Entry:
    return Entry(Weight(ir.Value(name="w"), shape), True, persistent)


def made(text: str) -> dict[str, Entry]:
    """The tensors of the module as torch makes it."""
    with torch.device("meta"):
        model: nn.Module = execute(IMPORTS + text, "model")["Model"]()
    return {key: entry(tuple(tensor.shape)) for key, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_are_followed(name: str) -> None:
    text = textwrap.dedent(CONSTRUCTORS[name])
    check_weights(text, "Model", made(text))


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_every_tensor_is_held_against_the_weights(name: str) -> None:
    text = textwrap.dedent(CONSTRUCTORS[name])
    for wrong in _wrong(made(text)):
        with pytest.raises(WeightsDoNotFitError, match="cannot load its weights"):
            check_weights(text, "Model", wrong)


def _wrong(entries: dict[str, Entry]) -> Iterator[dict[str, Entry]]:
    for key, right in entries.items():
        yield {**entries, key: entry((*right.weight.shape, 7))}
        yield {**entries, key: entry(right.weight.shape, persistent=False)}
        if not key.endswith("num_batches_tracked"):
            yield {other: value for other, value in entries.items() if other != key}
    yield {**entries, "more": entry(())}


def test_the_count_of_batches_may_be_missing() -> None:
    text = "class Model(nn.Sequential):\n    def __init__(self) -> None:\n        super().__init__(nn.BatchNorm2d(3))\n"
    check_weights(text, "Model", {f"0.{n}": entry((3,)) for n in ("weight", "bias", "running_mean", "running_var")})


def test_layers_that_the_table_does_not_know_are_left_out() -> None:
    text = """
class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(3, 4)
        self.fc = nn.Linear(2, 1, bias=False)
"""
    check_weights(text, "Model", {"bag.anything": entry((9, 9)), "fc.weight": entry((1, 2))})
    with pytest.raises(WeightsDoNotFitError, match=r"fc.weight is \(2, 1\), where the constructor makes \(1, 2\)"):
        check_weights(text, "Model", {"fc.weight": entry((2, 1))})


def test_the_message_tells_a_few_of_many() -> None:
    text = "class Model(nn.Module):\n    def __init__(self) -> None:\n        super().__init__()\n"
    with pytest.raises(WeightsDoNotFitError, match=r"k4 is \(\), where the constructor makes nothing, and 5 more"):
        check_weights(text, "Model", {f"k{i}": entry(()) for i in range(10)})


def test_nothing_is_lifted_that_could_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is part of lifting: here the writer of numbers is broken."""
    from onnxlift.lifting.text import constructor

    g = Graph()
    result = g.node("Cos", g.linear(g.input("x", "n", 4), "fc"), name="/Cos")
    monkeypatch.setattr(constructor, "literal", lambda value: repr(value) if value != 4 else "5")
    with pytest.raises(onnxlift.InternalError, match=r"fc.weight is \(4, 4\), where the constructor makes \(5, 5\)"):
        g.lift(result)
