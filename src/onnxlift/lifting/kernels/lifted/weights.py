"""What `load` of a generated file calls: reading weights, and making a module without them."""

import io
import json
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes
from safetensors.torch import load_file
from torch import Tensor, nn


def read_weights(source: str | Path | bytes | BinaryIO | dict[str, Tensor], device: str) -> dict[str, Tensor]:
    """The tensors of a safetensors or .pt file (its path, its bytes, or open), or of a dict."""
    if isinstance(source, dict):
        return {name: tensor.to(device, copy=True) for name, tensor in source.items()}
    if isinstance(source, str | Path) and str(source).endswith(".safetensors"):
        return load_file(source, device=device)
    if isinstance(source, str | Path):
        source = Path(source).read_bytes()
    data = source if isinstance(source, bytes) else source.read()
    if data[8:9] == b"{":  # safetensors; a .pt file begins otherwise
        return {name: tensor.to(device) for name, tensor in load_bytes(data).items()}
    return torch.load(io.BytesIO(data), map_location=device, weights_only=True)


def read_shards(index: str | Path, device: str) -> dict[str, Tensor]:
    """The tensors of all files that an index lists."""
    weights: dict[str, Tensor] = {}
    for shard in sorted(set(json.loads(Path(index).read_text())["weight_map"].values())):
        weights |= load_file(Path(index).with_name(shard), device=device)
    return weights


def under_all_names(weights: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights, and those that are one under each of their names: files hold them once."""
    names = dict(model.named_parameters(remove_duplicate=False))
    held = {names[name]: weights[name] for name in weights if name in names}
    return weights | {name: held[parameter] for name, parameter in names.items() if parameter in held}


def initialise(model: nn.Module) -> None:
    """Give the parameters that belong to no layer of PyTorch small random values."""
    for module in model.modules():
        if not hasattr(module, "reset_parameters"):
            for name, parameter in module.named_parameters(recurse=False):
                if not name.startswith("original"):  # a layer computes its weight from it
                    nn.init.normal_(parameter, std=0.02)


def keep_buffers(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model the buffers that are no statistics: tables, masks, and weights of integers."""
    for name, tensor in weights.items():
        owner, _, buffer = name.rpartition(".")
        module = model.get_submodule(owner)
        is_buffer = buffer in dict(module.named_buffers(recurse=False))
        if is_buffer and not hasattr(module, "reset_parameters"):
            module.register_buffer(buffer, tensor)
