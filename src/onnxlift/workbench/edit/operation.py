"""An operation on a model is plain data: a frozen dataclass that can be written as JSON or as a line of a script.

A file of `operations/` declares one:

    @dataclass(frozen=True)
    class SetMetadata(Operation):
        \"\"\"Set an entry of the model's metadata.\"\"\"

        key: str
        value: str | None

        def apply(self, model: EditedModel) -> None: ...

Its name is that of the class in small letters: `set_metadata`. That is the method of an editor, and `op` in JSON.
Fields without a default are given by position. `inputs` takes all further positions, and `arguments` all further
keywords.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Self, get_type_hints

from onnxlift.errors import OnnxLiftError, quote

from .fields import decode, encode, frozen

if TYPE_CHECKING:
    from .edited import EditedModel

INPUTS, ARGUMENTS = "inputs", "arguments"
"""The fields that take all further positions, and all further keywords."""


@dataclass(frozen=True)
class Operation:
    """One change of a model, as plain data."""

    @classmethod
    def op(cls) -> str:
        """Return its name: `insert_after`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def summary(cls) -> str:
        """Return the first paragraph of its docstring."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())

    def apply(self, model: EditedModel) -> str | None:
        """Change the model; return the name with which one can go on, such as that of a new value."""
        raise NotImplementedError

    @classmethod
    def called(cls, *values: Any, **named: Any) -> Self:
        """Return the operation that a call of the editor's method means."""
        bound = cls.signature().bind(*values, **named)
        given = {key: frozen(value, f"{cls.op()}: {key}") for key, value in bound.arguments.items()}
        return cls.checked(given)

    @classmethod
    def checked(cls, data: dict[str, Any]) -> Self:
        """Return the operation with these fields. An error names the field that is wrong."""
        hints = _hints(cls)
        missing = [each.name for each in fields(cls) if not _is_optional(each) and each.name not in data]
        if missing:
            raise OnnxLiftError(f"{cls.op()}: the field {missing[0]!r} is missing.")
        unknown = [name for name in data if name not in hints]
        if unknown:
            close = get_close_matches(unknown[0], hints, 1)
            meant = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(hints)}."
            raise OnnxLiftError(f"{cls.op()}: there is no field {quote(unknown[0])}{meant}")
        return cls(**{name: decode(hints[name], each, f"{cls.op()}: {name}") for name, each in data.items()})

    @classmethod
    def signature(cls) -> inspect.Signature:
        """Return the signature of the editor's method."""
        hints = _hints(cls)
        has_arguments = ARGUMENTS in hints
        parameters = []
        for each in fields(cls):
            kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
            default: Any = inspect.Parameter.empty
            if each.name == INPUTS:
                kind = inspect.Parameter.VAR_POSITIONAL
            elif each.name == ARGUMENTS:
                kind = inspect.Parameter.VAR_KEYWORD
            elif _is_optional(each):
                kind, default = inspect.Parameter.KEYWORD_ONLY, each.default
            elif has_arguments:
                kind = inspect.Parameter.POSITIONAL_ONLY
            parameters.append(inspect.Parameter(each.name, kind, default=default))
        return inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data: its name as `op`, and the fields that differ from their defaults."""
        return {"op": self.op()} | {each: encode(value) for each, value in self.said().items()}

    def said(self) -> dict[str, Any]:
        """Return the fields that are required, or differ from their defaults."""
        found = {each.name: (each, getattr(self, each.name)) for each in fields(self)}
        return {name: value for name, (each, value) in found.items() if not _is_default(each, value)}

    @staticmethod
    def from_dict(data: Any) -> Operation:
        """Return the operation that plain data describes. An error names the field that is wrong."""
        if not isinstance(data, dict):
            raise OnnxLiftError('an operation is an object, such as {"op": "rename", "old": "1423", "new": "hidden"}.')
        name = data.get("op")
        kind = all_operations().get(name) if isinstance(name, str) else None
        if kind is None:
            close = get_close_matches(str(name)[:50], all_operations(), 1)
            meant = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(all_operations())}."
            raise OnnxLiftError(f"there is no operation {name!r:.60}{meant}")
        return kind.checked({key: value for key, value in data.items() if key != "op"})


def _hints(kind: type[Operation]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _is_optional(each: Field[Any]) -> bool:
    return each.default is not MISSING or each.default_factory is not MISSING


def _is_default(each: Field[Any], value: Any) -> bool:
    default = each.default_factory() if each.default_factory is not MISSING else each.default
    return _is_optional(each) and type(value) is type(default) and bool(value == default)


@cache
def all_operations() -> dict[str, type[Operation]]:
    """Return all operations by name: those that the files of `operations/` declare."""
    package = importlib.import_module(f"{__package__}.operations")
    found: dict[str, type[Operation]] = {}
    for each in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        module = importlib.import_module(f"{package.__name__}.{each}")
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Operation) and item.__module__ == module.__name__:
                found[item.op()] = item
    return found
