"""What was built is trained in PyTorch, and its weights come back: by `update` into the file, or into the network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onnxlift

from .networks import SHAPES, network

Task = Callable[[Tensor], Tensor]
BATCH = 24
STEPS = 25


def which_is_larger(x: Tensor) -> Tensor:
    """The class of each sample: whether the first half of its numbers is larger."""
    first, second = x.flatten(1).chunk(2, 1)
    return (first.sum(1) > second.sum(1)).long()


CLASSES: dict[str, Task] = {
    "mlp": which_is_larger,
    "cnn": lambda x: (x[:, 0].mean((1, 2)) > x[:, 1].mean((1, 2))).long(),
    "lstm": lambda x: which_is_larger(x.transpose(0, 1)[:, -4:]),
}


def data_of(name: str) -> tuple[Tensor, Tensor]:
    """Generated inputs, and what shall come out."""
    torch.manual_seed(0)
    shape = (20, BATCH, 16) if name == "lstm" else (BATCH, *SHAPES[name][1:])
    x = torch.randn(shape)
    return x, CLASSES[name](x) if name in CLASSES else x.roll(1, 1).tanh()


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm", "transformer"])
def test_what_was_built_is_trained_and_comes_back(name: str) -> None:
    built = network(name)
    lifted = onnxlift.lift(built.model)
    module = lifted.module(train=True)
    x, wanted = data_of(name)
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    losses = []
    for _ in range(STEPS):
        made = module(x)
        loss = F.nll_loss(made.log(), wanted) if name in CLASSES else F.mse_loss(made, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    module.eval()

    updated = lifted.update(module)
    assert updated.passed and updated.total == len(built.module.state_dict()) == len(updated.weights)
    difference = onnxlift.diff(built.model, updated)
    assert {aspect for aspect, count in difference.counts.items() if count} == {"weights"}

    session = onnxruntime.InferenceSession(updated.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = module(x).numpy()
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], expected, rtol=1e-4, atol=1e-5)

    # The names are the same, so the network takes the trained weights as they are.
    built.module.load_state_dict(module.state_dict())
    assert onnxlift.diff(built.model, updated).same
    np.testing.assert_allclose(built.model(x.numpy()).popitem()[1], expected, rtol=1e-4, atol=1e-5)
