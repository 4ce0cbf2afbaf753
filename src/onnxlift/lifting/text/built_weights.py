"""Find out, without torch, which weights the written constructors make, and hold them against those that are there.

    class Block(nn.Module):                                          blocks.0.fc.weight  (32, 8)
        def __init__(self, dim: int) -> None:                   ->   blocks.0.fc.bias    (32,)
            super().__init__()                                       blocks.1.fc.weight  (48, 12)
            self.fc = nn.Linear(dim, 4 * dim)                        blocks.1.fc.bias    (48,)

The text of the file is read, and its constructors are followed statement by statement: what they assign, register, list
and count. The layers of PyTorch are known from the table of layer kinds (`ops/kinds.py`). Layers whose shapes the table
does not know, like those of a user, are left out. So a file that could not load its weights is never written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnxlift.lifting.code.arithmetic import UnknownExpressionError, value_of
from onnxlift.lifting.modules.module import Entry
from onnxlift.lifting.ops.kinds import REQUIRED, LayerKind, layer_kinds
from onnxlift.lifting.ops.weight_shapes import Shape, spectral_normed, weight_normed

COUNTER = "num_batches_tracked"
"""The buffer of a batch norm that state dicts may lack: PyTorch then begins to count anew."""

MOST_SHOWN = 5


class WeightsDoNotFitError(AssertionError):
    """The error for generated source that could not load its weights. onnxlift has a fault."""


@dataclass(frozen=True)
class BuiltTensor:
    """A parameter or buffer that a constructor makes."""

    shape: Shape
    persistent: bool = True


@dataclass(eq=False)
class BuiltModule:
    """A module that a constructor makes, and its `kind` if it is a layer. If it is not `known`, it may hold
    anything."""

    members: dict[str, BuiltModule | BuiltTensor] = field(default_factory=dict)
    known: bool = True
    kind: str = ""

    def set(self, name: str, value: object) -> None:
        """Do what assigning to an attribute of a module does."""
        self.members.pop(name, None)
        if isinstance(value, BuiltModule | BuiltTensor):
            self.members[name] = value

    def hold(self, key: str, shape: Shape) -> None:
        """Add a tensor under a key of the state dict, with the modules on the way."""
        *path, name = key.split(".")
        owner = self
        for part in path:
            inner = owner.members.setdefault(part, BuiltModule())
            assert isinstance(inner, BuiltModule)
            owner = inner
        owner.members[name] = BuiltTensor(shape)

    def tensors(self, prefix: str = "") -> Iterator[tuple[str, BuiltTensor | None]]:
        """Yield all tensors by their keys; None for a prefix below which nothing is known."""
        if not self.known:
            yield prefix, None
        for name, member in self.members.items():
            if isinstance(member, BuiltTensor):
                yield f"{prefix}{name}", member
            else:
                yield from member.tensors(f"{prefix}{name}.")


@dataclass(frozen=True)
class _ClassName:
    """A class as a value: `activation=nn.ReLU`."""

    name: str


UNKNOWN = object()
"""The value of an expression that says nothing about weights."""


def check_weights(text: str, root_class: str, entries: Mapping[str, Entry]) -> None:
    """Raise WeightsDoNotFitError unless the constructors of the file make exactly the tensors of `entries`."""
    built = dict(_Constructors(text).make(root_class, [], {}).tensors())
    unknown = tuple(key for key, tensor in built.items() if tensor is None)
    wanted = {
        key: BuiltTensor(entry.weight.shape, entry.persistent)
        for key, entry in entries.items()
        if not unknown or not key.startswith(unknown)
    }
    wrong = [
        f"{key} is {_shown(wanted.get(key))}, where the constructor makes {_shown(built.get(key))}"
        for key in dict.fromkeys((*wanted, *built))
        if wanted.get(key) != built.get(key) and not (key not in wanted and key.rpartition(".")[2] == COUNTER)
    ]
    if wrong:
        more = f", and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
        listed = "; ".join(wrong[:MOST_SHOWN])
        raise WeightsDoNotFitError(f"the generated source cannot load its weights: {listed}{more}")


def _shown(tensor: BuiltTensor | None) -> str:
    return "nothing" if tensor is None else f"{tensor.shape}{'' if tensor.persistent else ' (not persistent)'}"


class _Constructors:
    """The classes of a file, and what calling them makes."""

    def __init__(self, text: str) -> None:
        self.classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
        self.kinds = {kind.constructor: kind for kind in layer_kinds()}
        self.functions: dict[str, Callable[..., object]] = {
            "OrderedDict": lambda *args, **kwargs: dict(*args, **kwargs),
            "range": range,
            "torch.empty": _empty,
            "nn.Parameter": lambda tensor: tensor,
            "nn.Module": BuiltModule,
            "nn.Sequential": lambda *items: _filled(BuiltModule(), items),
            "nn.ModuleList": lambda items=(): _filled(BuiltModule(), [*items]),
            "nn.ParameterList": lambda items=(): _filled(BuiltModule(), [*items]),
            "nn.ModuleDict": lambda items=(): _filled(BuiltModule(), [dict(items)]),
            "nn.ParameterDict": lambda items=(): _filled(BuiltModule(), [dict(items)]),
            "nn.utils.weight_norm": _weight_norm("weight_g", "weight_v"),
            "nn.utils.parametrizations.weight_norm": _weight_norm(*(f"{_PARAMETRISED}.original{i}" for i in (0, 1))),
            "nn.utils.spectral_norm": _spectral_norm("weight_orig", "weight_u", "weight_v"),
            "nn.utils.parametrizations.spectral_norm": _spectral_norm(
                *(f"{_PARAMETRISED}.{part}" for part in ("original", "0._u", "0._v"))
            ),
        }

    def make(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BuiltModule:
        """Return what the constructor of a class of the file makes."""
        module, cls = BuiltModule(), self.classes[name]
        base = ast.unparse(cls.bases[0])
        own = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
        if own is None:
            self.initialise(module, base, args, kwargs)
        else:
            _Frame(self, module, base, _bound(own, args, kwargs)).run(own.body)
        return module

    def initialise(self, module: BuiltModule, base: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Do what `super().__init__` does, for a class that derives from `base`."""
        made = self.call(base, args, kwargs)
        assert isinstance(made, BuiltModule)
        module.members |= made.members
        module.known, module.kind = made.known, made.kind

    def call(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Return what a call in a constructor makes."""
        if function in self.functions:
            return self.functions[function](*args, **kwargs)
        if function in self.kinds:
            return _layer(self.kinds[function], args, kwargs)
        if function in self.classes:
            return self.make(function, args, kwargs)
        return BuiltModule(known=False) if function.startswith("nn.") else UNKNOWN


class _Frame:
    """A constructor that is followed: the module that it makes, and its variables."""

    def __init__(self, file: _Constructors, module: BuiltModule, base: str, variables: Mapping[str, Any]) -> None:
        self.file = file
        self.module = module
        self.base = base
        self.variables = {**variables, "self": module}

    def run(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            match statement:
                case ast.Assign():
                    self.assign(statement.targets[0], self.value(statement.value))
                case ast.Expr(value=ast.Call() as call):
                    self.call_alone(call)
                case ast.If():
                    self.run(statement.body if self.value(statement.test) else statement.orelse)
                case ast.For():
                    for item in self.value(statement.iter):
                        self.assign(statement.target, item)
                        self.run(statement.body)

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name():
                self.variables[target.id] = value
            case ast.Attribute():
                owner = self.value(target.value)
                assert isinstance(owner, BuiltModule), ast.unparse(target)
                owner.set(target.attr, value)
            case ast.Tuple():
                for part, item in zip(target.elts, value, strict=True):
                    self.assign(part, item)

    def call_alone(self, call: ast.Call) -> None:
        """Do what a call does that is a statement of its own."""
        args, kwargs = self.arguments(call)
        match call.func:
            case ast.Attribute(attr="__init__"):
                self.file.initialise(self.module, self.base, args, kwargs)
            case ast.Attribute(attr="add_module" | "register_parameter" | "register_buffer", value=owner):
                module, (name, value, *_) = self.value(owner), args
                assert isinstance(module, BuiltModule), ast.unparse(call)
                if isinstance(value, BuiltTensor):
                    value = BuiltTensor(value.shape, kwargs.get("persistent", True))
                module.set(name, value)
            case ast.Attribute(attr="tie_weights"):
                return  # it makes nothing: each name of a shared weight is there already
            case _:
                self.value(call)

    def arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        for arg in call.args:
            args += [*self.value(arg.value)] if isinstance(arg, ast.Starred) else [self.value(arg)]
        return args, {keyword.arg: self.value(keyword.value) for keyword in call.keywords if keyword.arg is not None}

    def value(self, expr: ast.expr) -> Any:
        match expr:
            case ast.Call():
                function = ast.unparse(expr.func)
                known = self.variables.get(function)
                args, kwargs = self.arguments(expr)
                return self.file.call(known.name if isinstance(known, _ClassName) else function, args, kwargs)
            case ast.IfExp():
                return self.value(expr.body if self.value(expr.test) else expr.orelse)
            case ast.List():
                return self.items(expr.elts)
            case ast.Tuple():
                return tuple(self.items(expr.elts))
            case ast.Dict():
                return self.entries(expr)
            case ast.GeneratorExp() | ast.ListComp() | ast.DictComp():
                return self.comprehension(expr)
            case ast.JoinedStr():
                return "".join(
                    str(self.value(v.value if isinstance(v, ast.FormattedValue) else v)) for v in expr.values
                )
            case ast.Attribute():
                return self.attribute(expr)
            case ast.Subscript():
                return self.subscript(expr)
        try:
            return value_of(expr, self.variables)
        except UnknownExpressionError:
            return UNKNOWN

    def items(self, entries: Sequence[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            found += [*self.value(entry.value)] if isinstance(entry, ast.Starred) else [self.value(entry)]
        return found

    def entries(self, expr: ast.Dict) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in zip(expr.keys, expr.values, strict=True):
            found |= self.value(value) if key is None else {self.value(key): self.value(value)}
        return found

    def comprehension(self, expr: ast.GeneratorExp | ast.ListComp | ast.DictComp) -> Any:
        """Return the list or dictionary that a comprehension over one list gives."""
        (loop,) = expr.generators
        outer = dict(self.variables)
        rows: list[Any] = []
        for item in self.value(loop.iter):
            self.assign(loop.target, item)
            if isinstance(expr, ast.DictComp):
                rows.append((self.value(expr.key), self.value(expr.value)))
            else:
                rows.append(self.value(expr.elt))
        self.variables = outer
        return dict(rows) if isinstance(expr, ast.DictComp) else rows

    def attribute(self, expr: ast.Attribute) -> Any:
        """Return a member of a module, or a class of PyTorch."""
        if isinstance(expr.value, ast.Name) and expr.value.id == "nn":
            return _ClassName(ast.unparse(expr))
        owner = self.value(expr.value)
        return owner.members.get(expr.attr, UNKNOWN) if isinstance(owner, BuiltModule) else UNKNOWN

    def subscript(self, expr: ast.Subscript) -> Any:
        """Return a member of a list or dictionary of modules, an entry of a tuple, or a part of one."""
        owner, index = self.value(expr.value), self.index(expr.slice)
        if isinstance(owner, BuiltModule):
            return owner.members.get(str(index), UNKNOWN)
        return UNKNOWN if owner is UNKNOWN or index is UNKNOWN else owner[index]

    def index(self, expr: ast.expr) -> Any:
        if not isinstance(expr, ast.Slice):
            return self.value(expr)
        bounds = [None if part is None else self.value(part) for part in (expr.lower, expr.upper, expr.step)]
        return UNKNOWN if UNKNOWN in bounds else slice(*bounds)


def _bound(function: ast.FunctionDef, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a constructor's parameters, without `self`."""
    parameters = [arg.arg for arg in function.args.args[1:]]
    defaults = function.args.defaults
    values = {
        name: value_of(default, {})
        for name, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)
        if isinstance(default, ast.Constant | ast.UnaryOp | ast.Tuple)
    }
    return dict.fromkeys(parameters, UNKNOWN) | values | dict(zip(parameters, args, strict=False)) | dict(kwargs)


def _layer(kind: LayerKind, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BuiltModule:
    """Return a layer of PyTorch, or one of our own."""
    if kind.shapes is None:
        return BuiltModule(known=False)
    given = dict(zip(kind.signature, args, strict=False)) | dict(kwargs)
    arguments = {name: given.get(name, default) for name, default in kind.signature.items()}
    assert REQUIRED not in arguments.values(), f"{kind.name} lacks an argument"
    module = BuiltModule(kind=kind.name)
    for key, shape in kind.shapes(arguments).items():
        module.hold(key, shape)
    return module


def _empty(*sizes: Any, **_: Any) -> BuiltTensor:
    return BuiltTensor(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes)


def _filled(module: BuiltModule, items: Sequence[Any]) -> BuiltModule:
    """Put members into a container, either by number, or by name from one dictionary."""
    named = items[0] if len(items) == 1 and isinstance(items[0], dict) else {str(i): m for i, m in enumerate(items)}
    for name, member in named.items():
        module.set(name, member)
    return module


_PARAMETRISED = "parametrizations.weight"


def _weight_norm(*names: str) -> Callable[..., BuiltModule]:
    def wrap(layer: BuiltModule, dim: int | None = 0) -> BuiltModule:
        weight = layer.members.pop("weight", None)
        if isinstance(weight, BuiltTensor):
            for name, shape in zip(names, weight_normed(weight.shape, dim), strict=True):
                layer.hold(name, shape)
        return layer

    return wrap


def _spectral_norm(*names: str) -> Callable[..., BuiltModule]:
    def wrap(layer: BuiltModule, dim: int | None = None) -> BuiltModule:
        weight = layer.members.pop("weight", None)
        if isinstance(weight, BuiltTensor):
            usual = 1 if layer.kind.startswith("ConvTranspose") else 0
            for name, shape in zip(names, spectral_normed(weight.shape, usual if dim is None else dim), strict=True):
                layer.hold(name, shape)
        return layer

    return wrap
