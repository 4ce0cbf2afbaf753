"""Rules on sizes that a model leaves open, and that its nodes do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.checking.rules.rule import Subject
from onnxlift.ir.graph.shapes import Dim, elements_of, shape_of, static_elements
from onnxlift.ir.graph.walk import Region
from onnxlift.ir.inference.infer import is_invented_size
from onnxlift.ir.inference.node_view import Unknown
from onnxlift.workbench.lint.rule import Found, lint_rule
from onnxlift.workbench.lint.subject import Graph

_BROADCASTING = frozenset("Add Sub Mul Div Pow Where Min Max And Or Equal Less Greater Mod".split())


@dataclass(frozen=True)
class Need:
    """What a node asks of an open size: that it is `size`, or `size` or 1 where it is broadcast."""

    name: str
    size: int
    region: Region
    node: ir.Node
    or_one: bool = False


@lint_rule("OL211", "sizes-contradict", "error", "graph")
def sizes_that_cannot_be(graph: Graph) -> Iterable[Found]:
    """Two nodes ask for different numbers of one open size, so that no input fits.

    The model loads, and every run fails.

    Either two sizes have been given one name, or a layer was built for another size: give them names of their own, or
    mend the layer."""
    for name, needs in _needs(graph).items():
        firm = {need.size: need for need in needs if not need.or_one}
        soft = {
            need.size: need for need in needs if need.or_one and (firm.keys() - {1, need.size} or need.size in firm)
        }
        asked = firm | {size: need for size, need in soft.items() if size not in firm and firm.keys() - {1}}
        if len(asked) > 1:
            (_, first), (_, second), *_ = sorted(asked.items())
            text = f"it needs {_title(graph, name)} to be {second.size}, and node {quote(first.node.name or '')} "
            yield Found(graph.place(second.region, second.node), f"{text}needs it to be {first.size}.")


@lint_rule("OL212", "baked-size", "warning", "graph")
def open_sizes_that_are_fixed_inside(graph: Graph) -> Iterable[Found]:
    """A size is declared as open, and a node works with one number only.

    The model was traced with that number, most often a batch of 1, and something keeps it: the target of a Reshape, the
    initial state of an LSTM, a table of positions. Any other size fails in a run, or only in production.

    Export again with -1, 0 or a computed size in its place; or declare the size as it is (`onnxlift simplify --dim
    batch=1`), so that callers can see it."""
    for name, needs in _needs(graph).items():
        if len({need.size for need in needs}) == 1:
            for need in needs:
                only = f"{need.size} or 1" if need.or_one else str(need.size)
                text = f"it works only if {_title(graph, name)} is {only}, which is declared as open."
                yield Found(graph.place(need.region, need.node), text)


@lint_rule("OL213", "batch-in-reshape", "warning", "graph")
def batches_that_a_reshape_mixes(graph: Graph) -> Iterable[Found]:
    """A Reshape has a number as its first size where its input has the open batch, and -1 takes the rest.

    With a larger batch it does not fail: it puts the samples side by side along another axis, and what comes out is
    wrong. The number comes from tracing the model with a batch of that size.

    Make the first size -1 or 0, and give the others as they are; or export with an open batch."""
    batches = _batches(graph)
    for region, node in graph.nodes("Reshape"):
        shape, target = shape_of(node.inputs[0]), elements_of(node.inputs[1]) if len(node.inputs) > 1 else None
        if shape is None or target is None or len(shape) < 2 or len(target) < 2 or shape[0] not in batches:
            continue
        if isinstance(target[0], int) and target[0] > 0 and -1 in target and _returns_to_batch(node, shape[0]):
            text = f"its first size is {target[0]}, and its input has {quote(str(shape[0]))} there, which is open."
            yield Found(graph.place(region, node), text)


def _batches(graph: Graph) -> set[Dim]:
    """Return the names of sizes that are the first of an input or of an output, and of more than one axis."""
    shapes = [shape_of(value) or () for value in graph.model.graph.inputs]
    return {shape[0] for shape in shapes if len(shape) > 1 and isinstance(shape[0], str)}


def _returns_to_batch(node: ir.Node, batch: Dim) -> bool:
    """Tell whether the batch is lost for good. Some models merge it with another axis, and split it off later on."""
    return not any(batch in (shape_of(output) or ())[:1] for output in _outputs_behind(node))


def _outputs_behind(node: ir.Node) -> Iterator[ir.Value]:
    seen, waiting = {node}, [node]
    while waiting:
        for value in waiting.pop().outputs:
            if value.is_graph_output():
                yield value
            new = [user for user in value.consumers() if user not in seen]
            seen.update(new)
            waiting += new


def _title(graph: Graph, name: str) -> str:
    """Return how a message calls an open size: by its name, or by the input whose axis it is."""
    if not is_invented_size(name):
        return f"the size {quote(name)}"
    for value in graph.model.graph.inputs:
        shape = shape_of(value) or ()
        if name in shape:
            return f"axis {shape.index(name)} of input {quote(value.name or '')}"
    return "an open size"


def _needs(graph: Graph) -> dict[str, list[Need]]:
    """Return what nodes that always run ask of the open sizes of the inputs, by the name of the size."""
    names = {size for value in graph.model.graph.inputs for size in shape_of(value) or () if isinstance(size, str)}
    found: dict[str, list[Need]] = {}
    region = graph.regions[0]
    for node in region.graph if names else ():
        check = _CHECKS.get(node.op_type) if node.domain == "" else None
        if check is None or not any(value.uses() or value.is_graph_output() for value in node.outputs):
            continue
        try:
            pairs = list(check(Subject.of(graph.model, region, node)))
        except (Unknown, IndexError):
            continue
        for a, b, or_one in pairs:
            name, size = (a, b) if isinstance(a, str) else (b, a)
            if isinstance(name, str) and isinstance(size, int) and name in names and (size != 1 or not or_one):
                found.setdefault(name, []).append(Need(name, size, region, node, or_one))
    return found


Pairs = Iterator[tuple[Dim, Dim, bool]]
"""Two sizes that must be equal; with True, one of them may be 1."""


def _matmul(n: Subject) -> Pairs:
    a, b = n.shape(0), n.shape(1)
    yield a[-1], b[-2] if len(b) > 1 else b[0], False


def _gemm(n: Subject) -> Pairs:
    a, b = n.shape(0), n.shape(1)
    yield a[0 if n.setting("transA") else 1], b[1 if n.setting("transB") else 0], False


def _conv(n: Subject) -> Pairs:
    taken = n.shape(1)[1]
    if isinstance(taken, int):
        yield n.shape(0)[1], taken * n.attribute("group", 1), False


def _norm(n: Subject) -> Pairs:
    yield n.shape(0)[1], n.shape(1)[0], False


def _concat(n: Subject) -> Pairs:
    shapes = [n.shape(index) for index in range(len(n.inputs))]
    axis = n.axis("axis", len(shapes[0]))
    for position in range(len(shapes[0])):
        sizes = [shape[position] for shape in shapes] if position != axis else []
        numbers = [size for size in sizes if isinstance(size, int)]
        for size in sizes if numbers else ():
            if isinstance(size, str):
                yield size, numbers[0], False


def _reshape(n: Subject) -> Pairs:
    shape, target = n.shape(0), static_elements(n.inputs[1])
    names = [size for size in shape if isinstance(size, str)]
    if target is None or len(names) != 1 or -1 in target:
        return
    if 0 in target:
        kept = [index for index, size in enumerate(target) if size == 0]
        if any(index >= len(shape) or isinstance(shape[index], str) for index in kept):
            return
        target = tuple(int(shape[i]) if size == 0 else size for i, size in enumerate(target))
    known, whole = prod(size for size in shape if isinstance(size, int)), prod(target)
    if known and whole % known == 0:
        yield names[0], whole // known, False


def _recurrent(n: Subject) -> Pairs:
    batch = n.shape(0)[0 if n.attribute("layout", 0) else 1]
    for index in (5, 6):
        if n.has(index):
            yield batch, n.shape(index)[0 if n.attribute("layout", 0) else 1], False


def _split(n: Subject) -> Pairs:
    shape, parts = n.shape(0), n.ints("split", 1)
    yield shape[n.axis("axis", len(shape), 0)], sum(parts), False


def _broadcast(n: Subject) -> Pairs:
    shapes = [n.shape(index) for index in range(len(n.inputs))]
    for position in range(1, max(map(len, shapes)) + 1):
        sizes = [shape[-position] for shape in shapes if len(shape) >= position]
        numbers = [size for size in sizes if isinstance(size, int) and size > 1]
        for size in sizes if numbers else ():
            if isinstance(size, str):
                yield size, numbers[0], True


_CHECKS: dict[str, Callable[[Subject], Pairs]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNormalization": _norm,
    "Concat": _concat,
    "Reshape": _reshape,
    "Split": _split,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(_BROADCASTING, _broadcast),
}
