"""Parameters without names that are alike are a list."""

from __future__ import annotations

from typing import Any

import onnxlift
from small_graphs import Graph


def affine(names: str, shapes: tuple[tuple[int, ...], ...], **options: Any) -> onnxlift.Lifted:
    """Convolutions, each followed by a scale and a bias of its own, as in PaddlePaddle's PP-LCNetV3."""
    g = Graph()
    x = g.input("x", "n", 3, 6, 6)
    activations = ["Tanh", "Elu", "Sigmoid", "Softplus"]
    for i, (shape, activation) in enumerate(zip(shapes, activations * 2, strict=False)):
        x = g.node("Conv", x, g.weight(f"conv2d_{i}.w_0", 3, 3, 3, 3), pads=[1] * 4)
        x = g.node("Mul", x, g.weight(names.format(word="scale", i=i), *shape))
        x = g.node("Add", x, g.weight(names.format(word="bias", i=i), *shape))
        x = g.node(activation, x)
    lifted = g.lift(x, **options)
    assert set(lifted.module().state_dict()) == set(lifted.state_dict)
    return lifted


NAMELESS = "const_fold_opt__{i}{word}"
NAMED = "net.{word}_of_part_{i}"


def keys(lifted: onnxlift.Lifted) -> set[str]:
    """The keys of the state dict but for those of convolutions."""
    return {key for key in lifted.state_dict if "conv" not in key.split(".")[0]}


def test_parameters_without_names_are_a_list_in_the_order_of_use() -> None:
    lifted = affine(NAMELESS, ((3, 1, 1),) * 3)
    assert "self.scales = nn.ParameterList(nn.Parameter(torch.empty(3, 1, 1)) for _ in range(3))" in lifted.source
    assert "self.conv(x) * self.scales[0] + self.biases[0]" in lifted.source
    assert keys(lifted) == {f"{word}.{i}" for word in ("scales", "biases") for i in range(3)}
    assert lifted.report.steps["finishing"]["parameter-lists"] == 2


def test_two_are_no_list() -> None:
    assert keys(affine(NAMELESS, ((3, 1, 1),) * 2)) == {"scale", "scale_1", "bias", "bias_1"}


def test_parameters_of_another_shape_are_another_list() -> None:
    lifted = affine(NAMELESS, ((3, 1, 1),) * 3 + ((1, 3, 1, 1),) * 3, skip_passes=["repetition"])
    assert {key.split(".")[0] for key in keys(lifted)} == {"scales", "scales_1", "biases", "biases_1"}
    assert "for _ in range(3)" in lifted.source


def test_parameters_of_too_few_of_a_shape_stay() -> None:
    lifted = affine(NAMELESS, ((3, 1, 1), (1, 3, 1, 1), (3, 1, 1)))
    assert "ParameterList" not in lifted.source


def test_parameters_with_names_keep_them() -> None:
    lifted = affine(NAMED, ((3, 1, 1),) * 3)
    assert keys(lifted) == {NAMED.format(word=word, i=i) for word in ("scale", "bias") for i in range(3)}
