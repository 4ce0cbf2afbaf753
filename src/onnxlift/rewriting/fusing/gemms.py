"""Write a product of matrices and a sum behind it as one Gemm.

    Add(MatMul(x, w), b)   ->   Gemm(x, w, b)

in either order of the sum. It applies if both factors are matrices (rank 2), of a type that Gemm takes, nobody else
reads the product, and the bias has no more axes than the product and needs none of it to be repeated: each of its sizes
is 1 or known to be the product's. Sound because that is what a Gemm with alpha and beta of 1 computes. Since opset 7;
before that, Gemm broadcasts only if an attribute says so.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, sweep
from onnxlift.ir.editing.match import drop_unused, is_private, made_by
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.stages import step

_FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16}


@step("gemms", repeats=True)
def run(model: ir.Model) -> int:
    """Write products with a bias as Gemm; return how many."""
    return sweep(model, {"Add": _visit})


def _visit(edit: Edit, node: ir.Node) -> None:
    for place in (0, 1):
        product = made_by(edit, node.inputs[place], "MatMul")
        bias = node.inputs[1 - place]
        if product is None or bias is None or edit.opset(node) < 7 or not is_private(edit, node.inputs[place]):
            continue
        factors = list(product.inputs)
        if any(rank(factor) != 2 for factor in factors) or product.outputs[0].dtype not in _FLOATS:
            continue
        if _fits(bias, product.outputs[0]):
            edit.replace(node, "Gemm", [*factors, bias], named_by=product)
            drop_unused(edit, [product])
            return


def _fits(bias: ir.Value, product: ir.Value) -> bool:
    """Tell whether the bias is broadcast to the product, and never the product to the bias."""
    sizes, wanted = shape_of(bias), shape_of(product)
    if sizes is None or wanted is None or len(sizes) > 2:
        return False
    return all(size in (1, there) for size, there in zip(reversed(sizes), reversed(wanted), strict=False))
