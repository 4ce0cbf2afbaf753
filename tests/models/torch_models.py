"""Torch modules, each exported by both of torch's exporters: by tracing ("script") and by torch.export ("dynamo")."""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.onnx import TrainingMode

from models import BATCHES, Example, Inputs, sequence, vision

Exporter = Literal["script", "dynamo"]
Tensors = dict[str, Tensor]
Names = dict[str, list[str]]
EXPORTERS: tuple[Exporter, ...] = ("script", "dynamo")


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


def _floats(*shape: int, resize: int = 0) -> Callable[[np.random.Generator, int], Inputs]:
    """`x` of that shape behind the batch; with `resize`, its last two sizes grow by that much with the batch."""

    def inputs(random: np.random.Generator, batch: int) -> Inputs:
        grown = (*shape[:-2], shape[-2] + resize * batch, shape[-1] + 2 * resize * batch) if resize else shape
        return {"x": random.standard_normal((batch, *grown)).astype(np.float32)}

    return inputs


def _tokens(random: np.random.Generator, batch: int) -> Inputs:
    return {"tokens": random.integers(0, 50, (batch, 5 + 2 * batch))}


def _masked_tokens(random: np.random.Generator, batch: int) -> Inputs:
    shape = (batch, 5 + 2 * batch)
    mask = random.integers(0, 2, shape)
    mask[:, 0] = 1  # a row that attends to nothing means something else in every implementation
    return {"input_ids": random.integers(0, 50, shape), "attention_mask": mask}


def _language(name: str) -> Callable[[], nn.Module]:
    """A model of `models.language`, which is imported only when needed: transformers takes seconds to import."""
    return lambda: getattr(importlib.import_module("models.language"), name)()


_BATCH = {0: "batch"}
_SEQUENCE = {0: "batch", 1: "sequence"}
_MASKED = {"input_ids": _SEQUENCE, "attention_mask": _SEQUENCE}
_IMAGE = {0: "batch", 2: "height", 3: "width"}

NETWORKS = (
    Network("mlp", sequence.MLP, _floats(12), {"x": _BATCH}, "probs"),
    Network("cnn", vision.CNN, _floats(3, 16, 16), {"x": _BATCH}, "log_probs", optimise=False),
    Network("resnet", vision.ResNet, _floats(3, 32, 32), {"x": _BATCH}, "logits"),
    Network("mobilenet", vision.MobileNet, _floats(3, 32, 32), {"x": _BATCH}, "logits", optimise=False),
    Network("unet", vision.UNet, _floats(3, 16, 16, resize=4), {"x": _IMAGE}, "mask"),
    Network("vit", vision.ViT, _floats(3, 32, 32), {"x": _BATCH}, "logits"),
    Network("lstm", sequence.LSTMClassifier, _tokens, {"tokens": _SEQUENCE}, "logits", recurrent=True),
    Network("gru", sequence.GRUTagger, _tokens, {"tokens": _SEQUENCE}, "log_probs", recurrent=True),
    Network("bert", _language("Bert"), _masked_tokens, _MASKED, "last_hidden_state"),
    Network("bert_untrained", _language("Bert"), _masked_tokens, _MASKED, "last_hidden_state", trained=False),
    Network("gpt2", _language("GPT2"), _masked_tokens, _MASKED, "logits"),
    Network("llama", _language("Llama"), _masked_tokens, _MASKED, "logits"),
    Network("t5_encoder", _language("T5Encoder"), _masked_tokens, _MASKED, "last_hidden_state"),
)
UNFOLDED = tuple(
    replace(network, name=f"{network.name}_unfolded", optimise=False)
    for network in NETWORKS
    if network.name in ("resnet", "unet")
)
"""Those whose batch norms the exporters otherwise fold into convolutions."""


def _examples(networks: tuple[Network, ...]) -> tuple[Example, ...]:
    return tuple(
        Example(network.name, partial(network.export, exporter), network.samples, exporter, recurrent=network.recurrent)
        for network in networks
        for exporter in EXPORTERS
    )


EXAMPLES = _examples(NETWORKS)
UNFOLDED_EXAMPLES = _examples(UNFOLDED)
