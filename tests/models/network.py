"""Torch modules for torch's two exporters: by tracing ("script") and by torch.export ("dynamo")."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.onnx import TrainingMode

from models import BATCHES, Example, Inputs

Exporter = Literal["script", "dynamo"]
Tensors = dict[str, Tensor]
Names = dict[str, list[str]]
EXPORTERS: tuple[Exporter, ...] = ("script", "dynamo")

VOCABULARY = 50
BATCH = {0: "batch"}
SEQUENCE = {0: "batch", 1: "sequence"}
MASKED = {"input_ids": SEQUENCE, "attention_mask": SEQUENCE}
IMAGE = {0: "batch", 2: "height", 3: "width"}


@dataclass(frozen=True)
class Network:
    """A torch module, what it is fed, and which of the sizes of its inputs are free."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[np.random.Generator, int], Inputs]
    """Inputs for a batch of that many; other free sizes grow with the batch, so that they vary as well."""
    dynamic: dict[str, dict[int, str]]
    output: str
    optimise: bool = True
    """Without it, batch norms stay in the graph, as in a model that is exported to be trained further."""
    trained: bool = True
    """Without it, weights are as initialised: zeros and ones, of which the script exporter stores equal ones once."""
    recurrent: bool = False

    def module(self) -> nn.Module:
        """The module in eval mode, with the same weights every time."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = self.build().eval()
        if self.trained:
            _randomise(module)
        return module

    def samples(self) -> tuple[Inputs, ...]:
        random = np.random.default_rng(0)
        return tuple(self.inputs(random, batch) for batch in BATCHES)

    def export(self, exporter: Exporter) -> onnx.ModelProto:
        inputs = {name: torch.from_numpy(array) for name, array in self.inputs(np.random.default_rng(1), 2).items()}
        names = {"input_names": list(inputs), "output_names": [self.output]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._export_dynamo(inputs, names) if exporter == "dynamo" else self._export_script(inputs, names)

    def _export_script(self, inputs: Tensors, names: Names) -> onnx.ModelProto:
        file = io.BytesIO()
        mode = TrainingMode.EVAL if self.optimise else TrainingMode.PRESERVE
        options = {"dynamic_axes": self.dynamic, "opset_version": 17, "training": mode}
        torch.onnx.export(self.module(), (), file, kwargs=inputs, dynamo=False, **options, **names)
        return onnx.load_from_string(file.getvalue())

    @torch.no_grad()  # T5's decomposition fails with gradients on; with them off, tracing meets a fused attention
    def _export_dynamo(self, inputs: Tensors, names: Names) -> onnx.ModelProto:
        options = {"dynamic_shapes": self.dynamic, "optimize": self.optimise, "verbose": False}
        program = torch.onnx.export(self.module(), kwargs=inputs, dynamo=True, **options, **names)
        return program.model_proto


def examples(networks: Iterable[Network]) -> tuple[Example, ...]:
    """An example for each network and exporter."""
    return tuple(
        Example(network.name, partial(network.export, exporter), network.samples, exporter, recurrent=network.recurrent)
        for network in networks
        for exporter in EXPORTERS
    )


def _randomise(module: nn.Module) -> None:
    """Give every parameter and running statistic a value that cannot be mistaken for its initial one."""
    random = torch.Generator().manual_seed(0)
    buffers = ((name, buffer) for name, buffer in module.named_buffers() if "running_" in name)
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *buffers):
            if tensor.ndim > 1:
                tensor.normal_(0, tensor[0].numel() ** -0.5, generator=random)
            elif name.endswith(("weight", "running_var")):
                tensor.uniform_(0.5, 1.5, generator=random)
            else:
                tensor.normal_(0, 0.2, generator=random)


def floats(*shape: int, name: str = "x", resize: int = 0) -> Callable[[np.random.Generator, int], Inputs]:
    """One input of that shape behind the batch; with `resize`, its last two sizes grow by that much with the batch."""

    def inputs(random: np.random.Generator, batch: int) -> Inputs:
        grown = (*shape[:-2], shape[-2] + resize * batch, shape[-1] + 2 * resize * batch) if resize else shape
        return {name: random.standard_normal((batch, *grown)).astype(np.float32)}

    return inputs


def tokens(random: np.random.Generator, batch: int) -> Inputs:
    return {"tokens": random.integers(0, VOCABULARY, (batch, 5 + 2 * batch))}


def masked_tokens(random: np.random.Generator, batch: int) -> Inputs:
    shape = (batch, 5 + 2 * batch)
    mask = random.integers(0, 2, shape)
    mask[:, 0] = 1  # a row that attends to nothing means something else in every implementation
    return {"input_ids": random.integers(0, VOCABULARY, shape), "attention_mask": mask}
