"""`nn.Sequential`: a module whose members are numbered and whose forward is a plain chain.

    x = self.0(x); x = F.relu(x); return self.2(x)   ->   nn.Sequential(nn.Linear(...), nn.ReLU(), nn.Linear(...))

Applies when every statement calls one member, or one function that `torch.nn` has as a layer, on the result of the one
before, and nothing else is read. Numbers that are missing were layers without effect in inference (dropout): they
become `nn.Identity()`, so that the state dict keeps its keys.
"""

from __future__ import annotations

import onnx_ir as ir

from ..code.expr import Attribute, Call, Expr, Literal, Member, Name, Ref, bare, variable
from ..code.statements import Assign, Return
from ..ops.layers import Layer
from ..tree.names import attribute
from ..tree.scopes import Scopes
from .module import Module, Stored

# Function -> the layer that does the same, and the arguments that both have, in the order of the function.
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "relu": ("ReLU",),
    "relu6": ("ReLU6",),
    "gelu": ("GELU", "approximate"),
    "silu": ("SiLU",),
    "hardswish": ("Hardswish",),
    "hardsigmoid": ("Hardsigmoid",),
    "mish": ("Mish",),
    "softplus": ("Softplus",),
    "softsign": ("Softsign",),
    "sigmoid": ("Sigmoid",),
    "logsigmoid": ("LogSigmoid",),
    "tanh": ("Tanh",),
    "elu": ("ELU", "alpha"),
    "selu": ("SELU",),
    "celu": ("CELU", "alpha"),
    "leaky_relu": ("LeakyReLU", "negative_slope"),
    "glu": ("GLU", "dim"),
    "softmax": ("Softmax", "dim"),
    "log_softmax": ("LogSoftmax", "dim"),
    "flatten": ("Flatten", "start_dim"),
    "pixel_shuffle": ("PixelShuffle", "upscale_factor"),
    "pixel_unshuffle": ("PixelUnshuffle", "downscale_factor"),
    "interpolate": ("Upsample", "size", "scale_factor", "mode", "align_corners"),
}
MAX_GAP = 4


def make_sequential(module: Module, scopes: Scopes) -> bool:
    """Turn `module` into an `nn.Sequential` if it is one; its members then are all its layers, numbered."""
    if not module.members or not all(len(path) == 1 and path[0].isdigit() for path in module.members):
        return False
    if len(module.inputs) != 1 or len(module.outputs) != 1:
        return False
    (current,) = module.inputs
    chain: list[tuple[int | None, Layer | Module]] = []
    *steps, last = module.body.statements
    assert isinstance(last, Return)
    if not steps or variable(last.expr) is not module.outputs[0]:
        return False
    for step in steps:
        if not isinstance(step, Assign) or len(step.targets) != 1 or not isinstance(step.targets[0], Ref):
            return False
        found = _as_layer(step.expr, current)
        if found is None:
            return False
        number = int(module.name_of(found)[0]) if id(found) in module._names else _number(step, module, scopes)
        chain.append((number, found))
        current = step.targets[0]._key
    if current is not module.outputs[0]:
        return False
    numbered = _fill(chain)
    if numbered is None:
        return False
    module.members = {}
    for number, member in sorted(numbered.items()):
        module.add((str(number),), member)
    module.sequential = True
    return True


def _number(step: Assign, module: Module, scopes: Scopes) -> int | None:
    for name in step.origin:
        inner = scopes.by_name.get(name, ())[len(module.path) :]
        if inner and attribute(inner[0]).isdigit():
            return int(attribute(inner[0]))
    return None


def _fill(chain: list[tuple[int | None, Layer | Module]]) -> dict[int, Layer | Module] | None:
    """Number the members as they stand in the chain, with identities in the gaps; None if the numbers don't rise."""
    numbered: dict[int, Layer | Module] = {}
    for number, member in chain:
        free = len(numbered)
        if number is None:
            number = free
        if not free <= number <= free + MAX_GAP:
            return None
        for gap in range(free, number):
            numbered[gap] = Layer("Identity", {})
        numbered[number] = member
    return numbered


def _as_layer(expr: Expr, current: ir.Value) -> Layer | Module | None:
    """The layer that `expr` applies to the value `current`, if it does just that."""
    if not isinstance(expr, Call):
        return None
    function, args = bare(expr._function), [*expr._args]
    if isinstance(function, Member):
        target = function._target
        fits = len(args) == 1 and not expr._kwargs and variable(args[0]) is current and not isinstance(target, Stored)
        return target if fits else None
    if not isinstance(function, Attribute) or function._name not in _FUNCTIONS:
        return None
    base = bare(function._base)
    if isinstance(base, Name) and base._name == "F":
        subject, rest = (variable(args[0]) if args else None), args[1:]
    else:
        subject, rest = variable(base), args
    kind, *names = _FUNCTIONS[function._name]
    values = dict(zip(names, rest, strict=False)) | expr._kwargs
    literal = {k: v._value for k, v in values.items() if isinstance(v, Literal) and k in names}
    if subject is not current or len(rest) > len(names) or len(literal) != len(values):
        return None
    if kind == "Flatten":
        literal.setdefault("start_dim", 0)  # of `x.flatten()`; the layer spares the first axis if it isn't told
    return Layer(kind, literal)
