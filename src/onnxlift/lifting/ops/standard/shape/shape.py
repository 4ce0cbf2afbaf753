"""Operators that read or change the shape of a tensor and leave its elements alone (Reshape has its own file)."""

from __future__ import annotations

from collections.abc import Sequence

from onnxlift.ir.graph.shapes import elements_of
from onnxlift.ir.graph.types import DataType
from onnxlift.lifting.code.expr import Attribute, Expr, builtin, to_expr, torch
from onnxlift.lifting.ops.axes import as_written, from_front
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, activation, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Dims, Operand, Scalar, Tensor, shape_of
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.standard.media.string_arrays import moves_elements

from .create import MOST_SIZES, filled


@op("Identity", layer=activation("Identity"))
def Identity(n: Node, input: Operand) -> Result:
    return input


@op("Shape")
def Shape(n: Node, data: Operand, *, start: int = 0, end: int | None = None) -> Result:
    """The sizes as Python ints. From opset 15 on, only those from `start` to `end`, which are cut as in Python."""
    if isinstance(data, Scalar):
        return Dims([])
    if isinstance(data, Dims):
        sizes = Dims([_length(data)])
    else:
        sizes = shape_of(data)
    if sizes.elements is not None:
        return Dims(sizes.elements[start:end])
    assert sizes.whole is not None
    return sizes if start == 0 and end is None else Dims(None, sizes.whole[slice(start or None, end)])


@op("Size")
def Size(n: Node, data: Operand) -> Result:
    match data:
        case Scalar():
            return Scalar(1)
        case Dims():
            return _length(data)
    if data.type.size is not None:
        return Scalar(data.type.size)
    return Scalar(data.size if data.type.dtype == DataType.STRING else data.numel(), nonnegative=True)


def _length(sizes: Dims) -> Scalar:
    """Return how many sizes there are. If they are the shape of a tensor, this is `x.ndim`."""
    if sizes.length is not None:
        return Scalar(sizes.length)
    whole = sizes.as_expr()
    is_shape = isinstance(whole, Attribute) and whole._name == "shape"
    return Scalar(whole._base.ndim if is_shape else builtin("len")(whole), nonnegative=True)


@op("Flatten", layer=LayerKind("Flatten", signature(start_dim=1, end_dim=-1), function=("flatten", "start_dim")))
@moves_elements
def Flatten(n: Node, input: Tensor, *, axis: int) -> Result:
    """Always a matrix: the axes before `axis` are its rows. Until opset 9 `axis` is not negative."""
    rank = input.type.rank
    if rank is None:
        return kernel("flatten_to_matrix")(input, axis)
    if axis == rank and rank > 0:
        return input.reshape(-1, 1)
    if axis in (0, -rank):
        return input.reshape(1, -1)
    axis = from_front(axis, rank)
    columns: Expr = input if axis == rank - 1 else input.flatten(axis)
    return columns if axis == 1 else columns.flatten(0, axis - 1)


@op("Squeeze")
@moves_elements
def Squeeze(n: Node, data: Operand, axes: Dims | None) -> Result:
    if isinstance(data, Scalar):
        return data
    if isinstance(data, Dims) and data.length == 1:
        return data[0]
    x = n.tensor(data)
    if axes is None:
        return x.squeeze()
    if axes.static is None:
        return x.squeeze(axes)
    return squeezed(x, axes.static)


def squeezed(x: Tensor, axes: Sequence[int]) -> Expr:
    """Return `x` without the given axes of size 1."""
    places = sorted(from_front(axis, x.type.rank) for axis in axes)
    if not places:
        return x
    return x.squeeze(as_written(places[0], x.type.rank) if len(places) == 1 else tuple(places))


@op("Unsqueeze")
@moves_elements
def Unsqueeze(n: Node, data: Operand, axes: Dims) -> Result:
    """`axes` are places in the output, in any order. Until opset 10 they are not negative."""
    places = axes.static
    if isinstance(data, Scalar) and places in ((0,), (-1,)):
        return Dims([data])
    x = n.tensor(data)
    rank = x.type.rank
    if places is not None and (rank is not None or all(axis >= 0 for axis in places) or len(places) == 1):
        return unsqueezed(x, [from_front(axis, None if rank is None else rank + len(places)) for axis in places])
    return kernel("unsqueeze_axes")(x, axes)


def unsqueezed(x: Tensor, places: Sequence[int]) -> Expr:
    """Return `x` with axes of size 1 at the given places of the result. Several places must be counted from the
    front."""
    if not places:
        return x
    if len(places) == 1:
        rank = None if x.type.rank is None else x.type.rank + 1
        return x.unsqueeze(as_written(places[0], rank))
    return x[tuple(None if axis in places else slice(None) for axis in range(max(places) + 1))]


@op("Transpose")
@moves_elements
def Transpose(n: Node, data: Operand, *, perm: Sequence[int] | None) -> Result:
    """Without `perm` the axes are reversed."""
    if isinstance(data, Scalar | Dims):
        return data
    rank = data.type.rank if perm is None else len(perm)
    if rank is None:
        return data.permute(builtin("tuple")(builtin("reversed")(builtin("range")(data.ndim))))
    order = list(perm) if perm is not None else list(reversed(range(rank)))
    moved = [axis for axis in range(rank) if order[axis] != axis]
    if not moved:
        return data
    if len(moved) > 2:
        return data.permute(*order)
    if rank == 2:
        return data.T
    return data.mT if rank > 3 and moved == [rank - 2, rank - 1] else data.transpose(*moved)


@op("Expand")
@moves_elements
def Expand(n: Node, input: Operand, shape: Dims) -> Result:
    """Both are broadcast: a 1 in `shape` keeps the input's size, as -1 does in PyTorch."""
    if isinstance(input, Scalar | Dims):
        repeated = _repeated(input, shape.static)
        if repeated is not None:
            return repeated
    x = n.tensor(input)
    sizes = _expanded_sizes(n, x, shape)
    if sizes is None:
        return x.expand(torch.broadcast_shapes(x.shape, shape))
    if isinstance(x.number, int):
        sizes = [Scalar(1) if size.number == -1 else size for size in sizes]  # it has no other sizes
    if x.number is not None and all(size.number != -1 for size in sizes):
        return filled(n, Dims(sizes), x.number, x.type.dtype)
    if len(sizes) == x.type.rank and all(size.number == -1 for size in sizes):
        return x
    return x.expand(*sizes)


def _repeated(sizes: Scalar | Dims, shape: tuple[int, ...] | None) -> Scalar | Dims | None:
    """Return one size repeated, or the sizes as they are, if this is the result of broadcasting to `shape`; else
    None."""
    if shape is None or len(shape) > 1:
        return None
    length = shape[0] if shape else 1
    if length > MOST_SIZES:
        return None
    if isinstance(sizes, Scalar):
        return Dims([sizes] * length) if shape else sizes
    if sizes.length == 1 and sizes.elements is not None:
        return Dims(sizes.elements * length)
    return sizes if length == 1 or sizes.length == length else None


def _expanded_sizes(n: Node, x: Tensor, shape: Dims) -> list[Scalar] | None:
    """Return the arguments of `x.expand`; None if only the run tells which of two sizes is the larger."""
    own, result = x.type.shape, n.output.shape
    if own is None or shape.elements is None:
        return None
    names = elements_of(n.ir.inputs[1]) or ()
    missing = len(own) - len(shape.elements)
    wanted = [Scalar(1)] * missing + shape.elements
    own = (1,) * -missing + own
    sizes = []
    for axis, (size, target) in enumerate(zip(own, wanted, strict=True)):
        new = axis < -missing
        became = result[axis] if result is not None and len(result) == len(own) else None
        if size == 1:
            sizes.append(Scalar(-1) if target.number == 1 and not new else target)
        elif target.number == 1 or isinstance(size, int) or (became is not None and became == size):
            sizes.append(Scalar(-1))
        elif target.number is not None or (became is not None and names and became == names[axis - len(own)]):
            sizes.append(target)  # the result has this size in every run
        else:
            return None
    return sizes


@op("Tile")
@moves_elements
def Tile(n: Node, input: Operand, repeats: Dims, axis: Dims | None) -> Result:
    """Opset 1 repeats along one `axis`, by `repeats` (called `tiles` there); both are floats."""
    if axis is not None:
        return torch.cat(to_expr([n.tensor(input)]) * repeats[0], axis[0])
    counts = repeats.static
    if counts is not None and all(count == 1 for count in counts):
        return input
    if isinstance(input, Dims) and input.elements is not None and counts is not None and max(counts) <= MOST_SIZES:
        return Dims(input.elements * counts[0])
    return n.tensor(input).repeat(*repeats.args())
