"""Name the classes: as the exporter calls them, or else by what they are, or else by where they stand.

`CLASSES` has these rules in order. The rules that tell from its code what a class is are in class_roles.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile

import onnx_ir as ir

from onnxlift.lifting import kernels
from onnxlift.lifting.code.identifiers import class_name
from onnxlift.lifting.code.naming import NUMBERED, Candidate, Rules
from onnxlift.lifting.modules.classes.argument_names import numbered
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

from .class_features import told_by_features
from .class_roles import last_word, role_of

_GENERIC = re.compile(
    r"(?i)^(main_?graph|torch[-_]jit([-_]export)?|graph|model|onnx|g|main|graph_?\d*|tf2onnx|paddle-onnx|)$"
)

# Words that people write in capitals in the name of a class, and abbreviations that they write out there.
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
_DIGIT = re.compile(r"(?<=[A-Za-z]{2})_?\d$")  # of `conv1`, and not of `p3` or `resnet18`
_SIDES = frozenset({"encoder", "decoder"})


@dataclass(frozen=True)
class _New:
    """A class that is to get a name, in a model whose file is called `file_name`."""

    cls: ModuleClass
    root: Module
    model: ir.Model
    file_name: str
    is_guessed: bool = False  # True if its hint is our own word for what repeats, and not the exporter's

    @property
    def is_root(self) -> bool:
        return self.cls.example is self.root


def _exporters_word(new: _New) -> Iterator[Candidate]:
    """Call a class as the exporter does, unless the exporter only says that it was an `nn.Sequential`."""
    hint = new.cls.example.class_hint
    if hint is not None and hint != "Sequential" and not new.is_guessed:
        yield Candidate(class_name(hint, "Block"), "the exporter's class hierarchy says `{}`", (hint,))


def _what_repeats(new: _New) -> Iterator[Candidate]:
    """Call a class by what its nodes are, which were found because they repeat."""
    hint = new.cls.example.class_hint
    if hint is not None and new.is_guessed:
        yield Candidate(class_name(hint, "Block"), "what its nodes are, which repeat in the graph")


def _model_name(new: _New) -> Iterator[Candidate]:
    """Call the model's class like its graph. If the name of the graph says nothing, call it like the file."""
    if new.is_root:
        graph = new.model.graph.name or ""
        is_silent = _GENERIC.match(graph) or "/" in graph
        name, reason = (new.file_name, "the file is called `{}`") if is_silent else (graph, "the graph is called `{}`")
        yield Candidate(class_name(name, "Block"), reason, (name,))


def _what_it_is(new: _New) -> Iterator[Candidate]:
    """Call a block by what its code is, if it has only a number for a name, or stands under many names."""
    role = None if new.is_root else role_of(new.cls, new.root)
    if role is not None:
        yield Candidate(class_name(role, "Block"), "what its code is")


def _where_it_stands(new: _New) -> Iterator[Candidate]:
    """Call a class by the attribute under which its instances stand."""
    if not new.is_root:
        place = _place(new.cls)
        yield Candidate(class_name(place, "Block"), "it stands at `{}`", (".".join(new.cls.example.path),))


CLASSES = Rules(
    (
        _exporters_word,  # the author's own word
        _what_repeats,
        _model_name,
        _what_it_is,  # only for classes whose place says nothing, or that have several places
        _where_it_stands,
    ),
    numbered,
)


def name_classes(
    classes: Sequence[ModuleClass], root: Module, model: ir.Model, file_name: str, guessed: Collection[Path]
) -> None:
    """Give every class a name of its own, and note why. The hints of modules at the paths that are `guessed` are our
    own, and not the exporter's."""
    taken = set(kernels.layers())
    ours = {cls for cls in classes if all(module.path in guessed for module in cls.instances)}
    chosen = {cls: CLASSES.decide(_New(cls, root, model, file_name, cls in ours), set())[1] for cls in classes}
    wanted = {cls: (one.won.name, "") for cls, one in chosen.items()}
    alike: dict[str, list[ModuleClass]] = {}
    for cls in classes:
        if cls.example is not root and cls.example.class_hint is None:
            alike.setdefault(wanted[cls][0], []).append(cls)
    for name, group in alike.items():
        wanted.update(_told_apart(name, group))
    exporters = {cls for cls in classes if cls.example.class_hint is not None and cls not in ours}
    _tell_by_features(wanted, root, exporters | {cls for cls in classes if cls.example is root})
    of_root = next(wanted[cls][0] for cls in classes if cls.example is root)
    for cls in sorted(classes, key=lambda cls: cls.example is not root):  # the root gets the name that it wants
        name, change = wanted[cls]
        if cls.example is not root and cls.example.class_hint is None and name == of_root:
            name = f"{name}Model" if name != "Model" else "BaseModel"  # `deit` in a Deit
            change = "told from the class of the whole model"
        cls.name = numbered(name, taken)
        cls.named = replace(chosen[cls], change=change if cls.name == name else NUMBERED)
        taken.add(cls.name)


_Wanted = tuple[str, str]
"""A name, and the way in which it was told from others."""


def _tell_by_features(wanted: dict[ModuleClass, _Wanted], root: Module, fixed: Collection[ModuleClass]) -> None:
    """Tell the classes apart that still want one name. Those that are `fixed` keep their names."""
    alike: dict[str, list[ModuleClass]] = {}
    for cls, (name, _) in wanted.items():
        if cls not in fixed:
            alike.setdefault(name, []).append(cls)
    groups = {name: group for name, group in alike.items() if len(group) > 1}
    if groups:
        order = {module: index for index, module in enumerate(root.walk())}
        taken = {name for name, _ in wanted.values()}
        for name, group in groups.items():
            told = told_by_features(name, group, order, taken)
            taken.update(better for better, _ in told.values())
            wanted.update(told)


def _told_apart(name: str, group: Sequence[ModuleClass]) -> dict[ModuleClass, _Wanted]:
    """Return better names for classes that all want this one.

    They are told apart by their owners, or else by their parts, or else by the side of the model (encoder or decoder)
    on which they stand.
    """
    if len(group) == 1:
        return {}
    owners = {cls: owner for cls in group if (owner := _owner(cls)) is not None}
    if len({*owners.values()}) == len(owners) >= len(group) - 1:
        return {cls: (_owned(name, owner), "told from others by whose it is") for cls, owner in owners.items()}
    for qualifier, change in _QUALIFIERS:
        names: dict[str, list[ModuleClass]] = {}
        for cls in group:
            word = qualifier(cls)
            names.setdefault(_owned(name, word) if word else name, []).append(cls)
        if len(names) > 1:
            told: dict[ModuleClass, _Wanted] = {}
            for part, few in names.items():
                told.update({few[0]: (part, change)} if len(few) == 1 else _told_apart(part, few))
            return told
    return {}


def _only_part(cls: ModuleClass) -> str | None:
    """Return the only part of a class that is no norm: `layer.0` with an `attention` and a norm -> attention."""
    parts = {path for path, m in cls.example.members.items() if not (isinstance(m, Layer) and m.kind.family == "norm")}
    path = parts.pop() if len(parts) == 1 and last_word(cls.example) in ("layer", "layers", "block", "blocks") else ()
    return _written_out(path[0]) if len(path) == 1 and re.fullmatch(r"[A-Za-z_]{2,20}", path[0]) else None


def _side(cls: ModuleClass) -> str | None:
    """Return the side of the model on which all instances stand: `decoder.block.3.layer.0` -> decoder."""
    sides = {next((part for part in module.path if part in _SIDES), None) for module in cls.instances}
    return sides.pop() if len(sides) == 1 else None


_QUALIFIERS: tuple[tuple[Callable[[ModuleClass], str | None], str], ...] = (
    (_only_part, "told from others by what is in it"),
    (_side, "told from others by the side of the model that it is on"),
)


def _owned(name: str, owner: str) -> str:
    """Put the owner before a name: `Output` of `attention` -> AttentionOutput. An `Attention` of an `attention` becomes
    a `SelfAttention`."""
    if class_name(_written_out(owner)) == name:
        return f"Self{name}" if name == "Attention" else name
    return class_name(f"{owner}_{name}")


def _owner(cls: ModuleClass) -> str | None:
    """Return the owner of all instances: `encoder.layers.3` -> encoder. There is none if they have different owners, or
    one that is no plain word."""
    owners: set[str | None] = set()
    for module in cls.instances:
        above = [*dropwhile(str.isdigit, reversed(module.path))][1:]
        owners.add(above[0] if above and re.fullmatch(r"[A-Za-z_]{2,20}", above[0]) else None)
    return owners.pop() if len(owners) == 1 else None


def _place(cls: ModuleClass) -> str:
    """Return the place under which the instances stand, as a word: `encoder.layers.3` -> encoder_layer; `dense1` and
    `dense2` -> dense; `time_mix` and `channel_mix` -> mix; `attention.self` -> self_attention."""
    words, owner = [last_word(module) for module in (cls.example, *cls.instances)], _owner(cls)
    is_numbered = cls.example.path[-1].isdigit()
    words = [word.strip("_") or word for word in words]
    if is_numbered or len({module.path[-1] for module in cls.instances}) > 1:
        words = [_COUNTER.sub("", word) or word for word in words]
    else:
        words = [_DIGIT.sub("", word) for word in words]
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
    """Return the words with which all names end, or else those with which all begin, or else the first name."""
    parts = [word.split("_") for word in dict.fromkeys(words)]
    last = [p[0] for p in takewhile(lambda part: len({*part}) == 1, zip(*map(reversed, parts), strict=False))]
    first = [p[0] for p in takewhile(lambda part: len({*part}) == 1, zip(*parts, strict=False))]
    return "_".join(reversed(last)) or "_".join(first) or words[0]


def _written_out(word: str) -> str:
    return "_".join(_ABBREVIATIONS.get(part) or _LONG_FORMS.get(part, part) for part in word.split("_"))
