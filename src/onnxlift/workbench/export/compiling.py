"""Compile a traced program to machine code by AOTInductor, for the CPU of this machine, as fast as torch can make it.

This is called in the child process only. What makes it fast: constants are frozen, so that they can be folded and laid
out as the kernels want them, convolutions work with channels last, and products of a single row are sums, which are
fused with their neighbours (small_products.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

from .small_products import write_small_products_as_sums

SETTINGS: Mapping[str, Any] = {"freezing": True, "layout_optimization": True}


def compile_package(program: ExportedProgram, product: Path, metadata: Mapping[str, str]) -> None:
    """Write the package: a shared library with its constants, which needs no source and no Python."""
    write_small_products_as_sums(program)
    settings = {**SETTINGS, "aot_inductor.metadata": dict(metadata)}
    # What is compiled on the way lies beside the package, and goes with it. (Torch would keep it for the next time.)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(product.with_suffix(".cache"))}
    with torch.no_grad(), patch.dict(os.environ, cache):
        torch._inductor.aoti_compile_and_package(program, package_path=str(product), inductor_configs=settings)


def load_package(product: Path) -> Callable[..., Any]:
    """Return what runs a package."""
    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(str(product))
    return loaded
