"""The public functions: `lift`, `convert`, `verify`."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from onnxlift.verification.report import Report

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


def verify(
    source: Any,
    *,
    against: str | os.PathLike[str] | None = None,
    inputs: Mapping[str, Any] | Sequence[Any] | str | os.PathLike[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    trace: bool = False,
    timeout: float = 300.0,
    memory: int | str | None = None,
    **options: Any,
) -> Report:
    """A report on how the lifted model compares with ONNX Runtime: whether it passed, and if not, where the two first
    differ (with `trace` all values inside are compared also if it passed).

    `inputs` are arrays by name or in order, or a file (.npy, .npz, .pb); those that are missing are made up from the
    model, with the `shapes` of inputs and the sizes of named `dims` that are asked for. `rtol` and `atol` replace the
    tolerances of the types. `against` names a saved file, perhaps edited, that is verified instead of a fresh one:
    **it is executed**. Each side may take `timeout` seconds and `memory` bytes. `options` are those of `lift`."""
    from onnxlift.lifting.text.weights import parse_size
    from onnxlift.verification.child import Limits
    from onnxlift.verification.verify import verify as run

    if hasattr(source, "read"):
        source = source.read()
    return run(
        source,
        lift(source, **options),
        against=against,
        inputs=inputs,
        shapes=shapes,
        dims=dims,
        seed=seed,
        rtol=rtol,
        atol=atol,
        trace=trace,
        limits=Limits(timeout, None if memory is None else parse_size(memory)),
    )
