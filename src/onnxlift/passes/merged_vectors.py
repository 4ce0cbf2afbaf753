"""A vector that an exporter stored once for several modules, because its numbers are equal, is each module's own again.

    LayerNormalization(x, norm1.weight, norm1.bias) in norm2   ->   LayerNormalization(x, norm2.weight, norm2.bias)

PyTorch's newer exporter keeps one of all initialisers that are equal: of the ones and zeros that norms and biases start
with, before they are trained. Lifted as it is, norm1 would be called twice, and norm2 would not be there.

It applies to a parameter of the main graph of one axis that is one number throughout, under the name that it has in one
of the modules that read it (the exporter says which these are), for all others of the same class. Not if one of the two
modules is inside the other, or has a parameter of that name. Sound because no number changes; a vector that is trained
in two modules is another matter, but not one number throughout (and see emit/ties.py for a block that several modules
hold).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ..ir.metadata import CLASSES, NAME_SCOPES, string_list
from ..ir.scopes import constant
from .edit import has_generated_name, initialiser, is_parameter

_LARGEST = 1 << 20


def run(model: ir.Model) -> int:
    """Give modules their vectors back; gives how many."""
    initializers = model.graph.initializers
    shared = [value for value in initializers.values() if _is_one_number(value)]
    made = 0
    for value in shared:
        for name, readers in _others(value).items():
            tensor = constant(value)
            if name in initializers or tensor is None:
                continue
            own = initialiser(model.graph, name, tensor, generated=False)
            own.metadata_props.update(value.metadata_props)
            for node, place in readers:
                node.replace_input_with(place, own)
            made += 1
    return made


def _is_one_number(value: ir.Value) -> bool:
    if value.shape is None or len(value.shape) != 1 or not is_parameter(value) or has_generated_name(value):
        return False
    tensor = constant(value)
    if tensor is None or not 1 < tensor.size <= _LARGEST or len(value.uses()) < 2:
        return False
    array = tensor.numpy()
    return bool((array == array[0]).all())


def _others(value: ir.Value) -> dict[str, list[tuple[ir.Node, int]]]:
    """The nodes of other modules that read a vector, by the name that it has in these."""
    readers = list(_readers(value))
    name = value.name or ""
    owners = {module: kind for _, _, module, kind in readers if module and name.startswith(f"{module}.")}
    if not owners:
        return {}
    owner = max(owners, key=len)
    found: dict[str, list[tuple[ir.Node, int]]] = {}
    for node, place, module, kind in readers:
        is_inside = f"{module}.".startswith(f"{owner}.") or f"{owner}.".startswith(f"{module}.")
        if module and not is_inside and kind == owners[owner]:
            found.setdefault(module + name.removeprefix(owner), []).append((node, place))
    return found


def _readers(value: ir.Value) -> Iterator[tuple[ir.Node, int, str, str]]:
    """The nodes that read a value, where, and the path and the class of the module that they are in."""
    for node, place in value.uses():
        paths, classes = (string_list(node.metadata_props.get(key)) or [] for key in (NAME_SCOPES, CLASSES))
        if len(paths) == len(classes) >= 2:
            yield node, place, paths[-2], classes[-2]
