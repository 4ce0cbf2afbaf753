"""Layers as PyTorch's exporters write them: what they lift to, with numbers, state dict and gradients."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

import onnxlift

WIDTH, HEADS = 12, 3


def exported(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    exporter: str = "script",
    sizes: Sequence[Mapping[int, str]] | None = None,
    trained: bool = True,
) -> bytes:
    """The model, with random parameters unless it is not `trained`; `sizes` names the axes of `*inputs` that stay
    open."""
    torch.manual_seed(2)
    for parameter in module.parameters() if trained else ():
        parameter.data = 0.4 * torch.randn_like(parameter)
    names = [f"input_{place}" for place in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "script":
            buffer = io.BytesIO()
            axes = None if sizes is None else {name: dict(size) for name, size in zip(names, sizes, strict=True)}
            torch.onnx.export(module.eval(), inputs, buffer, dynamo=False, input_names=names, dynamic_axes=axes)
            return buffer.getvalue()
        dynamic = None
        if sizes is not None:
            known = {name: torch.export.Dim(name, min=2, max=4096) for size in sizes for name in size.values()}
            of_inputs = [{axis: known[name] for axis, name in size.items()} for size in sizes]
            dynamic = (tuple(of_inputs),)
        program = torch.onnx.export(
            module.eval(),
            inputs,
            dynamo=True,
            optimize=exporter == "dynamo",
            dynamic_shapes=dynamic,
            verbose=False,
        )
    assert program is not None
    return program.model_proto.SerializeToString()


def source_of(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    exporter: str = "script",
    sizes: Sequence[Mapping[int, str]] | None = None,
) -> str:
    """What the module lifts to; with its numbers, its state dict and its gradients."""
    proto = exported(module, inputs, exporter, sizes)
    lifted = onnxlift.lift(proto)
    mine = lifted.module()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    feeds = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)}
    for actual, expected in zip(_results(mine, inputs), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    assert mine.state_dict().keys() == module.state_dict().keys()
    assert all(torch.equal(mine.state_dict()[key], tensor) for key, tensor in module.state_dict().items())
    for one in (mine, module):
        sum((result.square().sum() for result in _results(one, inputs)), torch.zeros(())).backward()
    gradients = {key: parameter.grad for key, parameter in mine.named_parameters()}
    for key, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[key], parameter.grad, rtol=1e-4, atol=1e-4)
    return lifted.source


def _results(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    results = module(*inputs)
    return results if isinstance(results, tuple) else (results,)
