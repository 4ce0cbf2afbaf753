"""Hold parameters without names of their own in a list, if a module has several that are alike.

    self.scale = nn.Parameter(torch.empty(1))     ->   self.scales = nn.ParameterList(
    self.scale_1 = nn.Parameter(torch.empty(1))            nn.Parameter(torch.empty(1)) for _ in range(3)
    self.scale_2 = nn.Parameter(torch.empty(1))        )

Applies to at least three parameters of one shape and one element type that are added or multiplied, and which we call
by one word, since the file has no name for them. Does not apply to parameters with a name: it is a key of the state
dict. Nor to matrices and tables: each stands for a layer. The entries have the order in which `forward` reads them.
"""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.modules.module import Module, Stored
from onnxlift.lifting.tree.paths import Path

WORDS = frozenset({"bias", "divisor", "scale", "shift"})
FEWEST = 3  # parameters that are a list; two stand side by side

_Alike = tuple[str, tuple[int, ...], object]


def list_parameters(module: Module) -> int:
    """Put parameters that are alike into lists; return how many lists there are."""
    alike: dict[_Alike, list[Path]] = {}
    for path, member in module.members.items():
        if isinstance(member, Stored) and member.is_parameter and len(path) == 1:
            value = member.weight.value
            word = module.named[value].won.name
            if word in WORDS and _is_our_word(word, value):
                alike.setdefault((word, member.weight.shape, type_of(value).dtype), []).append(path)
    moved: dict[Path, Path] = {}
    lists = [(word, paths) for (word, _, _), paths in alike.items() if len(paths) >= FEWEST]
    members = dict(module.members)
    for word, paths in lists:
        (name,) = module.free((_plural(word),))
        for number, path in enumerate(sorted(paths, key=partial(_number, word))):
            moved[path] = (name, str(number))
            module.add(moved[path], members[path])
    module.members = {moved.get(path, path): member for path, member in members.items()}
    return len(lists)


def _is_our_word(word: str, value: ir.Value) -> bool:
    """Tell whether a parameter is called by a word of ours, and not as the file calls it."""
    origin = origin_of(value)
    return origin.is_nameless or (word == origin.word and word != (value.name or "").rpartition(".")[2])


def _number(word: str, path: Path) -> int:
    """Return the number behind the word in a member's name; parameters are numbered as `forward` reads them."""
    return int(path[0].removeprefix(word).removeprefix("_") or 0)


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("s") else f"{word}s"
