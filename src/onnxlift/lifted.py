"""`Lifted`: a model as source and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from .emit.file import Source
from .emit.module import Module, state_entries

if TYPE_CHECKING:
    from torch import nn


class Lifted:
    """The compiled result: `source`, `state_dict`, and from these `module()` and `save()`."""

    def __init__(self, name: str, source: Source, root: Module, model: ir.Model, fired: Mapping[str, int]) -> None:
        self.name = name
        self._source = source
        self._root = root
        self._entries = dict(state_entries(root))
        self.fired = fired

    @property
    def source(self) -> str:
        return self._source.text

    def module(self) -> nn.Module:
        """A live module in eval mode, made by executing `source`, with the weights loaded."""
        import torch

        from .run import execute, to_torch

        namespace = execute(self.source, self.name)
        with torch.device("meta"):
            module: nn.Module = namespace[self._source.class_name]()
        weights = {key: to_torch(entry.weight.array()) for key, entry in self._entries.items()}
        module.load_state_dict(weights, assign=True)
        return module.eval()
