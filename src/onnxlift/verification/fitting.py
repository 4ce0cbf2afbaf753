"""Choose sizes of made-up inputs that the nodes of a model can work with.

Inference has written the sizes of all values as expressions of the inputs' sizes: `(time - 399)//160 + 1`. So it can be
told for numbers, without running anything, whether

1. every size is at least one: a window that is longer than its signal leaves none
2. a Reshape has as many elements as it needs
3. a TopK finds as many elements as it takes, a Gather the element that it takes
4. a padding that reflects is shorter than what it reflects
5. two operands have the same size, or one of them has size one
6. a convolution, a product of matrices, or a recurrent layer finds as many channels as its weight takes

Where something does not fit, other numbers are tried for the sizes that it depends on: those that windows, strides,
reshapes and the like of the model name, and multiples of them, from the smallest on.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import INTEGERS, Dim, type_of
from onnxlift.ir.graph.walk import all_nodes

MOST_ROUNDS = 40
MOST_NUMBERS = 120
LARGEST_SIZE = 1 << 18
USUAL = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16000, 16384, 32768, 65536, 131072)

Binding = Mapping[str, int]
Rule = Callable[[Binding], bool | None]
"""Tells whether something fits; None if a size in it is not known."""

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min}
_BROADCAST = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Where", "Max", "Min", "Mod", "Equal", "Less", "Greater"})


_PRODUCTS = {"MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 3}
_CONVOLUTIONS = {
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv", "QuantizedConv", "DynamicQuantizedConv", "IntegerConv"), 1),
    "QLinearConv": 3,
}
_LAYERS = {**_CONVOLUTIONS, "ConvTranspose": 1, "RNN": 1, "GRU": 1, "LSTM": 1}
"""Operator -> which input is its weight, or the second operand."""


@lru_cache(4096)
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text[:1000], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def size_in(dim: Dim, sizes: Binding) -> int | None:
    """Return the number that a size has, given those of the symbols in it; None if it cannot be told."""
    if dim is None or isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    tree = _parsed(dim)
    try:
        return None if tree is None else _number(tree, sizes)
    except (KeyError, TypeError, ValueError, ZeroDivisionError, RecursionError, OverflowError):
        return None


def _number(tree: ast.expr, sizes: Binding) -> int:
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return int(_OPERATORS[type(op)](_number(left, sizes), _number(right, sizes)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, sizes)
        case ast.Call(func=ast.Name(id=function), args=arguments) if function in _FUNCTIONS:
            return _FUNCTIONS[function](*(_number(argument, sizes) for argument in arguments))
    raise ValueError(ast.dump(tree))


def symbols_in(dim: Dim) -> set[str]:
    """Return the symbols that a size is made of."""
    tree = _parsed(dim) if isinstance(dim, str) else None
    if not isinstance(dim, str) or tree is None:
        return {dim} if isinstance(dim, str) else set()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - _FUNCTIONS.keys()
    return names or {dim}


def fit_sizes(graph: ir.Graph, sizes: Mapping[str, int], fixed: Iterable[str]) -> dict[str, int]:
    """Return `sizes`, those that are not `fixed` changed so that as much as possible in the graph fits."""
    found = dict(sizes)
    rules = _rules(graph)
    free = found.keys() - set(fixed)
    if not free or not rules:
        return found
    numbers = _numbers(graph, rules)
    missed = _missed(rules, found)
    for _ in range(MOST_ROUNDS):
        if not missed:
            break
        best, best_missed = None, missed
        symbols = sorted(set().union(*(rule.symbols for rule in missed[:1])) & free)
        touched = {symbol: [rule for rule in rules if symbol in rule.symbols] for symbol in symbols}
        for symbol in symbols:
            before = len(_missed(touched[symbol], found))
            for number in numbers:
                tried = {**found, symbol: number}
                after = len(_missed(touched[symbol], tried))
                if missed[0].fits(tried) and after < before and (best is None or after < best[0]):
                    best = (after, symbol, number)
        if best is None:
            break
        found[best[1]] = best[2]
        best_missed = _missed(rules, found)
        if len(best_missed) >= len(missed):
            break
        missed = best_missed
    return found


class _Rule:
    """Something that must hold of sizes, the symbols that it depends on, and the numbers beside them."""

    def __init__(self, fits: Rule, dims: Sequence[Dim]) -> None:
        self._fits = fits
        self.symbols: frozenset[str] = frozenset().union(*map(symbols_in, dims))
        self.numbers = [dim for dim in dims if isinstance(dim, int)]

    def fits(self, sizes: Binding) -> bool:
        return self._fits(sizes) is not False


def _missed(rules: Iterable[_Rule], sizes: Binding) -> list[_Rule]:
    return [rule for rule in rules if not rule.fits(sizes)]


def _rules(graph: ir.Graph) -> list[_Rule]:
    """Return what must hold of the sizes in a graph, each rule once, in the order of the nodes."""
    found: dict[object, _Rule] = {}
    for node in all_nodes(graph):
        for key, fits, dims in _of_node(node):
            if key not in found:
                rule = _Rule(fits, dims)
                if rule.symbols:
                    found[key] = rule
    return list(found.values())


Found = tuple[object, Rule, Sequence[Dim]]


def _of_node(node: ir.Node) -> Iterator[Found]:
    shapes = [type_of(value).shape for value in node.inputs]
    for value in node.outputs:
        for dim in type_of(value).shape or ():
            if isinstance(dim, str):
                yield ("size", dim), _at_least(dim, 1), [dim]
    if node.op_type == "Reshape" and shapes and shapes[0] is not None:
        target = type_of(node.outputs[0]).shape
        if target is not None:
            yield ("reshape", shapes[0], target), _same_product(shapes[0], target), [*shapes[0], *target]
    elif node.op_type in ("TopK", "Gather"):
        yield from _of_choice(node)
    elif node.op_type == "Pad":
        yield from _of_padding(node)
    elif node.op_type in _BROADCAST:
        yield from _of_operands([shape for shape in shapes if shape is not None])
    elif node.op_type in _PRODUCTS or node.op_type in _LAYERS:
        yield from _of_weight(node, shapes)


def _of_choice(node: ir.Node) -> Iterator[Found]:
    array = _integers(node, 1)
    axis = node.attributes.get("axis")
    at = axis.as_int() if axis is not None and not axis.is_ref() else -1 if node.op_type == "TopK" else 0
    dim = type_of(node.inputs[0]).dim(at) if node.inputs else None
    if array is not None and array.size and isinstance(dim, str):
        least = int(array.max()) if node.op_type == "TopK" else max(int(array.max()) + 1, -int(array.min()))
        yield ("least", dim, least), _at_least(dim, least), [dim]


def _of_padding(node: ir.Node) -> Iterator[Found]:
    mode = node.attributes.get("mode")
    shape = type_of(node.inputs[0]).shape if node.inputs else None
    given = node.attributes.get("pads")
    array = np.array(given.as_ints()) if given is not None and not given.is_ref() else _integers(node, 1)
    if mode is None or mode.is_ref() or mode.as_string() != "reflect" or array is None or shape is None:
        return
    if array.size == 2 * len(shape) and len(node.inputs) < 4:
        for dim, begin, end in zip(shape, array[: len(shape)], array[len(shape) :], strict=True):
            least = int(max(begin, end)) + 1
            yield ("least", dim, least), _at_least(dim, least), [dim]


def _of_operands(shapes: Sequence[tuple[Dim, ...]]) -> Iterator[Found]:
    for left, right in pairwise(shapes):
        for a, b in zip(left[::-1], right[::-1], strict=False):
            if a != b and 1 not in (a, b) and (isinstance(a, str) or isinstance(b, str)):
                yield ("same", a, b), _same(a, b), [a, b]


def _of_weight(node: ir.Node, shapes: Sequence[tuple[Dim, ...] | None]) -> Iterator[Found]:
    x, weight = shapes[0], shapes[(_PRODUCTS | _LAYERS)[node.op_type]]
    if not x or not weight or len(weight) < 2 or (len(x) < 3 and node.op_type in _LAYERS):
        return
    group = node.attributes.get("group")
    times = group.as_int() if group is not None and not group.is_ref() else 1
    if node.op_type in _PRODUCTS:
        has, wanted = x[-1], weight[-2]
    elif node.op_type in _CONVOLUTIONS:
        has, wanted = x[1], weight[1] * times if isinstance(weight[1], int) else None
    elif node.op_type == "ConvTranspose":
        has, wanted = x[1], weight[0]
    else:
        has, wanted = x[2], weight[-1]
    if has != wanted and has is not None and wanted is not None:
        yield ("exactly", has, wanted), _same(has, wanted, or_one=False), [has, wanted]


def _at_least(dim: Dim, least: int) -> Rule:
    def fits(sizes: Binding) -> bool | None:
        size = size_in(dim, sizes)
        return None if size is None else size >= least

    return fits


def _same(a: Dim, b: Dim, *, or_one: bool = True) -> Rule:
    def fits(sizes: Binding) -> bool | None:
        left, right = size_in(a, sizes), size_in(b, sizes)
        return None if left is None or right is None else left == right or (or_one and 1 in (left, right))

    return fits


def _same_product(a: Sequence[Dim], b: Sequence[Dim]) -> Rule:
    def product(dims: Sequence[Dim], sizes: Binding) -> int | None:
        total = 1
        for dim in dims:
            size = size_in(dim, sizes)
            if size is None:
                return None
            total *= size
        return total

    def fits(sizes: Binding) -> bool | None:
        left, right = product(a, sizes), product(b, sizes)
        return None if left is None or right is None else left == right

    return fits


def _integers(node: ir.Node, place: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    tensor = constant(node.inputs[place]) if len(node.inputs) > place else None
    return None if tensor is None or tensor.dtype not in INTEGERS or tensor.size > 64 else tensor.numpy().reshape(-1)


def _numbers(graph: ir.Graph, rules: Iterable[_Rule]) -> list[int]:
    """Return numbers that sizes may have to be: usual ones, and those that the model names, with multiples of them."""
    named = {number: None for rule in rules for number in rule.numbers}
    for node in all_nodes(graph):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.INTS and not attribute.is_ref():
                named.update(dict.fromkeys(attribute.as_ints()))
        if node.op_type in ("Reshape", "Slice", "TopK", "STFT", "Gather", "Split", "Expand", "Pad"):
            for place in range(1, len(node.inputs)):
                array = _integers(node, place)
                numbers = [] if array is None else [int(number) for number in array if number > 0]
                named.update(dict.fromkeys([*numbers, *accumulate(numbers[::-1], operator.mul)]))
        for value in node.inputs:
            tensor = constant(value)
            if tensor is not None and node.op_type in ("Conv", "Add", "Mul", "MatMul", "Gemm", "STFT"):
                named.update(dict.fromkeys(size for size in tensor.shape.numpy()))
    own = sorted(number for number in named if 1 < number <= LARGEST_SIZE)[:MOST_NUMBERS]
    near = {number + step for number in own for step in (0, 1)} | {number * 2 for number in own}
    return sorted({*USUAL, *near})
