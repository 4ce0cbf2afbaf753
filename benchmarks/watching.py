"""What was lifted while something ran: which operators, to what kind of code, and whether gradients flow through it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import onnx
import torch
from torch import Tensor, nn

from onnxlift import pipeline
from onnxlift.lifted import Lifted

Key = tuple[str, str]
LAYER = re.compile(r"= nn\.(?!Parameter\b)\w+\(")


@dataclass
class Lift:
    """One model that was lifted."""

    operators: frozenset[Key]  # of all its nodes
    only: Key | None  # the operator, if all its nodes (but those of inner graphs) are of one
    lifted: Lifted | None = None
    module: nn.Module | None = None
    arguments: tuple[Any, ...] | None = None  # that the module was called with first

    @property
    def kind(self) -> str:
        """What the source consists of: a `layer` of PyTorch, a `kernel` of ours, or a `call` of PyTorch's functions."""
        assert self.lifted is not None
        if LAYER.search(self.lifted.source):
            return "layer"
        return "kernel" if self.lifted.report.kernels else "call"


@contextmanager
def watching() -> Iterator[list[Lift]]:
    """The models that are lifted meanwhile, also those that fail."""
    lifts: list[Lift] = []
    original, make_module = pipeline.run, Lifted.module

    def run(source: Any, **options: Any) -> Lifted:
        found = _lift_of(source) if isinstance(source, onnx.ModelProto) else Lift(frozenset(), None)
        lifts.append(found)
        found.lifted = original(source, **options)
        return found.lifted

    def module(lifted: Lifted, *arguments: Any) -> nn.Module:
        built = make_module(lifted, *arguments)
        found = next(lift for lift in reversed(lifts) if lift.lifted is lifted)
        found.module = built
        built.register_forward_pre_hook(partial(_remember, found))
        return built

    with patch.object(pipeline, "run", run), patch.object(Lifted, "module", module):
        yield lifts


def _remember(lift: Lift, module: nn.Module, arguments: tuple[Any, ...]) -> None:
    if lift.arguments is None:
        lift.arguments = arguments


def _lift_of(model: onnx.ModelProto) -> Lift:
    outer = {_key(node) for node in model.graph.node} - {("", "Constant")}
    inner = {_key(node) for graph in (model.graph, *model.functions) for node in _nodes(graph)}
    return Lift(frozenset(inner), outer.pop() if len(outer) == 1 else None)


def _nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _key(node: onnx.NodeProto) -> Key:
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


STEPS = {torch.float64: 1e-6, torch.float32: 1e-3}
CLOSE = 0.02


def gradients(lift: Lift) -> Iterator[str]:
    """For each floating-point input that the outputs depend on, how its gradient compares with differences: `yes` if
    they agree, `zero` if both are, `no` if there is no gradient although the outputs change, `wrong` otherwise.

    Each input is moved in a random direction, and in others if that leads across an edge; those of one number (a ratio,
    a threshold) only if there are no others. Left out are inputs that cannot be moved without changing sizes, random
    results, and half precision and less, in which differences are mostly rounding."""
    module, arguments = lift.module, lift.arguments
    if module is None or arguments is None:
        return
    floats = [i for i, value in enumerate(arguments) if isinstance(value, Tensor) and value.dtype in STEPS]
    for index in [i for i in floats if arguments[i].numel() > 1] or floats:
        if arguments[index].numel():
            answers = [_compare(module, arguments, index, 0)]
            if answers[0] == "wrong":
                answers += [_compare(module, arguments, index, seed) for seed in (1, 2)]
            if answers[0] is not None:
                yield "yes" if "yes" in answers else answers[0]


def _compare(module: nn.Module, arguments: tuple[Any, ...], index: int, seed: int) -> str | None:
    # All of them are variables, and all their gradients are asked for: PyTorch crashes where it is only that of the
    # weight of a group_norm. All have the usual layout, in which PyTorch knows all derivatives.
    arguments = tuple(a.detach().contiguous().requires_grad_() if _is_float(a) else a for a in arguments)
    x = arguments[index].detach()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
    variable = x.clone().requires_grad_()

    def outputs(value: Tensor) -> list[Tensor]:
        results = module(*arguments[:index], value, *arguments[index + 1 :])
        results = results if isinstance(results, tuple | list) else [results]
        return [y for y in results if _is_float(y)]

    try:
        here = outputs(variable)
    except RuntimeError:  # PyTorch takes no variables where it has no derivative: the statistics of a batch_norm
        return None
    with torch.no_grad():
        again = outputs(x)
        tensors = [*here, *arguments, *module.state_dict().values()]
        types = {y.dtype for y in tensors if _is_float(y)}
        if not here or not types <= STEPS.keys() or not all(map(_equal, here, again)):
            return None
        step = max(STEPS[dtype] for dtype in types)
        try:
            above, below = (_weighted(outputs(x + move * direction)) for move in (step, -step))
        except (RuntimeError, ValueError):  # what PyTorch raises if the input is a size, which no step may change
            return None
    others = [a for i, a in enumerate(arguments) if i != index and _is_float(a)]
    slope = float((_gradient(_weighted(here), variable, others) * direction).sum())
    difference = float(above - below) / (2 * step)
    if not math.isfinite(difference):
        return None
    precision = max(torch.finfo(dtype).eps for dtype in types)
    rounding = precision / step * sum(float(y.detach().abs().sum()) for y in here)
    if math.isclose(slope, difference, rel_tol=CLOSE, abs_tol=rounding):
        return "yes" if slope else "zero"
    return "wrong" if slope else "no"


def _gradient(y: Tensor, x: Tensor, others: list[Tensor]) -> Tensor:
    """That of `y` for `x`. Zero where PyTorch knows none: `y` was not computed from `x`, or by a function without a
    derivative."""
    if not y.requires_grad:
        return torch.zeros_like(x)
    try:
        gradient, *_ = torch.autograd.grad(y, [x, *others], allow_unused=True)
    except NotImplementedError:  # such as the derivative of torch.frexp
        return torch.zeros_like(x)
    return torch.zeros_like(x) if gradient is None else gradient


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())


def _weighted(outputs: list[Tensor]) -> Tensor:
    """One number of all the outputs, in which every element has another weight."""
    generator = torch.Generator().manual_seed(1)
    weights = [torch.rand(y.shape, generator=generator, dtype=torch.float64) for y in outputs]
    return torch.stack([(y.double() * w).sum() for y, w in zip(outputs, weights, strict=True)]).sum()
