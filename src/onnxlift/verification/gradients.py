"""Call a lifted model as somebody does who trains it: forward and backward, with gradients on.

The comparison with ONNX runs without gradients, so it does not see what fails only with them: a function of PyTorch
that has no derivative for a value that needs one, or a tensor that is changed in place.

find_gradients   goes forward and backward in eval mode, as `load` returns the model, and forward in train mode
                 (called in the child process only)

A gradient is dropped as soon as it is there, so that not all of them are in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Arguments = Callable[[], Sequence[Any]]
UNUSED = "this call does not use it: it belongs to a branch that is not taken, or a loop that does not run"
PASSES_NONE = "no gradient passes what reads it, such as comparisons, indices and integers"
NO_OUTPUT = "no output has a gradient: they are integers, or computed from integers alone"

# What PyTorch says if the fault is not the model's: it needs memory, has no such function for this type on a CPU, or
# takes no statistics of a single value.
_OWN_LIMITS = ("DefaultCPUAllocator", "not implemented for '", "Expected more than 1 ")
_LONGEST_ERROR = 2000


def find_gradients(model: nn.Module, arguments: Arguments, place: Callable[[BaseException], str]) -> dict[str, Any]:
    """Go forward and backward, and return what a report tells of it (`Gradients` in report.py) as a plain dict.

    `arguments` makes those of a call. `place` returns the line of source in which an error happened, as a clause."""
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    found: dict[str, Any] = {"parameters": len(parameters), "without": {}}
    doing = "called with gradients on"
    try:
        with torch.enable_grad():
            outputs = [y for y in _tensors(model(*arguments())) if y.requires_grad]
            doing = "trained: the backward pass fails"
            reached = _go_backward(outputs, parameters)
            del outputs
            doing = "called in train mode"
            model.train()(*arguments())
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).strip()[:_LONGEST_ERROR]}{place(error)}"
        is_own = any(limit in str(error) for limit in _OWN_LIMITS)
        key = "limit" if is_own or isinstance(error, MemoryError) else "error"
        found[key] = f"it cannot be {doing}: {text}"
        if doing != "called in train mode":
            return found
    without = [name for name in parameters if name not in reached]
    if without and not reached:
        found["without"] = dict.fromkeys(without, NO_OUTPUT)
    elif without:
        used = _used(model.eval(), arguments, {name: parameters[name] for name in without})
        found["without"] = {name: PASSES_NONE if name in used else UNUSED for name in without}
    return found


def _tensors(value: Any) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case list() | tuple():
            for item in value:
                yield from _tensors(item)
        case dict():
            for item in value.values():
                yield from _tensors(item)


def _go_backward(outputs: list[Tensor], parameters: Mapping[str, nn.Parameter]) -> set[str]:
    """Go backward from all outputs; return the names of the parameters that get a gradient."""
    reached: set[str] = set()

    def drop(name: str, parameter: Tensor) -> None:
        reached.add(name)
        parameter.grad = None

    for name, parameter in parameters.items():
        register: Callable[..., object] = parameter.register_post_accumulate_grad_hook  # PyTorch has no types for it
        register(partial(drop, name))
    torch.autograd.backward(outputs, [torch.ones_like(y) for y in outputs])
    return reached


def _used(model: nn.Module, arguments: Arguments, parameters: Mapping[str, nn.Parameter]) -> Collection[str]:
    """Return the names of those parameters that the model computes with, on these inputs."""
    watch = _Watch({id(each): name for name, each in parameters.items()})
    with torch.no_grad(), watch:
        model(*arguments())
    return watch.used


class _Watch(TorchFunctionMode):
    """Notes which parameters are given to functions of PyTorch, while it is entered."""

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()
        self.names = names
        self.used: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in _tensors((args, kwargs or {})):
            name = self.names.get(id(tensor))
            if name is not None:
                self.used[name] = None
        return func(*args, **(kwargs or {}))
