"""Random trees of modules, which share classes or not: what is written always loads, and computes what ONNX says.

A tree is made of a few designs, of which each place has a variation: other widths, a part more or less, a list of
another length. So some modules can share a class, and some look as if they could.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import onnxlift
from small_graphs import Graph

WIDTHS = (3, 4, 6, 8)
ACTIVATIONS = ("Sin", "Relu", "Tanh")


@dataclass(frozen=True)
class Design:
    """A module: its kind, a width of its own (or a multiple of its input's), and parts that it may have."""

    kind: str
    hidden: int
    times: bool
    out: int
    norm: bool
    scale: bool
    residual: bool
    activation: str
    inner: tuple[Design, ...] = ()

    def width(self, width: int) -> int:
        """The width inside, for an input of this width."""
        return width * (self.hidden % 3 + 1) if self.times else self.hidden


@st.composite
def designs(draw: st.DrawFn, depth: int) -> Design:
    kind = draw(st.sampled_from(("block", "list", "pair", "chain"))) if depth else "block"
    inner: tuple[Design, ...] = ()
    if kind != "block":
        base = draw(designs(depth - 1))
        inner = tuple(draw(variations(base)) for _ in range(draw(st.integers(1, 3))))
    width = st.sampled_from(WIDTHS)
    return Design(
        kind,
        draw(width),
        draw(st.booleans()),
        draw(width),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(ACTIVATIONS)),
        inner,
    )


@st.composite
def variations(draw: st.DrawFn, design: Design) -> Design:
    """A design that differs in a few things at most, which may be deep inside."""
    for change in draw(st.lists(st.sampled_from(("hidden", "out", "parts", "inner", "length")), max_size=2)):
        if change in ("hidden", "out"):
            design = replace(design, **{change: draw(st.sampled_from(WIDTHS))})
        elif change == "parts":
            part = draw(st.sampled_from(("norm", "scale", "residual")))
            design = replace(design, **{part: not getattr(design, part)})
        elif design.inner and change == "inner":
            place = draw(st.integers(0, len(design.inner) - 1))
            changed = draw(variations(design.inner[place]))
            design = replace(design, inner=(*design.inner[:place], changed, *design.inner[place + 1 :]))
        elif design.inner:
            design = replace(design, inner=(design.inner * 2)[: draw(st.integers(1, 3))])
    return design


class Tree:
    """The graph of a tree of modules. Every method takes and gives a value, and its width."""

    def __init__(self) -> None:
        self.graph = Graph()

    def op(self, op_type: str, *inputs: str, path: str) -> str:
        scope = "/" + re.sub(r"[.](?![0-9])", "/", path)
        return self.graph.node(op_type, *inputs, name=f"{scope}/{op_type}_{len(self.graph.nodes)}")

    def module(self, design: Design, x: str, width: int, path: str) -> tuple[str, int]:
        start, before = x, width
        if design.norm:
            ones = self.graph.weight(f"{path}.norm.weight", width), self.graph.weight(f"{path}.norm.bias", width)
            x = self.op("LayerNormalization", x, *ones, path=f"{path}.norm")
        if design.kind == "block":
            hidden = design.width(width)
            x = self.op(design.activation, self.graph.linear(x, f"{path}.a", width, hidden), path=path)
            width = before if design.residual else design.out
            x = self.graph.linear(x, f"{path}.b", hidden, width)
        else:
            for place, inner in enumerate(design.inner):
                name = {"list": f"blocks.{place}", "chain": f"chain.{place}"}.get(design.kind, f"part{place}")
                x, width = self.module(inner, x, width, f"{path}.{name}")
            if design.kind != "chain":
                x = self.op(design.activation, x, path=path)
        if design.scale:
            x = self.op("Mul", x, self.graph.weight(f"{path}.scale", width), path=path)
        if design.residual and width == before:
            x = self.op("Add", x, start, path=path)
        return x, width


def lift(stages: list[Design]) -> onnxlift.Lifted:
    tree = Tree()
    x, width = tree.graph.input("x", "n", 4), 4
    for number, design in enumerate(stages):
        x, width = tree.module(design, x, width, f"stages.{number}")
    x = tree.graph.linear(x, "head", width, 2)
    return tree.graph.lift(tree.graph.node("Cos", x, name="/Cos"))


@st.composite
def trees(draw: st.DrawFn) -> list[Design]:
    base = draw(designs(depth=2))
    return [draw(variations(base)) for _ in range(draw(st.integers(2, 4)))]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(trees())
def test_what_is_written_loads_whether_classes_are_shared_or_not(stages: list[Design]) -> None:
    lifted = lift(stages)
    keys = lifted.module().state_dict()
    assert {key: tuple(value.shape) for key, value in keys.items()} == {
        key: np.shape(value) for key, value in lifted.state_dict.items()
    }
