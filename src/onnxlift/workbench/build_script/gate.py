"""Check that a script is nothing but calls of the builder. This is the last gate: the script is run after it.

Text of a stranger reaches a script as a checked identifier, as a literal, or in the docstring without quotes. If one of
these ways has a fault, what slips through must still obey these rules:
1. A script is a docstring, the imports and the two statements in `FIXED`, declarations of operators, and functions.
2. A function has no decorator but `build.function(...)`, and consists of assignments, calls, functions and `with`.
3. A call is one of the builder, an operator, a function of the script, `abs`, or an array of numpy.
4. An attribute is one of those that scripts use of `build`, `op`, `np` and `weights`. So nothing climbs from an object
   to its class or module, and no file is opened but that of the weights.
5. A name is defined in the script. An expression has no code of its own: no comprehension, lambda or formatted text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from onnxlift.lifting.text.gate import UnexpectedSource

WEIGHTS = 'weights = build.weights(Path(__file__).with_suffix(".safetensors"))'
TAIL = 'if __name__ == "__main__":\n    build_model().save(Path(__file__).with_suffix(".onnx"), force=True)'
IMPORTS = (
    "from pathlib import Path",
    "import numpy as np",
    "from onnxlift import build",
    "from onnxlift.build import op",
)
FIXED = frozenset(ast.unparse(ast.parse(text)) for text in (WEIGHTS, TAIL, *IMPORTS))
"""What scripts say word for word."""

_BUILD = frozenset(
    """Header Model UNKNOWN body constant custom function if_ input keep loop map_of model opset optional scan scope
    sequence tensor""".split()
)
_NUMPY = frozenset(
    """array zeros nan inf ndarray bool_ float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32
    uint64""".split()
)
_WEIGHTS = frozenset({"array", "tensor", "text"})
_DOMAINS = frozenset({"microsoft", "ml", "preview", "training"})
_OWNERS = {"build": _BUILD, "np": _NUMPY, "weights": _WEIGHTS}
_TYPES = frozenset("int float str list[int] list[float] list[str] np.ndarray".split())
_ANNOTATIONS = _TYPES | {"build.Model"}
_GIVEN = frozenset({"build", "op", "np", "weights", "abs"})
_KINDS = tuple(
    getattr(ast, name)
    for name in """Return Expr Call Name Attribute Constant Tuple List Dict Subscript keyword BinOp UnaryOp Compare
    expr_context operator unaryop cmpop""".split()
)


def check_script(text: str) -> None:
    """Raise UnexpectedSource unless a script obeys the rules above."""
    tree = ast.parse(text)
    called = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)} | {"weights", "abs"}
    known = {*_GIVEN, *_bound(tree)}
    for position, statement in enumerate(tree.body):
        if ast.unparse(statement) in FIXED:
            continue
        match statement:
            case ast.Expr(value=ast.Constant(value=str())):
                _require(position == 0, statement, "a text")
                continue
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function)):
                _require(ast.unparse(function) == "build.custom", statement, "a value")
                called.add(name)
            case _:
                _require(isinstance(statement, ast.FunctionDef), statement, type(statement).__name__)
        _check(statement, known, called)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield every name that a script binds."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id


def _check(top: ast.AST, known: set[str], called: set[str]) -> None:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef():
                _check_function(node)
                waiting += [*node.decorator_list, *node.body, *_defaults(node.args)]
                continue
            case ast.Assign():
                _require(all(map(_is_variable, node.targets)), node, "an assignment")
            case ast.With():
                _require(all(_is_call(item.context_expr, "build.scope", "build.opset") for item in node.items), node)
                waiting += [*(item.context_expr for item in node.items), *node.body]
                continue
            case ast.Call():
                is_own = isinstance(node.func, ast.Name) and node.func.id in called
                _require(is_own or isinstance(node.func, ast.Attribute), node, "a call")
            case ast.Attribute():
                _require(_is_known(node), node, f"attribute {node.attr}")
                waiting += [node.value] if isinstance(node.value, ast.Call) else []
                continue
            case ast.keyword(arg="dtype", value=ast.Name(id="object")):
                continue
            case ast.keyword(arg="attributes", value=ast.Dict(keys=keys, values=types)):
                _require(all(isinstance(each, ast.Constant) for each in keys), node, "a declaration")
                _require(all(ast.unparse(each) in _TYPES for each in types), node, "a declaration")
                continue
            case ast.Name():
                _require(node.id in known, node, f"name {node.id}")
            case ast.BinOp():
                _require(not (_is_number(node.left) and _is_number(node.right)), node, "a computation")
            case _:
                _require(isinstance(node, _KINDS), node, type(node).__name__)
        waiting += ast.iter_child_nodes(node)


def _check_function(node: ast.FunctionDef) -> None:
    _require(all(_is_call(each, "build.function") for each in node.decorator_list), node, "a decorator")
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    _require(_GIVEN.isdisjoint({node.name, *(each.arg for each in named)}), node, "an argument")
    _require(arguments.vararg is None and arguments.kwarg is None, node, "an argument")
    told = [each.annotation for each in named] + [node.returns]
    _require(all(each is None or ast.unparse(each) in _ANNOTATIONS for each in told), node, "an annotation")


def _defaults(arguments: ast.arguments) -> Iterable[ast.expr]:
    return (each for each in (*arguments.defaults, *arguments.kw_defaults) if each is not None)


def _is_variable(target: ast.expr) -> bool:
    """Tell whether a target is a variable or several, and no name that scripts rely on."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(each, ast.Name) and each.id not in _GIVEN for each in parts)


def _is_call(node: ast.expr, *functions: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in functions


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and _is_number(node.operand))


def _is_known(node: ast.Attribute) -> bool:
    """Tell whether an attribute is one that scripts use."""
    match node.value:
        case (
            ast.Name(id="op") | ast.Attribute(value=ast.Name(id="op"), attr="microsoft" | "ml" | "preview" | "training")
        ):
            return not node.attr.startswith("_") and node.attr not in _DOMAINS
        case ast.Name(id=name):
            return node.attr in _OWNERS.get(name, ())
        case ast.Call():
            return node.attr == "reshape" and _is_call(node.value, "np.array")
    return False


def _require(fine: bool, node: ast.AST, what: str = "a statement") -> None:
    if not fine:
        line = getattr(node, "lineno", "?")
        raise UnexpectedSource(f"the script has {what} on line {line}, which onnxlift does not write")
