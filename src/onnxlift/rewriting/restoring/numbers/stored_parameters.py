"""The parameters that a file still has. Other constants may have been computed from them.

A parameter is a floating-point initialiser under its own name, or the matrix of a linear layer. Exporters store the
transpose of this matrix, without a name. The name of the layer comes from what the newer exporter notes beside the
constant, or else from the layer's bias or the scope of its call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice, takewhile
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, weight_initialiser
from onnxlift.ir.graph.constants import constant, varies
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.origin.module_paths import modules_with_modules, reads_layer, told_module
from onnxlift.ir.origin.tensors import folded_from, may_be_trained, origin_of
from onnxlift.rewriting.restoring.folded_names import only_source

MOST_LOOKS = 1 << 18  # the most comparisons with parameters; an untrusted model may have many
MOST_ALIKE = 16  # parameters of one size

Sizes = tuple[int, ...]
Key = TypeVar("Key", bound=Hashable)


@dataclass
class Parameter:
    """A parameter as PyTorch holds it."""

    key: str
    stored: ir.Value
    copies: list[ir.Value] = field(default_factory=list)
    """Its transposes, one for each call of the layer, if the file has only those. The first is `stored`."""

    @property
    def is_turned(self) -> bool:
        return bool(self.copies)

    @property
    def array(self) -> Array:
        return numbers_of(self.stored).T if self.is_turned else numbers_of(self.stored)

    @cached_property
    def shape(self) -> Sizes:
        return sizes_of(self.stored)[::-1] if self.is_turned else sizes_of(self.stored)

    @property
    def owner(self) -> str:
        """The module that holds it."""
        return self.key.rpartition(".")[0]

    def is_stored_as(self, value: ir.Value) -> bool:
        return value is self.stored or value in self.copies

    def restore(self, edit: Edit) -> ir.Value:
        """Return the initialiser with the parameter's numbers. Nodes that read the stored transpose read a Transpose of
        it from now on."""
        if self.copies:
            array = np.ascontiguousarray(self.array)
            name, reason = edit.names.fresh(self.key), "a layer's matrix, of which the file has the transpose"
            self.stored = weight_initialiser(edit.graph, name, array, reason, is_named=True)
            for node, place in [use for copy in self.copies for use in copy.uses()]:
                node.replace_input_with(place, _transposed(edit, node, self.stored))
            self.copies.clear()
        return self.stored


def _transposed(edit: Edit, before: ir.Node, matrix: ir.Value) -> ir.Value:
    """Insert a Transpose of the matrix in front of `before`; return its result."""
    order, shape = [ir.AttrInt64s("perm", [1, 0])], sizes_of(matrix)[::-1]
    return edit.insert(before, "Transpose", [matrix], order, like=matrix, shape=shape, name=f"{matrix.name}.T")


class StoredParameters:
    """The parameters of the main graph, by key."""

    def __init__(self, graph: ir.Graph) -> None:
        self.by_key: dict[str, Parameter] = {}
        self._read_in: dict[str, dict[str, None]] = {}
        self._looks_left = MOST_LOOKS
        for value in graph.initializers.values():
            if may_be_trained(value) and not origin_of(value).has_lost_its_name and value.name:
                self.by_key[value.name] = Parameter(value.name, value)
                for node, _ in value.uses():
                    self._read_in.setdefault(module_of(node), {})[value.name] = None
        products = _products(graph)
        self.parents = modules_with_modules(graph)
        for module in {told_module(node) for nodes in products.values() for node in nodes} - {None}:
            self.parents.update(accumulate((module or "").split(".")[:-1], "{}.{}".format))
        for matrix, nodes in products.items():
            key = self._layers_key(matrix, nodes)
            known = self.by_key.setdefault(key, Parameter(key, matrix, [matrix])) if key is not None else None
            if known is not None and known.is_turned and not known.is_stored_as(matrix):
                known.copies += [matrix] if _are_equal(known.stored, matrix) else []

    def noted(self, value: ir.Value) -> list[Parameter]:
        """Return the parameters from which a constant was computed, according to the newer exporter's note."""
        return [self.by_key[name] for name in folded_from(value) if name in self.by_key]

    def near(self, value: ir.Value) -> Iterator[list[Parameter]]:
        """Yield the parameters that a constant may have been cut or computed from, the nearest first.

        First come the parameters that are read in the modules that read the constant. Then, for those of these modules
        that are no layers, come all parameters in them or in modules below them.
        """
        readers = self._readers(value)
        yield self._fitting(
            value, [self._read_in.get(scope, {}) for told, scope in readers if told is not None or scope]
        )
        yield self._fitting(value, [self._keys_below(told) for told in self._outer(value)])

    def turned_elsewhere(self, value: ir.Value) -> list[Parameter]:
        """Return parameters of layers elsewhere that may be the constant with its axes in another order. The first and
        the last number stay in their places then."""
        return self._held_elsewhere(value, self._by_ends.get(_ends(value), ()))

    def alike_elsewhere(self, value: ir.Value) -> list[Parameter]:
        """Return parameters of layers elsewhere that have the sizes of a constant; none if too many have them to tell
        which was meant."""
        return self._held_elsewhere(value, few(self._by_sizes.get(long_sizes(sizes_of(value)), ())))

    def with_columns_of(self, value: ir.Value) -> list[Parameter]:
        """Return the named matrices that `value`, transposed or not, may be some rows of."""
        found = [each for size in {*sizes_of(value)} for each in self._by_columns.get(size, ())]
        self._looks_left -= len(found)
        return found if self._looks_left > 0 else []

    def _readers(self, value: ir.Value) -> Iterable[tuple[str | None, str]]:
        return dict.fromkeys((told_module(node), module_of(node)) for node, _ in value.uses())

    def _outer(self, value: ir.Value) -> list[str]:
        """Return the modules that read a constant and are no layers."""
        return [told for told, _ in self._readers(value) if told is not None and self._is_parent(told)]

    def _fitting(self, value: ir.Value, keys: Iterable[Collection[str]]) -> list[Parameter]:
        """Return the parameters under these keys that a constant can be a part of."""
        found: dict[str, Parameter] = {}
        for some in keys:
            self._looks_left -= len(some)
            if self._looks_left > 0:
                found.update((key, self.by_key[key]) for key in some if fits(sizes_of(value), self.by_key[key].shape))
        return [*found.values()]

    def _held_elsewhere(self, value: ir.Value, candidates: Sequence[Parameter]) -> list[Parameter]:
        outer = self._outer(value) if candidates else ()
        return [found for found in candidates if any(self._is_read(found, told) for told in outer)]

    def _keys_below(self, module: str) -> list[str]:
        prefix = f"{module}." if module else ""
        start = bisect_left(self._sorted_keys, prefix)
        return [*takewhile(lambda key: key.startswith(prefix), islice(self._sorted_keys, start, None))]

    @cached_property
    def _sorted_keys(self) -> list[str]:
        return sorted(self.by_key)

    @cached_property
    def _by_ends(self) -> dict[tuple[Sizes, bytes, bytes], list[Parameter]]:
        return _grouped(self.by_key.values(), lambda found: _ends(found.stored))

    @cached_property
    def _by_sizes(self) -> dict[Sizes, list[Parameter]]:
        return _grouped(self.by_key.values(), lambda found: long_sizes(found.shape))

    @cached_property
    def _by_columns(self) -> dict[int, list[Parameter]]:
        matrices = (found for found in self.by_key.values() if len(found.shape) == 2 and not found.is_turned)
        return _grouped(matrices, lambda found: found.shape[1])

    def read_by_functions(self) -> list[Parameter]:
        """Return the matrices of layers that code in other modules, which are no layers, reads too."""
        return [found for found in self.by_key.values() if found.is_turned and self._is_borrowed(found)]

    def _is_borrowed(self, matrix: Parameter) -> bool:
        modules = {told_module(node) for copy in matrix.copies for node, _ in copy.uses()}
        is_read = any(self._is_read(matrix, module) for module in modules)
        return matrix.owner in modules and is_read and varies(matrix.stored)

    def _is_read(self, parameter: Parameter, module: str | None) -> bool:
        """Tell whether code in `module` may read a parameter of a layer."""
        return reads_layer(module, parameter.owner, self.parents)

    def _is_parent(self, module: str) -> bool:
        return module == "" or module in self.parents

    def _layers_key(self, matrix: ir.Value, products: Sequence[ir.Node]) -> str | None:
        """Return the key of the matrix in the layer that some of these products compute."""
        if origin_of(matrix).is_computed:
            return only_source(folded_from(matrix))
        layers = {layer for node in products if (layer := self._layer(node))}
        return f"{layers.pop()}.weight" if len(layers) == 1 else None

    def _layer(self, product: ir.Node) -> str | None:
        """Return the layer that a product belongs to: the owner of the bias that is added to it, or the module that it
        is in."""
        module = told_module(product)
        if module is None or self._is_parent(module):
            return None
        readers = [node for node, _ in product.outputs[0].uses()]
        is_added = len(readers) == 1 and is_standard(readers[0], "Add") and told_module(readers[0]) == module
        for value in readers[0].inputs if is_added else ():
            owner, _, role = (value.name or "").rpartition(".") if value is not None else ("", "", "")
            if role == "bias" and may_be_trained(value):
                return owner
        return module


def _products(graph: ir.Graph) -> dict[ir.Value, list[ir.Node]]:
    """Return the products with a nameless matrix on the right, by this matrix."""
    found: dict[ir.Value, list[ir.Node]] = {}
    for value in graph.initializers.values():
        if origin_of(value).has_lost_its_name and may_be_trained(value) and len(sizes_of(value)) == 2:
            uses = value.uses()
            products = [node for node, place in uses if is_standard(node, "MatMul") and place == 1]
            if products and all(node.graph is graph for node, _ in uses):
                found[value] = products
    return found


def module_of(node: ir.Node) -> str:
    """Return the module that a node is in, from the exporter's metadata or else from the scope in its name."""
    module = told_module(node)
    return (node.name or "").rpartition("/")[0] if module is None else module


def _are_equal(value: ir.Value, other: ir.Value) -> bool:
    """Tell whether two matrices have the same numbers. The first rows are compared before all of both is read: they
    nearly always differ."""
    if sizes_of(value) != sizes_of(other) or value.dtype != other.dtype:
        return False
    mine, theirs = numbers_of(value), numbers_of(other)
    return np.array_equal(mine[:1], theirs[:1]) and np.array_equal(mine, theirs)


def fits(part: Sizes, whole: Sizes) -> bool:
    """Tell whether a part of these sizes can be taken out of the whole."""
    sizes, limits = (long_sizes(shape)[::-1] for shape in (part, whole))
    return len(sizes) <= len(limits) and all(size <= limit for size, limit in zip(sizes, limits, strict=False))


def few(alike: Sequence[Parameter]) -> Sequence[Parameter]:
    """Return the parameters, or none if there are too many of one size to tell which was meant."""
    return alike if len(alike) <= MOST_ALIKE else ()


def long_sizes(shape: Sizes) -> Sizes:
    """Return the sizes of the axes with more than one element, sorted."""
    return tuple(sorted(size for size in shape if size != 1))


def _ends(value: ir.Value) -> tuple[Sizes, bytes, bytes]:
    """Return what stays the same if axes change places: the sizes, the first number and the last one."""
    array = numbers_of(value)
    corners = [array[(place,) * array.ndim].tobytes() if array.size else b"" for place in (0, -1)]
    return long_sizes(array.shape), corners[0], corners[1]


def _grouped(parameters: Iterable[Parameter], key: Callable[[Parameter], Key]) -> dict[Key, list[Parameter]]:
    groups: dict[Key, list[Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(key(parameter), []).append(parameter)
    return groups


def numbers_of(value: ir.Value) -> Array:
    """Return the numbers of a constant."""
    tensor = constant(value)
    assert tensor is not None
    return tensor.numpy()


def sizes_of(value: ir.Value) -> Sizes:
    """Return the shape of a constant."""
    return tuple(size for size in shape_of(value) or () if isinstance(size, int))
