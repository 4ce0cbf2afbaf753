"""`Node`: the node that an operator function writes. It has what is known of the node, and can do more than return a
value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.types import TORCH_DTYPE, DataType, ValueType, type_of
from onnxlift.lifting.code.expr import Device, Expr, Literal, Member, Ref, WeightType, torch
from onnxlift.lifting.code.statements import Assign, Block, Statement

from .kinds import layer_kind
from .layers import Layer, Weight
from .operand import Constant, Dims, Operand, Scalar, Tensor, exact_number


class Unsupported(Exception):  # noqa: N818  # it never reaches a user: UnsupportedError gathers them
    """Raised by an operator function (through `Node.fail`) for a use of the operator that cannot be lifted."""


class Unpack:
    """A call that returns several values at once: `values, indices = x.topk(k)`. `count` is how many it returns. `form`
    is how they are nested, if they are (`{}, ({}, {})`). `names` are their usual names."""

    def __init__(self, expr: Expr, count: int, form: str | None = None, names: Sequence[str | None] = ()) -> None:
        self.expr = expr
        self.count = count
        self.form = form
        self.names = names


Result = Operand | Expr | Unpack | Sequence[Any] | None


TRAINS = (
    "the model was exported while training: what drops values or takes the statistics of a batch does so in train mode "
    "only, as in PyTorch (`module(train=True)` or `model.train()`)"
)


class Host(Protocol):
    """The code around a node, as the node sees it while it is being written (see modules/lower.py)."""

    shared: dict[Hashable, Ref]
    """Variables of this block that several nodes read, by the key that the nodes give to `once`."""

    def add_layer(self, layer: Layer) -> Member: ...
    def warn(self, text: str) -> None: ...
    def emit(self, statement: Statement) -> None: ...
    def operand(self, value: ir.Value) -> Operand: ...
    def lower_graph(self, graph: ir.Graph, inputs: Sequence[Operand]) -> tuple[Block, list[Operand]]: ...


class Node:
    """The node that is being written. `opset` is the model's version of the node's domain."""

    def __init__(self, node: ir.Node, opset: int, attributes: Mapping[str, Any], host: Host) -> None:
        self.ir = node
        self.op_type = node.op_type
        self.domain = node.domain
        self.name = node.name or node.op_type
        self.opset = opset
        self.attributes = attributes
        self.host = host

    @property
    def outputs(self) -> list[ValueType]:
        """The types of all outputs, in the order of the schema."""
        return [type_of(value) for value in self.ir.outputs]

    @property
    def output(self) -> ValueType:
        return type_of(self.ir.outputs[0])

    def wants(self, index: int) -> bool:
        """Tell whether anybody reads output `index`."""
        if index >= len(self.ir.outputs):
            return False
        value = self.ir.outputs[index]
        return bool(value.name) and (bool(value.uses()) or value.is_graph_output())

    def fail(self, reason: str) -> NoReturn:
        """Give up on this node; `reason` completes the sentence 'not supported: ...'."""
        raise Unsupported(reason)

    def warn(self, text: str) -> None:
        """Tell the user something about the model in the report. The same text appears once, however many nodes say
        it."""
        self.host.warn(text)

    def layer(self, kind: str, weights: Mapping[str, Constant | Weight | None] | None = None, **arguments: Any) -> Expr:
        """Return a member `nn.kind(...)` of the module, ready to be called. Arguments equal to torch's default are not
        written. `weights` maps the names of the layer's parameters and buffers to the constants that fill them."""
        layer = Layer(layer_kind(kind), arguments, node=self.ir)
        for name, weight in (weights or {}).items():
            if isinstance(weight, Constant):
                layer.hold(name, self.weight(weight))
            elif weight is not None:
                layer.hold(name, weight)
        return self.host.add_layer(layer)

    def weight(
        self,
        constant: Constant,
        transform: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Weight:
        """Return a constant as a layer stores it: read through `transform`, which gives it `shape`."""
        own = tuple(int(d) for d in constant.type.shape or () if isinstance(d, int))
        return Weight(constant.value, own if shape is None else tuple(shape), transform)

    def vector(self, constant: Constant) -> Weight:
        """Return a constant that has one number for each channel as a layer stores it: as a vector, without further
        axes."""
        if constant.type.rank == 1:
            return self.weight(constant)
        return self.weight(constant, lambda array: array.reshape(-1), (constant.type.size or 0,))

    @property
    def device(self) -> Expr:
        """The device for tensors that `forward` creates: `torch.arange(n, device=x.device)`."""
        return Device()

    def emit(self, statement: Statement) -> None:
        """Write a statement before the one that computes this node's outputs."""
        statement.origin.append(self.name)
        self.host.emit(statement)

    def once(self, what: Hashable, expr: Expr, like: ir.Value) -> Expr:
        """Return a variable that holds `expr`, of the type of `like`. If an earlier node of the block asked for the
        same (`what`), its variable is used."""
        if what not in self.host.shared:
            self.host.shared[what] = Ref(ir.Value(name="", type=like.type))
            self.emit(Assign([self.host.shared[what]], expr))
        return self.host.shared[what]

    def tensor(self, operand: Operand) -> Tensor:
        """Return `operand` as a torch.Tensor. Sizes are put into a tensor here, and only here."""
        match operand:
            case Scalar():
                return Tensor(self.new_tensor(operand, operand.type.dtype or DataType.INT64), operand.type)
            case Dims():
                return Tensor(self.new_tensor(operand.as_expr(), operand.type.dtype or DataType.INT64), operand.type)
        return operand

    def new_tensor(self, data: Any, dtype: DataType) -> Expr:
        """Return `torch.tensor(data, ...)` of the given element type."""
        return torch.tensor(data, dtype=torch_dtype(dtype), device=self.device)

    def numbers(self, *operands: Operand) -> list[Any]:
        """Return the operands of an elementwise operation, with constants of one element written as numbers (`x *
        0.5`). This is only done where it changes neither shape nor type of the result: another operand must be a tensor
        of at least their rank."""
        if not any(isinstance(o, Tensor) and o.number is None for o in operands):
            operands = tuple(self.tensor(o) for o in operands)
        tensors = [o for o in operands if isinstance(o, Tensor) and o.number is None]
        ranks = [t.type.rank for t in tensors]
        lowest = min((r for r in ranks if r is not None), default=0)
        if any(r is None for r in ranks):
            lowest = 0
        highest = max((r for r in ranks if r is not None), default=0)
        written: list[Any] = []
        for operand in operands:
            if isinstance(operand, Constant) and tensors and operand.number is not None:
                fits = (operand.type.rank or 0) <= max(lowest, highest)
                written.append(Literal(_as_people_write(operand.number, tensors)) if fits else operand)
            elif isinstance(operand, Scalar) and tensors:
                written.append(operand)
            elif isinstance(operand, Dims) and operand.length == 1 and highest >= 1:
                written.append(operand[0])
            else:
                written.append(self.tensor(operand))
        return written

    def on_sizes(self, function: Callable[..., Any], *operands: Operand) -> Scalar | Dims | None:
        """Return `function` of the operands, element by element, in Python numbers, if all of them are sizes or
        constants that go with sizes. Return None if they are not, or if `function` gives None for one of them."""
        if any(isinstance(o, Scalar | Dims) for o in operands) and all(_is_sizes(o) for o in operands):
            return _elementwise_sizes(function, operands, self.output.dtype or DataType.INT64)
        return None

    def elementwise(
        self, function: Callable[..., Any], *operands: Operand, sizes: Callable[..., Scalar | None] | None = None
    ) -> Result:
        """Return `function` of the operands.

        If all operands are sizes (or constants that go with sizes), the result stays Python numbers, element by
        element. `sizes` computes them, or `function` itself if it means the same for Python numbers as for tensors.
        `sizes` may return None if Python numbers would not be exact; then tensors are used.
        """
        numbers = self.on_sizes(sizes or function, *operands)
        if numbers is not None:
            return numbers
        return function(*self.numbers(*operands))  # type: ignore[no-any-return]


def _as_people_write(number: bool | int | float, tensors: Sequence[Tensor]) -> bool | int | float:
    """Return a whole number as an int if the tensors are floating point: `1 - x` means the same as `1.0 - x`. A
    negative zero has no int."""
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 2**24 and str(number) != "-0.0"
    return int(number) if whole and all(t.type.is_float for t in tensors) else number


def _is_sizes(operand: Operand) -> bool:
    """Tell whether an operand is sizes that are known one by one, or a constant (a short list or a single number) that
    goes with sizes."""
    if isinstance(operand, Dims):
        return operand.elements is not None
    if isinstance(operand, Constant):
        return (
            (operand.type.rank or 0) <= 1 and (operand.type.size or 0) <= 64 and operand.type.dtype != DataType.STRING
        )
    return isinstance(operand, Scalar)


def _elementwise_sizes(
    function: Callable[..., Any], operands: Sequence[Operand], dtype: DataType
) -> Scalar | Dims | None:
    lists = [_elements(o) for o in operands]
    rank = max(1 if isinstance(o, Dims) or (isinstance(o, Constant) and o.type.rank) else 0 for o in operands)
    length = max(len(items) for items in lists) if all(lists) else 0
    results = []
    for i in range(length):
        result = function(*(items[i % len(items)] for items in lists))
        if result is None:
            return None
        results.append(as_scalar(result, dtype))
    return Dims(results) if rank else results[0]


def as_scalar(result: Any, dtype: DataType) -> Scalar:
    return result if isinstance(result, Scalar) else Scalar(result, dtype)


def _elements(operand: Operand) -> list[Scalar]:
    match operand:
        case Scalar():
            return [operand]
        case Dims():
            return operand.elements or []
        case Constant():
            dtype = operand.type.dtype or DataType.INT64
            return [Scalar(exact_number(v, dtype), dtype) for v in operand.const.reshape(-1)]
    raise TypeError(type(operand).__name__)


def data_type(number: int) -> DataType:
    """Return the element type for the number in an attribute."""
    try:
        return DataType(number)
    except ValueError:
        raise Unsupported(f"there is no element type {number}") from None


HALVES = (DataType.FLOAT16, DataType.BFLOAT16)


def torch_dtype(dtype: DataType | None) -> Expr:
    """Return `torch.int32` and the like. Half precision is that of the module's weights: `self.weight.dtype`."""
    name = exact_dtype(dtype)
    return WeightType(TORCH_DTYPE[dtype]) if dtype in HALVES else name


def exact_dtype(dtype: DataType | None) -> Expr:
    """Return `torch.float16` and the like, which stays if the module is converted to another type."""
    if dtype not in TORCH_DTYPE:
        raise Unsupported(f"PyTorch has no tensors of {'unknown type' if dtype is None else dtype.name.lower()}")
    name: Expr = getattr(torch, TORCH_DTYPE[dtype])
    return name
