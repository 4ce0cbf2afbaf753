"""The names of modules and parameters in a network that is called: their places below the module called first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxlift.build import state
from onnxlift.build.errors import BuildError

if TYPE_CHECKING:
    from .module import Module
    from .parameter import Parameter


@dataclass(eq=False)
class Tree:
    """A network that is being called. `modules` and `parameters` have whole names, with those of the scopes around."""

    root: Module
    around: state.Scopes
    modules: dict[Module, str]
    parameters: dict[Parameter, str]


_tree: ContextVar[Tree | None] = ContextVar("tree", default=None)


def tree() -> Tree | None:
    """Return the network that is being called; None outside of all."""
    return _tree.get()


def joined(*names: str) -> str:
    """Join names by dots, without those that are empty."""
    return ".".join(name for name in names if name)


@contextmanager
def entered(module: Module) -> Iterator[None]:
    """Let nodes lie in a module within a `with`: in its place in the network, or as a network of its own."""
    found, class_name = tree(), type(module).__name__
    if found is not None and module not in found.modules:
        if module.is_made_of_others():
            raise BuildError(
                f"{module.title()} is no part of {type(found.root).__name__}: make it an attribute in __init__, in a "
                "list as nn.ModuleList, in a dict as nn.ModuleDict."
            )
        # A layer without weights has no name that anyone would miss.
        with state.scope(module.own_name(), class_name):
            yield
        return
    if found is None:
        scopes = state.scopes().within(module.path, class_name)
        found = _tree_of(module, scopes)
        token = _tree.set(found)
        try:
            with state.in_scopes(scopes):
                yield
        finally:
            _tree.reset(token)
        return
    path, here = found.modules[module], state.scopes()
    if here.path and path != here.path and not path.startswith(f"{here.path}."):
        here = found.around  # it belongs to another module than the one that calls it
    name = path.removeprefix(here.path).removeprefix(".") if path != here.path else ""
    with state.in_scopes(here.within(name, class_name)):
        yield


def _tree_of(root: Module, scopes: state.Scopes) -> Tree:
    modules = {module: joined(scopes.path, path) for path, module in root.named_modules()}
    parameters = {each: joined(scopes.path, path) for path, each in root.named_weights()}
    for parameter, path in parameters.items():
        parameter.place(path)
    return Tree(root, scopes, modules, parameters)
