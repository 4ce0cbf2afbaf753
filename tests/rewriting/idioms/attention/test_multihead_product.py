"""`nn.MultiheadAttention` in the product of all its options, as PyTorch's exporters write it: a sample of it."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor, nn

from rewriting.idioms.attention.multihead_layers import HEADS, WIDTH, source_of

OPTIONS = {
    "exporter": ("script", "dynamo"),
    "heads": (HEADS, 1),
    "inputs": ("self", "memory", "cross", "other widths"),
    "weights": ("none", "averaged", "by head"),
    "rows": ("", "bias_kv", "zero_attn", "bias_kv, zero_attn"),
    "mask": ("", "float", "bool", "padding", "bool and padding", "by head", "causal"),
    "batch_first": (False, True),
    "bias": (True, False),
    "batch": (None, 1, 2),
    "dynamic": (False, True),
}
Case = dict[str, object]
PRODUCT = [dict(zip(OPTIONS, case, strict=True)) for case in itertools.product(*OPTIONS.values())]
SCRIPT = [case for case in PRODUCT if case["exporter"] == "script"]
DYNAMO = [case for case in PRODUCT if case["exporter"] == "dynamo"]  # takes ten times as long
SAMPLE = random.Random(6).sample(SCRIPT, 32) + random.Random(6).sample(DYNAMO, 8)
QUERIES, KEYS = 5, 7


class Layer(nn.Module):
    """A layer that is called as the case says."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        widths = {"kdim": 10, "vdim": 8} if case["inputs"] == "other widths" else {}
        self.attn = nn.MultiheadAttention(
            WIDTH,
            int(str(case["heads"])),
            bias=bool(case["bias"]),
            add_bias_kv="bias_kv" in str(case["rows"]),
            add_zero_attn="zero_attn" in str(case["rows"]),
            batch_first=bool(case["batch_first"]),
            **widths,
        )

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        case, (q, *given) = self.case, inputs
        k = q if case["inputs"] == "self" else given.pop(0)
        v = k if case["inputs"] in ("self", "memory") else given.pop(0)
        mask = str(case["mask"])
        options: dict[str, object] = {}
        if mask == "causal":
            length = q.shape[1 if case["batch"] and case["batch_first"] else 0]
            options = {"attn_mask": nn.Transformer.generate_square_subsequent_mask(length), "is_causal": True}
        elif mask and mask != "padding":
            options["attn_mask"] = given.pop(0)
        if "padding" in mask:
            options["key_padding_mask"] = given.pop(0)
        result: tuple[Tensor, Tensor] = self.attn(
            q,
            k,
            v,
            need_weights=case["weights"] != "none",
            average_attn_weights=case["weights"] != "by head",
            **options,
        )
        return result[0] if case["weights"] == "none" else result


def inputs_of(case: Case) -> tuple[tuple[Tensor, ...], tuple[dict[int, str], ...]]:
    """What the layer is called with, and the names of the sizes that are open."""
    batch = case["batch"]
    assert batch is None or isinstance(batch, int)
    keys = QUERIES if case["inputs"] == "self" or case["mask"] == "causal" else KEYS
    of_keys = "length" if keys == QUERIES else "keys"

    def sequence(length: int, name: str, width: int = WIDTH) -> tuple[Tensor, dict[int, str]]:
        if batch is None:
            return torch.randn(length, width), {0: name}
        if case["batch_first"]:
            return torch.randn(batch, length, width), {0: "batch", 1: name}
        return torch.randn(length, batch, width), {0: name, 1: "batch"}

    others = {"self": (), "memory": (WIDTH,), "cross": (WIDTH, WIDTH), "other widths": (10, 8)}[str(case["inputs"])]
    found = [sequence(QUERIES, "length"), *(sequence(keys, of_keys, width) for width in others)]
    hidden = torch.rand(QUERIES, keys) < 0.4
    hidden[:, 0] = False
    padding = torch.rand(keys) < 0.4 if batch is None else torch.rand(batch, keys) < 0.4
    padding[..., 0] = False
    mask = str(case["mask"])
    if mask.startswith("bool"):
        found.append((hidden, {0: "length", 1: of_keys}))
    if mask == "float":
        found.append((torch.randn(QUERIES, keys), {0: "length", 1: of_keys}))
    if mask == "by head":
        found.append((torch.randn(int(str(case["heads"])) * (batch or 1), QUERIES, keys), {1: "length", 2: of_keys}))
    if "padding" in mask:
        found.append((padding, {0: of_keys} if batch is None else {0: "batch", 1: of_keys}))
    inputs, sizes = zip(*found, strict=True)
    return inputs, sizes


def title(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.items() if value not in ("", False, None))


@pytest.mark.parametrize("case", SAMPLE, ids=title)
def test_layer(case: Case) -> None:
    torch.manual_seed(4)
    inputs, sizes = inputs_of(case)
    fixed = case["batch"] == 1 or case["mask"] == "by head"  # both exporters take a batch of one for a constant
    open_sizes = [{axis: name for axis, name in axes.items() if name != "batch" or not fixed} for axes in sizes]
    source = source_of(Layer(case), inputs, str(case["exporter"]), open_sizes if case["dynamic"] else None)
    (text,) = source.split("\nclass ")[1:]
    assert "self.attn = nn.MultiheadAttention(" in text
    assert not any(word in text for word in ("transpose", "reshape", "softmax", "squeeze", "F.pad"))
