"""Define operators of other domains by ONNX's own. There is one function for each operator, as in ops/, but it writes
ONNX.

A fused operator of ONNX Runtime stands for several nodes. Taken apart again, it gives the same layers, and the same
source, as the model had before the runtime's optimiser. FusedConv becomes `nn.Conv2d` and an activation,
SkipLayerNormalization an addition and `nn.LayerNorm`, Attention a projection and `F.scaled_dot_product_attention`.
"""

from __future__ import annotations

from . import (
    microsoft_attention,
    microsoft_experts,
    microsoft_few_bits,
    microsoft_fused,
    microsoft_grouped,
    microsoft_norm,
    microsoft_plain,
    microsoft_quant,
    microsoft_recurrent,
)
from .body import NoBody, body_of, has_body, name_of, operators

__all__ = [
    "NoBody",
    "body_of",
    "has_body",
    "microsoft_attention",
    "microsoft_experts",
    "microsoft_few_bits",
    "microsoft_fused",
    "microsoft_grouped",
    "microsoft_norm",
    "microsoft_plain",
    "microsoft_quant",
    "microsoft_recurrent",
    "name_of",
    "operators",
]
