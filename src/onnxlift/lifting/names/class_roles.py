"""The rules for what a class is, judged by its code: a residual block, an attention, a projection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from onnxlift.lifting.code.expr import Attribute, Binary, Call, Member, Ref, Ternary, walk
from onnxlift.lifting.code.statements import expressions, walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.kinds import LayerKind, activation_word
from onnxlift.lifting.ops.layers import Layer

_ANY = frozenset("main model module modules net network".split())  # lists of all that a model is made of
_ATTENTION = "scaled_dot_product_attention"
MANY_PLACES = 3  # where a block is under names of their own, so that none of these says what it is
_GATES = {"gelu": "GEGLU", "silu": "SwiGLU", "relu": "ReGLU"}
_REARRANGING = frozenset(
    "F flatten unflatten reshape view transpose permute mT unsqueeze squeeze movedim shape size".split()
)


def role_of(cls: ModuleClass, root: Module) -> str | None:
    """Return what a numbered block is, judged by its code; and an attention that is there under several names. A block
    with a name of its own keeps that."""
    for rule in _ROLES:
        role = rule(cls, root)
        if role is not None:
            return role or None
    return None


_NO_ROLE = ""  # what a rule gives that applies, and knows that the code does not say what the class is


def _step_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a layer without weights by what it does."""
    return _step(cls.example) if cls.example.is_step and not cls.example.members else None


def _chain_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a chain of numbered layers by those that have weights."""
    if not (cls.example.sequential and cls.example.has_numbers):
        return None
    families = {m.kind.family for m in cls.example.members.values() if isinstance(m, Layer)}
    return "ConvBlock" if "convolution" in families else "MLP" if "linear" in families else _NO_ROLE


def _projection_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a product with a matrix a projection."""
    return "Projection" if _is_projection(cls.example) else None


def _convolution_role(cls: ModuleClass, root: Module) -> str | None:
    """Name a convolution that stands under many names."""
    words = {last_word(instance).rstrip("0123456789") for instance in cls.instances}
    return "ConvBlock" if len(words) >= MANY_PLACES and _is_convolution(cls.example) else None


def _attention_role(cls: ModuleClass, root: Module) -> str | None:
    """Name an attention that stands under several names."""
    is_one = len({last_word(instance) for instance in cls.instances}) == 1
    return None if is_one or _ATTENTION not in _called(cls.example) else "Attention"


def _own_name_role(cls: ModuleClass, root: Module) -> str | None:
    """Leave a block that does not end in a number its own name."""
    return None if re.fullmatch(r".*\d[a-z]?", cls.example.path[-1]) else _NO_ROLE


def _residual_role(cls: ModuleClass, root: Module) -> str | None:
    """Name convolutions that something is added to as ResNets do."""
    convolutions = _convolutions(cls.example)
    if not convolutions or not _is_residual(cls.example):
        return None
    if [m.arguments["kernel_size"] in (1, (1, 1)) for m in convolutions] == [True, False, True]:
        return "Bottleneck"
    strides = {m.arguments.get("stride", 1) for m in convolutions}
    return "DownsampleBlock" if strides - {1, (1, 1)} and not cls.parts else "ResidualBlock"


def _transformer_role(cls: ModuleClass, root: Module) -> str | None:
    """Name an attention, with a norm or without."""
    if _ATTENTION not in _called(cls.example):
        return None
    has_norm = any(isinstance(m, Layer) and m.kind.family == "norm" for m in cls.example.members.values())
    return "TransformerBlock" if has_norm else "Attention"


def _anything_role(cls: ModuleClass, root: Module) -> str | None:
    """Name one of the modules of a list that holds all that a model is made of."""
    words = {last_word(instance).rstrip("0123456789") for instance in cls.instances}
    return _anything(cls.example, root) if words & _ANY and cls.example.path[-1].isdigit() else None


_ROLES: tuple[Callable[[ModuleClass, Module], str | None], ...] = (
    _step_role,
    _chain_role,
    _projection_role,
    _convolution_role,
    _attention_role,
    _own_name_role,  # what follows is only for blocks that are told apart by numbers
    _residual_role,
    _transformer_role,
    _anything_role,
)


def _anything(module: Module, root: Module) -> str:
    """Return what a module is that stands under a number in a list of all sorts of modules: a head that makes results
    of several values, a convolution and what follows it, halves of which one goes through blocks (cross-stage partial),
    or pools of pools."""
    called = _called(module)
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
    """Return what a layer without weights is: a gate of one half by the other, another order of axes, an activation."""
    called = _called(module)
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
    """Tell whether this is one convolution, with a norm perhaps, and no name says what for."""
    kinds = [m.kind if isinstance(m, Layer) else None for m in module.members.values()]
    others = [kind for kind in kinds if not _convolves(kind)]
    return len(kinds) - len(others) == 1 and all(kind is not None and kind.family == "norm" for kind in others)


def _convolves(kind: LayerKind | None) -> bool:
    """Tell whether a layer is a convolution that gives its name to blocks: a quantised one does not."""
    return kind is not None and kind.family == "convolution" and bool(kind.class_word)


def _convolutions(module: Module) -> list[Layer]:
    """Return the convolutions of a block; or those in its parts, if these have no other matrices."""
    own = [m for m in module.members.values() if isinstance(m, Layer)]
    below = [m for part in module.walk() for m in part.members.values() if isinstance(m, Layer)]
    convolutions = [m for m in own if _convolves(m.kind)]
    if not convolutions and all(m.kind.family != "linear" for m in below):
        convolutions = [m for m in below if _convolves(m.kind)]
    return convolutions


def _is_residual(module: Module) -> bool:
    """Tell whether the input, or a member's value of it, is added to something."""
    near = set(module.inputs)
    for statement in walk_statements(module.body):
        for whole in expressions(statement):
            expr = whole._then if isinstance(whole, Ternary) else whole  # a sum that not all of the class compute
            match expr:
                case Call() if isinstance(expr._function, Member) and _reads(expr) <= module.inputs.keys():
                    near.update(t._key for t in getattr(statement, "targets", []) if isinstance(t, Ref))
                case Binary() if expr._op == "+" and _reads(expr) & near:
                    if len(_reads(expr) - module.constants.keys()) == 2:
                        return True
    return False


def _reads(expr: Call | Binary) -> set[object]:
    return {part._key for part in walk(expr) if isinstance(part, Ref)}


def _called(module: Module) -> set[str]:
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
