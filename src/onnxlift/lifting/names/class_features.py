"""Tell classes that want one name apart by what some of them have, and the others have not.

    ConvBlock, ConvBlock2 (weighs its channels)       ->    ConvBlock, SEConvBlock
    ConvBlock, ConvBlock2 (with F.hardswish)          ->    ConvBlock, HardswishConvBlock
    TCN (0 to 22), TCN2 (23)                          ->    TCN, LastTCN

`FEATURES` has the words, by rank. A word goes before the name of the classes that have the feature, if others of that
name have it not. The word that the fewest classes share is taken first, so that names get one word rather than two.
What is in a block comes before where it stands, and before what is only more in it than elsewhere. One class may be
left without a word, and keeps the name as it is.

The words only say how classes differ. So a block that is one of its kind has none, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxlift.lifting.code.expr import Attribute, Binary, Literal, walk
from onnxlift.lifting.code.identifiers import class_name
from onnxlift.lifting.code.statements import expressions, walk_statements
from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.kinds import activation_word
from onnxlift.lifting.ops.layers import Layer

from .class_roles import functions_called

_ATTENTION = "scaled_dot_product_attention"
_RESIZING = frozenset({"interpolate", "resize_nearest", "resize_linear", "resize_cubic"})
_USUAL = frozenset({"ReLU"})  # what a block is expected to have, so that no name speaks of it


@dataclass(frozen=True)
class _Group:
    """Classes that want one name. `order` tells where a module stands among all."""

    classes: Sequence[ModuleClass]
    order: Mapping[Module, int]


Having = list[ModuleClass]
Found = tuple[str, Having]
"""A word, and the classes of a group that have what it stands for."""


def told_by_features(
    name: str, classes: Sequence[ModuleClass], order: Mapping[Module, int], taken: Collection[str]
) -> dict[ModuleClass, tuple[str, str]]:
    """Return names for the classes that want `name`, each with how it was told from the others. Names that are taken
    are passed over. A class that nothing tells from the others keeps the name, and is not in the result."""
    if len(classes) < 2:
        return {}
    for word, reason, having in _distinguishing(_Group(classes, order)):
        better = class_name(f"{word}{name}")
        if better not in taken and word not in name:
            told = dict.fromkeys(having, (better, f"told from others: {reason}"))
            rest = [cls for cls in classes if cls not in told]
            taken = {*taken, better}
            return told | told_by_features(better, having, order, taken) | told_by_features(name, rest, order, taken)
    return {}


def _distinguishing(group: _Group) -> Iterator[tuple[str, str, Having]]:
    """Yield the words that some classes of a group have, and others have not: the best first."""
    for features in FEATURES:
        found = [
            (word, reason, having)
            for feature, reason in features
            for word, having in feature(group)
            if 0 < len(having) < len(group.classes)
        ]
        yield from sorted(found, key=lambda one: len(one[2]))


# What is in a block


def _has(word: str, is_there: Callable[[ModuleClass], bool | None]) -> Callable[[_Group], Iterator[Found]]:
    """Return the feature that some classes have by themselves. A word says nothing if only some instances of a class
    have it (None)."""

    def feature(group: _Group) -> Iterator[Found]:
        found = {cls: is_there(cls) for cls in group.classes}
        if None not in found.values():
            yield word, [cls for cls, has_it in found.items() if has_it]

    return feature


def _attends(cls: ModuleClass) -> bool:
    return _ATTENTION in _called_below(cls)


def _recurs(cls: ModuleClass) -> bool:
    return any(layer.kind.family == "recurrent" for layer in _layers(cls.example))


def _weighs_channels(cls: ModuleClass) -> bool:
    """Tell whether a block multiplies an image by what it makes of the image's mean: squeeze and excitation."""
    averages = any("AdaptiveAvgPool" in layer.kind.name for layer in _layers(cls.example))
    return (averages or "mean" in _called_below(cls)) and any(
        isinstance(part, Binary)
        and part._op == "*"
        and not isinstance(part._left, Literal)
        and not isinstance(part._right, Literal)
        for module in cls.example.walk()
        for statement in walk_statements(module.body)
        for expr in expressions(statement)
        for part in walk(expr)
    )


def _enlarges(cls: ModuleClass) -> bool:
    transposed = any("ConvTranspose" in layer.kind.name for layer in _layers(cls.example))
    return transposed or bool(_RESIZING & _called_below(cls))


def _shrinks(cls: ModuleClass) -> bool | None:
    """Tell whether the instances have a convolution with a stride."""
    found = {
        any(_largest(layer.arguments.get("stride", 1)) > 1 for layer in _convolutions(module) if _is_forward(layer))
        for module in cls.instances
    }
    return found.pop() if len(found) == 1 else None


def _is_depthwise(cls: ModuleClass) -> bool:
    return any(_has_own_channels(layer) for layer in _convolutions(cls.example))


def _joins_inputs(cls: ModuleClass) -> bool:
    return len(cls.example.inputs) > 1


def _joins_branches(cls: ModuleClass) -> bool:
    return "cat" in functions_called(cls.example)


def _pools(cls: ModuleClass) -> bool:
    return any(layer.kind.family == "pool" for layer in _layers(cls.example))


def _pads(cls: ModuleClass) -> bool:
    return "pad" in functions_called(cls.example)


def _is_normed(cls: ModuleClass) -> bool:
    return any(layer.kind.family == "norm" for layer in _layers(cls.example))


def _activations(group: _Group) -> Iterator[Found]:
    """Yield the activations that only some have, those that are no rule first."""
    by_word: dict[str, Having] = {}
    for cls in group.classes:
        words = {activation_word(function) for function in functions_called(cls.example)}
        layers = [member for member in cls.example.members.values() if isinstance(member, Layer)]
        words |= {layer.kind.class_word for layer in layers if layer.kind.family == "activation"}
        for word in sorted(words - {""}):
            by_word.setdefault(word, []).append(cls)
    yield from sorted(by_word.items(), key=lambda found: (found[0] in _USUAL, found[0]))


# What is more in one block than in the others


def _most(word: str, count: Callable[[Module], float]) -> Callable[[_Group], Iterator[Found]]:
    """Return the feature of the class of which all instances have more of something than all those of the others."""

    def feature(group: _Group) -> Iterator[Found]:
        least = {cls: min(map(count, cls.instances)) for cls in group.classes}
        first = max(group.classes, key=lambda cls: least[cls])
        if all(least[first] > count(m) for cls in group.classes if cls is not first for m in cls.instances):
            yield word, [first]

    return feature


def _depth(module: Module) -> int:
    """Count the modules within modules."""
    return 1 + max((_depth(child) for _, child in module.children()), default=0)


def _weighted(module: Module) -> int:
    """Count the layers with weights."""
    return sum(1 for layer in _layers(module) if layer.weights and layer.kind.family != "norm")


def _width(module: Module) -> int:
    """Return the width of the first layer's weight."""
    shapes = (weight.shape for layer in _layers(module) for weight in layer.weights.values())
    return next((shape[0] for shape in shapes if len(shape) > 1), 0)


def _kernel(module: Module) -> int:
    return max((_largest(layer.arguments.get("kernel_size", 1)) for layer in _convolutions(module)), default=0)


# Where it stands


def _only_one(group: _Group) -> Iterator[Found]:
    """Yield the class that is first or last in its list, and only there."""
    yield from ((word, [cls]) for word, cls, is_one in _ends(group) if is_one)


def _several(group: _Group) -> Iterator[Found]:
    """Yield the class of which all instances stand before or after those of the others."""
    yield from (({"First": "Early", "Last": "Late"}[word], [cls]) for word, cls, is_one in _ends(group) if not is_one)


def _ends(group: _Group) -> Iterator[tuple[str, ModuleClass, bool]]:
    """Yield the classes at the beginning or the end, and whether there is one instance in each list. Only instances in
    equal lists are compared: `small.layers.3` is not before `large.layers.0`."""
    by_list: dict[tuple[str, ...], dict[ModuleClass, list[int]]] = {}
    for cls in group.classes:
        for module in cls.instances:
            words = tuple(part for part in module.path if not part.isdigit())
            by_list.setdefault(words, {}).setdefault(cls, []).append(group.order[module])
    for cls in group.classes:
        pairs = [
            (of_class[cls], [at for other, places in of_class.items() if other is not cls for at in places])
            for of_class in by_list.values()
            if cls in of_class and len(of_class) > 1
        ]
        is_one = all(len(own) == 1 for own, _ in pairs)
        if pairs and all(min(own) > max(others) for own, others in pairs):
            yield "Last", cls, is_one
        elif pairs and all(max(own) < min(others) for own, others in pairs):
            yield "First", cls, is_one


_Feature = Callable[[_Group], Iterator[Found]]
_Ranked = tuple[tuple[_Feature, str], ...]

# The features by rank, with the reasons. A word of one list beats those of the next.
FEATURES: tuple[_Ranked, ...] = (
    (
        (_has("Attention", _attends), "it attends"),
        (_has("Recurrent", _recurs), "it recurs"),
        (_has("SE", _weighs_channels), "it weighs channels (squeeze and excitation)"),
        (_has("Upsample", _enlarges), "it enlarges images"),
        (_has("Downsample", _shrinks), "it has a stride"),
        (_has("Fusion", _joins_inputs), "it takes several inputs"),
        (_has("Branched", _joins_branches), "it joins several branches"),
        (_has("Pooled", _pools), "it pools"),
        (_has("Depthwise", _is_depthwise), "it convolves channel by channel"),
        (_has("Padded", _pads), "it pads"),
        (_activations, "its activation is another one"),
        (_has("Normed", _is_normed), "it has a norm"),
    ),
    ((_only_one, "it stands there alone"),),
    (
        (_most("Nested", _depth), "it has modules within modules"),
        (_most("Deep", _weighted), "it has more layers"),
        (_most("Wide", _width), "it has more channels"),
        (_most("LargeKernel", _kernel), "its kernels are larger"),
    ),
    ((_several, "they stand before or after the others"),),
)


def _called_below(cls: ModuleClass) -> set[str]:
    """Return the names of all that is called in a block and in its parts."""
    return {name for module in cls.example.walk() for name in (*functions_called(module), *_functions(module))}


def _functions(module: Module) -> Iterator[str]:
    """Yield the kernels that a module calls."""
    for statement in walk_statements(module.body):
        for expr in expressions(statement):
            for part in walk(expr):
                name = getattr(part, "_name", None)
                if not isinstance(part, Attribute) and isinstance(name, str):
                    yield name


def _layers(module: Module) -> list[Layer]:
    return [m for part in module.walk() for m in part.members.values() if isinstance(m, Layer)]


def _convolutions(module: Module) -> list[Layer]:
    return [layer for layer in _layers(module) if layer.kind.family == "convolution"]


def _is_forward(layer: Layer) -> bool:
    return "Transpose" not in layer.kind.name


def _has_own_channels(layer: Layer) -> bool:
    groups = layer.arguments.get("groups", 1)
    return isinstance(groups, int) and groups > 1 and groups == layer.arguments.get("in_channels")


def _largest(size: object) -> int:
    """Return the largest number of a kernel or stride, which may be one number for all axes."""
    sizes = size if isinstance(size, tuple | list) else (size,)
    return max((one for one in sizes if isinstance(one, int)), default=1)
