"""Modules of modules: Sequential, ModuleList, ModuleDict, Residual; ParameterList and ParameterDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self, overload

from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.value import Value

from .module import Layer, Module, own
from .parameter import Parameter


class _Numbered(Module):
    """A module whose members are called by their places."""

    _kind: type[Module] | type[Parameter] = Module
    is_network = True

    def _start(self) -> None:
        self._members: dict[str, Module | Parameter] = {}

    def _take(self, name: str, member: Any) -> None:
        if not isinstance(member, self._kind):
            raise BuildError(
                f"{type(self).__name__}: its member {name} is {member!r}, and must be a {self._kind.__name__.lower()}."
            )
        if "." in name or not name:
            raise BuildError(f"{type(self).__name__}: {name!r} cannot be the name of a member.")
        own(self, name, member)
        self._members[name] = member

    def members(self) -> Iterator[tuple[str, Module | Parameter]]:
        """Yield what belongs to it, with the names."""
        yield from self._members.items()

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module | Parameter) and name != "_owner":
            self._take(name, value)
        else:
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self._members)

    @at_the_users_line
    def _at(self, index: int | str) -> Any:
        names = list(self._members)
        if isinstance(index, str):
            if index not in self._members:
                raise BuildError(f"{type(self).__name__} has no member {index!r}; it has {', '.join(names)}.")
            return self._members[index]
        if not -len(names) <= index < len(names):
            raise IndexError(f"{type(self).__name__} has {len(names)} members, and none at {index}")
        return self._members[names[index]]

    def extra_repr(self) -> str:
        """Return nothing: the members tell all."""
        return ""


class Sequential(_Numbered, Layer):
    """Modules one after the other: `nn.Sequential(nn.Linear(8, 16), nn.ReLU())`, or a dict of them by name."""

    @at_the_users_line
    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        self._start()
        only = modules[0] if len(modules) == 1 else None
        named = only.items() if isinstance(only, Mapping) else ((str(i), each) for i, each in enumerate(modules))
        for name, module in named:
            self._take(name, module)

    def forward(self, input: Value) -> Value:
        """Call the modules in order."""
        for module in self:
            input = module(input)
        return input

    @at_the_users_line
    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self._take(str(len(self)), module)
        return self

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._members.values()))  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int | str) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | str | slice) -> Module:
        """Return a module, or a Sequential of some of them."""
        if isinstance(index, slice):
            names = list(self._members)[index]
            return Sequential({name: self._at(name) for name in names})
        found: Module = self._at(index)
        return found


class ModuleList(_Numbered):
    """A list of modules, which are called by their places: `layers.0`."""

    @at_the_users_line
    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._start()
        self.extend(modules)

    @at_the_users_line
    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self._take(str(len(self)), module)
        return self

    @at_the_users_line
    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in modules:
            self._take(str(len(self)), module)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._members.values()))

    def __getitem__(self, index: int | slice) -> Any:
        """Return a module, or a list of some of them."""
        if isinstance(index, slice):
            return list(islice(self, *index.indices(len(self))))
        return self._at(index)


class ModuleDict(_Numbered):
    """Modules by name."""

    @at_the_users_line
    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self._start()
        for name, module in (modules or {}).items():
            self._take(name, module)

    @at_the_users_line
    def __setitem__(self, name: str, module: Module) -> None:
        self._take(name, module)

    def __getitem__(self, name: str) -> Any:
        return self._at(name)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._members)

    def values(self) -> list[Any]:
        """Return the modules."""
        return list(self._members.values())

    def items(self) -> list[tuple[str, Any]]:
        """Return the modules with their names."""
        return list(self._members.items())


class ParameterList(ModuleList):
    """A list of parameters, which are called by their places."""

    _kind = Parameter

    @at_the_users_line
    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        self._start()
        self.extend(parameters)  # type: ignore[arg-type]


class ParameterDict(ModuleDict):
    """Parameters by name."""

    _kind = Parameter

    @at_the_users_line
    def __init__(self, parameters: Mapping[str, Parameter] | None = None) -> None:
        self._start()
        for name, parameter in (parameters or {}).items():
            self._take(name, parameter)


class Residual(Layer):
    """What a module gives, added to its input, or to what `shortcut` makes of it."""

    is_network = True

    @at_the_users_line
    def __init__(self, module: Module, shortcut: Module | None = None) -> None:
        if not isinstance(module, Module) or not isinstance(shortcut, Module | None):
            raise BuildError(f"Residual: it takes modules, and was given {module!r} and {shortcut!r}.")
        self.module, self.shortcut = module, shortcut

    def forward(self, input: Value) -> Value:
        """Return module(input) + input."""
        made: Value = self.module(input)
        return made + (input if self.shortcut is None else self.shortcut(input))
