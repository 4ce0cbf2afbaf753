"""Lists of sizes that a graph moves by way of a matrix are picked, as the widths of a padding are."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift
from onnxlift.rewriting.simplifying import moved_sizes
from rewriting.graphs import apply, operators


class Padded(nn.Module):
    def __init__(self, pad: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.pad = pad

    def forward(self, x: Tensor) -> Tensor:
        return self.pad(x).sin()


@pytest.mark.parametrize(
    ("pad", "text"),
    [
        (lambda x: F.pad(x, (0, -x.shape[-1] % 8)), "F.pad(x, (0, -x.shape[2] % 8))"),
        (lambda x: F.pad(x, (0, x.shape[-1] % 8), value=-1.5), "F.pad(x, (0, x.shape[2] % 8), value=-1.5)"),
        (
            lambda x: F.pad(x, (x.shape[-1] // 2, 3, 1, x.shape[-2] % 3)),
            "F.pad(x, (x.shape[2] // 2, 3, 1, x.shape[1] % 3))",
        ),
        (lambda x: F.pad(x, (0, 12 - x.shape[-1])), "F.pad(x, (0, 12 - x.shape[2]))"),
        (lambda x: F.pad(x, (2, -x.shape[-1] % 4), mode="reflect"), 'F.pad(x, (2, -x.shape[2] % 4), mode="reflect")'),
        (
            lambda x: F.pad(x, (1, x.shape[-1] % 4), mode="replicate"),
            'F.pad(x, (1, x.shape[2] % 4), mode="replicate")',
        ),
    ],
    ids=["constant", "value", "two axes", "cropped", "reflect", "replicate"],
)
def test_computed_widths_of_the_older_exporter_are_a_pad(pad: Callable[[Tensor], Tensor], text: str) -> None:
    file, free = io.BytesIO(), {"x": {0: "batch", 1: "rows", 2: "columns"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.zeros(2, 7, 9)
        torch.onnx.export(Padded(pad), (x,), file, dynamo=False, input_names=["x"], dynamic_axes=free)
    lifted = onnxlift.lift(file.getvalue())
    assert text in lifted.source, lifted.source
    array = np.random.default_rng(0).standard_normal((3, 8, 14)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(file.getvalue()).run(None, {"x": array})
    np.testing.assert_allclose(lifted.module()(torch.from_numpy(array)), expected, atol=1e-6)


PAIRS = "s = Shape(x) a = Constant <value_ints = [-1, 2]> () r = Reshape(s, a)"
FLAT = "f = Constant <value_ints = [-1]> () l = Reshape(t, f) y = Neg(l)"


def moved(body: str) -> list[str]:
    model, _ = apply(f"g (float[n, m, 3, 5] x, int64[4] z, int64[2] w) => (y) {{ {body} }}", moved_sizes.run)
    return operators(model)


@pytest.mark.parametrize(
    "move",
    [
        "t = Transpose(r)",
        "b = Constant <value_ints = [-1]> () e = Constant <value_ints = [-9]> () c = Constant <value_ints = [0]> () "
        "t = Slice(r, b, e, c, b)",
        "i = Constant <value_ints = [1, 0]> () u = Gather <axis = 0> (r, i) t = Transpose(u)",
        "t = Add(r, r)",
    ],
    ids=["transpose", "slice", "gather", "something else"],
)
def test_sizes_that_go_through_a_matrix_are_picked(move: str) -> None:
    expected = ["Shape", "Gather", "Neg"]
    found = [name for name in moved(f"{PAIRS} {move} {FLAT}") if name != "Constant"]
    assert (found == expected) == ("Add" not in move), found


@pytest.mark.parametrize(
    "body",
    [
        PAIRS.replace("Shape(x)", "Identity(z)") + f" t = Transpose(r) {FLAT}",
        f"{PAIRS} c = Constant <value_int = 2> () p = Mod(w, c) t = Gather <axis = 0> (r, p) {FLAT}",
        f"{PAIRS} b = Constant <value_ints = [-1, -1]> () e = Constant <value_ints = [-9, -9]> () "
        f"c = Constant <value_ints = [0, 1]> () d = Mul(w, c) h = Sign(d) t = Slice(r, b, e, h, b) {FLAT}",
        f"{PAIRS} t = Transpose(r) f = Constant <value_ints = [-1, 1]> () l = Reshape(t, f) y = Neg(l)",
        f"t = Shape(x) {FLAT}",
    ],
    ids=["data", "computed places", "computed axes", "a matrix", "no moves"],
)
def test_others_stay(body: str) -> None:
    found = moved(body)
    assert found.count("Gather") == body.count("Gather") and "Reshape" in found
