"""What the classes are called: as the exporter says, else by what they are, else by where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile

import onnx_ir as ir

from onnxlift.lifting import kernels
from onnxlift.lifting.code.expr import Attribute, Binary, Call, Member, Ref, Ternary, walk
from onnxlift.lifting.code.identifiers import class_name
from onnxlift.lifting.code.reads import values_read
from onnxlift.lifting.code.statements import expressions, walk_statements
from onnxlift.lifting.modules.classes.classes import ModuleClass
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.ops.layers import ACTIVATIONS, Layer

_GENERIC = re.compile(
    r"(?i)^(main_?graph|torch[-_]jit([-_]export)?|graph|model|onnx|g|main|graph_?\d*|tf2onnx|paddle-onnx|)$"
)

# Words that people write in capitals when they name a class, and those that they write out.
_CAPITALS = """ASPP BiFPN BiLSTM CBAM CNN CRF CSP CTC DCN DFL ECA FF FFN FPN GAN GAT GCN GEGLU GLU GNN GPT GRU LM LSTM
    MHA MHSA MLP MoE MSA NMS PPM PSP RGB RNN RoI RPN SE SPP SPPF SSM STN SwiGLU TCN UNet VAE ViT VQ VQVAE"""
_ABBREVIATIONS = {word.lower(): word for word in _CAPITALS.split()}
_LONG_FORMS = {
    "attn": "attention",
    "dec": "decoder",
    "emb": "embedding",
    "embed": "embedding",
    "enc": "encoder",
    "pos": "position",
    "proj": "projection",
}
_COUNTER = re.compile(r"_?\d+[a-z]?(_\d+[a-z]?)*$")  # of `layer1`, `inception3a`, `conv_1_2`
_ANY = frozenset("main model module modules net network".split())  # lists of all that a model is made of
_ACTIVATIONS = {kind.lower(): kind for kind in ACTIVATIONS}
MANY_PLACES = 3  # where a block is under names of their own, so that none of these says what it is
_SIDES = frozenset({"encoder", "decoder"})
_GATES = {"gelu": "GEGLU", "silu": "SwiGLU", "relu": "ReGLU"}
_REARRANGING = frozenset(
    "F flatten unflatten reshape view transpose permute mT unsqueeze squeeze movedim shape size".split()
)


def name_classes(classes: Sequence[ModuleClass], root: Module, model: ir.Model, file_name: str) -> None:
    """Give every class a name of its own."""
    taken = set(kernels.layers())
    wanted = {id(cls): _wanted(cls, root, model, file_name) for cls in classes}
    alike: dict[str, list[ModuleClass]] = {}
    for cls in classes:
        if cls.example is not root and cls.example.class_hint is None:
            alike.setdefault(wanted[id(cls)], []).append(cls)
    for name, group in alike.items():
        wanted.update(_told_apart(name, group))
    of_root = next(wanted[id(cls)] for cls in classes if cls.example is root)
    for cls in sorted(classes, key=lambda cls: cls.example is not root):  # the root gets the name that it wants
        name = wanted[id(cls)]
        if cls.example is not root and cls.example.class_hint is None and name == of_root:
            name = f"{name}Model" if name != "Model" else "BaseModel"  # `deit` in a Deit
        cls.name = _numbered(name, taken)
        taken.add(cls.name)


def _told_apart(name: str, group: Sequence[ModuleClass]) -> dict[int, str]:
    """Better names for classes that all want this one: by whose they are, else by what is in them, else by the side of
    the model on which they stand."""
    if len(group) == 1:
        return {id(group[0]): name}
    owners = {id(cls): owner for cls in group if (owner := _owner(cls)) is not None}
    if len({*owners.values()}) == len(owners) >= len(group) - 1:
        return {key: _owned(name, owner) for key, owner in owners.items()}
    for qualifier in (_only_part, _side):
        names: dict[str, list[ModuleClass]] = {}
        for cls in group:
            word = qualifier(cls)
            names.setdefault(_owned(name, word) if word else name, []).append(cls)
        if len(names) > 1:
            return {key: value for part, few in names.items() for key, value in _told_apart(part, few).items()}
    return {}


def _only_part(cls: ModuleClass) -> str | None:
    """`layer.0` with an `attention` and a norm -> attention: the only one of its parts that is no norm."""
    parts = {path for path, m in cls.example.members.items() if not (isinstance(m, Layer) and "Norm" in m.kind)}
    path = parts.pop() if len(parts) == 1 and _word(cls.example) in ("layer", "layers", "block", "blocks") else ()
    return _written_out(path[0]) if len(path) == 1 and re.fullmatch(r"[A-Za-z_]{2,20}", path[0]) else None


def _side(cls: ModuleClass) -> str | None:
    """`decoder.block.3.layer.0` -> decoder, if all are there."""
    sides = {next((part for part in module.path if part in _SIDES), None) for module in cls.instances}
    return sides.pop() if len(sides) == 1 else None


def _wanted(cls: ModuleClass, root: Module, model: ir.Model, file_name: str) -> str:
    wanted = cls.example.class_hint
    if wanted is None or wanted == "Sequential":
        wanted = _root_name(model, file_name) if cls.example is root else _role(cls, root) or _place(cls)
    return class_name(wanted, "Block")


def _owned(name: str, owner: str) -> str:
    """`Output` of `attention` -> AttentionOutput; the attention in an attention is what attends, `SelfAttention`."""
    if class_name(_written_out(owner)) == name:
        return f"Self{name}" if name == "Attention" else name
    return class_name(f"{owner}_{name}")


def _owner(cls: ModuleClass) -> str | None:
    """`encoder.layers.3` -> encoder: whose layer it is, if that has a name, and it is the same for all."""
    owners: set[str | None] = set()
    for module in cls.instances:
        above = [*dropwhile(str.isdigit, reversed(module.path))][1:]
        owners.add(above[0] if above and re.fullmatch(r"[A-Za-z_]{2,20}", above[0]) else None)
    return owners.pop() if len(owners) == 1 else None


def _numbered(name: str, taken: set[str]) -> str:
    """`name`, or `name2`, `name3`, ... where that is taken."""
    number, candidate = 2, name
    while candidate in taken:
        candidate, number = f"{name}{number}", number + 1
    return candidate


def _root_name(model: ir.Model, file_name: str) -> str:
    graph = model.graph.name or ""
    return file_name if _GENERIC.match(graph) or "/" in graph else graph


def _place(cls: ModuleClass) -> str:
    """`encoder.layers.3` -> encoder_layer; `dense1` and `dense2` -> dense; `time_mix` and `channel_mix` -> mix;
    `attention.self` -> self_attention."""
    words, owner = [_word(module) for module in (cls.example, *cls.instances)], _owner(cls)
    is_numbered = cls.example.path[-1].isdigit()
    if is_numbered or len({module.path[-1] for module in cls.instances}) > 1:
        words = [_COUNTER.sub("", word) or word for word in words]
    word = _in_common(words)
    if is_numbered and word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        word = word[:-1]
    if len(word) < 2:
        word = "block"
    if word == "self" and owner is not None:
        word = f"self_{owner}"
    elif word in ("layer", "block") and owner in _SIDES:
        word = f"{owner}_{word}"
    return _written_out(word)


def _in_common(words: Sequence[str]) -> str:
    """What names end with, or begin with, if they are not the same; the first one if they have nothing in common."""
    parts = [word.split("_") for word in dict.fromkeys(words)]
    last = [p[0] for p in takewhile(lambda part: len({*part}) == 1, zip(*map(reversed, parts), strict=False))]
    first = [p[0] for p in takewhile(lambda part: len({*part}) == 1, zip(*parts, strict=False))]
    return "_".join(reversed(last)) or "_".join(first) or words[0]


def _written_out(word: str) -> str:
    return "_".join(_ABBREVIATIONS.get(part) or _LONG_FORMS.get(part, part) for part in word.split("_"))


def _word(module: Module) -> str:
    """The last name in a module's path that is no number."""
    return next((part for part in reversed(module.path) if not part.isdigit()), "block")


def _role(cls: ModuleClass, root: Module) -> str | None:
    """What a numbered block is, judged by its code; and an attention that is there under several names. A block with a
    name of its own keeps that."""
    module = cls.example
    if module.is_step and not module.members:
        return _step(module)
    if module.sequential and module.has_numbers:
        layers = {m.kind.rstrip("123d") for m in module.members.values() if isinstance(m, Layer)}
        return "ConvBlock" if "Conv" in layers else "MLP" if "Linear" in layers else None
    if _is_projection(module):
        return "Projection"
    words = {_word(instance).rstrip("0123456789") for instance in cls.instances}
    if len(words) >= MANY_PLACES and _is_convolution(module):
        return "ConvBlock"
    if len({_word(instance) for instance in cls.instances}) > 1 and "scaled_dot_product_attention" in _called(module):
        return "Attention"
    if not re.fullmatch(r".*\d[a-z]?", module.path[-1]):
        return None
    kinds = [m.kind for m in module.members.values() if isinstance(m, Layer)]
    convolutions = _convolutions(module)
    if convolutions and _is_residual(module):
        if [m.arguments["kernel_size"] in (1, (1, 1)) for m in convolutions] == [True, False, True]:
            return "Bottleneck"
        strides = {m.arguments.get("stride", 1) for m in convolutions}
        return "DownsampleBlock" if strides - {1, (1, 1)} and not cls.parts else "ResidualBlock"
    if "scaled_dot_product_attention" in _called(module):
        return "TransformerBlock" if any(kind.endswith("Norm") for kind in kinds) else "Attention"
    return _anything(module, root) if words & _ANY and module.path[-1].isdigit() else None


def _anything(module: Module, root: Module) -> str:
    """What one of all sorts of modules is, that have nothing but a number: what makes results of several values, a
    convolution and what follows it, halves of which one goes through blocks (cross-stage partial), pools of pools."""
    called = _called(module)
    if len(module.inputs) > 1 and {*module.outputs} & {*root.outputs}:
        return "Head"
    if _is_convolution(module):
        names = [_ACTIVATIONS[name] for each in sorted(called) if (name := each.replace("_", "")) in _ACTIVATIONS]
        norms = {m.kind for m in module.members.values() if isinstance(m, Layer) and "Norm" in m.kind}
        norm = "BN" if any(kind.startswith("Batch") for kind in norms) else "Norm" if norms else ""
        return f"Conv{norm}{names[0]}" if len(names) == 1 else "ConvBlock"
    if "cat" in called and called & {"chunk", "split"} and any(len(path) > 1 for path in module.members):
        return "CSPBlock"
    if "cat" in called and any(isinstance(m, Layer) and "Pool" in m.kind for m in module.members.values()):
        return "PyramidPooling"
    return "Block"


def _step(module: Module) -> str:
    """What a layer without weights is: a gate of one half by the other, another order of axes, an activation."""
    called = _called(module)
    if "chunk" in called:
        return next((name for function, name in _GATES.items() if function in called), "Gate")
    return "Rearrange" if called <= _REARRANGING else "Activation"


def _is_projection(module: Module) -> bool:
    """Whether this is a product with a matrix that the module holds itself."""
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
    """Whether this is one convolution, with a norm perhaps, and no name says what for."""
    kinds = [m.kind if isinstance(m, Layer) else "" for m in module.members.values()]
    others = [kind for kind in kinds if not kind.startswith("Conv")]
    return len(kinds) - len(others) == 1 and all("Norm" in kind for kind in others)


def _convolutions(module: Module) -> list[Layer]:
    """Those of a block; or those in its parts, if these have no other matrices."""
    own = [m for m in module.members.values() if isinstance(m, Layer)]
    below = [m for part in module.walk() for m in part.members.values() if isinstance(m, Layer)]
    convolutions = [m for m in own if m.kind.startswith("Conv")]
    if not convolutions and all(m.kind != "Linear" for m in below):
        convolutions = [m for m in below if m.kind.startswith("Conv")]
    return convolutions


def _is_residual(module: Module) -> bool:
    """Whether the input, or a member's value of it, is added to something."""
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
    return set(values_read(expr))


def _called(module: Module) -> set[str]:
    def functions() -> Iterator[str]:
        for statement in walk_statements(module.body):
            for expr in expressions(statement):
                for part in walk(expr):
                    if isinstance(part, Attribute):
                        yield part._name

    return set(functions())
