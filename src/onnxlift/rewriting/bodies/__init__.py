"""Operators of other domains that are defined by ONNX's own: one function an operator, as in ops/, but it writes ONNX.

ONNX Runtime's fused operators are what several nodes mean together. Taken apart again they give the same layers, and
the same source, as the model before the runtime's optimiser had seen it: FusedConv is `nn.Conv2d` and an activation,
SkipLayerNormalization an addition and `nn.LayerNorm`, Attention a projection and `F.scaled_dot_product_attention`.
"""

from __future__ import annotations

from . import microsoft_attention, microsoft_fused, microsoft_norm, microsoft_plain, microsoft_quant
from .body import NoBody, body_of, has_body, name_of, operators

__all__ = [
    "NoBody",
    "body_of",
    "has_body",
    "microsoft_attention",
    "microsoft_fused",
    "microsoft_norm",
    "microsoft_plain",
    "microsoft_quant",
    "name_of",
    "operators",
]
