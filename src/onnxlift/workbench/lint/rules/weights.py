"""Rules on the numbers of weights."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.nodes import attribute
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.reading.tensors import FileTensor
from onnxlift.sizes import format_bytes
from onnxlift.workbench.lint.constants import know_constants
from onnxlift.workbench.lint.roles import MULTIPLIED, roles_of, told
from onnxlift.workbench.lint.rule import Found, lint_rule
from onnxlift.workbench.lint.weights import Weight, fingerprint

_ROUNDS_TO_INFINITY = 65520.0
_FEWEST = 4
"""A tensor of fewer numbers says nothing by being equal throughout."""
_SMALLEST_COPY = 4096
_MANY_SUBNORMALS = 0.01
_FEWEST_SUBNORMALS = 100


@lint_rule("OL301", "nan-weight", "error", "weight")
def weights_that_are_not_numbers(weight: Weight) -> Iterable[Found]:
    """A weight holds NaN.

    Whatever is computed with it becomes NaN as well. Training has diverged, or a conversion went wrong.

    Take an earlier checkpoint, or find the conversion that made it (`onnxlift diff` against the original)."""
    if weight.is_float and weight.numbers.nans:
        yield Found(weight.place, f"{weight.numbers.nans:,} of its {weight.numbers.count:,} numbers are NaN.")


@lint_rule("OL302", "infinite-weight", "warning", "weight")
def weights_that_are_infinite(weight: Weight) -> Iterable[Found]:
    """A weight of a layer holds infinity.

    Infinity times 0 is NaN, and so is a difference of two. In masks, which are added or chosen from, infinity is in its
    place, and not reported.

    If the model is float16, the number was too large for it: keep this weight in float32, or scale it. Otherwise look
    at the training."""
    if not weight.is_float or not (weight.numbers.highs or weight.numbers.lows):
        return
    roles = [role for role in roles_of(weight) if role[1] in MULTIPLIED | {"bias", "mean", "variance"}]
    if roles:
        count = weight.numbers.highs + weight.numbers.lows
        yield Found(weight.place, f"{count:,} of its {weight.numbers.count:,} numbers are infinite ({told(roles[0])}).")


@lint_rule("OL303", "zero-weight", "warning", "weight")
def weights_that_are_all_zero(weight: Weight) -> Iterable[Found]:
    """The kernel or the matrix of a layer is all zeros.

    The layer gives the same, whatever its input is. It was never trained or never loaded: a key of the checkpoint was
    missing, or a module was made and not used.

    Compare with the checkpoint. If it is meant so (a branch that was pruned away), remove the layer."""
    numbers = _one_number(weight)
    if numbers == 0:
        (role, *_) = _multiplied(weight)
        yield Found(weight.place, f"all its {weight.numbers.count:,} numbers are 0 ({told(role)}).")


@lint_rule("OL304", "equal-weight", "info", "weight")
def weights_that_are_all_equal(weight: Weight) -> Iterable[Found]:
    """All numbers of the kernel or the matrix of a layer are equal.

    Averages and sums are written so, and that is fine. A layer that was initialised by a constant and never trained
    looks the same.

    Make sure that it is meant so."""
    number = _one_number(weight)
    if number:
        (role, *_) = _multiplied(weight)
        yield Found(weight.place, f"all its {weight.numbers.count:,} numbers are {number:.6g} ({told(role)}).")


def _multiplied(weight: Weight) -> list[tuple[str, str, str]]:
    """Return the layers that multiply by the weight. (The scale of a norm is often 1, and a table may have one row.)"""
    return [role for role in roles_of(weight) if role[1] in MULTIPLIED - {"scale", "table"}]


def _one_number(weight: Weight) -> float | None:
    """Return the number that all elements of a layer's weight are; None if they differ, or it is no such weight."""
    if len(weight.tensor.shape) < 2 or weight.tensor.size < _FEWEST or not _multiplied(weight):
        return None
    return weight.numbers.least if weight.numbers.is_one_number else None


@lint_rule("OL305", "float16-overflow", "warning", "weight")
def numbers_too_large_for_float16(weight: Weight) -> Iterable[Found]:
    """A constant is cast to float16, which does not hold its numbers.

    Beyond 65504 they become infinity. A mask of -3.4e38 does, and if a row is masked throughout, its softmax is NaN.

    Use a number that float16 holds: -65504, or -1e4 for a mask."""
    if weight.tensor.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16):
        return
    for node, index in weight.value.uses():
        is_cast = node.op_type == "Cast" and node.domain == "" and index == 0
        if not is_cast or attribute(node, "to", 0) != ir.DataType.FLOAT16:
            continue
        largest = max(abs(weight.numbers.least), abs(weight.numbers.greatest))
        if weight.numbers.count and _ROUNDS_TO_INFINITY <= largest < float("inf"):
            text = f"its numbers go up to {largest:.6g}, and Cast {quote(node.name or '')} makes them float16."
            yield Found(weight.place, text)


@lint_rule("OL306", "negative-variance", "error", "weight")
def variances_below_zero(weight: Weight) -> Iterable[Found]:
    """The variance of a BatchNormalization is negative.

    The norm takes the square root of it, after adding epsilon: the channel becomes NaN.

    A variance is never negative: the file is damaged, or the inputs of the node are in another order. They are X,
    scale, B, mean and variance."""
    if weight.is_float and weight.numbers.least < 0:
        for role in roles_of(weight):
            if role[1] == "variance":
                yield Found(weight.place, f"its least number is {weight.numbers.least:.6g} ({told(role)}).")
                return


@lint_rule("OL307", "subnormal-weight", "info", "weight")
def numbers_next_to_zero(weight: Weight) -> Iterable[Found]:
    """Many numbers of a weight are subnormal, so close to 0 that processors compute slowly with them.

    On many CPUs, arithmetic with such a number takes many times as long as with another one. Weight decay drives
    weights that nothing trains towards 0.

    Set them to 0 (below 1e-38 they make no difference), or run ONNX Runtime with
    session.set_denormal_as_zero."""
    numbers = weight.numbers if weight.is_float else None
    if (
        numbers is not None
        and numbers.subnormals > max(_MANY_SUBNORMALS * numbers.count, _FEWEST_SUBNORMALS)
        and weight.uses
    ):
        yield Found(weight.place, f"{numbers.subnormals:,} of its {numbers.count:,} numbers are subnormal.")


def share_copies(model: ir.Model) -> None:
    """Let all readers of equal weights of a graph read the first of them, and drop the others."""
    know_constants(model)
    for region in regions(model):
        first: dict[tuple[object, ...], ir.Value] = {}
        for name, value in list(region.graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or tensor.dtype == ir.DataType.STRING or tensor.nbytes < _SMALLEST_COPY:
                continue
            same = first.setdefault((tensor.dtype, tuple(tensor.shape.numpy()), fingerprint(tensor)), value)
            if same is not value and not value.is_graph_output() and not value.is_graph_input():
                for node, index in value.uses():
                    node.replace_input_with(index, same)
                del region.graph.initializers[name]


@lint_rule("OL308", "repeated-weight", "info", "weight", fix=share_copies)
def weights_that_are_stored_twice(weight: Weight) -> Iterable[Found]:
    """The same numbers are stored twice.

    Tied weights (an embedding and the output head) or copies that an exporter has made take room in the file and in
    memory for each copy.

    `--fix` stores them once, if they are in the same graph."""
    tensor = weight.tensor
    if tensor.nbytes < _SMALLEST_COPY:
        return
    numbers = weight.numbers
    alike = weight.seen.setdefault((tensor.dtype, tuple(tensor.shape.numpy()), numbers), [])
    for other in alike:
        if _is_shared(tensor, other.tensor):
            return
        if fingerprint(other.tensor) == fingerprint(tensor):
            text = f"it holds the same {format_bytes(tensor.nbytes)} as {quote(other.value.name or '')}."
            yield Found(weight.place, text, _can_be_shared(weight, other))
            return
    alike.append(weight)


def _can_be_shared(weight: Weight, other: Weight) -> bool:
    is_plain = all(each.value.is_initializer() and not each.value.is_graph_input() for each in (weight, other))
    is_one_graph = weight.region.graph is other.region.graph and weight.region.function is None
    return is_plain and is_one_graph and not weight.value.is_graph_output()


def _is_shared(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    """Tell whether two tensors are the same bytes of one file."""
    return a is b or (isinstance(a, FileTensor) and isinstance(b, FileTensor) and a.raw == b.raw)
