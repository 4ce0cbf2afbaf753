"""There and back again: a lifted module is exported anew, and what the new file lifts to is compared.

The exporter loses three things on the way, which the first source is compared without, and would lose a fourth:
1. The names of values. Their author's words would be variables, and reasons not to inline (`without_value_names`).
2. Boolean masks of attention. It makes them numbers, of which the lowest stands for False, and which mean something
   else where a row has no True; so they can't be taken for boolean ones again (`BOOLEAN_MASK`).
3. Batch norms after a convolution, which it multiplies into that; so it is told not to optimise where there are any.
4. Layers that are given a constant, whose result it computes if no tensor of theirs has more than 8192 elements. That
   is so in the small networks of the tests, and in no others; so it is told not to compute with layers' parameters.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

import onnx
import onnx_ir as ir
import torch
from onnxscript.optimizer import optimize_ir
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

import onnxlift

BOOLEAN_MASK = re.compile(r" +(mask\w*) = torch\.where\(\1, 0\.0, torch\.finfo\(torch\.float32\)\.min\)\n")
Shapes = Sequence[Mapping[int, object]]


def free_sizes(path: Path, recurrent: bool) -> tuple[dict[int, str], ...]:
    """For each input, the axes that the model leaves free and their names, but time where torch.export unrolls it."""
    inputs = onnx.load(path, load_external_data=False).graph.input
    shapes = ([dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in inputs)
    fixed = {"", "sequence"} if recurrent else {""}
    return tuple({axis: size for axis, size in enumerate(shape) if size not in fixed} for shape in shapes)


def export_again(module: nn.Module, arguments: Sequence[Tensor], shapes: Shapes, path: Path, first: Path) -> None:
    """Export a lifted module to `path`, with inputs and outputs called as in the `first` file that it comes from."""
    graph = onnx.load(first, load_external_data=False).graph
    names = {"input_names": [v.name for v in graph.input], "output_names": [v.name for v in graph.output]}
    options = {"dynamic_shapes": shapes, "dynamo": True, "optimize": False, "verbose": False}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, tuple(arguments), **options, **names)
        assert program is not None
        if not any(isinstance(layer, _BatchNorm) for layer in module.modules()):
            _optimise(program.model, {*_layer_parameters(module)})
        program.save(path)


def _layer_parameters(module: nn.Module) -> Iterator[str]:
    """The parameters of torch's own layers, and not those that a module has beside its layers."""
    for path, layer in module.named_modules():
        if type(layer).__module__.startswith("torch.nn."):
            yield from (f"{path}.{name}" for name, _ in layer.named_parameters(recurse=False))


def _optimise(model: ir.Model, parameters: Collection[str]) -> None:
    """What the exporter does to a model last, but for computing with these parameters."""

    def is_folded(node: ir.Node) -> bool | None:
        return False if any(value is not None and value.name in parameters for value in node.inputs) else None

    optimize_ir(model, should_fold=is_folded)


def differences(first: Path, again: Path, name: str) -> list[str]:
    """The lines that differ between what the two files lift to, as in a diff; none if the first is a fixed point."""
    sources = (code(onnxlift.lift(model, name=name)) for model in (without_value_names(onnx.load(first)), again))
    lines = difflib.unified_diff(*(source.splitlines() for source in sources), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def code(lifted: onnxlift.Lifted) -> str:
    """The source without its docstring, which counts the nodes of the file, and without masks that become numbers."""
    return BOOLEAN_MASK.sub("", lifted.source.split('"""', 2)[2])


def without_value_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a number for the name of every value that a node computes, but for the results and for parameters:
    the older exporter stores equal ones once, and gives the others their names by an Identity."""
    _number_values(model.graph, {}, count())
    return model


def _number_values(graph: onnx.GraphProto, outer: Mapping[str, str], numbers: count[int]) -> None:
    results = {value.name for value in graph.output} if not outer else set()
    stored = {tensor.name for tensor in graph.initializer}
    nodes = [node for node in graph.node if node.op_type != "Identity" or node.input[0] not in stored]
    computed = [name for node in nodes for name in node.output if name and name not in results]
    names = {**outer, **{name: f"onnx::Value_{next(numbers)}" for name in computed}}
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _number_values(body, names, numbers)
    for value in (*graph.value_info, *graph.output):
        value.name = names.get(value.name, value.name)
