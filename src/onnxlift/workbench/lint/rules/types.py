"""Rules on element types, and on declarations that contradict what the nodes compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import shape_text
from onnxlift.workbench.lint.rule import Found, by_reading, lint_rule
from onnxlift.workbench.lint.subject import Graph, value_place

_DOUBLE, _FLOAT = ir.DataType.DOUBLE, ir.DataType.FLOAT


@lint_rule("OL201", "declared-element-type", "error", "graph", fix=by_reading)
def declared_element_types_that_are_wrong(graph: Graph) -> Iterable[Found]:
    """A value is declared with another element type than its node gives.

    ONNX Runtime refuses the model ("Type of output arg does not match expected type").

    `--fix` writes the right type for values inside the model. For an output, declare what the node gives, or put a Cast
    in front of it."""
    for what, info, value in _declared(graph):
        element, found = info.type.tensor_type.elem_type, value.dtype
        if found is not None and found != ir.DataType.UNDEFINED and element not in (0, int(found)):
            text = f"it is declared as {_type_name(element)}, and its node gives {_type_name(int(found))}."
            yield Found(value_place(what, info.name), text, what == "value")


@lint_rule("OL202", "declared-shape", "warning", "graph", fix=by_reading)
def declared_shapes_that_are_wrong(graph: Graph) -> Iterable[Found]:
    """A value is declared with another shape than its node gives.

    Callers rely on what is declared, and some runtimes plan memory by it. ONNX Runtime warns in every run; onnx's
    checker (full_check) refuses the model.

    `--fix` writes the right shape for values inside the model. For an output, declare what the node gives, with a name
    for each size that is open: `onnxlift infer` tells it."""
    names = {size for value in graph.model.graph.inputs for size in shape_of(value) or () if isinstance(size, str)}
    for what, info, value in _declared(graph):
        declared, found = _declared_shape(info), shape_of(value)
        if declared is None or found is None or not isinstance(value.type, ir.TensorType):
            continue
        is_other = len(declared) != len(found) or any(
            _contradicts(a, b, names if what == "output" else frozenset()) for a, b in zip(declared, found, strict=True)
        )
        if is_other:
            text = f"it is declared as {shape_text(declared)}, and its node gives {shape_text(found)}."
            yield Found(value_place(what, info.name), text, what == "value")


def _contradicts(declared: int | str | None, found: int | str, names: Iterable[str]) -> bool:
    """Tell whether a declared size is wrong: another number, or a number for what is open in the inputs."""
    if not isinstance(declared, int) or declared <= 0:
        return False
    return declared != found if isinstance(found, int) else found in names


@lint_rule("OL203", "declared-size-name", "warning", "graph")
def names_of_sizes_that_contradict_each_other(graph: Graph) -> Iterable[Found]:
    """An output is declared with the name of a size of an input, and has another size.

    Whoever reads the declaration takes sizes of one name for equal, and so do runtimes that plan memory by it.

    Declare the size that the node gives, or another name."""
    sizes = [(value, shape_of(value) or ()) for value in graph.model.graph.inputs]
    named = {size for _, shape in sizes for size in shape if isinstance(size, str)}
    for what, info, value in _declared(graph):
        declared, found = _declared_shape(info), shape_of(value)
        if what != "output" or declared is None or found is None or len(declared) != len(found):
            continue
        for axis, (name, size) in enumerate(zip(declared, found, strict=True)):
            if name in named and size != name and (isinstance(size, int) or size in named):
                text = (
                    f"its axis {axis} is declared as {quote(str(name))}, which is a size of an input, and it is {size}."
                )
                yield Found(value_place("output", info.name), text)


def _declared(graph: Graph) -> Iterator[tuple[str, onnx.ValueInfoProto, ir.Value]]:
    """Yield what the file declares of tensors that nodes of the main graph make: outputs, and values inside."""
    made = {value.name: value for node in graph.model.graph for value in node.outputs if value.name}
    proto = graph.file.proto.graph
    outputs = {value.name for value in proto.output}
    inside = (value for value in proto.value_info if value.name not in outputs)
    for what, infos in (("output", proto.output), ("value", inside)):
        for info in infos:
            if info.name in made and info.type.HasField("tensor_type"):
                yield what, info, made[info.name]


def _declared_shape(info: onnx.ValueInfoProto) -> tuple[int | str | None, ...] | None:
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)


def _type_name(element: int) -> str:
    name = ir.DataType(element).name.lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


@lint_rule("OL204", "float64", "warning", "graph")
def doubles_among_floats(graph: Graph) -> Iterable[Found]:
    """A model of float32 computes in float64 in places.

    That takes twice the memory and more time, on most GPUs many times as much, and many accelerators do not have it at
    all. It is mostly a slip: a number of Python or numpy became float64 in the export.

    Make the constant, or the Cast, float32. Where the precision is needed, ignore this rule."""
    counts = Counter(value.dtype for _, node in graph.nodes() for value in node.outputs)
    interface = {value.dtype for value in (*graph.model.graph.inputs, *graph.model.graph.outputs)}
    if _DOUBLE in interface or counts[_FLOAT] <= counts[_DOUBLE]:
        return
    for region, node in graph.nodes():
        gives = any(value.dtype == _DOUBLE for value in node.outputs)
        from_floats = not any(
            value is not None and value.dtype == _DOUBLE and value.producer() for value in node.inputs
        )
        if gives and from_floats:
            yield Found(graph.place(region, node), "from here on, float64 is computed.")


@lint_rule("OL205", "mixed-input-types", "info", "graph")
def inputs_of_two_widths(graph: Graph) -> Iterable[Found]:
    """Some inputs are int32 and others int64, or some float32 and others float64.

    Callers have to get each of them right: numpy's default is int64 and float64, and ONNX converts nothing by itself.

    Nothing is wrong; but if the model is yours, give all inputs of a kind one type."""
    inputs = [value for value in graph.model.graph.inputs if value.uses()]
    for narrow, wide in ((ir.DataType.INT32, ir.DataType.INT64), (_FLOAT, _DOUBLE)):
        names = {each: [value.name for value in inputs if value.dtype == each] for each in (narrow, wide)}
        if names[narrow] and names[wide]:
            few = narrow if len(names[narrow]) <= len(names[wide]) else wide
            other = wide if few is narrow else narrow
            for name in names[few]:
                text = f"it is {_type_name(int(few))}, and {quote(names[other][0] or '')} is {_type_name(int(other))}."
                yield Found(value_place("input", name), text)
