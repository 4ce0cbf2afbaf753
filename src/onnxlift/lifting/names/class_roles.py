"""Tell from its code what a class is: a residual block, an attention, a projection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from onnxlift.lifting.code.expr import Attribute, Binary, Call, Expr, Member, Ref, Ternary, bare, walk
from onnxlift.lifting.code.statements import expressions, walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.kinds import LayerKind, activation_word
from onnxlift.lifting.ops.layers import Layer

_ANY = frozenset("main model module modules net network".split())  # lists of all that a model is made of
_ATTENTION = "scaled_dot_product_attention"
MANY_PLACES = 3  # under so many different names, no single one of them says what a block is
_GATES = {"gelu": "GEGLU", "silu": "SwiGLU", "relu": "ReGLU"}
_REARRANGING = frozenset(
    "F flatten unflatten reshape view transpose permute mT unsqueeze squeeze movedim shape size".split()
)


def role_of(cls: ModuleClass, root: Module) -> str | None:
    """Return what a class is, judged by its code: a numbered block, or one that stands under several names. A block
    with a name of its own keeps that name and has no role."""
    for rule in _ROLES:
        role = rule(cls, root)
        if role is not None:
            return role or None
    return None


_NO_ROLE = ""  # the answer of a rule that applies, and knows that the code does not say what the class is


def _step_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a layer without weights by what it does."""
    return _step(cls.example) if cls.example.is_step and not cls.example.members else None


def _chain_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a chain of numbered layers by its layers with weights: a `ConvBlock` or an `MLP`."""
    if not (cls.example.sequential and cls.example.has_numbers):
        return None
    families = {m.kind.family for m in cls.example.members.values() if isinstance(m, Layer)}
    return "ConvBlock" if "convolution" in families else "MLP" if "linear" in families else _NO_ROLE


def _projection_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a product with a matrix a projection."""
    return "Projection" if _is_projection(cls.example) else None


def _convolution_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a convolution that stands under many names a `ConvBlock`."""
    words = {last_word(instance).rstrip("0123456789") for instance in cls.instances}
    return "ConvBlock" if len(words) >= MANY_PLACES and _is_convolution(cls.example) else None


def _attention_role(cls: ModuleClass, root: Module) -> str | None:
    """Name an attention that stands under several names an `Attention`."""
    is_one = len({last_word(instance) for instance in cls.instances}) == 1
    return None if is_one or _ATTENTION not in functions_called(cls.example) else "Attention"


def _own_name_role(cls: ModuleClass, root: Module) -> str | None:
    """Leave a block its own name, if that does not end in a number."""
    return None if re.fullmatch(r".*\d[a-z]?", cls.example.path[-1]) else _NO_ROLE


def _residual_role(cls: ModuleClass, root: Module) -> str | None:
    """Name residual blocks of convolutions as ResNets do: `Bottleneck`, `DownsampleBlock`, `ResidualBlock`."""
    convolutions = _convolutions(cls.example)
    if not convolutions or not is_residual(cls.example):
        return None
    if [m.arguments["kernel_size"] in (1, (1, 1)) for m in convolutions] == [True, False, True]:
        return "Bottleneck"
    strides = {m.arguments.get("stride", 1) for m in convolutions}
    return "DownsampleBlock" if strides - {1, (1, 1)} and not cls.parts else "ResidualBlock"


def _transformer_role(cls: ModuleClass, root: Module) -> str | None:
    """Name an attention a `TransformerBlock` if a norm is beside it, and an `Attention` otherwise."""
    if _ATTENTION not in functions_called(cls.example):
        return None
    has_norm = any(isinstance(m, Layer) and m.kind.family == "norm" for m in cls.example.members.values())
    return "TransformerBlock" if has_norm else "Attention"


def _anything_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a numbered module of a list that holds all that a model is made of, such as `model.3`."""
    words = {last_word(instance).rstrip("0123456789") for instance in cls.instances}
    return _anything(cls.example, root) if words & _ANY and cls.example.path[-1].isdigit() else None


_ROLES: tuple[Callable[[ModuleClass, Module], str | None], ...] = (
    _step_role,
    _chain_role,
    _projection_role,
    _convolution_role,
    _attention_role,
    _own_name_role,  # the rules below are only for blocks that are told apart by numbers
    _residual_role,
    _transformer_role,
    _anything_role,
)


def _anything(module: Module, root: Module) -> str:
    """Return what a numbered module is, in a list of all sorts of modules.

    It may be a head (it makes results of the model from several values), a convolution with the norm and activation
    behind it, a cross-stage partial block (`CSPBlock`: one part of the input goes through blocks, and is joined to the
    rest), or a pyramid of pools. Otherwise it is a `Block`.
    """
    called = functions_called(module)
    if len(module.inputs) > 1 and {*module.outputs} & {*root.outputs}:
        return "Head"
    if _is_convolution(module):
        layers = [m.kind for m in module.members.values() if isinstance(m, Layer)]
        words = [kind.class_word for kind in layers if kind.family == "convolution"]
        words += sorted({kind.class_word for kind in layers if kind.family == "norm"})[:1]
        activations = [word for function in sorted(called) if (word := activation_word(function))]
        return "".join([*words, *activations]) if len(activations) == 1 else "ConvBlock"
    if "cat" in called and called & {"chunk", "split"} and any(len(path) > 1 for path in module.members):
        return "CSPBlock"
    if "cat" in called and any(isinstance(m, Layer) and m.kind.family == "pool" for m in module.members.values()):
        return "PyramidPooling"
    return "Block"


def _step(module: Module) -> str:
    """Return what a layer without weights is: a gate of one half by the other, a change of axes, or an activation."""
    called = functions_called(module)
    if "chunk" in called:
        return next((name for function, name in _GATES.items() if function in called), "Gate")
    return "Rearrange" if called <= _REARRANGING else "Activation"


def _is_projection(module: Module) -> bool:
    """Tell whether this is a product with a matrix that the module holds itself."""
    held = {path for path, member in module.members.items() if isinstance(member, Stored)}
    return (
        {("weight",)} <= held <= {("weight",), ("bias",)}
        and len(held) == len(module.members)
        and any(
            isinstance(expr, Binary) and expr._op == "@"
            for statement in walk_statements(module.body)
            for expr in expressions(statement)
        )
    )


def _is_convolution(module: Module) -> bool:
    """Tell whether a module holds one convolution, and norms at most besides."""
    kinds = [m.kind if isinstance(m, Layer) else None for m in module.members.values()]
    others = [kind for kind in kinds if not _convolves(kind)]
    return len(kinds) - len(others) == 1 and all(kind is not None and kind.family == "norm" for kind in others)


def _convolves(kind: LayerKind | None) -> bool:
    """Tell whether a layer is a convolution that blocks are named after. A quantised one is not."""
    return kind is not None and kind.family == "convolution" and bool(kind.class_word)


def _convolutions(module: Module) -> list[Layer]:
    """Return the convolutions of a block. If it has none itself, return those in its parts, unless these hold a linear
    layer."""
    own = [m for m in module.members.values() if isinstance(m, Layer)]
    below = [m for part in module.walk() for m in part.members.values() if isinstance(m, Layer)]
    convolutions = [m for m in own if _convolves(m.kind)]
    if not convolutions and all(m.kind.family != "linear" for m in below):
        convolutions = [m for m in below if _convolves(m.kind)]
    return convolutions


def is_residual(module: Module) -> bool:
    """Tell whether the input, or what a member makes of the input alone, is added to something else that is computed
    from it. The sum of two inputs is none."""
    near = set(module.inputs)
    behind: dict[object, set[object]] = {value: {value} for value in module.inputs}  # the inputs behind each value
    for statement in walk_statements(module.body):
        sources: set[object] = set()
        for whole in expressions(statement):
            expr = whole._then if isinstance(whole, Ternary) else whole  # only some instances of the class compute it
            sources |= {source for key in _reads(whole) - _measured(whole) for source in behind.get(key, ())}
            match expr:
                case Call() if isinstance(expr._function, Member) and _reads(expr) <= module.inputs.keys():
                    near.update(t._key for t in getattr(statement, "targets", []) if isinstance(t, Ref))
                case Binary() if expr._op == "+":
                    summands = _reads(expr) - module.constants.keys()
                    inputs = [behind.get(key, set()) for key in summands]
                    is_new = not summands <= module.inputs.keys()
                    if len(inputs) == 2 and summands & near and is_new and inputs[0] & inputs[1]:
                        return True
        for target in getattr(statement, "targets", []):
            if isinstance(target, Ref):
                behind[target._key] = sources
    return False


def _reads(expr: Expr) -> set[object]:
    return {part._key for part in walk(expr) if isinstance(part, Ref)}


def _measured(expr: Expr) -> set[object]:
    """Return what an expression reads the sizes of."""
    sizes = (bare(part._base) for part in walk(expr) if isinstance(part, Attribute) and part._name == "shape")
    return {value._key for value in sizes if isinstance(value, Ref)}


def functions_called(module: Module) -> set[str]:
    def functions() -> Iterator[str]:
        for statement in walk_statements(module.body):
            for expr in expressions(statement):
                for part in walk(expr):
                    if isinstance(part, Attribute):
                        yield part._name

    return set(functions())


def last_word(module: Module) -> str:
    """Return the last name in a module's path that is no number."""
    return next((part for part in reversed(module.path) if not part.isdigit()), "block")
