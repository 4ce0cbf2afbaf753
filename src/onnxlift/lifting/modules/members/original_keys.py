"""Give members the names that they have in the original's state dict, also where these are no identifiers.

    trunk.block1-0.conv.weight     self.block1_0      ->   self.add_module("block1-0", ...)
    _blocks.0._conv.weight         self.blocks[0]     ->   self._blocks[0]
    class.weight                   self.class_        ->   self.add_module("class", ...)

While nodes are lowered, every member has a path of plain identifiers, by which it is known to the compiler. Here a part
of such a path gets the name that the original has for it, if that is another one. Only what is written, and the keys of
the state dict, have that name (`Module.names`); it reaches the source as a literal, or as an attribute if it is a plain
word. Applies if the weight has this key in the file, or if PyTorch exported the file: then scopes are the names of
modules. A name with `/` is a key only in a file of PyTorch's exporters: others part scopes by it. Does not apply to
what PyTorch cannot hold: parameters with the name of a module's attribute, members of containers with such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.identifiers import MODULE_ATTRIBUTES, PRIVATE_ATTRIBUTES, attribute
from onnxlift.lifting.modules.module import DICT_METHODS, Module, Stored
from onnxlift.lifting.ops.layers import Layer, Weight
from onnxlift.lifting.tree.paths import Path

_CANNOT_BE_SET = PRIVATE_ATTRIBUTES | {"training"}
_METHODS = DICT_METHODS | MODULE_ATTRIBUTES | {"append", "copy", "extend", "fromkeys", "get", "insert", "popitem"}


def restore_keys(root: Module, model: ir.Model, path_of: Mapping[ir.Node, Path]) -> int:
    """Give the members below `root` the names of the original; return how many names are other than before. `path_of`
    has the paths of nodes, as the file names them."""
    is_pytorch = exporter_of(model).is_pytorch
    changes = 0
    for module in root.walk():
        wanted: dict[Path, str] = {}
        for path, member in module.members.items():
            for name in _names_in_file(member, path, module, path_of, is_pytorch):
                for depth, (part, own) in enumerate(zip(path, name, strict=True)):
                    if own != part and _was(part, own) and _can_be(own, path[: depth + 1], module):
                        wanted.setdefault(path[: depth + 1], own)
        module.keys = _without_collisions(module, wanted)
        changes += len(module.keys)
    return changes


def _names_in_file(
    member: Layer | Stored | Module, path: Path, module: Module, path_of: Mapping[ir.Node, Path], is_pytorch: bool
) -> Iterator[Path]:
    """Yield what the file says that a member of this path is called in the original, in the order of trust."""
    above = module.path
    keys: list[Path] = []
    if isinstance(member, Stored):
        keys = [tuple(_key(member.weight))]
    elif isinstance(member, Layer):
        for role, weight in member.weights.items():
            key, end = tuple(_key(weight)), tuple(role.split("."))
            keys += [key[: -len(end)]] if key[-len(end) :] == end else []
        if is_pytorch and member.node is not None:
            keys.append(path_of.get(member.node, ()))
    elif is_pytorch or _holds(member, ".".join(member.path) + "."):
        keys = [member.path]
    for key in keys:
        if key[: len(above)] == above and len(key) == len(above) + len(path):
            yield key[len(above) :]


def _key(weight: Weight) -> list[str]:
    """Return the parts of a weight's name in the file; nothing if no person has named it."""
    name = weight.value.name or ""
    origin = origin_of(weight.value)
    is_scope = "/" in name and origin.key is None  # of TensorFlow or the like
    return [] if origin.is_nameless or is_scope else name.split(".")


def _holds(module: Module, prefix: str) -> bool:
    """Tell whether a weight below a module has a name that begins so."""
    for member in module.members.values():
        if isinstance(member, Module):
            if _holds(member, prefix):
                return True
        else:
            weights = [member.weight] if isinstance(member, Stored) else member.weights.values()
            if any((weight.value.name or "").startswith(prefix) for weight in weights):
                return True
    return False


def _was(part: str, name: str) -> bool:
    """Tell whether a part of a path was made of this name: cleaned, and perhaps with a number, since it was taken."""
    word = re.escape(attribute(name).rstrip("_"))
    return not part.isdigit() and re.fullmatch(rf"{word}_*(_\d+)?", part) is not None


def _can_be(name: str, path: Path, module: Module) -> bool:
    """Tell whether PyTorch can hold a member, or a container, by this name."""
    if not name or "." in name or _is_pythons(name) or name in _CANNOT_BE_SET:
        return False
    is_tensor = isinstance(module.members.get(path), Stored)
    if len(path) == 1:
        return not is_tensor or name not in MODULE_ATTRIBUTES
    if name in DICT_METHODS and not is_tensor:  # the container is an `nn.Module`, and so must have no containers in it
        return all(len(other) == 2 for other in module.members if other[0] == path[0])
    return name not in _METHODS


def _is_pythons(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")  # every object has attributes such as `__class__`


def _without_collisions(module: Module, wanted: Mapping[Path, str]) -> dict[Path, str]:
    """Return the names for parts of paths. A member of ours whose name the original has for another gets that one's."""
    prefixes = dict.fromkeys(path[: end + 1] for path in module.members for end in range(len(path)))
    keys = {path: name for path, name in wanted.items() if path in prefixes}
    for path, name in wanted.items():
        other = (*path[:-1], name)
        if other in prefixes and other not in keys:
            keys[other] = path[-1]
    names = [(*path[:-1], keys.get(path, path[-1])) for path in prefixes]
    return keys if len({*names}) == len(names) else {}
