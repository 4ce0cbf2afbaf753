"""A model of values: `build.model([x], {"probs": y})`."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnx.helper
import onnx_ir as ir

from onnxlift.collector import collector_paused
from onnxlift.errors import InvalidModelError
from onnxlift.ir.graph.interface import INTERFACE, Interface, interface_of
from onnxlift.ir.graph.types import ONNX_TYPE
from onnxlift.ir.graph.walk import all_nodes

from . import state
from .assembly import assemble, reached, without_invented
from .custom import CustomOperator
from .errors import BuildError, Line, at_the_users_line, line_text
from .functions import collected
from .mistaken import call_it
from .state import MADE, Made, made_of
from .tensors import DEFAULT, check_name
from .types import ValueType
from .value import Value

if TYPE_CHECKING:
    from onnxlift.ir.writing.stream import Progress

Outputs = Value | Sequence[Value] | Mapping[str, Value]
OLDEST_IR_VERSION = 8
"""The IR version of a model that needs no newer one: functions are known since then."""


class Model:
    """A model that was built. `lift`, `verify` and every verb take it; `model` is the onnx_ir.Model."""

    def __init__(self, model: ir.Model, operators: Sequence[CustomOperator] = ()) -> None:
        self.model = model
        self.operators = tuple(operators)
        """The operators of the user's own in it."""
        self._session: Any = None

    def proto(self) -> onnx.ModelProto:
        """Return the model as a ModelProto. Beyond 2 GiB there is none: save it."""
        from onnxlift.ir.writing.proto import to_proto

        return to_proto(self.model)

    def to_bytes(self) -> bytes:
        """Return the model as the bytes of an ONNX file."""
        from onnxlift.ir.writing.proto import skeleton
        from onnxlift.ir.writing.stream import write_stream

        file = io.BytesIO()
        write_stream(*skeleton(self.model), file)
        return file.getvalue()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        external_data: str = "auto",
        on_progress: Progress | None = None,
    ) -> list[Path]:
        """Write the model to `path`, and return the files that were written.

        `external_data` is "never", the name of a file for the weights, or "auto": only what exceeds 2 GiB gets one.
        Files that are there already are replaced only with `force`. Weights are written one by one, so that no second
        copy of them is in memory."""
        from onnxlift.ir.writing.files import write_model

        return write_model(self.model, Path(path), external_data=external_data, force=force, on_progress=on_progress)

    def __call__(self, *inputs: Any, **named: Any) -> dict[str, Any]:
        """Run the model on arrays, given in order or by name, and return its outputs by name.

        Its parameters have the numbers of now. ONNX Runtime runs it, or ONNX's reference where that is not
        installed."""
        from .running import run

        return run(self, inputs, named)

    def __repr__(self) -> str:
        graph = self.model.graph
        inputs, outputs = (", ".join(str(value.name) for value in values) for values in (graph.inputs, graph.outputs))
        return f"<model {graph.name}: {inputs} -> {outputs}, {len(graph):,} nodes>"


@at_the_users_line
def model(
    inputs: Value | Sequence[Value],
    outputs: Outputs,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    name: str = "model",
    doc: str = "",
    metadata: Mapping[str, str] | None = None,
    unused_inputs: bool = False,
    types: Mapping[str, ValueType] | None = None,
    kept: Sequence[Value] = (),
    header: Header | None = None,
) -> Model:
    """Return the model that computes `outputs` from `inputs`.

    Outputs are called by the keys of a dict; those of a list by their own names. Nodes that no output needs are left
    out. `opset` brings all nodes to that opset of ONNX, exactly or with an error that names those that cannot go.
    Without `unused_inputs`, an input that no output needs is an error. The file declares inputs and outputs to be of
    `types`, by name, where these are not what is inferred. Nodes that make the values of `kept` stay, though no output
    needs them. `header` has what else a file tells of itself."""
    for title, text in (
        ("name", name),
        ("doc", doc),
        *((f"metadata[{key!r}]", each) for key, each in (metadata or {}).items()),
    ):
        if not isinstance(text, str):
            raise BuildError(f"{title} is {text!r}, and must be a text.")
    entering = _inputs(inputs)
    leaving = _outputs(outputs)
    for value in kept:
        if not isinstance(value, Value):
            raise BuildError(f"kept has {value!r}, and must be a list of values.")
    for other in (types or {}).keys() - {*leaving, *(made_of(value).fixed for value in entering)}:
        raise BuildError(f"types has {other!r}, which is neither an input nor an output.")
    with collector_paused():
        told = _Told(opset, ir_version, name, doc, metadata or {}, types or {}, header or Header())
        return _built(entering, leaving, [each._value for each in kept], unused_inputs, told)


@dataclass(frozen=True)
class Header:
    """What a file tells of itself: who made it, its own version, and texts. For `build.model`.

    `imports` are the opsets of domains that no node is of; without it, the opset of ONNX itself is always told."""

    producer: str = "onnxlift"
    producer_version: str = ""
    domain: str = ""
    version: int = 0
    doc: str = ""
    graph_metadata: Mapping[str, str] = field(default_factory=dict)
    imports: Mapping[str, int] | None = None


@dataclass(frozen=True)
class _Told:
    """What the caller of `model` says of it beside its values."""

    opset: int | None
    ir_version: int | None
    name: str
    doc: str
    metadata: Mapping[str, str]
    types: Mapping[str, ValueType]
    header: Header


def _built(
    entering: Sequence[ir.Value],
    leaving: Mapping[str, ir.Value],
    kept: Sequence[ir.Value],
    unused_inputs: bool,
    told: _Told,
) -> Model:
    opset, header = told.opset, told.header
    nodes, sources = reached([*leaving.values(), *kept])
    _check_sources(entering, sources, unused_inputs)
    graph = assemble(entering, leaving, nodes, sources)
    graph.name, graph.doc_string = told.name, told.doc or None
    graph.metadata_props.update(header.graph_metadata)
    imports = {**(header.imports or {}), **_imports(graph, opset)}
    if header.imports is None:
        imports.setdefault("", opset or state.opsets()[""])
    graph.opset_imports.update(imports)
    built = ir.Model(
        graph,
        ir_version=_ir_version(imports, told.ir_version),
        producer_name=header.producer or None,
        producer_version=header.producer_version or None,
        domain=header.domain or None,
        model_version=header.version or None,
        doc_string=header.doc or None,
        functions=collected(nodes),
    )
    built.metadata_props.update(told.metadata)
    _declare(built, entering, told.types)
    operators = _custom(built)
    lines = {node.name: node.meta[MADE].line for node in all_nodes(graph) if node.name}
    if opset is not None and any(not node.domain and node.version != opset for node in all_nodes(graph)):
        from .conversion import bring_to

        bring_to(built, {"": opset}, told.name, lines)
        for value in (*graph.inputs, *graph.outputs):
            value.shape = without_invented(value.shape)
    checked = _checked(built, lines)
    if told.types:
        checked.meta[INTERFACE] = replace(interface_of(checked), exact=frozenset(told.types))
    return Model(checked, operators)


def _declare(built: ir.Model, inputs: Sequence[ir.Value], types: Mapping[str, ValueType]) -> None:
    """Note what the file shall say of inputs and outputs beyond what onnx-ir holds."""
    declared = {name: each.to_proto() for name, each in types.items()}
    for value in inputs:
        if ONNX_TYPE in value.meta:
            declared.setdefault(made_of(value).fixed or "", value.meta[ONNX_TYPE])
    defaults = {made_of(value).fixed or "": value.meta[DEFAULT] for value in inputs if DEFAULT in value.meta}
    if declared or defaults:
        described = (value.name for node in all_nodes(built.graph) for value in node.outputs if value.type is not None)
        known = frozenset(name for name in described if name)
        built.meta[INTERFACE] = Interface(declared, defaults, known, exact=frozenset(types))


def _inputs(given: Value | Sequence[Value]) -> list[ir.Value]:
    found: list[ir.Value] = []
    if not isinstance(given, Value | Iterable):
        raise BuildError(f"the inputs are {given!r}: write a list of values of build.input.")
    for value in [given] if isinstance(given, Value) else given:
        if not isinstance(value, Value):
            raise BuildError(f"an input of the model is {value!r}, and must be a value of build.input.")
        made = made_of(value._value)
        if made.kind != "input" or value._value.producer() is not None:
            raise BuildError(
                f"an input of the model is {value!r}, which was not made by build.input ({line_text(made.line)}): give "
                "the inputs that it is computed from."
            )
        if value._value in found:
            raise BuildError(f"the input {value.name} is given twice.")
        found.append(value._value)
    return found


def _outputs(given: Outputs) -> dict[str, ir.Value]:
    if isinstance(given, Value):
        given = [given]
    if not isinstance(given, Iterable):
        raise BuildError(f'the outputs are {given!r}: write a dict of values by their names, such as {{"y": y}}.')
    if not isinstance(given, Mapping):
        named: dict[str, Value] = {}
        for value in given:
            if isinstance(value, Value) and value.name in named:
                raise BuildError(f"two outputs are called {value.name}: give a dict, whose keys are their names.")
            named[value.name if isinstance(value, Value) else repr(value)] = value
        given = named
    if not given:
        raise BuildError("the model has no outputs: what shall it compute?")
    for key, value in given.items():
        if not isinstance(value, Value):
            told = " Did you forget to take one of the outputs of an operator?" if isinstance(value, tuple) else ""
            raise BuildError(f"the output {key!r} is {value!r}, and must be a value{call_it(value)}.{told}")
        check_name(key)
        made = made_of(value._value)
        if made.block is not None:
            raise BuildError(
                f"the output {key!r} was made inside {made.block.what} ({line_text(made.block.line)}), and is not "
                "known outside of it: return it there, and use what that gives."
            )
    return {key: value._value for key, value in given.items()}


def _check_sources(inputs: Sequence[ir.Value], sources: Sequence[ir.Value], unused_inputs: bool) -> None:
    for value in sources:
        if value.const_value is None and value not in inputs:
            raise BuildError(
                f"an output needs the input {made_of(value).fixed} ({line_text(made_of(value).line)}), which is not "
                "among the inputs of the model: add it to the list."
            )
    for value in () if unused_inputs else inputs:
        if value not in sources:
            raise BuildError(
                f"no output needs the input {made_of(value).fixed} ({line_text(made_of(value).line)}): leave it out, "
                "or say unused_inputs=True."
            )


def _imports(graph: ir.Graph, wanted: int | None) -> dict[str, int]:
    """Return the opset of each domain: the one of its nodes, which must be the same for all, unless one is wanted."""
    if wanted is not None:
        state.check_opset("", wanted)
    first: dict[str, tuple[int, Made]] = {}
    for node in all_nodes(graph):
        if node.version is None:  # an Identity for an output, which is the same at every opset
            continue
        made, version = node.meta[MADE], node.version
        other, at = first.setdefault(node.domain, (version, made))
        if other != version and not (node.domain == "" and wanted is not None):
            title = node.domain or "ai.onnx"
            raise BuildError(
                f"the model has nodes of opset {other} of {title} ({line_text(at.line)}) and of opset {version} "
                f"({line_text(made.line)}): make all of them within one `with build.opset(...)`, or say which opset "
                f"the model shall have: build.model(..., opset={max(other, version)})."
            )
    return {domain: version for domain, (version, _) in first.items()}


def _custom(built: ir.Model) -> list[CustomOperator]:
    """Return the operators of the user's own, or raise a BuildError if two have the same name."""
    found: dict[tuple[str, str], CustomOperator] = {}
    for graph in (built.graph, *(each.graph for each in built.functions.values())):
        for node in all_nodes(graph):
            made: Made | None = node.meta.get(MADE)  # functions of models that are used inside have none
            if made is None or made.operator is None:
                continue
            if found.setdefault((node.domain, node.op_type), made.operator) is not made.operator:
                raise BuildError(
                    f"two operators are called {node.domain}.{node.op_type}; one is used at {line_text(made.line)}. "
                    "Declare it once."
                )
    return list(found.values())


def _ir_version(imports: Mapping[str, int], wanted: int | None) -> int:
    if wanted is not None:
        if isinstance(wanted, bool) or not isinstance(wanted, int) or not 3 <= wanted <= onnx.IR_VERSION:
            raise BuildError(f"there is no IR version {wanted!r}; the installed onnx has 3 to {onnx.IR_VERSION}.")
        return wanted
    known = [
        onnx.helper.make_opsetid(domain, version) for domain, version in imports.items() if domain in ("", state.ML)
    ]
    return max(OLDEST_IR_VERSION, int(onnx.helper.find_min_ir_version_for(known, ignore_unknown=True)))


def _checked(built: ir.Model, lines: Mapping[str, Line]) -> ir.Model:
    """Return the model as it is read from a file: every rule is checked."""
    from onnxlift.ir.load import load

    try:
        checked = load(built, faithful=True)
    except InvalidModelError as error:
        told = [
            f"{finding} ({line_text(lines[name])})" if (name := _node_in(finding.place, lines)) else str(finding)
            for finding in error.findings[:5]
        ]
        raise BuildError(f"the model breaks rules of ONNX: {' '.join(told)}") from None
    return checked


def _node_in(place: str, lines: Mapping[str, Line]) -> str | None:
    return next((name for name in lines if f"node {name!r} " in f"{place} "), None)
