"""What is in force while a program builds: the opsets, the modules around (scopes), and the body that is being made."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any

import onnx.defs
import onnx_ir as ir

from .errors import BuildError, Line, at_the_users_line

MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
PREVIEW, TRAINING = "ai.onnx.preview", "ai.onnx.preview.training"
DEFAULT_OPSET = 21
"""The opset of ONNX that is in force where nothing is said: ONNX Runtime has it since 1.20."""
DEFAULT_OPSETS: Mapping[str, int] = {"": DEFAULT_OPSET, ML: 4, MICROSOFT: 1, PREVIEW: 1, TRAINING: 1}
NEWEST: Mapping[str, int] = {"": onnx.defs.onnx_opset_version(), ML: 5, MICROSOFT: 1, PREVIEW: 1, TRAINING: 1}


@dataclass(eq=False)
class Block:
    """A graph inside the model that is being made: the body of a loop, a branch, or a function.

    `nodes` are its nodes in the order in which they were made. A function cannot read what is outside of it
    (`isolated`). What `may_never_run` may hold sizes that do not fit, as a branch for other inputs does."""

    what: str
    line: Line
    parent: Block | None = None
    isolated: bool = False
    may_never_run: bool = False
    plain: bool = False
    """Whether its outputs are what was given as they are, without an Identity."""
    nodes: list[ir.Node] = field(default_factory=list)
    kept: list[ir.Value] = field(default_factory=list)
    closed: bool = False

    def sees(self, other: Block | None) -> bool:
        """Tell whether a value of another block can be read in this one. None is the model around all blocks."""
        here: Block | None = self
        while here is not None:
            if here is other:
                return True
            if here.isolated:
                return False
            here = here.parent
        return other is None

    @property
    def depth(self) -> int:
        """In how many bodies it lies that may never run."""
        return self.may_never_run + (0 if self.parent is None else self.parent.depth)


@dataclass(frozen=True)
class Scopes:
    """The modules around, from the outermost: their paths and their classes."""

    paths: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    names_text: str = "["
    classes_text: str = "["

    @property
    def path(self) -> str:
        return self.paths[-1] if self.paths else ""

    def within(self, name: str, class_name: str) -> Scopes:
        path = f"{self.path}.{name}" if self.path and name else name or self.path
        return Scopes(
            (*self.paths, path),
            (*self.classes, class_name),
            f"{self.names_text}{path!r}, ",
            f"{self.classes_text}{class_name!r}, ",
        )


_NO_SCOPES = Scopes()

_opsets: ContextVar[Mapping[str, int]] = ContextVar("opsets", default=DEFAULT_OPSETS)
_scopes: ContextVar[Scopes] = ContextVar("scopes", default=_NO_SCOPES)
_block: ContextVar[Block | None] = ContextVar("block", default=None)
_seed: ContextVar[int] = ContextVar("seed", default=0)
_order = count()
_sizes = count()


def opsets() -> Mapping[str, int]:
    """Return the opset versions that are in force, by domain."""
    return _opsets.get()


def scopes() -> Scopes:
    return _scopes.get()


def block() -> Block | None:
    """Return the body that is being made; None outside of all bodies."""
    return _block.get()


def next_order() -> int:
    """Return a number that is larger than all before: values are told in the order of their making."""
    return next(_order)


def fresh_size() -> str:
    """Return a name for a size of which nothing is known, as inference writes it."""
    return f"unk__{next(_sizes)}"


class Context:
    """A value of a context variable that is in force within a `with`."""

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value
        self._tokens: list[Token[Any]] = []

    def __enter__(self) -> None:
        self._tokens.append(self._variable.set(self._value))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._variable.reset(self._tokens.pop())


@at_the_users_line
def opset(
    version: int | None = None,
    *,
    microsoft: int | None = None,
    ml: int | None = None,
    training: int | None = None,
    domains: Mapping[str, int] | None = None,
) -> Context:
    """Let operators be those of these opsets within a `with`: `with build.opset(17, ml=3): ...`.

    What is not named stays as it is around. `domains` has the versions of other domains, by name."""
    given = {"": version, MICROSOFT: microsoft, ML: ml, TRAINING: training}
    named = {domain: number for domain, number in given.items() if number is not None}
    for domain, number in (domains or {}).items():
        named["" if domain == "ai.onnx" else domain] = number
    for domain, number in named.items():
        check_opset(domain, number)
    return Context(_opsets, {**opsets(), **named})


def check_opset(domain: str, number: Any) -> None:
    """Raise a BuildError unless the domain has an opset of this number."""
    newest = NEWEST.get(domain)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1 or (newest and number > newest):
        most = f"1 to {newest}" if newest else "1 and more"
        raise BuildError(f"there is no opset {number!r} of {domain or 'ai.onnx'}; the installed onnx has {most}.")


def in_opsets(versions: Mapping[str, int]) -> Context:
    """Let exactly these opsets be in force within a `with`."""
    return Context(_opsets, versions)


def in_block(inner: Block | None) -> Context:
    """Let nodes belong to this body within a `with`."""
    return Context(_block, inner)


@at_the_users_line
def scope(name: str, class_name: str = "") -> Context:
    """Let nodes and parameters lie in the module `name` of the class `class_name` within a `with`.

    Scopes nest: `block2` and in it `conv1` give `block2.conv1`. The name of the whole model is empty. Lifting finds the
    modules and their classes by what is noted here."""
    for text in (name, class_name):
        if not isinstance(text, str):
            raise BuildError(f"build.scope: {text!r} is no name: it must be a text.")
    return Context(_scopes, scopes().within(name, class_name))


def in_scopes(around: Scopes) -> Context:
    """Let nodes lie in exactly these modules within a `with`."""
    return Context(_scopes, around)


def seed() -> int:
    """Return the seed of parameters that are made now."""
    return _seed.get()


def seeded(number: int) -> Context:
    """Let parameters that are made within a `with` have this seed."""
    return Context(_seed, int(number))


def outside_scopes() -> Context:
    """Let nodes lie in no module within a `with`."""
    return Context(_scopes, _NO_SCOPES)


@dataclass(slots=True)
class Made:
    """What is noted of each node and each value without a node: when and where it was made, and its name.

    `hint` is what a name is made of; `fixed` is a name that the user gave. `captures` are the values outside that
    bodies of the node read, `functions` those of the model that it calls, also by way of others, and `operator` is the
    user's own operator."""

    order: int
    line: Line
    block: Block | None
    hint: str
    kind: str = "node"
    fixed: str | None = None
    captures: tuple[ir.Value, ...] = ()
    functions: tuple[ir.Function, ...] = ()
    operator: Any = None

    keeps_types: bool = False
    """Whether nobody else knows the types of the outputs, as ONNX has no schema for the operator."""


MADE = "made"
"""Key in the `meta` of a node, and of a value that no node makes."""
HINT = "hint"
"""Key in `Value.meta` of what the name of an output is made of, if not of the name of its node."""
FIXED = "fixed-name"
"""Key in `Value.meta` of a name that the user gave."""


def made_of(value: ir.Value) -> Made:
    """Return what is noted of the node that makes a value, or of the value itself."""
    node = value.producer()
    found: Made = (value if node is None else node).meta[MADE]
    return found
