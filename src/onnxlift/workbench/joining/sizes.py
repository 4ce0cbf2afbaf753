"""Keep the named sizes of two models apart that are joined, or make them one where a connection says that they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.interface import Interface, interface_of
from onnxlift.ir.graph.types import Dim
from onnxlift.ir.inference.infer import is_invented_size

from .names import new_names, values_of

_WORD = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = frozenset({"max", "min"})
Renaming = Callable[[str], int | str]


def named_sizes(model: ir.Model) -> set[str]:
    """Return the names of sizes that a model declares, and those in its formulas."""
    texts = {size for value in values_of(model.graph) for size in _texts(value)}
    interface = interface_of(model)
    for type_ in (*interface.types.values(), *interface.told.values()):
        texts.update(size.dim_param for size in _dims(type_) if size.dim_param)
    words = {word for text in texts for word in _WORD.findall(text)}
    return {text for text in texts | words if not is_invented_size(text)} - _FUNCTIONS


def new_sizes(
    first: Collection[str],
    second: Collection[str],
    united: Mapping[str, Dim],
    prefixes: tuple[str, str],
) -> tuple[Renaming, Renaming]:
    """Return functions that give the sizes in the joined model for those of the first, and of the second model."""
    free = {name for name in second if name not in united}
    of_first, of_second = new_names(first, free, seen=((), ()), prefixes=prefixes)
    one = _renaming(of_first)
    known = {name: one(size) if isinstance(size, str) else size for name, size in united.items() if size is not None}
    return one, _renaming({**of_second, **known})


def _renaming(names: Mapping[str, int | str]) -> Renaming:
    def renamed(text: str) -> int | str:
        if text in names:
            return names[text]

        def word(match: re.Match[str]) -> str:
            new = str(names.get(match[0], match[0]))
            return new if new.isidentifier() or new.isdigit() else f"({new})"

        return _WORD.sub(word, text)

    return renamed


def rename_sizes(model: ir.Model, renaming: Renaming) -> Interface:
    """Rename the sizes of all values in place; return what the file says of the interface, with the new sizes.

    Sizes that inference has named are forgotten: in another model it uses the same names for others."""
    for value in values_of(model.graph):
        if value.shape is not None and any(True for _ in _texts(value)):
            sizes = [size if isinstance(size, int) else size.value for size in value.shape]
            value.shape = ir.Shape([_renamed(size, renaming) for size in sizes])
    interface = interface_of(model)
    return replace(
        interface,
        types={name: _with_sizes(type_, renaming) for name, type_ in interface.types.items()},
        told={name: _with_sizes(type_, renaming) for name, type_ in interface.told.items()},
    )


def _with_sizes(declared: onnx.TypeProto, renaming: Renaming) -> onnx.TypeProto:
    type_ = onnx.TypeProto()
    type_.CopyFrom(declared)
    for size in _dims(type_):
        new = renaming(size.dim_param) if size.dim_param else ""
        if isinstance(new, int):
            size.dim_value = new
        elif new:
            size.dim_param = new
    return type_


def _renamed(size: int | str | None, renaming: Renaming) -> int | str | None:
    if not isinstance(size, str):
        return size
    return None if is_invented_size(size) else renaming(size)


def _texts(value: ir.Value) -> Iterator[str]:
    for size in value.shape or ():
        if not isinstance(size, int) and size.value:
            yield size.value


def _dims(type_: onnx.TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    while (kind := type_.WhichOneof("value")) in {"sequence_type", "optional_type"}:
        type_ = getattr(type_, kind).elem_type
    if kind in {"tensor_type", "sparse_tensor_type"}:
        yield from getattr(type_, kind).shape.dim
