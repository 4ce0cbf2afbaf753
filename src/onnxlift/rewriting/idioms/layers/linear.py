"""A product with a constant matrix is a linear layer.

    MatMul(x, W)                     ->  Linear(x, W)
    MatMul(x, Transpose(W))          ->  Linear(x, W, transposed=1)
    Gemm(x, W, c)                    ->  Linear(x, W, c), transposed as Gemm says
    Add(Linear(x, W), b)             ->  Linear(x, W, b)
    Reshape(Linear(Reshape(x), ..))  ->  Linear(x, ..), or Linear(Reshape(x), ..) with one reshape less

W is a parameter (a floating-point initialiser) of two axes. b and c are constants with one number for each output,
perhaps with axes of size 1 before it.

In a model from PyTorch, b must have one axis and be added in the module that multiplies. It may not be a buffer (the
buffer that BART adds to its logits is not the head's bias), and may not be computed from parameters
(`weight.pow(2).sum(1)`).

Not with the matrix on the left, not if `alpha`, `beta` or `transA` of a Gemm is set, not with a bias that broadcasts in
another way, and not if another node reads the product before the bias is added. Reshapes are dropped only if the shapes
prove that the axes in front of the features stay as they are: a linear layer works on rows, whatever axes number them.
Both must be in one module, if PyTorch's exporters tell modules: otherwise the first is what another module gives out.

    Linear(x, W, b)   ->   Add(MatMul(x, W), b), in the end, if W is not a linear layer's

PyTorch's linear layers hold their matrix as (out, in). If PyTorch's exporter multiplies with a matrix as it is, under
its own name, then a module of another kind holds it as (in, out): the `Conv1D` of GPT-2, or a bare `nn.Parameter`. As a
linear layer it would not fit the checkpoint. A matrix that the exporter has transposed itself has no name of its own.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit, LiftedOperator, sweep
from onnxlift.ir.editing.match import DOMAIN, both_orders, drop_unused, is_private, made_by
from onnxlift.ir.editing.near_misses import near_miss
from onnxlift.ir.graph.axes import swaps_two_axes
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.shapes import rank, shape_of
from onnxlift.ir.inference.symbolic import product
from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.module_paths import module_of, told_module
from onnxlift.ir.origin.tensors import may_be_trained, origin_of
from onnxlift.rewriting.idioms.parts.biases import is_bias
from onnxlift.rewriting.idioms.parts.parameter_names import parameter_name
from onnxlift.stages import step


@step(
    "linear",
    after={
        "unrolled-rnn": "the steps of a recurrent layer are products with constants, too",
        "bilinear": "its first product is with a constant, too",
        "weight-norm": "a weight that is computed from others counts as a constant by then",
        "spectral-norm": "a weight that is computed from others counts as a constant by then",
    },
)
def run(model: ir.Model) -> int:
    """Make linear layers of products with constant matrices; return how many rewrites that took."""
    by_pytorch = exporter_of(model).is_pytorch
    return sweep(
        model,
        {
            "MatMul": _matmul,
            "Gemm": _gemm,
            "Add": lambda edit, node: _bias(edit, node, by_pytorch),
            ("Reshape", "Flatten"): _reshaped,
        },
    ) + (sweep(model, {LiftedOperator("Linear"): _keep_product}) if by_pytorch else 0)


def _matmul(edit: Edit, node: ir.Node) -> None:
    x, weight = node.inputs
    if _is_matrix(weight):
        edit.replace(node, "Linear", [x, weight], domain=DOMAIN)
        return
    transpose = made_by(edit, weight, "Transpose")
    if transpose is not None and _is_matrix(transpose.inputs[0]) and swaps_two_axes(transpose):
        edit.replace(node, "Linear", [x, transpose.inputs[0]], [ir.AttrInt64("transposed", 1)], domain=DOMAIN)
        drop_unused(edit, [transpose])
    elif constant(weight) is not None:
        near_miss(node, "the constant matrix is not a trained parameter with two axes")


def _gemm(edit: Edit, node: ir.Node) -> None:
    x, weight, bias = (*node.inputs, None)[:3]
    transposed = attribute(node, "transB", 0)
    if not _is_matrix(weight) or attribute(node, "transA", 0) != 0 or attribute(node, "alpha", 1.0) != 1.0:
        near_miss(node, "the matrix is not a trained parameter, or transA or alpha is not the default")
        return
    if transposed is None or (bias is not None and attribute(node, "beta", 1.0) != 1.0):
        near_miss(node, "beta is not 1")
        return
    if bias is not None and not is_bias(bias, _outputs(weight, transposed), 2):
        near_miss(node, "what is added is not a constant with one number for each output")
        return
    inputs = [x, weight] if bias is None else [x, weight, bias]
    edit.replace(node, "Linear", inputs, _transposed(transposed), domain=DOMAIN)


def _bias(edit: Edit, node: ir.Node, by_pytorch: bool) -> None:
    for value, bias in both_orders(node):
        linear = made_by(edit, value, "Linear", domain=DOMAIN)
        if linear is None or len(linear.inputs) > 2:
            continue
        if by_pytorch and (_is_another_bias(bias, node) or _are_apart(node, linear)):
            near_miss(node, "what is added is no bias of this layer: untrained, of several axes, or in another module")
            continue
        x, weight = linear.inputs
        transposed = attribute(linear, "transposed", 0)
        if is_private(edit, value) and is_bias(bias, _outputs(weight, transposed), rank(value)):
            inputs = [x, weight, bias]
            edit.replace(node, "Linear", inputs, _transposed(transposed), domain=DOMAIN, named_by=linear)
            drop_unused(edit, [linear])
            return
        near_miss(node, "what is added is not a constant with one number for each output, or others read the product")


def _is_another_bias(bias: ir.Value, addition: ir.Node) -> bool:
    """Tell whether this cannot be a layer's bias in PyTorch, which has one axis, is trained, and is not computed."""
    origin = origin_of(bias)
    is_computed = origin.is_computed and parameter_name(bias, addition) is None
    return rank(bias) != 1 or is_computed or origin.is_buffer


def _are_apart(addition: ir.Node, linear: ir.Node) -> bool:
    """Tell whether the exporter says that the sum and the product are computed in different modules."""
    return _tells_module(addition) and _tells_module(linear) and module_of(addition) != module_of(linear)


def _tells_module(node: ir.Node) -> bool:
    return NAME_SCOPES in node.metadata_props or (node.name is not None and node.name.startswith("/"))


def _reshaped(edit: Edit, node: ir.Node) -> None:
    """Drop reshapes in `Reshape(Linear(Reshape(x)))` if the target shape is x's first axes and then the features."""
    linear = made_by(edit, node.inputs[0], "Linear", domain=DOMAIN)
    before = made_by(edit, linear.inputs[0], "Reshape", "Flatten") if linear is not None else None
    if before is not None and told_module(before) != told_module(node):
        return  # what another module gives out in this shape is its own affair
    if linear is None or before is None or not is_private(edit, node.inputs[0]):
        return
    source = before.inputs[0]
    shape, inner, target = shape_of(source), shape_of(before.outputs[0]), shape_of(node.outputs[0])
    outer = shape_of(node.inputs[0])
    if source is None or shape is None or inner is None or outer is None or not target or target[-1] != outer[-1]:
        return
    leading = len(target) - 1
    features = inner[-1]
    if shape[:leading] != target[:-1] or product(shape[leading:]) != features or not isinstance(features, int):
        return
    if len(shape) != len(target):
        sizes = edit.constant(f"{source.name}.shape", np.array([0] * leading + [features], np.int64))
        source = edit.insert(
            node,
            "Reshape",
            [source, sizes],
            like=source,
            shape=[*target[:-1], features],
            name=f"{source.name}.rows",
            beside=source.producer(),
        )
    inputs = [source, *linear.inputs[1:]]
    edit.replace(node, "Linear", inputs, list(linear.attributes.values()), domain=DOMAIN, named_by=linear)
    drop_unused(edit, [linear, before])


def _keep_product(edit: Edit, node: ir.Node) -> None:
    if attribute(node, "transposed", 0):
        return
    x, weight, bias = (*node.inputs, None)[:3]
    if x is None or weight is None or origin_of(weight).is_computed or parameter_name(weight, node) is None:
        return
    if bias is None:
        edit.replace(node, "MatMul", [x, weight], domain="")
        return
    result = node.outputs[0]
    shape = shape_of(result)
    if shape is not None:
        multiplied = edit.insert(node, "MatMul", [x, weight], like=result, shape=shape, name=f"{result.name}.product")
        edit.replace(node, "Add", [multiplied, bias], domain="")


def _transposed(transposed: int) -> list[ir.Attr]:
    return [ir.AttrInt64("transposed", 1)] if transposed else []


def _is_matrix(value: ir.Value | None) -> bool:
    """Tell whether this can be the weight of a linear layer."""
    shape = shape_of(value)
    return may_be_trained(value) and shape is not None and len(shape) == 2 and 0 not in shape


def _outputs(weight: ir.Value | None, transposed: int) -> int | str | None:
    shape = shape_of(weight)
    return None if shape is None else shape[0 if transposed else 1]
