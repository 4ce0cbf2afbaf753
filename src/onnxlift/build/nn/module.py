"""`nn.Module`: a network is a class with `__init__` and `forward`, as in PyTorch.

    class Net(nn.Module):
        def __init__(self):
            self.fc1 = nn.Linear(784, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x):
            return self.fc2(op.Relu(self.fc1(x)))

Attributes that are modules or parameters belong to it, and are called by their names. A module that is called opens its
scope, so that lifting finds the tree and the classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Any, NoReturn, Self

from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.init import Initialiser
from onnxlift.build.nodes import snake
from onnxlift.build.types import Array, Dtype, dtype_text
from onnxlift.build.value import Value
from onnxlift.ir.graph.types import FLOATS

from .naming import entered, joined, tree
from .parameter import Buffer, Parameter, is_float


class Module:
    """A network, or a part of one."""

    _owner: tuple[Module, str] | None = None
    _given_name: str | None = None

    forward: Callable[..., Any]
    """Makes the values that the module gives; a class of your own defines it."""

    @at_the_users_line
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Make the nodes of the module, and return what `forward` returns."""
        if not hasattr(self, "forward"):
            raise BuildError(f"{self.title()} has no forward, which says what it computes.")
        with entered(self):
            made = self.forward(*inputs, **named)
        if made is None:
            raise BuildError(f"forward of {self.title()} gives None: does it lack a return?")
        return made

    @at_the_users_line
    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_owner":
            _check_attribute(self, name, value)
            if isinstance(value, Module | Parameter):
                own(self, name, value)
        object.__setattr__(self, name, value)

    def members(self) -> Iterator[tuple[str, Module | Parameter]]:
        """Yield the modules and parameters that belong directly to it, with their names."""
        for name, value in vars(self).items():
            if isinstance(value, Module | Parameter):
                yield name, value

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules that belong directly to it, with their names."""
        for name, value in self.members():
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """Yield the modules that belong directly to it."""
        for _, child in self.named_children():
            yield child

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Yield it and all modules below with their names, each once."""
        yield from self._walk("")

    def _walk(self, prefix: str, seen: set[Module] | None = None) -> Iterator[tuple[str, Module]]:
        seen = set() if seen is None else seen
        if self not in seen:
            seen.add(self)
            yield prefix, self
            for name, child in self.named_children():
                yield from child._walk(joined(prefix, name), seen)

    def modules(self) -> Iterator[Module]:
        """Yield it and all modules below, each once."""
        for _, module in self.named_modules():
            yield module

    def named_weights(self, *, repeated: bool = False) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters and buffers with their names; each once, unless `repeated`."""
        seen: set[Parameter] = set()
        for path, module in self.named_modules():
            own = [(name, value) for name, value in module.members() if isinstance(value, Parameter)]
            for name, value in sorted(own, key=lambda each: each[1].is_buffer):
                if repeated or value not in seen:
                    seen.add(value)
                    yield joined(path, name), value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all parameters with their names, each once."""
        return ((name, value) for name, value in self.named_weights() if not value.is_buffer)

    def named_buffers(self) -> Iterator[tuple[str, Parameter]]:
        """Yield all buffers with their names, each once."""
        return ((name, value) for name, value in self.named_weights() if value.is_buffer)

    def parameters(self) -> Iterator[Parameter]:
        """Yield all parameters, each once."""
        return (value for _, value in self.named_parameters())

    def buffers(self) -> Iterator[Parameter]:
        """Yield all buffers, each once."""
        return (value for _, value in self.named_buffers())

    def register_buffer(self, name: str, array: Any) -> None:
        """Give it a buffer: numbers that training does not learn."""
        setattr(self, name, array if isinstance(array, Buffer) else Buffer(array))

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Give it a parameter, or None in the place of one."""
        setattr(self, name, parameter)

    def state_dict(self) -> dict[str, Array]:
        """Return the numbers of all parameters and buffers by their names."""
        return {name: value.numpy() for name, value in self.named_weights(repeated=True)}

    @at_the_users_line
    def load_state_dict(self, source: Mapping[str, Any] | str | os.PathLike[str], strict: bool = True) -> None:
        """Take the numbers of a state dict of numpy or torch, or of a safetensors file, as PyTorch names them.

        `strict` asks for all names, and no others. Nothing is changed if something does not fit."""
        from .loading import load

        load(self, source, strict)

    @at_the_users_line
    def initialise(self, rules: Mapping[str, Initialiser] | None = None, *, seed: int | None = None) -> Self:
        """Make the numbers of parameters anew, and return the module.

        `rules` has initialisers by pattern: {"*.weight": init.kaiming_normal()}; the first that fits is taken, others
        stay as they are. With a `seed`, all parameters are made anew."""
        named = dict(self.named_weights())
        for pattern in rules or {}:
            if not any(fnmatchcase(name, pattern) for name in named):
                raise BuildError(f"{self.title()} has no parameter that fits {pattern!r}; it has {_listed(named)}.")
        for name, value in named.items():
            found = next((init for pattern, init in (rules or {}).items() if fnmatchcase(name, pattern)), None)
            if found is not None or (seed is not None and not value.is_buffer):
                value.initialise(found, seed=seed)
        return self

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call a function with each module below, and with this one at last; return it."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def to(self, dtype: Dtype) -> Self:
        """Change the element type of all floats, and return the module."""
        for _, value in self.named_weights():
            if is_float(value):
                value.to(dtype)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        for name, value in vars(self).items():
            if name != "_owner":
                object.__setattr__(copy, name, {} if name == "_values" else deepcopy(value, memo))
        for name, member in copy.members():
            own(copy, name, member)
        return copy

    def named(self, name: str) -> Self:
        """Call the module so where it is called outside of all others, and return it."""
        self._given_name = name
        return self

    @property
    def path(self) -> str:
        """The name of the module: its place among the modules."""
        found = tree()
        if found is not None and self in found.modules:
            return found.modules[self]
        if self._owner is None:
            return self.own_name()
        module, name = self._owner
        return joined(module.path, name)

    def own_name(self) -> str:
        """Return what the module is called where it belongs to no other: a network has no name."""
        if self._given_name is not None:
            return self._given_name
        is_layer = type(self).__module__.startswith(f"{__package__}.") and not self.is_network
        return snake(type(self).__name__) if is_layer else ""

    is_network = False
    """Whether a class of ours is a network if it is called outside of all others, and no layer."""

    def is_made_of_others(self) -> bool:
        """Tell whether modules or parameters belong to it."""
        return next(self.members(), None) is not None

    def title(self) -> str:
        """Return the module for a message: `fc1, Linear(in_features=784, out_features=128, bias=True)`."""
        text = f"{type(self).__name__}({self.extra_repr()})"
        return f"{self.path}, {text}" if self.path else text

    def refuse(self, text: str) -> NoReturn:
        """Raise a BuildError that names the module."""
        raise BuildError(f"{self.title()}: {text}")

    def extra_repr(self) -> str:
        """Return what was asked of the layer, as text."""
        plain = (
            (name, value)
            for name, value in vars(self).items()
            if not name.startswith("_") and isinstance(value, bool | int | float | str | tuple | None)
        )
        return ", ".join(f"{name}={value!r}" for name, value in plain)

    def __repr__(self) -> str:
        inner = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        if not inner:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = "".join(f"  {line}\n" for line in inner)
        return f"{type(self).__name__}(\n{lines})"


class Layer(Module):
    """A module that makes one value of one."""

    @at_the_users_line
    def __call__(self, input: Value) -> Value:
        """Make the nodes of the layer, and return what it gives."""
        if not isinstance(input, Value):
            self.refuse(f"its input is {_shown(input)}, and must be a value.")
        made: Value = Module.__call__(self, input)
        return made


def _shown(given: Any) -> str:
    if isinstance(given, tuple | list) and any(isinstance(each, Value) for each in given):
        return f"a {type(given).__name__} of {len(given)}"
    text = repr(given)
    return text if len(text) <= 60 else f"an array of {given.dtype}" if hasattr(given, "dtype") else f"{text[:57]}..."


def own(module: Module, name: str, member: Module | Parameter) -> None:
    """Note to whom a module or parameter belongs: the first that takes it."""
    if member._owner is None:
        member._owner = (module, name)


def _check_attribute(module: Module, name: str, value: Any) -> None:
    held = vars(module).get(name)
    if isinstance(held, Parameter) and value is not None and not isinstance(value, Module | Parameter):
        raise BuildError(
            f"{type(module).__name__}.{name} is a parameter, and is given {_shown(value)}: set its numbers, "
            f"`.{name}.data = ...`, or give it an nn.Parameter."
        )
    if "." in name or not name:
        raise BuildError(f"{name!r} cannot be the name of a member: it is part of a dotted name.")
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else value
    if isinstance(value, list | tuple | dict):
        kind = "Dict" if isinstance(value, dict) else "List"
        for base in (Module, Parameter):
            if any(isinstance(each, base) for each in inner):
                raise BuildError(
                    f"{type(module).__name__}.{name} is a plain {type(value).__name__} of {base.__name__.lower()}s, "
                    f"which would have no names: write nn.{base.__name__}{kind}(...)."
                )


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return f"{', '.join(found[:8])}{f' and {len(found) - 8} more' if len(found) > 8 else ''}" or "none"


def check_input(module: Module, input: Value, axis: int, size: int, what: str, rank: tuple[int, ...] = ()) -> None:
    """Raise a BuildError unless the input has this size along an axis, one of these ranks, and the weight's type."""
    shape, told = input.shape, str(input).partition(": ")[2].rstrip(">")
    if shape is not None:
        if rank and len(shape) not in rank:
            wanted = " or ".join(map(str, rank))
            module.refuse(f"its input is {told}, with {len(shape)} axes, and must have {wanted}.")
        if len(shape) < (-axis if axis < 0 else axis + 1):
            module.refuse(f"its input is {told}, which has too few axes.")
        found = shape[axis]
        if isinstance(found, int) and found != size:
            module.refuse(f"its input is {told}, with {found} along axis {axis}, and {what} is {size}.")
    weight = next((value for _, value in module.members() if isinstance(value, Parameter)), None)
    if weight is not None and input.dtype is not None and input.dtype != weight.dtype:
        given, ours = dtype_text(input.dtype), dtype_text(weight.dtype)
        other = f', or module.to("{given}")' if input.dtype in FLOATS else ""
        module.refuse(f'its input is {told}, and its weights are {ours}: op.Cast(x, to="{ours}"){other}.')


def positive(layer: str, **sizes: Any) -> None:
    """Raise a BuildError unless these arguments of a layer are numbers from 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BuildError(f"{layer}: {name} is {size!r}, and must be a number from 1.")
