"""Write a model in another IR version, if what it holds was known then.

| IR version | what it brought |
|---|---|
| 4 | initialisers need not be inputs |
| 8 | model-local functions, optional types |
| 9 | float8 |
| 10 | int4, overloads of functions, metadata of nodes |
| 11 | float4 |
| 12 | float8e8m0 |
| 13 | int2 |
| 14 | float6 |

Functions are inlined below 8. Initialisers are listed among the inputs below 4 by the writer. Metadata of nodes are
notes, which older readers pass over.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting.normal_form import inline_functions

OLDEST = 3
_FUNCTIONS_SINCE = 8
D = ir.DataType
LATER_TYPES = {
    D.FLOAT8E4M3FN: 9,
    D.FLOAT8E4M3FNUZ: 9,
    D.FLOAT8E5M2: 9,
    D.FLOAT8E5M2FNUZ: 9,
    D.INT4: 10,
    D.UINT4: 10,
    D.FLOAT4E2M1: 11,
    D.FLOAT8E8M0: 12,
    D.INT2: 13,
    D.UINT2: 13,
    D.FLOAT6E2M3: 14,
    D.FLOAT6E3M2: 14,
}


def set_ir_version(model: ir.Model, version: int) -> int:
    """Let the model be of this IR version, in place; return how many calls of functions had to be inlined."""
    if not OLDEST <= version <= onnx.IR_VERSION:
        raise OnnxLiftError(
            f"there is no IR version {version}: the installed onnx {onnx.__version__} knows {OLDEST} to "
            f"{onnx.IR_VERSION}."
        )
    inlined = 0
    if version < _FUNCTIONS_SINCE and model.functions:
        inlined = inline_functions.run(model)
    infer(model)
    for dtype, value in _types(model):
        since = LATER_TYPES.get(dtype, OLDEST)
        if since > version:
            raise OnnxLiftError(
                f"value {quote(value.name or '')} is of type {dtype.name.lower()}, which IR version {version} does not "
                f"have: it came with {since}."
            )
    model.ir_version = version
    return inlined


def _types(model: ir.Model) -> list[tuple[ir.DataType, ir.Value]]:
    found: dict[ir.DataType, ir.Value] = {}
    for region in regions(model):
        graph = region.graph
        for values in (graph.inputs, graph.initializers.values(), *(node.outputs for node in graph)):
            for value in values:
                if value.dtype is not None:
                    found.setdefault(value.dtype, value)
    return list(found.items())
