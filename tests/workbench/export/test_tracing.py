"""Tracing keeps sizes open, recurrent layers whole, and tells what torch has fixed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from onnxlift.verification.candidate import load_candidate
from onnxlift.workbench.export.tracing import _NOT_ONE, trace


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True),
        nn.LSTM(4, 6, proj_size=2),
        nn.GRU(4, 3, bidirectional=True),
        nn.RNN(4, 3, nonlinearity="relu", batch_first=True),
    ],
    ids=["lstm", "projected lstm", "gru", "rnn"],
)
@torch.no_grad()
def test_recurrent_layers_take_sequences_of_any_length(layer: nn.Module, tmp_path: Path) -> None:
    module = Recurrent(layer).eval()
    program, fixed = trace(module, [torch.randn(2, 7, 4)], [[0, 1]], "", keep_recurrent=True)
    assert fixed == []
    torch.export.save(program, tmp_path / "program.pt2")
    again = torch.export.load(tmp_path / "program.pt2").module()
    for shape in ((1, 9, 4), (3, 1, 4), (5, 20, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(again(x), module(x))


def test_recurrent_layers_are_what_they_were_afterwards() -> None:
    before = dict(torch.ops.aten.lstm.input.py_kernels)
    trace(Recurrent(nn.LSTM(4, 3)).eval(), [torch.randn(2, 7, 4)], [[0]], "", keep_recurrent=True)
    assert dict(torch.ops.aten.lstm.input.py_kernels) == before


class Reshaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 4).sum(1)


def test_a_batch_of_one_and_sizes_that_happen_to_be_equal_work() -> None:
    program, _ = trace(Reshaped(), [torch.randn(2, 8)], [[0, 1]], "")
    for shape in ((1, 4), (4, 4), (3, 12)):
        x = torch.randn(shape)
        torch.testing.assert_close(program.module()(x), Reshaped()(x))


FIXING = """
import torch
from torch import nn


class Fixing(nn.Module):
    def forward(self, x):
        return torch.stack(x.unbind(1)).sum(0)


def load():
    return Fixing()
"""


def test_a_size_that_torch_fixes_is_told_with_its_line(tmp_path: Path) -> None:
    source = tmp_path / "fixing.py"
    source.write_text(FIXING, encoding="utf-8")
    module = load_candidate(source).model
    _, (fixed,) = trace(module, [torch.randn(2, 7)], [[0, 1]], str(source))
    assert (fixed.input, fixed.axis, fixed.size, fixed.line) == (0, 1, 7, 8)


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.unsqueeze(1))


@torch.no_grad()
def test_a_kernel_that_is_chosen_for_many_does_not_refuse_one(tmp_path: Path) -> None:
    module = Convolved().eval()
    program, fixed = trace(module, [torch.randn(7, 9)], [[0]], "")
    torch.export.save(program, tmp_path / "program.pt2")
    x = torch.randn(1, 9)
    torch.testing.assert_close(torch.export.load(tmp_path / "program.pt2").module()(x), module(x))
    assert fixed == []


class Pooled(nn.Module):
    """What is inside is one step long, or more: torch asks for the strides of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 6, 5, stride=4)
        self.second = nn.Conv1d(6, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)).permute(0, 2, 1).reshape(-1, 6)


@torch.no_grad()
def test_a_size_inside_may_be_one_where_torch_asks_for_a_multiple_of_it() -> None:
    module = Pooled().eval()
    program, fixed = trace(module, [torch.randn(2, 1, 30)], [[0, 2]], "")
    assert fixed == []
    for shape in ((2, 1, 5), (1, 1, 5), (1, 1, 31)):
        x = torch.randn(shape)
        torch.testing.assert_close(program.module()(x), module(x))


@pytest.mark.parametrize(
    ("guard", "is_dropped"),
    [
        ("36*max(1, -1 + (-127 + L['x'].size()[1]) // 384) != 36", True),
        ("(36*max(1, (-1) + (((-127) + L['x'].size()[1]) // 384))) != 36", True),
        ("(36*L['x'].size()[1]) != 36", True),
        ("36*max(1, L['x'].size()[1]) != 35", False),
        ("36*L['x'].size()[1] + 3 != 36", False),
        ("L['x'].size()[1] // 2 != 1", True),
        ("L['x'].size()[1] != 3", False),
    ],
)
def test_guards_that_refuse_one_are_dropped(guard: str, is_dropped: bool) -> None:
    assert (_NOT_ONE.fullmatch(guard) is not None) == is_dropped


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x.nonzero()[:, 0]]


class Decided(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


def test_data_that_decides_on_a_size_is_followed() -> None:
    program, _ = trace(Chosen(), [torch.tensor([0.0, 1.0, 2.0])], [[0]], "")
    for numbers in ([0.0, 0.0], [3.0], [1.0, 0.0, 5.0, 0.0]):
        assert program.module()(torch.tensor(numbers)).tolist() == [number for number in numbers if number]


def test_data_that_decides_on_a_branch_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="data-dependent"):
        trace(Decided(), [torch.randn(3)], [[0]], "")


ASKING = """
from torch import nn


class Asking(nn.Module):
    def forward(self, x):
        return x * 0 if x.shape[1] // 2 == 1 else x.cumsum(1)


def load():
    return Asking()
"""


def test_a_source_that_asks_whether_a_size_is_one_refuses_other_answers(tmp_path: Path) -> None:
    source = tmp_path / "asking.py"
    source.write_text(ASKING)
    module = load_candidate(source, None, None, None).model
    program, _ = trace(module, [torch.randn(2, 8)], [[0, 1]], str(source))
    x = torch.randn(1, 9)
    torch.testing.assert_close(program.module()(x), module(x))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.randn(3, 2))
