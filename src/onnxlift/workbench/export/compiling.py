"""Compile a traced program to machine code by AOTInductor, for the CPU of this machine, as fast as torch can make it.

This is called in the child process only. What makes it fast: constants are frozen, so that they can be folded and laid
out as the kernels want them, convolutions work with channels last, products of a single row are sums, which are fused
with their neighbours (small_products.py), and where that is quicker, other products are generated (products.py), those
of attention included (attention.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

from .attention import write_attention_as_products
from .products import SETTINGS as PRODUCTS
from .products import can_generate_products, generated_products
from .small_products import write_small_products_as_sums

SETTINGS: Mapping[str, Any] = {"freezing": True, "layout_optimization": True}


def compile_package(program: ExportedProgram, product: Path, metadata: Mapping[str, str]) -> None:
    """Write the package: a shared library with its constants, which needs no source and no Python."""
    write_small_products_as_sums(program)
    settings = {**SETTINGS, "aot_inductor.metadata": dict(metadata)}
    # What is compiled on the way lies beside the package, and goes with it. (Torch would keep it for the next time.)
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(product.with_suffix(".cache"))}
    with torch.no_grad(), patch.dict(os.environ, cache):
        if can_generate_products():
            write_attention_as_products(program)
            # A product that torch cannot generate is an error of its compiler: then libraries do them all.
            with suppress(RuntimeError), generated_products():
                _compile(program, product, {**settings, **PRODUCTS})
                return
        _compile(program, product, settings)


def _compile(program: ExportedProgram, product: Path, settings: Mapping[str, Any]) -> None:
    torch._inductor.aoti_compile_and_package(program, package_path=str(product), inductor_configs=dict(settings))


def load_package(product: Path) -> Callable[..., Any]:
    """Return what runs a package."""
    loaded: Callable[..., Any] = torch._inductor.aoti_load_package(str(product))
    return loaded
