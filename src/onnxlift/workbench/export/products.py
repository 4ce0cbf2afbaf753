"""Let torch generate products of matrices itself, in place of calling a library, and mend what makes them slow.

For float32, torch calls oneDNN, or MKL, which uses half of what AVX-512 offers on processors that are not Intel's. It
can also write a product in C++, fused with what comes after (a bias, a GELU, a residual), but the compiler then stores
all sums to memory in each step: they are objects of a class in an array, which gcc does not keep in registers. As
vectors of the compiler's own they stay there, and the same product takes a third of the time:

    VectorizedN<float, ROWS * COLS> vc;   →   float __attribute__((vector_size(64))) vc[ROWS * COLS];

The sums are the same, in the same order. For float32 the generated product is taken without a measurement, so that the
same model gives the same code; all others are left to the libraries.

When it applies: AVX-512 on x86, gcc or clang, and a torch whose template is the one that we know. Not for templates
that need as many threads as there were when they were compiled (torch 2.6).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import torch
import torch._inductor.compile_fx  # what comes next cannot be imported before it
from torch._inductor.codegen import cpp_gemm_template
from torch._inductor.codegen.cpp_micro_gemm import CppMicroGemmFP32Vec
from torch._inductor.cpu_vec_isa import VecAVX512, pick_vec_isa
from torch._inductor.select_algorithm import AlgorithmSelectorCache, ExternKernelCaller

SETTINGS: Mapping[str, Any] = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP,ATEN"}
"""Generated products are among the choices."""

_VECTOR = "{{compute_t}} __attribute__((vector_size(sizeof(Vectorized))))"
_NEEDED = (
    ("at::vec::VectorizedN<{{compute_t}}, COLS> vb;", f"{_VECTOR} vb[COLS];"),
    ("at::vec::VectorizedN<{{compute_t}}, ROWS*COLS> vc;", f"{_VECTOR} vc[ROWS*COLS];"),
    ("at::vec::fmadd(va, vb[col], vc[idx])", "at::vec::fmadd(va, Vectorized(vb[col]), Vectorized(vc[idx]))"),
    ("vc[i].store(", "Vectorized(vc[i]).store("),
)
_OPTIONAL = (("at::vec::fmadd(va, vb[j], vc[idx])", "at::vec::fmadd(va, vb[j], Vectorized(vc[idx]))"),)
_FOR_ALL_THREADS = "#pragma omp for schedule(static, 1)\n        for (int64_t tid = 0;"
"""How a template shares its work so that all of it is done, however many threads there are."""


@cache
def can_generate_products() -> bool:
    """Tell whether generated products are right and quick on this machine, with this torch."""
    return (
        sys.platform != "win32"
        and isinstance(pick_vec_isa(), VecAVX512)
        and _FOR_ALL_THREADS in cpp_gemm_template.GEMM_TEMPLATE
        and all(old in CppMicroGemmFP32Vec.TEMPLATE_KERNEL for old, _ in _NEEDED)
    )


@contextmanager
def generated_products() -> Iterator[None]:
    """Let torch take generated products for float32, with sums in registers."""
    kernel = CppMicroGemmFP32Vec.TEMPLATE_KERNEL
    for old, new in (*_NEEDED, *_OPTIONAL):
        kernel = kernel.replace(old, new)
    select = AlgorithmSelectorCache.__call__

    def choose(self: Any, name: str, choices: list[Any], inputs: Any, *others: Any, **options: Any) -> Any:
        return select(self, name, _preferred(choices, inputs), inputs, *others, **options)

    with (
        patch.object(CppMicroGemmFP32Vec, "TEMPLATE_KERNEL", kernel),
        patch.object(AlgorithmSelectorCache, "__call__", choose),
    ):
        yield


def _preferred(choices: list[Any], inputs: list[Any]) -> list[Any]:
    """Return the choices that remain: the generated product for float32, and the library's for others."""
    is_generated = all(each.get_dtype() == torch.float32 for each in inputs)
    found = [choice for choice in choices if isinstance(choice, ExternKernelCaller) != is_generated]
    return found[:1] if is_generated and found else found or choices
