"""Reductions over axes, positions of extremes, and running totals.

Until opset 17 (ReduceSum: 12) the axes are an attribute, then an input, which may be computed while the model runs. An
empty list of axes means all axes, or no axis if `noop_with_empty_axes` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxlift.ir.graph.types import INTEGERS, DataType, ValueType
from onnxlift.lifting.code.expr import Binary, Expr, builtin, either, negate, torch
from onnxlift.lifting.ops import sizes
from onnxlift.lifting.ops.axes import as_written
from onnxlift.lifting.ops.elementwise import STORED_ONLY, through_int64
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result, torch_dtype
from onnxlift.lifting.ops.operand import Dims, Operand, Scalar, Tensor, size_of
from onnxlift.lifting.ops.registry import op

from .cast import converted


class Over:
    """The axes to reduce over, as arguments of torch's functions: `x.sum(*over.args, **over.keepdim)`. `axes` is None
    for all axes of a tensor whose rank is not known."""

    def __init__(self, x: Tensor, axes: tuple[int, ...] | Expr | None, keepdims: bool) -> None:
        self.x = x
        self.axes = axes
        self.keepdim = {"keepdim": True} if keepdims else {}

    @property
    def is_everything(self) -> bool:
        """Tell whether one number is left, so that the axes need not be written."""
        rank = self.x.type.rank
        return not self.keepdim and (self.axes is None or (isinstance(self.axes, tuple) and len(self.axes) == rank))

    @property
    def args(self) -> tuple[Any, ...]:
        return () if self.is_everything else (self.dim,)

    @property
    def dim(self) -> Any:
        """The axes themselves: `1`, `(2, 3)`, or an expression."""
        return self.axes[0] if isinstance(self.axes, tuple) and len(self.axes) == 1 else self.listed

    @property
    def may_be_nothing(self) -> bool:
        """Tell whether one of the axes may have size 0, of which torch takes no maximum. A size that is not known is
        assumed not to be 0; if it is, torch raises an error."""
        if isinstance(self.axes, tuple):
            return any(self.x.type.dim(axis) == 0 for axis in self.axes)
        return self.axes is not None

    @property
    def listed(self) -> Any:
        """The axes as a tuple or list, even if there is only one."""
        return builtin("tuple")(builtin("range")(self.x.ndim)) if self.axes is None else self.axes


def _same_type(x: Tensor) -> dict[str, Any]:
    """Return the argument that keeps the element type: torch adds and multiplies small integers in int64, ONNX in their
    own type."""
    narrow = x.type.dtype in INTEGERS and x.type.dtype != DataType.INT64
    return {"dtype": torch_dtype(x.type.dtype)} if narrow else {}


def _sum(x: Tensor, over: Over) -> Expr:
    return x.sum(*over.args, **over.keepdim, **_same_type(x))


def _sum_square(x: Tensor, over: Over) -> Expr:
    return _sum(Tensor(x.square(), x.type), over)


def _l1(x: Tensor, over: Over) -> Expr:
    return _sum(Tensor(x.abs(), x.type), over)


def _l2(x: Tensor, over: Over) -> Expr:
    if over.is_everything:
        return x.norm()
    if isinstance(over.dim, int):
        return x.norm(dim=over.dim, **over.keepdim)
    return torch.linalg.vector_norm(x, dim=over.dim, **over.keepdim)


def _log_sum(x: Tensor, over: Over) -> Expr:
    return _sum(x, over).log()


def _log_sum_exp(x: Tensor, over: Over) -> Expr:
    # Unlike other functions of torch, `logsumexp` does not take an empty list of axes for all axes.
    dim = Binary("or", over.axes, Over(x, None, False).listed) if isinstance(over.axes, Expr) else over.dim
    return x.logsumexp(dim, **over.keepdim)


def _mean(x: Tensor, over: Over) -> Expr:
    if x.type.dtype in INTEGERS:
        return kernel("integer_mean")(x, over.listed, **over.keepdim)
    return x.mean(*over.args, **over.keepdim)


def _prod(x: Tensor, over: Over) -> Expr:
    one = isinstance(over.axes, tuple) and len(over.axes) == 1
    if one or over.is_everything:
        return x.prod(*over.args, **over.keepdim, **_same_type(x))
    return kernel("prod_over")(x, over.listed, **over.keepdim)


def _max(x: Tensor, over: Over) -> Expr:
    if over.may_be_nothing:
        return kernel("max_over")(x, over.listed, **over.keepdim)
    return x.amax(*over.args, **over.keepdim)


def _min(x: Tensor, over: Over) -> Expr:
    if over.may_be_nothing:
        return kernel("min_over")(x, over.listed, **over.keepdim)
    return x.amin(*over.args, **over.keepdim)


REDUCTIONS: dict[str, Callable[[Tensor, Over], Expr]] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _max,
    "ReduceMean": _mean,
    "ReduceMin": _min,
    "ReduceProd": _prod,
    "ReduceSum": _sum,
    "ReduceSumSquare": _sum_square,
}
OF_SIZES: dict[str, Callable[[Scalar, Scalar], Scalar | None]] = {
    "ReduceMax": sizes.maximum,
    "ReduceMin": sizes.minimum,
    "ReduceProd": sizes.multiply,
    "ReduceSum": sizes.add,
}


def _register(name: str) -> None:
    @op(name)
    def lower(n: Node, data: Operand, axes: Dims | None, *, keepdims: int, noop_with_empty_axes: int = 0) -> Result:
        no_axes = axes is None or axes.static == ()
        if not isinstance(data, Tensor) and name in OF_SIZES and not noop_with_empty_axes:
            result = _of_sizes(name, data, bool(keepdims))
            if result is not None:
                return result
        x = n.tensor(data)
        if x.type.rank == 0 or (no_axes and noop_with_empty_axes):
            return _unreduced(name, x)
        over = Over(x, _normalised(x, None if no_axes else axes), bool(keepdims))
        reduced = _reduced(name, x, over)
        if noop_with_empty_axes and isinstance(over.axes, Expr):
            return either(negate(over.axes), _unreduced(name, x), reduced)
        return reduced


for _name in REDUCTIONS:
    _register(_name)


def _unreduced(name: str, x: Tensor) -> Expr:
    """Return what the reduction makes of a tensor if no axis is reduced."""
    match name:
        case "ReduceL1" | "ReduceL2" if x.type.dtype not in STORED_ONLY:
            return x.abs()
        case "ReduceLogSum" if x.type.dtype in INTEGERS:
            return converted(x.double().log(), x.type.dtype)
        case "ReduceLogSum":
            return x.log()
        case "ReduceSumSquare":
            return x * x
    return x


def _normalised(x: Tensor, axes: Dims | None) -> tuple[int, ...] | Expr | None:
    rank = x.type.rank
    if axes is None:
        return None if rank is None else tuple(range(rank))
    if axes.static is None:
        return axes.as_expr()
    if len(axes.static) == 1:
        return (as_written(axes.static[0], rank),)
    return axes.static if rank is None else tuple(sorted({axis % rank for axis in axes.static}))


def _of_sizes(name: str, data: Scalar | Dims, keepdims: bool) -> Scalar | Dims | None:
    """Return the reduction of a list of sizes to one number; None if it cannot be computed in Python numbers."""
    if isinstance(data, Scalar):
        return data
    if not data.elements:
        return None
    result: Scalar | None = data.elements[0]
    for element in data.elements[1:]:
        result = None if result is None else OF_SIZES[name](result, element)
    return Dims([result]) if keepdims and result is not None else result


def _reduced(name: str, x: Tensor, over: Over) -> Expr:
    dtype = x.type.dtype
    if dtype in INTEGERS and name in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        doubles = Tensor(x.double(), ValueType(DataType.DOUBLE, x.type.shape))
        return converted(REDUCTIONS[name](doubles, over), dtype)
    if dtype in STORED_ONLY:
        if name == "ReduceMean" and dtype == DataType.UINT64:
            return through_int64(lambda x: kernel("uint64_mean")(x, over.listed, **over.keepdim), x)
        magnitude = "ReduceSum" if name == "ReduceL1" else name
        ordered = name in ("ReduceMax", "ReduceMin")
        return through_int64(lambda x: REDUCTIONS[magnitude](x, over), x, ordered=ordered)
    return REDUCTIONS[name](x, over)


@op("ArgMax", "ArgMin")
def ArgMax(n: Node, data: Tensor, *, axis: int, keepdims: int, select_last_index: int = 0) -> Result:
    """The position of the first of several equal extremes, or of the last one (`select_last_index`, opset 12)."""
    axis = as_written(axis, data.type.rank)
    keepdim = {"keepdim": True} if keepdims else {}

    def position(x: Expr) -> Expr:
        return x.argmax(axis, **keepdim) if n.op_type == "ArgMax" else x.argmin(axis, **keepdim)

    def last_position(x: Expr) -> Expr:
        last = sizes.subtract(size_of(data, axis), Scalar(1))
        assert last is not None
        return last - position(x.flip(axis))

    find = last_position if select_last_index else position
    if data.type.dtype in STORED_ONLY:
        return through_int64(find, data, ordered=True, predicate=True)
    return find(data)


@op("CumSum", "CumProd")
def CumSum(n: Node, x: Tensor, axis: Scalar, *, exclusive: int, reverse: int) -> Result:
    """`exclusive`: the total before each element. `reverse`: from the end."""
    along = axis if axis.number is None else as_written(int(axis.number), x.type.rank)
    neutral = 0 if n.op_type == "CumSum" else 1
    same_type = {} if x.type.dtype in STORED_ONLY else _same_type(x)

    def run(x: Expr) -> Expr:
        if reverse:
            x = x.flip(along)
        if exclusive:
            x = kernel("shift_in")(x, along, neutral)
        total = x.cumsum if n.op_type == "CumSum" else x.cumprod
        result = total(along, **same_type)
        return result.flip(along) if reverse else result

    return run(x) if x.type.dtype not in STORED_ONLY else through_int64(run, x)
