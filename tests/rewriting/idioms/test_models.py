"""What exporters write of real architectures: nothing that an idiom knows may be left spelled out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from models import Example
from models.torch_models import EXAMPLES
from rewriting.idioms.recognising import simplified

LAYERS = 2
TRANSFORMERS = [e for e in EXAMPLES if e.model in ("bert", "gpt2", "llama", "t5_encoder", "vit")]
SPELLED_OUT = {"Softmax", "Erf", "Sigmoid", "Tanh", "ReduceMean", "Sqrt", "MatMul", "Gemm", "IsNaN"}


@pytest.mark.parametrize("example", TRANSFORMERS, ids=str)
def test_transformers(example: Example, model_file: Callable[[Example], Path]) -> None:
    operators = Counter(node.op_type for node in simplified(onnx.load(model_file(example))).graph)
    assert operators["Attention"] + operators["MultiheadAttention"] == LAYERS
    # The projections of GPT-2 hold their matrices as (in, out), which `nn.Linear` does not: they stay products.
    assert SPELLED_OUT & operators.keys() == ({"MatMul"} if example.model == "gpt2" else set())
