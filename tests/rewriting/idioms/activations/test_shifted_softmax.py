"""A softmax of what its maximum was taken from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onnxlift
from rewriting.idioms.attention.multihead_layers import exported
from rewriting.idioms.recognising import found, parse


def model(body: str, opset: int = 18, kind: str = "float", outputs: str = "y") -> list[str]:
    heads = ", ".join(f"{kind}[batch, seq, 6] {output}" for output in outputs.split())
    text = f"g ({kind}[batch, seq, 6] x) => ({heads}) {{ {body} }}"
    return found(parse(text, opset), atol=4e-3 if kind == "float16" else 1e-5)


def shifted(softmax: str = "Softmax <axis = -1> (d)", axes: str = "2", keepdims: int = 1) -> str:
    return (
        f"a = Constant <value_ints = [{axes}]> () m = ReduceMax <keepdims = {keepdims}> (x, a) d = Sub(x, m) "
        f"y = {softmax}"
    )


def test_the_maximum_is_left_out() -> None:
    assert model(shifted()) == ["Softmax"]
    assert model(shifted("LogSoftmax <axis = 1> (d)", axes="-2")) == ["LogSoftmax"]


def test_the_difference_stays_for_other_readers() -> None:
    assert sorted(model(shifted(), outputs="y d")) == ["ReduceMax", "Softmax", "Sub"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (shifted(axes="1"), "float"),
        (shifted(axes="1, 2"), "float"),
        (shifted(axes="2, 1"), "float"),
        (shifted("Exp(d)"), "float"),
        (shifted().replace("Sub(x, m)", "Sub(m, x)"), "float"),
        (shifted().replace("ReduceMax", "ReduceMin"), "float"),
        (shifted().replace("d = Sub(x, m)", "n = Sin(x) d = Sub(n, m)"), "float"),
        (shifted(), "float16"),
    ],
    ids=[
        "another axis",
        "more axes",
        "more axes behind",
        "no softmax",
        "turned round",
        "minimum",
        "of something else",
        "half",
    ],
)
def test_other_differences_stay(body: str, kind: str) -> None:
    assert "Sub" in model(body, kind=kind)


class Attention(nn.Module):
    """As in many of the networks by lucidrains."""

    def __init__(self) -> None:
        super().__init__()
        self.to_qkv = nn.Linear(8, 24, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        sim = torch.einsum("bhid,bhjd->bhij", q * 0.5, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        return torch.einsum("bhij,bhjd->bhid", sim.softmax(-1), v)


@pytest.mark.parametrize("exporter", ["script", "dynamo"])
def test_attention_with_a_shift(exporter: str) -> None:
    module, x = Attention(), torch.randn(2, 5, 8)
    lifted = onnxlift.lift(exported(module, (x,), exporter, trained=True))
    assert "F.scaled_dot_product_attention(q, k, v)" in lifted.source and "amax" not in lifted.source, lifted.source
    torch.testing.assert_close(lifted.module()(x), module(x))


def test_a_softmax_over_several_axes() -> None:
    """As they were until opset 12: this one goes over the last two."""
    assert "Sub" in model("m = ReduceMax <axes = [1]> (x) d = Sub(x, m) y = Softmax <axis = 1> (d)", opset=12)


def test_a_maximum_that_is_broadcast_along_another_axis_stays() -> None:
    """Without `keepdims` the maximum of each row is subtracted from a column."""
    text = f"g (float[6, 6] x) => (float[6, 6] y) {{ {shifted(axes='1', keepdims=0)} }}"
    assert "Sub" in found(parse(text))
