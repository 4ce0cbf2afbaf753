"""Products of float32 are generated, with sums in registers; all others are the library's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from onnxlift.workbench.export import compiling, products

needs_avx512 = pytest.mark.skipif(not products.can_generate_products(), reason="products are generated for AVX-512")


class Attended(nn.Module):
    """A layer of each kind that has a product: a linear, attention, a linear with what comes after."""

    def __init__(self, length: int = 13) -> None:
        super().__init__()
        self.qkv, self.out, self.length = nn.Linear(20, 60), nn.Linear(20, 50), length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.transpose(1, 2) for part in self.qkv(x).reshape(-1, self.length, 2, 30).split(10, 3))
        attended = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, self.length, 20)
        return nn.functional.gelu(self.out(x + attended))


def _compiled(module: nn.Module, x: torch.Tensor, folder: Path, **options: Any) -> Callable[..., Any]:
    product = folder / "fast.pt2"
    compiling.compile_package(export(module.eval(), (x,), **options), product, {})
    return compiling.load_package(product)


@needs_avx512
@torch.no_grad()
def test_generated_products_are_right_for_any_batch(tmp_path: Path) -> None:
    module = Attended().requires_grad_(False)
    x = torch.randn(3, 13, 20)
    chosen: list[list[bool]] = []

    def recorded(choices: list[Any], inputs: list[Any]) -> list[Any]:
        found = preferred(choices, inputs)
        chosen.append([isinstance(each, products.ExternKernelCaller) for each in found])
        return found

    preferred = products._preferred
    with patch.object(products, "_preferred", recorded):
        fast = _compiled(module, x, tmp_path, dynamic_shapes=({0: Dim("batch")},))
    assert chosen == [[False]] * 4  # one each, and none of a library
    for batch in (3, 1, 8):
        more = torch.randn(batch, 13, 20)
        torch.testing.assert_close(fast(more), module(more))


@needs_avx512
@torch.no_grad()
def test_products_of_other_types_are_the_librarys(tmp_path: Path) -> None:
    module, x = nn.Linear(6, 5).double().requires_grad_(False), torch.randn(3, 6, dtype=torch.float64)
    torch.testing.assert_close(_compiled(module, x, tmp_path)(x), module(x))


@needs_avx512
def test_sums_are_vectors_of_the_compiler_and_torch_is_as_before_afterwards() -> None:
    kernel, select = products.CppMicroGemmFP32Vec.TEMPLATE_KERNEL, products.AlgorithmSelectorCache.__call__
    with products.generated_products():
        changed = products.CppMicroGemmFP32Vec.TEMPLATE_KERNEL
        assert "VectorizedN<{{compute_t}}, ROWS*COLS>" not in changed and "vector_size" in changed
    assert kernel == products.CppMicroGemmFP32Vec.TEMPLATE_KERNEL
    assert select is products.AlgorithmSelectorCache.__call__


@pytest.mark.parametrize(
    ("owner", "name"),
    [(products.CppMicroGemmFP32Vec, "TEMPLATE_KERNEL"), (products.cpp_gemm_template, "GEMM_TEMPLATE")],
)
def test_a_torch_with_other_templates_keeps_its_libraries(owner: Any, name: str) -> None:
    with patch.object(owner, name, "#pragma omp parallel"):
        assert not products.can_generate_products.__wrapped__()


@torch.no_grad()
def test_libraries_do_what_cannot_be_generated(tmp_path: Path) -> None:
    module, x = nn.Linear(6, 5).requires_grad_(False), torch.randn(3, 6)

    def fails(*arguments: Any) -> Any:
        raise RuntimeError("no such product")

    with (
        patch.object(products, "_preferred", fails),
        patch.object(compiling, "can_generate_products", lambda: True),
    ):
        fast = _compiled(module, x, tmp_path)
    torch.testing.assert_close(fast(x), module(x))
