"""Name the methods that a long forward is divided into: by what they do, or else by where they stand.

`METHODS` has these rules in order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from onnxlift.lifting.code.identifiers import MODULE_ATTRIBUTES
from onnxlift.lifting.code.naming import Candidate, Rules
from onnxlift.lifting.modules.classes.argument_names import numbered
from onnxlift.lifting.modules.module import Module

_LAYERS = frozenset(
    """linear embedding conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    layer_norm batch_norm group_norm instance_norm scaled_dot_product_attention""".split()
)
_DEEDS = {
    "suppress": frozenset({"non_max_suppression", "nms"}),
    "upsample": frozenset({"interpolate", "resize_nearest", "resize_linear", "resize_cubic"}),
}


@dataclass(frozen=True)
class MethodPart:
    """Some lines that become a method, and which part of all they are. `has_layers` says that layers are called, and
    not only numbers computed; `of_methods` that the lines only call methods: there were so many that their calls are
    divided, too. `alone` has what this part does, and no other."""

    place: int
    count: int
    has_layers: bool
    of_methods: bool
    alone: Collection[str] = ()

    @property
    def is_first(self) -> bool:
        return self.place == 0

    @property
    def is_last(self) -> bool:
        return self.place == self.count - 1


def method_parts(texts: Sequence[str], layers: Collection[str], *, of_methods: bool) -> list[MethodPart]:
    """Return what is known of the parts of a forward, by their texts. `layers` are the members that are no tensors."""
    called = [{*re.findall(r"(\w+)\(", text)} for text in texts]
    members = [{*re.findall(r"\bself\.(\w+)", text)} for text in texts]
    deeds = [{deed for deed, functions in _DEEDS.items() if names & functions} for names in called]
    count = Counter(deed for each in deeds for deed in each)
    return [
        MethodPart(
            place,
            len(texts),
            not members[place].isdisjoint(layers) or not called[place].isdisjoint(_LAYERS),
            of_methods,
            {deed for deed in deeds[place] if count[deed] == 1},
        )
        for place in range(len(texts))
    ]


def _what_it_does(part: MethodPart) -> Iterator[Candidate]:
    """Call the only part that enlarges images, or suppresses boxes, by that. The last part is more than that."""
    if not part.of_methods and not part.is_last:
        yield from (Candidate(deed, "no other part does this") for deed in _DEEDS if deed in part.alone)


def _at_an_end(part: MethodPart) -> Iterator[Candidate]:
    """Call the first layers the stem, and the last ones the head."""
    if part.is_first and not part.of_methods:
        yield Candidate("stem" if part.has_layers else "prepare", "it comes first")
    if part.is_last and not part.of_methods:
        yield Candidate("head" if part.has_layers else "finish", "it comes last")


def _in_the_middle(part: MethodPart) -> Iterator[Candidate]:
    """Call the only part between stem and head the body. Several are stages, or steps if they have no layers."""
    word = "part" if part.of_methods else "stage" if part.has_layers else "step"
    if part.count == 3 and not part.of_methods and not part.is_first and not part.is_last:
        yield Candidate("body", "it is all between the first and the last")
    yield Candidate(f"{word}{part.place + part.of_methods}", "its number among all parts", numbered=True)


METHODS = Rules(
    (
        _what_it_does,
        _at_an_end,
        _in_the_middle,
    ),
    numbered,
)


def name_method(part: MethodPart, taken: set[str]) -> tuple[str, Candidate]:
    """Return the name of a method, and the reason."""
    return METHODS.choose(part, taken)


def taken_names(module: Module, attributes: Collection[str]) -> set[str]:
    """Return the names that no method of a module's class can have: of its members and attributes, and of PyTorch's."""
    members = {path[0] for path in module.members}
    keys = {name for path, name in module.keys.items() if len(path) == 1}
    return {*members, *keys, *attributes, *MODULE_ATTRIBUTES, "forward"}
