"""`build_script`: the Python of `onnxlift.build` that makes a model again.

    reading ─▶ inference ─▶ calls ─▶ modules ─▶ names ─▶ text ─▶ gate ─▶ run it ─▶ diff with the model

The script is run in this process: the gate holds that it is nothing but calls of the builder, variables and literals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.build import BuildError, Model
from onnxlift.collector import collector_paused
from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.unforeseen import answered
from onnxlift.workbench.diff.interface import ports
from onnxlift.workbench.diff.verb import diff
from onnxlift.workbench.report import name_of, open_model

from .report import BuildScriptReport
from .script import Script, Scripting
from .weights import write_safetensors


def build_script(source: Any, *, verify: bool = True) -> BuildScriptReport:
    """Return a script that makes the model in `source` again with `onnxlift.build`.

    The script is run. Unless `verify` is False, the model that it makes is compared with the original by `diff`, to
    which it must be the same: all nodes, attributes, weights, types, versions and metadata."""
    with answered():
        given = unwrapped(source)
        given = given.read() if hasattr(given, "read") else given
        model = open_model(given)
        dropped = drop_uncalled(model)
        infer(model)
        name = name_of(given, model)
        with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
            path = Path(folder) / "model_build.py"
            script = Scripting(model, name).script({})
            if script.tensors:
                write_safetensors(script.tensors, script.texts, path.with_suffix(".safetensors"))
            built = run_script(script, path, name)
            types = types_to_declare(model, built.model)
            if types:
                script = Scripting(model, name).script(types)
                built = run_script(script, path, name)
            compared = given
            if dropped:
                compared = open_model(given)
                drop_uncalled(compared)
            difference = diff(compared, built.model) if verify else None
        return BuildScriptReport(
            name,
            script.source,
            script.tensors,
            script.texts,
            model,
            nodes=sum(1 for _ in all_nodes(model.graph)),
            functions=script.functions,
            difference=difference,
            notes=tuple(f"nothing calls function {title}: it is left out" for title in dropped),
        )


def drop_uncalled(model: ir.Model) -> list[str]:
    """Take away the functions that nothing calls, which a program has no way to make; return their names."""
    called: set[ir.OperatorIdentifier] = set()
    waiting = [model.graph]
    while waiting:
        for node in all_nodes(waiting.pop()):
            key = node.op_identifier()
            if key in model.functions and key not in called:
                called.add(key)
                waiting.append(model.functions[key].graph)
    dropped = [key for key in model.functions if key not in called]
    for key in dropped:
        del model.functions[key]
    return [function_title(key) for key in dropped]


def run_script(script: Script, path: Path, name: str) -> Model:
    """Run a script whose weights lie beside `path`, and return the model that it makes."""
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    try:
        with collector_paused():
            exec(compile(script.source, str(path), "exec"), names)
            built = names["build_model"]()
    except BuildError as error:
        lines = script.source.splitlines()
        place = f" ({lines[error.line[1] - 1].strip()[:120]})" if 0 < error.line[1] <= len(lines) else ""
        raise OnnxLiftError(f"no script could be written that makes {name}: {error.text}{place}") from error
    assert isinstance(built, Model)
    return built


def types_to_declare(original: ir.Model, built: ir.Model) -> Mapping[str, onnx.TypeProto]:
    """Return the types of inputs and outputs that the file declares otherwise than the builder does."""
    types = interface_of(original).types
    found: dict[str, onnx.TypeProto] = {}
    for values in ("inputs", "outputs"):
        mine, theirs = (ports(each, getattr(each.graph, values)) for each in (original, built))
        known = {port.name: str(port) for port in theirs}
        found |= {
            port.name: types.get(port.name, onnx.TypeProto()) for port in mine if known.get(port.name) != str(port)
        }
    return found
