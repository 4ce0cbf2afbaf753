"""Buffers that their exporter does not call so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx.parser
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import onnxlift
from onnxlift.ir.load import load
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.rewriting.restoring import untrained_buffers
from rewriting.exported import exported
from rewriting.idioms.attention.multihead_layers import exported as export

Array = np.ndarray[Any, Any]
MASK = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)


def buffers(body: str, array: Array = MASK, name: str = "attn.mask", outputs: str = "y") -> int:
    """How many buffers are found in a graph that reads `m`."""
    heads = ", ".join(f"float[N, M] {output}" for output in outputs.split())
    text = f'<ir_version: 9, opset_import: ["" : 18]> g (float[4, 4] x, int64[1] n) => ({heads}) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for node in model.graph.node:
        node.input[:] = [name if value == "m" else value for value in node.input]
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    found = load(model)
    count = untrained_buffers.run(found)
    assert sum(origin_of(value).is_buffer for value in found.graph.initializers.values()) == count
    return count


def test_no_gradient_passes_a_comparison() -> None:
    assert buffers("c = Greater(m, x) y = Where(c, x, x)") == 1
    assert buffers("s = Slice(m, n, n) t = Transpose(s) c = Greater(x, t) y = Where(c, x, x)") == 1
    assert buffers("c = Cast <to = 7> (m) f = Cast <to = 1> (c) y = Add(x, f)") == 1
    assert buffers("c = ArgMax(m) f = Cast <to = 1> (c) y = Add(x, f)") == 1


@pytest.mark.parametrize(
    "body",
    [
        "y = Add(x, m)",
        "c = Greater(m, x) d = Add(x, m) y = Where(c, d, x)",
        "s = Slice(m, n, n) c = Greater(s, x) y = Where(c, x, s)",
        "s = Relu(m) c = Greater(s, x) y = Where(c, x, x)",
        "c = Cast <to = 11> (m) f = Cast <to = 1> (c) y = Add(x, f)",
        "y = Relu(x)",
    ],
    ids=["sum", "besides", "slice besides", "arithmetic", "float", "unread"],
)
def test_other_readers_let_gradients_pass(body: str) -> None:
    assert buffers(body) == 0


def test_an_output_is_read_by_others() -> None:
    assert buffers("s = Transpose(m) c = Greater(s, x) y = Where(c, x, x)", outputs="y s") == 0


def test_where_the_exporter_tells_it_is_right() -> None:
    stored = {"net.mask": MASK[:2]}
    model = exported("c = Greater(x, p0) y = Where(c, x, x)", [None, None], stored, ["net.mask"])
    assert untrained_buffers.run(model) == 0


def waves(rows: int = 40, columns: int = 12, *, halves: bool = False, base: float = 10000.0) -> Array:
    """A table as most models compute it, in float32."""
    angles = torch.arange(rows).unsqueeze(1) * torch.exp(torch.arange(0, columns, 2) * (-math.log(base) / columns))
    pairs = (angles.sin(), angles.cos())
    table = torch.cat(pairs, 1) if halves else torch.stack(pairs, -1).flatten(1)
    return table.numpy()


@pytest.mark.parametrize(
    "table",
    [
        waves(),
        waves(5000, 64),
        waves(halves=True),
        waves(base=500.0)[None],
        waves(16)[:, None],
        waves().T.copy(),
        waves()[:, :11],
        np.concatenate([waves()[:, 1::2], waves()[:, ::2]], 1),
    ],
    ids=["interleaved", "long", "halves", "first axis", "axis between", "transposed", "odd", "cosines first"],
)
def test_a_table_of_sines_and_cosines(table: Array) -> None:
    assert buffers("y = Add(x, m)", table, "pos.pe") == 1


def shifted() -> Array:
    table = waves()
    table[17, 5] += 1e-4
    return table


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (waves(), "pos.weight"),
        (waves(), "onnx::Add_12"),
        (shifted(), "pos.pe"),
        (waves()[1:], "pos.pe"),
        (waves()[:2], "pos.pe"),
        (waves()[:, ::2], "pos.pe"),
        (waves() * np.float32(0.5), "pos.pe"),
        (np.eye(12, dtype=np.float32), "pos.pe"),
        (waves().astype(np.float64), "pos.pe"),
        (waves()[:0], "pos.pe"),
        (waves()[:, :0], "pos.pe"),
    ],
    ids="embedding|no name|trained|no first row|two rows|sines|scaled|other|type|no rows|no columns".split("|"),
)
def test_other_tables_may_be_trained(table: Array, name: str) -> None:
    assert buffers("y = Add(x, m)", table, name) == 0


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pe", torch.from_numpy(waves(50, 8)).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.get_buffer("pe")[:, : x.shape[1]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.layer(x).masked_fill(mask[: x.shape[1]] == 0, 0.5)


class Model(nn.Module):
    """A module with a table that is called twice, and a mask that modules below read."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Embedding(30, 8), nn.Embedding(30, 8)
        self.positions = Positions()
        self.register_buffer("mask", torch.randint(2, (16, 8)).float())
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        first, second = self.positions(self.first(x)), self.positions(self.second(y))
        for block in self.blocks:
            first = block(first, self.mask)
        return first.sum(1) * second.sum(1)


@pytest.mark.parametrize("sizes", [None, [{1: "n"}, {1: "m"}]], ids=["fixed", "open"])
def test_buffers_have_the_keys_of_the_original(sizes: list[dict[int, str]] | None) -> None:
    original = Model()
    x, y = torch.randint(30, (2, 6)), torch.randint(30, (2, 5))
    lifted = onnxlift.lift(export(original, (x, y), sizes=sizes))
    module = lifted.module()
    torch.testing.assert_close(module(x, y), original(x, y))
    theirs = original.state_dict()
    if sizes is None:  # of which the exporter has made other constants
        assert module.state_dict().keys() == theirs.keys() - {"mask", "positions.pe"}
        return
    assert module.state_dict().keys() == theirs.keys()
    assert dict(module.named_buffers()).keys() == {"mask", "positions.pe"}
    assert lifted.source.count("self.positions(") == 2
    assert "return x + self.pe[:, : x.shape[1]]" in lifted.source
