"""The public functions `lift` and `convert`; `verify` is in verification/verify.py."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch
    from torch import nn

    from .lifted import Lifted


def lift(
    source: Any,
    *,
    name: str | None = None,
    simplify: bool = True,
    skip_passes: Collection[str] = (),
    structure: Literal["names", "repetition", "flat"] | None = None,
    max_shard_size: int | str = "5GB",
    explain: bool = False,
    dtype: torch.dtype | str | None = None,
    dequantize: bool = False,
) -> Lifted:
    """Lift the model in `source` into PyTorch source and weights.

    `source` is a path, bytes, an open file, an `onnx.ModelProto` or an `onnx_ir.Model`. `name` names the files that
    `Lifted.save` writes; by default they are named after the ONNX file. Weights beyond `max_shard_size` are spread over
    several files. `simplify=False` leaves out the stage `simplifying`; `skip_passes` leaves out single steps of any
    stage (`onnxlift passes` lists them). `explain=True` records what becomes of each node, so that `Lifted.explain` can
    tell; it explains names without that, too.

    `structure` tells what modules come from, where the best source is not what you want: "names" of nodes and weights,
    or "repetition" of equal blocks. "flat" transcribes the model node by node into one class, without modules and
    idioms, to see what lifting does, or to compare with it.

    `dtype` gives the model another precision: "float32", "float16", "bfloat16" or "float64", or the type of torch. The
    weights of the model's own floating-point type are converted, and so are inputs, outputs, and casts to that type.
    Integers and other types stay as they are.

    `dequantize=True` lifts a quantised model as the model of floats that it stands for, to fine-tune it: weights are
    the numbers that their integers stand for, and values are no longer rounded. The report says how much noise the
    weights have from their steps."""
    from onnxlift.rewriting.element_type import parse_dtype
    from onnxlift.sizes import parse_size

    from . import pipeline

    size = parse_size(max_shard_size)
    if hasattr(source, "read"):
        source = source.read()
    lifted = pipeline.run(
        source,
        name=name,
        simplify=simplify,
        skip_passes=skip_passes,
        structure=structure,
        max_shard_size=size,
        explain=explain,
        dtype=parse_dtype(dtype),
        dequantize=dequantize,
    )
    options = {
        "simplify": simplify,
        "skip_passes": skip_passes,
        "structure": structure,
        "dtype": dtype,
        "dequantize": dequantize,
    }
    lifted.origin = (source, options)
    return lifted


def convert(source: Any, **options: Any) -> nn.Module:
    """Return a live module in eval mode, with its weights loaded: `lift(source).module()`."""
    return lift(source, **options).module()
