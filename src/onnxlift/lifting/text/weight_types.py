"""Find what tells the type of a module's weights: `self.proj.weight.dtype`, or `x.dtype`.

Code that follows the type of the weights, and does not name it, works in every type that a module is converted to:
`model.float()`, `load(dtype=torch.bfloat16)`. It means the same as a fixed type as long as nobody converts the module,
so what tells it must be of that type in all modules of the class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.graph.types import TORCH_DTYPE
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module, Stored, reach
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.ops.operand import Tensor


def weight_of_type(cls: ModuleClass, element: str) -> str | None:
    """Return the first weight of the element type that every module of the class holds: `self.proj.weight`.

    Its own come first, then those of its layers, then those of the modules in it. None if there is none."""
    others = [dict(_weights(instance)) for instance in cls.instances if instance is not cls.example]
    for path, weight in _weights(cls.example):
        if all(_is_of_type(each.get(path), element) for each in (*others, {path: weight})):
            return path
    return None


def input_of_type(cls: ModuleClass, element: str, names: Mapping[object, str]) -> str | None:
    """Return the name of the first argument of `forward` that is of the element type whenever it is read."""
    for place, (value, operand) in enumerate(cls.example.inputs.items()):
        inputs = [list(instance.inputs)[place : place + 1] for instance in cls.instances]
        is_tensor = isinstance(operand, Tensor) and place < len(cls.example.inputs) - cls.example.optional
        if not is_tensor or not all(each and _has_type(each[0], element) for each in inputs):
            continue
        holders = [key for key, name in names.items() if name == names[value]]
        if all(isinstance(key, ir.Value) and _has_type(key, element) for key in holders):
            return names[value]
    return None


def _is_of_type(weight: Weight | None, element: str) -> bool:
    return weight is not None and _has_type(weight.value, element)


def _has_type(value: ir.Value, element: str) -> bool:
    return value.dtype is not None and TORCH_DTYPE.get(value.dtype) == element


def _weights(module: Module, start: str = "self") -> Iterator[tuple[str, Weight]]:
    """Yield the weights of a module, with the code that reads them from `start`."""
    if module.derived is not None:
        yield from ((f"{start}.{role}", weight) for role, weight in module.derived.weights.items())
    for path, member in module.members.items():
        if isinstance(member, Stored):
            yield reach(path, module, start=start), member.weight
    for path, member in module.members.items():
        if not isinstance(member, Stored | Module):
            text = reach(path, module, start=start)
            yield from ((f"{text}.{role}", weight) for role, weight in member.weights.items())
    for path, child in module.children():
        yield from _weights(child, reach(path, module, start=start))
