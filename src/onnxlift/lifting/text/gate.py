"""Check that generated source is nothing but the kind of code that we write. This is the last gate.

Text of a stranger reaches the source as a checked identifier, as a literal by `repr`, or in a docstring without quotes
(`code/identifiers.py`). If one of these ways has a fault, the text that slips through must still obey these rules:
1. A file is a docstring, imports, functions, classes and the paths of the weights: nothing runs when it is imported.
2. A class is an `nn.Module`, a container or a layer, with methods and the types of buffers, without decorators.
3. Statements and expressions are of the kinds that kernels and `forward` consist of.
4. A name is defined in the file, or is one of the builtins that compute: not `open`, `eval`, `getattr`. `type` is only
   a type of parameters, and never called.
5. No attribute begins with an underscore, so no code can climb from an object to its class and module. Exceptions are
   `__init__`, and members with one underscore that a constructor of the file assigns (`self._conv`, `{"_u": ...}`),
   which are none of PyTorch's own.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeGuard

from onnxlift.lifting import kernels
from onnxlift.lifting.code.identifiers import is_attribute
from onnxlift.lifting.ops.kinds import layer_kinds

_KINDS = tuple(
    getattr(ast, name)
    for name in """Module ClassDef FunctionDef Import ImportFrom alias arguments arg Assign AugAssign AnnAssign Expr
    Return If For While Break Continue Pass Delete With withitem Call Attribute Subscript Slice Name Constant Tuple List
    Dict Set Starred keyword BinOp UnaryOp BoolOp Compare IfExp GeneratorExp ListComp DictComp SetComp comprehension
    JoinedStr FormattedValue Lambda Raise Assert Try ExceptHandler Nonlocal expr_context operator unaryop boolop
    cmpop""".split()
)
_IMPORTS = frozenset(
    """collections collections.abc io itertools json math numpy pathlib PIL re safetensors.torch torch torch.nn
    typing""".split()
)
_BASES = frozenset({"nn.Module", "nn.ModuleDict", "nn.ModuleList", "nn.Sequential"})
_LAYER_CLASS = "type[nn.Module]"
_BUFFER_TYPES = frozenset({"Tensor", "Tensor | None"})
_BUILTINS = frozenset(
    """abs all any bool bytes chr complex dict divmod enumerate filter float format frozenset hasattr hash int
    isinstance iter len list map max min next object ord pow range repr reversed round set slice sorted str sum super
    tuple zip""".split()
) | {name for name in dir(builtins) if name.endswith("Error")}
_OUR_NAMES = frozenset({"__file__"})


class UnexpectedSource(AssertionError):  # noqa: N818  # it says what is wrong: the source, and so onnxlift
    """The error for generated source that is not what we write. onnxlift has a fault, or an operator function of the
    user."""


def check_source(text: str) -> None:
    """Raise UnexpectedSource unless the file obeys the rules above."""
    tree = ast.parse(text)
    _check_top(tree.body)
    nodes = list(ast.walk(tree))
    known = set(_defined(nodes)) | _BUILTINS | _OUR_NAMES
    known_bases = _BASES | kernels.layers() | {kind.constructor for kind in layer_kinds()}
    members = {t.attr for n in nodes if isinstance(n, ast.Assign) for t in n.targets if _is_of_self(t)}
    keys = (key for n in nodes if isinstance(n, ast.Dict) for key in n.keys)
    members |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    members |= set(_registered(nodes))
    types = {n.value for n in nodes if isinstance(n, ast.Subscript) and ast.unparse(n) == _LAYER_CLASS}
    for node in nodes:
        match node:
            case ast.Import() | ast.ImportFrom():
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]
                _require(set(modules) <= _IMPORTS, node, "an import")
            case ast.ClassDef():
                bases = {ast.unparse(base) for base in node.bases}
                _require(bases <= known_bases and not node.keywords and not node.decorator_list, node, "a class")
                _require(all(map(_is_of_a_class, node.body)), node, "a class")
            case ast.FunctionDef():
                _require(not node.decorator_list, node, "a decorator")
            case ast.Attribute():
                is_plain = not node.attr.startswith("_") or node.attr == "__init__"
                _require(is_plain or _is_member(node, members), node, f"attribute {node.attr}")
            case ast.Name():
                _require(node.id in known or node in types, node, f"name {node.id}")
            case _:
                _require(isinstance(node, _KINDS), node, type(node).__name__)


def _registered(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the names of what modules register: `self.register_buffer("_table", ...)`."""
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(attr="register_buffer" | "register_parameter" | "add_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def _is_of_self(target: ast.expr) -> TypeGuard[ast.Attribute]:
    """Tell whether this is an attribute of `self`, or of a member of it."""
    owner = target
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(target, ast.Attribute) and isinstance(owner, ast.Name) and owner.id == "self"


def _is_member(node: ast.Attribute, members: Container[str]) -> bool:
    """Tell whether this is a member with an underscore: a plain word that the file itself assigns, and of nothing that
    the file imports."""
    is_imported = isinstance(node.value, ast.Name) and node.value.id in ("torch", "nn", "np", "F", "math", "io", "json")
    return is_attribute(node.attr) and node.attr in members and not is_imported


def _check_top(body: Sequence[ast.stmt]) -> None:
    for position, statement in enumerate(body):
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
                continue
            case ast.Expr():
                _require(position == 0 and _is_docstring(statement), statement, "an expression")
            case ast.Assign():
                _require(all(map(_is_path, statement.targets)), statement, "a value")
            case _:
                _require(False, statement, type(statement).__name__)


def _is_path(target: ast.expr) -> bool:
    """Tell whether this is the variable for the path of a file that `load` reads."""
    return isinstance(target, ast.Name) and target.id in ("WEIGHTS", "CONSTANTS")


def _is_of_a_class(statement: ast.stmt) -> bool:
    """Tell whether a class may hold this statement: a docstring, a method, or the type of a buffer."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None and ast.unparse(statement.annotation) in _BUFFER_TYPES
    return _is_docstring(statement) or isinstance(statement, ast.FunctionDef)


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _defined(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every name that the file binds, in any scope."""
    for node in nodes:
        match node:
            case ast.alias():
                yield node.asname or node.name
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name() if isinstance(node.ctx, ast.Store):
                yield node.id
            case ast.ExceptHandler() if node.name:
                yield node.name


def _require(fine: bool, node: ast.AST, what: str) -> None:
    if not fine:
        line = getattr(node, "lineno", "?")
        raise UnexpectedSource(f"the generated source has {what} on line {line}, which onnxlift does not write")
