"""The public functions: `lift`, `convert`, `verify`, and the `Lifted` model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from torch import nn

    from .emit.file import Source
    from .emit.module import Module


def lift(
    source: Any,
    *,
    name: str | None = None,
    simplify: bool = True,
    skip_passes: Collection[str] = (),
) -> Lifted:
    """The model in `source` (a path, bytes, an open file, an `onnx.ModelProto` or an `onnx_ir.Model`) as PyTorch."""
    from . import pipeline

    return pipeline.run(source, name=name, simplify=simplify, skip_passes=skip_passes)


def convert(source: Any, **options: Any) -> nn.Module:
    """A live module in eval mode with its weights: `lift(source).module()`."""
    return lift(source, **options).module()
