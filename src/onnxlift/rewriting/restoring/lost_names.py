"""Restore parameters whose names PyTorch's older exporter has lost, because it folded a change of their shape.

1. Scales by channel, `x * self.gamma.view(1, -1, 1, 1)`:

       Mul(x, onnx::Mul_9) in block.ls1   ->   Mul(x, Unsqueeze(block.ls1.gamma, (0, 2, 3)))

2. Scale and shift by channel, `x * self.weight[:, None, None] + self.bias[:, None, None]`:

       Add(Mul(x, onnx::Mul_9), onnx::Add_9) in norm
           ->   Add(Mul(x, Unsqueeze(norm.weight, (1, 2))), Unsqueeze(norm.bias, (1, 2)))

3. Tables of positions, `x + self.embed_positions(torch.arange(n))`, or `x + self.pos_embed[:, :n]`:

       Add(x, onnx::Add_9) in encoder     ->   Add(x, encoder.embed_positions.weight)

The older exporter gives what it computes ahead of time names like these, and drops the parameter. Without this step the
numbers would be a buffer that no state dict holds, and that is not trained. The module is that of the scope in the
node's name. The last part of the key is lost. A scale is called as most models call it: `gamma`, or `scale` in a module
called `layer_scale1`, or `layer_scale_1` and `layer_scale_2` if a module has several. A table is called as the other
tables of positions in the file, if they agree, or else `embed_positions.weight`, or `pos_embed` if it has an axis for
the batch.

Rule 1 applies to numbers along one axis that are multiplied with as many channels. They are in a module of their own,
or their product is only added to something, as behind a residual branch, or they look trained: several numbers with
many digits, that are not the same backwards, as a window is. Rule 2 is for one scale and one shift in a module. Rule 3
applies to numbers along several axes that look trained. It does not apply to what is added to the scores of an
attention, which have masks and biases of their own; nor to sines and cosines of positions, unless the file has another
table of positions whose name tells that of this one.

All apply only to what is computed from products with weights: what inputs are scaled by is no parameter. Numbers never
change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant, varies
from onnxlift.ir.graph.marks import LOOKED_UP
from onnxlift.ir.graph.nodes import is_standard
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.exporter import Tool, exporter_of
from onnxlift.ir.origin.module_paths import told_module
from onnxlift.ir.origin.tensors import may_be_trained, origin_of
from onnxlift.rewriting.restoring.folded_names import NEW_AXES
from onnxlift.rewriting.restoring.numbers.trained import looks_trained
from onnxlift.rewriting.restoring.untrained_buffers import is_wave_table
from onnxlift.stages import step

_REASON = "the older exporter has folded a change of its shape, and dropped its name"
_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gather", "Gemm", "MatMul"})
_SCALING = frozenset({"Add", "Div", "Mul"})
_POSITIONS = re.compile(r"(.*\.)?(\w*pos\w*(\.weight)?)")
_NUMBERED_SCALE = re.compile(r"(.*\.)?\w*scale\d+")
_TABLE, _TABLE_OF_BATCH = "embed_positions.weight", "pos_embed"
MOST_STEPS = 4  # between the product of queries and keys and what is added to it

_Place = tuple[ir.Node, int]


@dataclass(frozen=True)
class _Use:
    """A node that reads a constant without a name, as the input at `place`, in a module."""

    node: ir.Node
    place: int
    module: str

    @property
    def value(self) -> ir.Value:
        """The constant."""
        value = self.node.inputs[self.place]
        assert value is not None
        return value

    @property
    def data(self) -> ir.Value | None:
        """The value that it is multiplied with or added to."""
        return self.node.inputs[1 - self.place]

    @property
    def array(self) -> Array:
        """The numbers of the constant."""
        tensor = constant(self.value)
        assert tensor is not None
        return tensor.numpy()

    @property
    def is_residual(self) -> bool:
        """Tell whether the result is only added to something that is computed."""
        readers = [*self.node.outputs[0].uses()]
        if len(readers) != 1 or not is_standard(readers[0][0], "Add"):
            return False
        other = readers[0][0].inputs[1 - readers[0][1]]
        return other is not None and other.const_value is None


@step("lost-names", after={"folded-parameters": "what is computed from a parameter in the file is none itself"})
def run(model: ir.Model) -> int:
    """Restore these parameters in the main graph; return how many."""
    graph = model.graph
    if exporter_of(model).tool is not Tool.PYTORCH_OLDER:
        return 0
    if not any(map(_is_nameless, graph.initializers.values())):  # for speed
        return 0
    modules = _Modules(graph)
    affine = _affine_keys(modules, graph)
    scales = [use for use in modules.uses if (use.node, use.place) not in affine and _is_scale(use, modules)]
    tables = [use for use in modules.uses if _is_table(use)]
    keys = {**affine, **_scale_keys(scales, modules, graph), **_table_keys(tables, graph)}
    parameters: dict[tuple[str, ir.Value], ir.Value] = {}

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            key = keys.get((node, place))
            if key is not None and value is not None:
                if (key, value) not in parameters:
                    parameters[key, value] = _restored(graph, value, key)
                parameter = parameters[key, value]
                is_same = shape_of(parameter) == shape_of(value)
                node.replace_input_with(place, parameter if is_same else NEW_AXES.redo(edit, node, value, parameter))

    if keys:
        sweep(model, {("Mul", "Add"): visit})
    return len(parameters)


class _Modules:
    """The modules of a graph: how many nodes they have, which have modules below them, and in which of them constants
    without a name meet what is computed with weights, in the order of the nodes."""

    def __init__(self, graph: ir.Graph) -> None:
        self.nodes: Counter[str] = Counter()
        self.parents = {""}
        self.uses: list[_Use] = []
        weighed: set[ir.Value | None] = set()
        for node in graph:
            module = told_module(node)
            if module is not None:
                self.nodes[module] += 1
                while module and (module := module.rpartition(".")[0]) not in self.parents:
                    self.parents.add(module)
            if any(value in weighed for value in node.inputs):
                weighed.update(node.outputs)
                self.uses += _nameless_uses(node)
            elif is_standard(node, *_PRODUCTS) and any(map(may_be_trained, node.inputs)):
                weighed.update(node.outputs)

    def is_own(self, module: str) -> bool:
        """Tell whether a module has a single node."""
        return self.nodes[module] == 1 and module not in self.parents


def _is_nameless(value: ir.Value | None) -> bool:
    """Tell whether the exporter has computed a constant of several numbers, and given it a name like onnx::Mul_9."""
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype not in FLOATS or tensor.size < 2:
        return False
    origin = origin_of(value)
    return origin.has_made_up_name and not origin.is_constant and not (value.name or "").startswith("/")


def _nameless_uses(node: ir.Node) -> Iterator[_Use]:
    """Yield the constant without a name that a node multiplies or adds, if it has the sizes of the other operand."""
    module = told_module(node)
    for place, value in enumerate(node.inputs) if is_standard(node, "Mul", "Add") and module is not None else ():
        use = _Use(node, place, module or "")
        sizes, other = shape_of(value), shape_of(use.data)
        if _is_nameless(value) and sizes is not None and other is not None and len(sizes) <= len(other):
            aligned = zip(sizes[::-1], other[::-1], strict=False)
            if all(size in (1, data) for size, data in aligned):
                yield use


def _is_scale(use: _Use, modules: _Modules) -> bool:
    """Tell whether rule 1 applies."""
    if not is_standard(use.node, "Mul") or _long_axes(use.value) != 1:
        return False
    return modules.is_own(use.module) or use.is_residual or (looks_trained(use.array) and not _is_window(use.array))


def _is_window(array: Array) -> bool:
    """Tell whether numbers are the same backwards, perhaps but for the first one."""
    line = array.reshape(-1)
    return any(np.array_equal(part, part[::-1]) for part in (line, line[1:]))


def _is_table(use: _Use) -> bool:
    """Tell whether rule 3 applies, but for what the table holds."""
    is_added = is_standard(use.node, "Add") and _long_axes(use.value) > 1
    return is_added and not _meets_scores(use) and looks_trained(use.array)


def _meets_scores(use: _Use) -> bool:
    """Tell whether the constant is added to the scores of an attention: a product of two values that are computed."""
    if any(is_standard(reader, "Softmax") for reader, _ in use.node.outputs[0].uses()):
        return True
    value = use.data
    for _ in range(MOST_STEPS):
        node = value.producer() if value is not None else None
        if node is None or is_standard(node, "MatMul"):
            return node is not None and all(each is not None and each.const_value is None for each in node.inputs)
        if not is_standard(node, *_SCALING):
            return False
        value = next((each for each in node.inputs if each is not None and each.const_value is None), None)
    return False


def _affine_keys(modules: _Modules, graph: ir.Graph) -> dict[_Place, str]:
    """Return the keys for uses of a scale and a shift in one module, by rule 2. A module has one pair of them."""
    uses = {(use.node, use.place): use for use in modules.uses if _long_axes(use.value) == 1}
    pairs: dict[str, list[tuple[_Use, _Use]]] = {}
    for use in uses.values():
        readers = [*use.node.outputs[0].uses()] if is_standard(use.node, "Mul") else []
        shift = uses.get((readers[0][0], 1 - readers[0][1])) if len(readers) == 1 else None
        if shift is not None and is_standard(shift.node, "Add") and shift.module == use.module:
            pairs.setdefault(use.module, []).append((use, shift))
    keys: dict[_Place, str] = {}
    for module, found in pairs.items():
        own = [_below(module, name) for name in ("weight", "bias")]
        if len(found) == 1 and all(key not in graph.initializers for key in own):
            keys |= {(use.node, use.place): key for use, key in zip(found[0], own, strict=True)}
    return keys


def _scale_keys(scales: list[_Use], modules: _Modules, graph: ir.Graph) -> dict[_Place, str]:
    """Return the key for each use of a scale. Uses of one constant in a module are of one parameter, unless all its
    numbers are equal: then the exporter may have stored several as one."""
    found: dict[str, dict[tuple[object, ...], list[_Use]]] = {}
    for use in scales:
        is_one = modules.is_own(use.module) or varies(use.value)
        owner: tuple[object, ...] = (use.value,) if is_one else (use.value, use.node)
        found.setdefault(use.module, {}).setdefault(owner, []).append(use)
    keys: dict[_Place, str] = {}
    for module, groups in found.items():
        names = (
            [_scale_word(module)]
            if len(groups) == 1
            else [f"layer_scale_{number}" for number in range(1, len(groups) + 1)]
        )
        own = [_below(module, name) for name in names]
        if all(key not in graph.initializers for key in own):
            keys |= {(use.node, use.place): key for key, uses in zip(own, groups.values(), strict=True) for use in uses}
    return keys


def _scale_word(module: str) -> str:
    """Return the name of the only scale in a module."""
    return "scale" if _NUMBERED_SCALE.fullmatch(module) else "gamma"


def _table_keys(tables: list[_Use], graph: ir.Graph) -> dict[_Place, str]:
    """Return the key for each use of a table. A module has one table."""
    known = {
        match[2]: None
        for name, value in graph.initializers.items()
        if (match := _POSITIONS.fullmatch(name)) is not None and _long_axes(value) > 1 and may_be_trained(value)
    }
    word = next(iter(known)) if len(known) == 1 else None
    of_module: dict[str, list[_Use]] = {}
    for use in tables:
        if word is not None or not is_wave_table(use.value):
            of_module.setdefault(use.module, []).append(use)
    keys: dict[_Place, str] = {}
    for module, uses in of_module.items():
        key = _below(module, word or (_TABLE if len(shape_of(uses[0].value) or ()) == 2 else _TABLE_OF_BATCH))
        if len({use.value for use in uses}) == 1 and key not in graph.initializers:
            keys |= {(use.node, use.place): key for use in uses}
    return keys


def _restored(graph: ir.Graph, value: ir.Value, key: str) -> ir.Value:
    """Add the parameter with the numbers of a constant: a vector, or the table of an embedding, without further axes,
    and any other as it is."""
    tensor = constant(value)
    assert tensor is not None
    is_vector = _long_axes(value) == 1
    is_embedding = not is_vector and key.endswith(".weight")
    array = NEW_AXES.undo(tensor.numpy()) if is_vector or is_embedding else tensor.numpy()
    parameter = weight_initialiser(graph, key, np.ascontiguousarray(array), _REASON, is_named=True)
    if is_embedding:
        parameter.meta[LOOKED_UP] = True
    return parameter


def _long_axes(value: ir.Value) -> int:
    return sum(size != 1 for size in shape_of(value) or ())


def _below(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name
