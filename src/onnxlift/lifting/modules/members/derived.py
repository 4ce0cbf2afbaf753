"""Let a model that is a single layer derive from that layer, instead of holding it.

    self.lstm = nn.LSTM(5, 7)       ->   class Model(nn.LSTM): super().__init__(5, 7)
    return self.lstm(x)             ->   return super().forward(x)

Such a layer was exported by itself. As a member, it would give its weights other keys in the state dict. Applies to a
model from PyTorch
1. if a weight of the layer has the name that the layer gives it, without a module's path (`weight_ih_l0`), and no other
   weight of it has another name: some have lost their names, or were packed;
2. if none of its weights has a name, the exporter says that they are used in no module (`/MatMul`), and nothing else
   happens in the model: an `nn.Linear` without a bias.

Does not apply if the model has two such layers, does anything with the layer but call it, or has another member by a
name that the layer uses itself. (For weights whose names are no layer's, or that lie beside other modules, see
idioms/layers/bare_weights.py.)
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.origin.exporter import exporter_of
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import Call, Member, bare
from onnxlift.lifting.code.reads import parts
from onnxlift.lifting.modules.member_names import kind_word
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import ModulePaths
from onnxlift.rewriting.idioms.parts.parameter_names import parameter_name


def derive(root: Module, model: ir.Model, paths: ModulePaths) -> None:
    """Let the root module derive from its layer, if it was that layer."""
    if not exporter_of(model).is_pytorch:
        return
    layers = [layer for layer in root.members.values() if isinstance(layer, Layer) and _is_the_model(layer)]
    if not layers and len(root.members) == 1 and len(root.body.statements) == 2:
        layers = [layer for layer in root.members.values() if isinstance(layer, Layer) and _has_no_names(layer, paths)]
    if len(layers) == 1 and _is_only_called(layers[0], root):
        (layer,) = layers
        own = {*(name.partition(".")[0] for name in layer.weights), *layer.signature}
        others = {path: member for path, member in root.members.items() if member is not layer}
        if not any(path[0] in own or path[0].isdigit() for path in others):
            root.derived, root.members = layer, others
            root.name(layer, (kind_word(layer),))


def _is_the_model(layer: Layer) -> bool:
    """Tell from the names of its weights whether a layer is the model itself, by rule 1."""
    names = {role: _name(weight.value, layer) for role, weight in layer.weights.items()}
    return any(names.values()) and all(name in (role, None) for role, name in names.items())


def _name(value: ir.Value, layer: Layer) -> str | None:
    """Return the original name of a weight of the layer; None if it has lost its name."""
    origin = origin_of(value)
    if origin.is_computed and layer.node is not None:
        return parameter_name(value, layer.node)
    return None if origin.is_nameless or origin.is_made else value.name


def _has_no_names(layer: Layer, paths: ModulePaths) -> bool:
    """Tell whether a layer without names is the model itself, by rule 2."""
    node = layer.node
    if node is None or not layer.weights or any(_name(w.value, layer) for w in layer.weights.values()):
        return False
    return not paths.path_of(node) and ((node.name or "").startswith("/") or NAME_SCOPES in node.metadata_props)


def _is_only_called(layer: Layer, module: Module) -> bool:
    every = list(parts(module.body))
    read = sum(isinstance(part, Member) and part._target is layer for part in every)
    functions = [bare(part._function) for part in every if isinstance(part, Call)]
    return read == sum(isinstance(function, Member) and function._target is layer for function in functions)
