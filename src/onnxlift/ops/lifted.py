"""The operators of the domain `onnxlift`: what the idioms recognise (see idioms/)."""

from __future__ import annotations

from ..code.expr import F
from .node import Node, Result
from .operand import Constant, Tensor
from .registry import op

DOMAIN = "onnxlift"


@op("Linear", domain=DOMAIN)
def Linear(n: Node, x: Tensor, weight: Constant, bias: Constant | None, *, transposed: int = 0) -> Result:
    """`x @ weight (+ bias)` with a constant matrix; `transposed` if it is stored as PyTorch does, (out, in)."""
    rows, columns = (d for d in weight.type.shape or () if isinstance(d, int))
    out_features, in_features = (rows, columns) if transposed else (columns, rows)
    held = weight if transposed else n.weight(weight, lambda matrix: matrix.T, (out_features, in_features))
    layer = n.layer(
        "Linear",
        {"weight": held, "bias": bias},
        in_features=in_features,
        out_features=out_features,
        bias=bias is not None,
    )
    return layer(x)


@op("Embedding", domain=DOMAIN)
def Embedding(n: Node, table: Constant, indices: Tensor) -> Result:
    """Rows of a constant table by indices that cannot be negative."""
    rows, width = (d for d in table.type.shape or () if isinstance(d, int))
    return n.layer("Embedding", {"weight": table}, num_embeddings=rows, embedding_dim=width)(indices)


@op("SiLU", domain=DOMAIN)
def SiLU(n: Node, x: Tensor) -> Result:
    return F.silu(x)
