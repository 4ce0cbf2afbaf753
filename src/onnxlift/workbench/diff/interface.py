"""Compare what two files say around their graphs: inputs, outputs, versions, metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxlift.ir.graph.interface import interface_of
from onnxlift.workbench.numbers import type_name

from .changes import Fact
from .numbers import Tolerance, digest, distance, shape_of

Pairs = list[tuple[int, int]]

Sizes = dict[tuple[str, str], str]
"""The names of sizes, each with its model, "a" or "b" -> what the other model calls it."""


@dataclass(frozen=True)
class Port:
    """An input or output of a model: its name, its type in words, and its sizes."""

    name: str
    kind: str
    sizes: tuple[int | str, ...] | None

    def __str__(self) -> str:
        if self.sizes is None:
            return self.kind
        return f"{self.kind} ({', '.join(map(str, self.sizes))})"


def ports(model: ir.Model, values: Sequence[ir.Value]) -> list[Port]:
    """Return inputs or outputs as the file declares them."""
    types = interface_of(model).types
    return [_port(value.name or "", types.get(value.name or "", onnx.TypeProto())) for value in values]


def _port(name: str, type_: onnx.TypeProto) -> Port:
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        inner = _port(name, getattr(type_, kind).elem_type)
        return Port(name, f"{kind.removesuffix('_type')} of {inner}", None)
    if kind == "map_type":
        key = type_name(ir.DataType(type_.map_type.key_type))
        return Port(name, f"map of {key} to {_port(name, type_.map_type.value_type)}", None)
    if kind is None:
        return Port(name, "of no declared type", None)
    tensor = getattr(type_, kind)
    words = ("sparse " if kind == "sparse_tensor_type" else "") + type_name(ir.DataType(tensor.elem_type))
    if not tensor.HasField("shape"):
        return Port(name, f"{words} of any rank", None)
    return Port(name, words, tuple(map(_size, tensor.shape.dim)))


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    name = str(dim.dim_param)
    return "?" if not name or re.fullmatch(r"unk__\d+", name) else name  # tf2onnx numbers what it does not know


def paired(a: Sequence[Port], b: Sequence[Port]) -> Pairs:
    """Pair inputs or outputs: those of one name; then those of one type, of one element type and rank, by order."""
    pairs: Pairs = []
    for same in (_same_name, _same_type, _same_form):
        taken_a, taken_b = {i for i, _ in pairs}, {j for _, j in pairs}
        classes: dict[object, list[int]] = {}
        for j, port in enumerate(b):
            if j not in taken_b:
                classes.setdefault(same(port), []).append(j)
        for found in classes.values():
            found.reverse()
        for i, port in enumerate(a):
            if i not in taken_a and classes.get(same(port)):
                pairs.append((i, classes[same(port)].pop()))
    return sorted(pairs)


def _same_name(port: Port) -> object:
    return port.name


def _same_type(port: Port) -> object:
    return port.kind, port.sizes


def _same_form(port: Port) -> object:
    return port.kind, port.sizes and len(port.sizes)


def port_changes(what: str, a: Sequence[Port], b: Sequence[Port], pairs: Pairs, sizes: Sizes | None) -> Iterator[Fact]:
    """Yield what differs between inputs or outputs.

    With `sizes`, the names of ports do not count, nor do those of sizes if each always has the same new name."""
    matched_a, matched_b = {i for i, _ in pairs}, {j for _, j in pairs}
    for i, j in pairs:
        if sizes is None and a[i].name != b[j].name:
            yield Fact(f"name of {what} {i}", a[i].name, b[j].name)
        if str(a[i]) != str(b[j]) and (sizes is None or not _same_up_to_names(a[i], b[j], sizes)):
            yield Fact(f"{what} {_called(a[i], b[j])}", str(a[i]), str(b[j]))
    for i, port in enumerate(a):
        if i not in matched_a:
            yield Fact(f"{what} {port.name!r}", str(port), None)
    for j, port in enumerate(b):
        if j not in matched_b:
            yield Fact(f"{what} {port.name!r}", None, str(port))
    if [j for _, j in pairs] != sorted(j for _, j in pairs):
        order_a = [a[i].name for i, _ in pairs]
        order_b = [a[i].name for i, _ in sorted(pairs, key=lambda pair: pair[1])]
        yield Fact(f"order of the {what}s", ", ".join(order_a), ", ".join(order_b))


def _called(a: Port, b: Port) -> str:
    return repr(a.name) if a.name == b.name else f"{a.name!r} ({b.name!r})"


def _same_up_to_names(a: Port, b: Port, sizes: Sizes) -> bool:
    """Tell whether two types differ only in the names of sizes, each of which always has the same new name."""
    if a.kind != b.kind or a.sizes is None or b.sizes is None or len(a.sizes) != len(b.sizes):
        return False
    for x, y in zip(a.sizes, b.sizes, strict=True):
        if isinstance(x, int) or isinstance(y, int) or "?" in (x, y):
            if x != y:
                return False
        elif sizes.setdefault(("a", x), y) != y or sizes.setdefault(("b", y), x) != x:
            return False
    return True


def default_changes(a: ir.Model, b: ir.Model, pairs: Pairs) -> Iterator[Fact]:
    """Yield the inputs that may be left out in one model only, or have another value then."""
    defaults_a, defaults_b = interface_of(a).defaults, interface_of(b).defaults
    for i, j in pairs:
        name_a, name_b = a.graph.inputs[i].name or "", b.graph.inputs[j].name or ""
        found_a, found_b = defaults_a.get(name_a), defaults_b.get(name_b)
        if found_a is None and found_b is None:
            continue
        if found_a is None or found_b is None:
            text_a, text_b = (None if each is None else default_text(each) for each in (found_a, found_b))
            yield Fact(f"default of input {name_a!r}", text_a, text_b)
        elif not _equal(found_a, found_b):
            yield Fact(f"default of input {name_a!r}", default_text(found_a), default_text(found_b))


def _equal(a: ir.TensorProtocol, b: ir.TensorProtocol) -> bool:
    if (a.dtype, shape_of(a)) != (b.dtype, shape_of(b)):
        return False
    return digest(a) == digest(b) or not distance(a, b, Tolerance()).different


def default_text(tensor: ir.TensorProtocol) -> str:
    """Write a tensor in a few words: its numbers if there are few."""
    form = f"{type_name(tensor.dtype)} ({', '.join(map(str, shape_of(tensor)))})"
    return f"{form} {tensor.numpy().tolist()}" if tensor.size <= 4 else form


def version_changes(a: ir.Model, b: ir.Model) -> Iterator[Fact]:
    """Yield what differs of the opsets and of the IR version."""
    for domain in sorted({*a.opset_imports, *b.opset_imports}):
        versions = (a.opset_imports.get(domain), b.opset_imports.get(domain))
        if versions[0] != versions[1]:
            yield Fact(f"opset {domain or 'ai.onnx'}", *versions)
    if a.ir_version != b.ir_version:
        yield Fact("IR version", a.ir_version, b.ir_version)


def metadata_changes(a: ir.Model, b: ir.Model) -> Iterator[Fact]:
    """Yield what differs of the producer, the model's own version, texts, and metadata_props."""
    yield from _differing({"producer": _producer(a)}, {"producer": _producer(b)})
    rows = [
        {
            "domain": model.domain or None,
            "model version": model.model_version or None,
            "doc string": model.doc_string or None,
            "doc string of the graph": model.graph.doc_string or None,
        }
        for model in (a, b)
    ]
    yield from _differing(*rows)
    for title, props_a, props_b in (
        ("metadata", a.metadata_props, b.metadata_props),
        ("metadata of the graph", a.graph.metadata_props, b.graph.metadata_props),
    ):
        keyed = [{f"{title} {key!r}": value for key, value in props.items()} for props in (props_a, props_b)]
        yield from _differing(*keyed)


def _producer(model: ir.Model) -> str | None:
    return " ".join(filter(None, [model.producer_name, model.producer_version])) or None


def _differing(a: Mapping[str, object], b: Mapping[str, object]) -> Iterator[Fact]:
    for key in (*a, *(key for key in b if key not in a)):
        if a.get(key) != b.get(key):
            yield Fact(key, a.get(key), b.get(key))
