"""A model that is ready to be run in a child: checked, with its file, its inputs, and the limits of the child."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
from onnx import AttributeProto, GraphProto, NodeProto

from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.sizes import parse_size
from onnxlift.unforeseen import answered
from onnxlift.verification.children.child import Limits, run_child
from onnxlift.verification.given import Given, Inputs, read_given
from onnxlift.verification.model_file import ModelFile, model_file
from onnxlift.verification.values import write_values

WORKER = "onnxlift.workbench.runtime.worker"
ORT = "ONNX Runtime"


@dataclass(frozen=True)
class Prepared:
    """A model, the folder `job` in which children run it, and what the user says about its inputs."""

    source: Any
    model: ir.Model
    file: ModelFile
    job: Path
    given: Given
    limits: Limits

    @property
    def outputs(self) -> list[str]:
        return [value.name or "" for value in self.model.graph.outputs]

    def run(self, task: Mapping[str, Any], values: Mapping[str, Any] | None = None, who: str = ORT) -> dict[str, Any]:
        """Run a task in a child, on new inputs or on those of the last one, and return its answer."""
        if values is not None:
            write_values(self.job / "inputs", values)
        places = {"model": str(self.file.path), "folder": str(self.file.folder), "results": "results"}
        return run_child(self.job, {**places, **task}, who, self.limits, WORKER)


def prepare(
    source: Any,
    job: Path,
    *,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> Prepared:
    """Read and check a model, and put into the folder `job` what a child needs to run it."""
    source = unwrapped(source.read() if hasattr(source, "read") else source)
    with answered():
        model = load(source)
        infer(model)
        file = model_file(source, data_files(model), job)
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    return Prepared(source, model, file, job, given, Limits(timeout, None if memory is None else parse_size(memory)))


def name_nodes(file: ModelFile, job: Path) -> tuple[ModelFile, onnx.ModelProto, dict[str, str]]:
    """Return a file of the same model in which every node has a name of its own, so that a trace can tell them apart.

    Also its content without external data, and the new names with the old ones. If no name is missing, the file is the
    one that is given. ONNX Runtime writes names into its trace as they are, so those that JSON would have to escape are
    replaced as well."""
    model = onnx.load(file.path, load_external_data=False)
    taken: set[str] = set()
    renamed: dict[str, str] = {}
    nodes = list(_all_nodes(model))
    wrong = [node for node in nodes if not _is_plain(node.name, taken)]
    for node in wrong:
        number = len(renamed)
        while (name := f"{_word(node.op_type)}_{number}") in taken:
            number += 1
        taken.add(name)
        renamed[name] = node.name
        node.name = name
    if not wrong:
        return file, model, {}
    path = job / "named.onnx"
    path.write_bytes(model.SerializeToString())
    return ModelFile(path, file.folder), model, renamed


def _is_plain(name: str, taken: set[str]) -> bool:
    """Tell whether a name can stand in a trace, and nobody else has it; note that it is taken."""
    if not name or name in taken or not name.isascii() or not name.isprintable() or set(name) & {'"', "\\"}:
        return False
    taken.add(name)
    return True


def _word(operator: str) -> str:
    return "".join(sign for sign in operator if sign.isascii() and sign.isalnum()) or "node"


def _all_nodes(model: onnx.ModelProto) -> list[NodeProto]:
    found: list[NodeProto] = []
    graphs: list[GraphProto] = [model.graph]
    waiting = [node for function in model.functions for node in function.node]
    while graphs or waiting:
        waiting += [node for graph in graphs for node in graph.node]
        graphs = []
        for node in waiting:
            found.append(node)
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    graphs.append(attribute.g)
                elif attribute.type == AttributeProto.GRAPHS:
                    graphs += attribute.graphs
        waiting = []
    return found


def title_of(source: Any, model: ir.Model) -> str:
    """Return what to call a model in a report: its file's name, or the graph's."""
    return Path(source).name if isinstance(source, str | os.PathLike) else str(model.graph.name or "model")
