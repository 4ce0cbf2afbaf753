"""Recurrent layers that read packed sequences: the older exporter gives ONNX's operators the lengths."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import onnxlift

LENGTHS = torch.tensor([5, 4, 2])


class Tagger(nn.Module):
    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.rnn = kind(4, 6, **options)
        self.head = nn.Linear(12 if "bidirectional" in options else 6, 3)
        self.batch_first = "batch_first" in options

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
        y, h = self.rnn(pack_padded_sequence(x, lengths, batch_first=self.batch_first))
        y, _ = pad_packed_sequence(y, batch_first=self.batch_first)
        return self.head(y), h


def export(model: nn.Module, path: Path, x: Tensor) -> onnx.ModelProto:
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (x, LENGTHS), path, dynamo=False)
    return onnx.load(path)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    "options", [{"batch_first": True}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}]
)
def test_the_layer_has_its_keys(tmp_path: Path, kind: type[nn.Module], options: dict[str, Any]) -> None:
    torch.manual_seed(2)
    model = Tagger(kind, **options).eval()
    x = torch.randn(3, 5, 4) if model.batch_first else torch.randn(5, 3, 4)
    module = onnxlift.lift(export(model, tmp_path / "m.onnx", x)).module()
    assert isinstance(module.rnn, kind)
    module.load_state_dict(model.state_dict(), strict=True)
    y, *states = module(x, LENGTHS)
    expected, expected_states = model(x, LENGTHS)
    torch.testing.assert_close(y, expected)
    for state, other in zip(states, expected_states if kind is nn.LSTM else [expected_states], strict=True):
        torch.testing.assert_close(state, other)


def test_the_source(tmp_path: Path) -> None:
    model = Tagger(nn.LSTM, batch_first=True).eval()
    lines = onnxlift.lift(export(model, tmp_path / "m.onnx", torch.randn(3, 5, 4))).source.splitlines()
    assert "        packed, (h, c) = self.rnn(packed)" in lines


def test_results_are_as_long_as_the_input(tmp_path: Path) -> None:
    model = Tagger(nn.GRU, batch_first=True).eval()
    proto = export(model, tmp_path / "m.onnx", torch.randn(3, 5, 4))
    y, _ = onnxlift.lift(proto).module()(torch.randn(3, 5, 4), torch.tensor([3, 2, 1]))
    assert y.shape == (3, 5, 3)


def test_other_exporters_may_have_empty_sequences(tmp_path: Path) -> None:
    proto = export(Tagger(nn.GRU).eval(), tmp_path / "m.onnx", torch.randn(5, 3, 4))
    proto.producer_name = "somebody"
    lifted = onnxlift.lift(proto)
    assert "pack_padded_sequence" not in lifted.source
    y, _ = lifted.module()(torch.randn(5, 3, 4), torch.tensor([5, 0, 2]))
    assert np.isfinite(y.detach().numpy()).all()


def test_one_direction_backwards_stays(tmp_path: Path) -> None:
    """Turned around, a shorter sequence would begin with what pads it."""
    proto = export(Tagger(nn.GRU).eval(), tmp_path / "m.onnx", torch.randn(5, 3, 4))
    (node,) = (node for node in proto.graph.node if node.op_type == "GRU")
    node.attribute.append(onnx.helper.make_attribute("direction", "reverse"))
    assert "pack_padded_sequence" not in onnxlift.lift(proto).source
