"""Calling lifted models as somebody does who trains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

import onnxlift


def train(lifted: onnxlift.Lifted, inputs: Sequence[Any]) -> list[Tensor]:
    """Call the module in eval mode and in train mode, with gradients for its parameters and its inputs, and go
    backward; return the inputs of the first call, which have their gradients then."""
    called: list[Tensor] = []
    for mode in (False, True):
        module, arguments = lifted.module(train=mode), [_variable(value) for value in inputs]
        outputs = [y for y in _tensors(module(*arguments)) if y.is_floating_point() and y.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(y) for y in outputs])
        called = called or list(_tensors(arguments))
    return called


def _variable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_variable(item) for item in value]
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.detach().clone().requires_grad_() if is_float else value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
