"""`generate(seed)`: a random valid model of 1 to about 30 nodes with inputs for it, always the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, shape_inference

from fuzz import control, elementwise, imaging, layers, patterns, quantised, shapes, sizes, structures
from fuzz.builder import Builder, Input, UnsuitableError, Value, element_type, feeds_of
from fuzz.names import Names
from fuzz.outline import outline
from fuzz.runtime import NEWEST_OPSET, Array, make_model

SIZES = (1, 2, 3, 4, 4, 5, 6, 8)
TEMPLATES: dict[Any, tuple[int, int]] = {
    **elementwise.TEMPLATES,
    **sizes.TEMPLATES,
    **shapes.TEMPLATES,
    **layers.TEMPLATES,
    **patterns.TEMPLATES,
    **quantised.TEMPLATES,
    **imaging.TEMPLATES,
    **structures.TEMPLATES,
}
MOST_TRIES = 60


@dataclass(frozen=True)
class Case:
    """A model, with inputs for several choices of its symbolic sizes. The first is what it was built for: ONNX Runtime
    accepts it; it may refuse the others."""

    seed: int
    model: onnx.ModelProto
    feeds: tuple[dict[str, Array], ...]


def generate(seed: int) -> Case:
    """The random model of this seed."""
    choose = random.Random(seed)
    opset = choose.choice([choose.randint(9, NEWEST_OPSET), choose.choice([11, 13, 14, 17, 18, 20, 21])])
    b = Builder(opset, choose, np.random.default_rng(seed), Names(choose))
    b.float_type = np.dtype(choose.choice([np.float32] * 7 + [np.float64, np.float16, np.float16]))
    b.symbols = {name: choose.choice(SIZES) for name in ("batch", "sequence", "n")}
    _add_inputs(b)
    wanted = choose.choice([1, 2, 3, 5, 8, 12, 18, 25])
    if wanted >= 8 and choose.random() < 0.5:
        _repeat_block(b)
    grow(b, max(1, wanted - _size(b)), until_nodes=True)
    if not b.nodes:
        b.one("Identity", b.inputs[0].value)
    return Case(seed, _finish(b), _feeds(b))


def _add_inputs(b: Builder) -> None:
    is_symbolic = b.choose.random() < 0.6
    for index in range(b.choose.choice([1, 1, 2, 3])):
        rank = b.choose.choice([0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5]) if index else b.choose.choice([2, 3, 3, 4, 4])
        dims: list[int | str] = [b.choose.choice(SIZES) for _ in range(rank)]
        for axis in range(rank):
            if is_symbolic and b.choose.random() < (0.7 if axis == 0 else 0.3):
                dims[axis] = b.choose.choice(list(b.symbols))
        kind = b.choose.choice("fffffib") if index else "f"
        b.pool.append(b.add_input(dims, _maker(b, kind), b.choose.choice(["x", "input", "hidden_states", "image"])))


def _maker(b: Builder, kind: str) -> Callable[[tuple[int, ...]], Array]:
    if kind == "f":
        return b.floats
    if kind == "b":
        return lambda shape: np.asarray(b.data.random(shape) < 0.5)
    dtype = b.choose.choice([np.int64] * 5 + [np.int32, np.int32, np.int8, np.int16, np.uint8])
    return lambda shape: b.integers(-4 if np.dtype(dtype).kind == "i" else 0, 6, shape).astype(dtype)


def grow(b: Builder, count: int, *, until_nodes: bool = False) -> None:
    """Add that many templates, or templates until there are that many nodes more."""
    table = [(template, often) for template, (since, often) in TEMPLATES.items() if since <= b.opset]
    templates, often = zip(*table, strict=True)
    goal, added = _size(b) + count, 0
    for _ in range(MOST_TRIES):
        if (_size(b) >= goal) if until_nodes else (added >= count):
            return
        if b.choose.random() < 0.3:
            b.names.wander()
        try:
            if b.choose.random() < (0.04 if b.outer is None else 0.02):
                template = b.choose.choice([t for t, (since, _) in control.TEMPLATES.items() if since <= b.opset])
                template(b, grow)
            else:
                b.choose.choices(templates, often)[0](b)
            added += 1
        except UnsuitableError:
            continue


def _size(b: Builder) -> int:
    return sum(node.op_type != "Constant" for node in b.nodes)


def _repeat_block(b: Builder) -> None:
    """The same few templates several times in a row, with other weights, and once in a while with other choices: what
    becomes one class, or must not."""
    x = b.pick("f", ranks=[2, 3, 4])
    recipe, count, scope = b.choose.getrandbits(32), b.choose.choice([2, 3]), b.names.scope
    length = b.choose.randint(1, 4)
    everything, choose = b.pool, b.choose
    for index in range(count):
        b.choose = b.names.choose = random.Random(recipe if choose.random() < 0.85 else recipe + 1)
        b.names.scope = [*scope, f"layers.{index}"]
        b.pool = [x]
        grow(b, length)
        same = [v for v in b.pool[1:] if v.shape == x.shape and v.dtype == x.dtype]
        with suppress(UnsuitableError):
            x = b.one("Add", x, same[-1]) if same else b.one("Tanh", x)
        everything += [v for v in b.pool if v not in everything]
    b.choose = b.names.choose = choose
    b.pool, b.names.scope = everything, scope


def _finish(b: Builder) -> onnx.ModelProto:
    outputs = _outputs(b)
    inputs = [
        helper.make_tensor_value_info(i.value.name, element_type(i.value.array), _declared(b, i)) for i in b.inputs
    ]
    graph = b.graph("random", inputs, outputs)
    if not any(isinstance(dim, str) for i in b.inputs for dim in i.dims) and b.choose.random() < 0.5:
        del graph.output[:]
        graph.output.extend(helper.make_tensor_value_info(v.name, element_type(v.array), v.shape) for v in outputs)
    model = make_model(graph, b.opset)
    if b.choose.random() < 0.15:
        outline(model, b.choose)
    return shape_inference.infer_shapes(model) if b.choose.random() < 0.3 else model


def _declared(b: Builder, graph_input: Input) -> list[int | str | None] | None:
    """The shape as the model has it: at times without the names of symbolic sizes, or not at all."""
    if not any(isinstance(dim, str) for dim in graph_input.dims) or b.choose.random() < 0.85:
        return list(graph_input.dims)
    return [None if isinstance(d, str) else d for d in graph_input.dims] if b.choose.random() < 0.7 else None


def _outputs(b: Builder) -> list[Value]:
    """Values that nothing reads, mostly; now and then one from the middle, an input, or a constant."""
    used = {name for node in b.nodes for name in node.input}
    made = {name for node in b.nodes for name in node.output}
    values = [v for v in dict.fromkeys(b.pool) if v.name in made]
    leaves = [v for v in values if v.name not in used]
    chosen = leaves[-4:] if b.choose.random() < 0.8 else leaves[-1:]
    if b.choose.random() < 0.3:
        chosen += b.choose.sample(values, min(2, len(values)))
    if b.choose.random() < 0.05:
        chosen.append(b.inputs[0].value)
    if b.choose.random() < 0.05 and b.initialisers:
        chosen.append(b.choose.choice(list(b.initialisers.values())))
    if b.choose.random() < 0.3:
        b.choose.shuffle(chosen)
    return list(dict.fromkeys(chosen))


def _feeds(b: Builder) -> tuple[dict[str, Array], ...]:
    first = {i.value.name: i.value.array for i in b.inputs}
    others = [{name: size + grown for name, size in b.symbols.items()} for grown in (1, 3)]
    varied = [{name: size + grown for (name, size), grown in zip(b.symbols.items(), (5, 0, 2), strict=True)}]
    nothing = [{**b.symbols, "batch": 0}] if _may_be_empty(b) else []
    return (first, *(feeds_of(b.inputs, symbols) for symbols in (*others, *varied, *nothing)))


def _may_be_empty(b: Builder) -> bool:
    """Whether there is a batch, as a first axis, and it could be one of nothing: of nothing ONNX Runtime reduces the
    wrong axes, and it joins nothing with what does not fit."""

    def is_wrong(node: onnx.NodeProto) -> bool:
        inner = [each for attribute in node.attribute for each in attribute.g.node]
        return node.op_type.startswith(("Reduce", "Arg", "Concat")) or any(map(is_wrong, inner))

    axes = {axis for i in b.inputs for axis, dim in enumerate(i.dims) if dim == "batch"}
    return axes == {0} and not any(map(is_wrong, b.nodes))
