"""Run the lifted source with torch, and on request record the values that its statements compute.

This is called in the child process only.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from onnxlift.executing import to_argument, to_result
from onnxlift.lifting.text.forward_statements import forward_statements

from .children.child import loading

Probes = Mapping[str, Mapping[str, Sequence[str | None]]]
"""Line of a statement (as text) -> path of a module -> the names of the ONNX values that it assigns in that module."""


class Candidate:
    """The lifted model, ready to run.

    Inputs are converted to the types of torch that `input_types` names."""

    def __init__(
        self, model: torch.nn.Module, recorder: Recorder, input_types: Mapping[str, str] | None = None
    ) -> None:
        self.model = model
        self.recorder = recorder
        self.input_types = input_types or {}

    def arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a call, made anew: a model may change them."""
        return [_in_type(to_argument(value), self.input_types.get(name)) for name, value in inputs.items()]

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
        """Return the values of `outputs` by name. The values that probes name come first, as they were computed."""
        with torch.no_grad():
            results = self.model(*self.arguments(inputs))
        values = results if isinstance(results, tuple) and len(outputs) != 1 else (results,)
        if len(values) != len(outputs):
            raise TypeError(f"forward returned {len(values)} values, and the ONNX model has {len(outputs)} outputs")
        return {**self.recorder.values, **{name: to_result(value) for name, value in zip(outputs, values, strict=True)}}


def load_candidate(
    source: Path,
    probes: Probes | None = None,
    input_types: Mapping[str, str] | None = None,
    dtype: str | None = None,
) -> Candidate:
    """Load the model of the file `source`, which records the values that `probes` name when it runs.

    Its weights are converted to `dtype`, if it is given. The file is executed: call this only with a file that we
    wrote, or that the user trusts."""
    recorder = Recorder(probes or {})
    with loading():
        model = _load(source, probes, recorder)
    if dtype is not None:
        model.to(getattr(torch, dtype))
    recorder.paths = {id(child): path for path, child in model.named_modules()}
    return Candidate(model, recorder, input_types)


def _load(source: Path, probes: Probes | None, recorder: Recorder) -> torch.nn.Module:
    """Execute the file, and return the module that its `load` gives."""
    tree = ast.parse(source.read_text(encoding="utf-8"), str(source))
    if probes:
        instrument(tree, probes)
    module = types.ModuleType(source.stem)
    module.__file__ = str(source)
    module.__dict__[PROBE] = recorder
    sys.modules[module.__name__] = module
    exec(compile(tree, str(source), "exec"), module.__dict__)
    model: torch.nn.Module = module.__dict__["load"]()
    return model


def _in_type(value: Any, dtype: str | None) -> Any:
    if isinstance(value, list):
        return [_in_type(item, dtype) for item in value]
    return value.to(getattr(torch, dtype)) if dtype and isinstance(value, torch.Tensor) else value


PROBE = "_onnxlift_probe"


def instrument(tree: ast.Module, probes: Probes) -> None:
    """Add a call of the recorder to every statement that `probes` names."""
    chosen = {
        id(statement): str(statement.lineno)
        for statement in forward_statements(tree)
        if str(statement.lineno) in probes and isinstance(statement, ast.Assign | ast.Return)
    }
    _Instrumenter(chosen).visit(tree)
    ast.fix_missing_locations(tree)


class _Instrumenter(ast.NodeTransformer):
    def __init__(self, chosen: Mapping[int, str]) -> None:
        self.chosen = chosen

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        line = self.chosen.get(id(node))
        names = _names(node.targets[0]) if line is not None and len(node.targets) == 1 else None
        if line is None or not names:
            return node
        values = ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load())
        return [node, ast.copy_location(ast.Expr(_probe(line, values)), node)]

    def visit_Return(self, node: ast.Return) -> ast.AST:
        line = self.chosen.get(id(node))
        if line is not None and node.value is not None:
            node.value = _probe(line, node.value)
        return node


def _names(target: ast.expr) -> list[str] | None:
    """Return the names of the variables in the target, in order; None if it has anything but variables."""
    if isinstance(target, ast.Name):
        return [target.id]
    if not isinstance(target, ast.Tuple):
        return None
    names: list[str] = []
    for element in target.elts:
        inner = _names(element)
        if inner is None:
            return None
        names += inner
    return names


def _probe(line: str, value: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(PROBE, ast.Load()), [ast.Name("self", ast.Load()), ast.Constant(line), value], [])


class Recorder:
    """The values that the probes have recorded: name of the ONNX value -> its value when first computed."""

    def __init__(self, probes: Probes) -> None:
        self.probes = probes
        self.paths: dict[int, str] = {}
        self.values: dict[str, Any] = {}

    def __call__(self, module: object, line: str, result: Any) -> Any:
        names = self.probes[line].get(self.paths.get(id(module), ""), ())
        values = result if isinstance(result, tuple) and len(result) == len(names) else (result,)
        if len(values) == len(names):
            for name, value in zip(names, values, strict=True):
                if name is not None and name not in self.values and _is_plain(value):
                    # Make a copy, since later code may change the tensor in place.
                    self.values[name] = np.array(to_result(value))
        return result


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(isinstance(item, int) for item in value)
    return isinstance(value, torch.Tensor | bool | int | float)
