"""The public functions `lift` and `convert`; `verify` is in verification/verify.py."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from .lifted import Lifted


def lift(
    source: Any,
    *,
    name: str | None = None,
    simplify: bool = True,
    skip_passes: Collection[str] = (),
    flat: bool = False,
    max_shard_size: int | str = "5GB",
    explain: bool = False,
) -> Lifted:
    """The model in `source` (a path, bytes, an open file, an `onnx.ModelProto` or an `onnx_ir.Model`) as PyTorch.

    `name` is what its files are called, by default as the ONNX file. Weights beyond `max_shard_size` are spread over
    several files. Without `simplify` the stage `simplifying` is left out, and `skip_passes` leaves out single steps of
    any stage (`onnxlift passes` lists them). What is `flat` is a transcript rather than lifted: one class, node by
    node, without idioms, to see what lifting does, or to compare with it. With
    `explain`, what becomes of each node is recorded, for `Lifted.explain` to tell; names are explained without it."""
    from onnxlift.lifting.text.weights import parse_size

    from . import pipeline

    size = parse_size(max_shard_size)
    return pipeline.run(
        source,
        name=name,
        simplify=simplify,
        skip_passes=skip_passes,
        flat=flat,
        max_shard_size=size,
        explain=explain,
    )


def convert(source: Any, **options: Any) -> nn.Module:
    """A live module in eval mode with its weights: `lift(source).module()`."""
    return lift(source, **options).module()
