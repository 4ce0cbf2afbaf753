"""The layers that operators lift to, of `torch.nn` and our own: their signatures, and one use of one in a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.lifting import kernels
from onnxlift.rewriting.idioms.parts.computed_weight import KEY, ComputedWeight

Array = np.ndarray[Any, Any]
REQUIRED = object()


def _signature(*required: str, **optional: Any) -> dict[str, Any]:
    return {**dict.fromkeys(required, REQUIRED), **optional}


def _conv(**more: Any) -> dict[str, Any]:
    return _signature(
        "in_channels",
        "out_channels",
        "kernel_size",
        stride=1,
        padding=0,
        **more,
        dilation=1,
        groups=1,
        bias=True,
        padding_mode="zeros",
    )


def _conv_transpose() -> dict[str, Any]:
    names = ("in_channels", "out_channels", "kernel_size")
    return _signature(*names, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1)


_MAX_POOL = _signature("kernel_size", stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False)
_AVG_POOL = _signature("kernel_size", stride=None, padding=0, ceil_mode=False, count_include_pad=True)
_BATCH_NORM = _signature("num_features", eps=1e-5, momentum=0.1, affine=True, track_running_stats=True)
_INSTANCE_NORM = _signature("num_features", eps=1e-5, momentum=0.1, affine=False, track_running_stats=False)
_RECURRENT = _signature(
    "input_size", "hidden_size", num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False
)
_CELL = _signature("input_size", "hidden_size", bias=True)

_STORED = {"per_channel": False, "signed": True}
_QUANTIZED_LINEAR = _signature("in_features", "out_features", bias=True, **_STORED)

# Parameter name -> default, in the order of the constructor; REQUIRED ones are written by position.
SIGNATURES: dict[str, dict[str, Any]] = {
    "Linear": _signature("in_features", "out_features", bias=True),
    "Bilinear": _signature("in1_features", "in2_features", "out_features", bias=True),
    **{f"Conv{n}d": _conv() for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _conv_transpose() for n in (1, 2, 3)},
    **{f"MaxPool{n}d": _MAX_POOL for n in (1, 2, 3)},
    **{f"AvgPool{n}d": _AVG_POOL for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": _BATCH_NORM for n in (1, 2, 3)},
    **{f"InstanceNorm{n}d": _INSTANCE_NORM for n in (1, 2, 3)},
    "LayerNorm": _signature("normalized_shape", eps=1e-5, elementwise_affine=True, bias=True),
    "RMSNorm": _signature("normalized_shape", eps=None, elementwise_affine=True),
    "GroupNorm": _signature("num_groups", "num_channels", eps=1e-5, affine=True),
    "Embedding": _signature("num_embeddings", "embedding_dim", padding_idx=None),
    "MultiheadAttention": _signature(
        "embed_dim",
        "num_heads",
        dropout=0.0,
        bias=True,
        add_bias_kv=False,
        add_zero_attn=False,
        kdim=None,
        vdim=None,
        batch_first=False,
    ),
    "PReLU": _signature(num_parameters=1),
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "RNN": {**_RECURRENT, "nonlinearity": "tanh"},
    "LSTMCell": _CELL,
    "GRUCell": _CELL,
    "RNNCell": {**_CELL, "nonlinearity": "tanh"},
    "Dropout": _signature(p=0.5),
    "Identity": _signature(),
    "ReLU": _signature(),
    "ReLU6": _signature(),
    "GELU": _signature(approximate="none"),
    "SiLU": _signature(),
    "Hardswish": _signature(),
    "Hardsigmoid": _signature(),
    "Sigmoid": _signature(),
    "Tanh": _signature(),
    "ELU": _signature(alpha=1.0),
    "LeakyReLU": _signature(negative_slope=0.01),
    "Softplus": _signature(beta=1.0, threshold=20.0),
    "Softshrink": _signature(lambd=0.5),
    "Hardshrink": _signature(lambd=0.5),
    "Tanhshrink": _signature(),
    "Hardtanh": _signature("min_val", "max_val"),
    "Mish": _signature(),
    "SELU": _signature(),
    "CELU": _signature(alpha=1.0),
    "Softsign": _signature(),
    "LogSigmoid": _signature(),
    "GLU": _signature(dim=-1),
    "Softmax": _signature(dim=None),
    "LogSoftmax": _signature(dim=None),
    "Flatten": _signature(start_dim=1, end_dim=-1),
    "PixelShuffle": _signature("upscale_factor"),
    "PixelUnshuffle": _signature("downscale_factor"),
    "Upsample": _signature(size=None, scale_factor=None, mode="nearest", align_corners=None),
    **{f"Adaptive{kind}Pool{n}d": _signature("output_size") for kind in ("Avg", "Max") for n in (1, 2, 3)},
    # Those in kernels/lifted/quantized_layers.py.
    "QuantizedLinear": _QUANTIZED_LINEAR,
    "DynamicQuantizedLinear": _QUANTIZED_LINEAR,
    "BlockQuantizedLinear": _signature(
        "in_features", "out_features", block_size=32, bits=4, zero_points=False, bias=False
    ),
    "QuantizedConv2d": {**_conv(), **_STORED},
    "DynamicQuantizedConv2d": {**_conv(), **_STORED, **_signature(rounds_bias=False)},
    "QuantizedEmbedding": _signature("num_embeddings", "embedding_dim", signed=True),
}

# Layers without weights that any of the others could stand for.
ACTIVATIONS = frozenset(
    """ReLU ReLU6 GELU SiLU Hardswish Hardsigmoid Sigmoid LogSigmoid Tanh ELU SELU CELU LeakyReLU Softplus Softsign
    Softshrink Hardshrink Tanhshrink Hardtanh Mish Identity""".split()
)
# What the integers of a quantised weight stand for.
STEPS = frozenset({"scale", "zero_point", "scales", "zero_points"})
# Persistent buffers; every other weight of a layer is a parameter, unless it is of integers.
BUFFERS = STEPS | {"running_mean", "running_var", "num_batches_tracked"}


@dataclass(frozen=True)
class Weight:
    """A tensor of the state dict: a constant of the model, read through `transform` if the layer stores it otherwise
    (an ONNX matrix transposed for `nn.Linear`, LSTM gates in PyTorch's order). Lazy: nothing is read before it is
    written or loaded."""

    value: ir.Value
    shape: tuple[int, ...]
    transform: Callable[[Array], Array] | None = None

    def array(self) -> Array:
        assert self.value.const_value is not None
        array = self.value.const_value.numpy()
        if self.transform is not None:
            array = np.asarray(self.transform(array), order="C")
        assert array.shape == self.shape, f"{self.value.name}: {array.shape} is not {self.shape}"
        return array


def turned(matrix: Array) -> Array:
    """From ONNX's layout of a linear layer's matrix, (in, out), to PyTorch's."""
    return matrix.T


@dataclass(eq=False)
class Layer:
    """One `nn.Conv2d(...)` of the model. `arguments` holds all arguments by name; those at their default are not
    written. `node` is the ONNX node that it comes from: its name and scope give the attribute's name. A layer that
    computes its weight is wrapped in the function that makes it do so."""

    kind: str
    arguments: dict[str, Any]
    weights: dict[str, Weight] = field(default_factory=dict)
    node: ir.Node | None = None
    computed: ComputedWeight | None = None

    @property
    def constructor(self) -> str:
        """What is called to make one."""
        return self.kind if self.kind in kernels.layers() else f"nn.{self.kind}"

    @property
    def signature(self) -> Mapping[str, Any]:
        return SIGNATURES[self.kind]

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two uses of what was one layer: same kind, arguments and weights, read in the same way (a square
        matrix may be used as it is and transposed)."""
        weights = tuple((name, id(weight.value), weight.transform is None) for name, weight in self.weights.items())
        return (self.kind, repr(self.arguments), weights)

    @property
    def buffers(self) -> frozenset[str]:
        """Those of its weights that are not trained, but part of the state dict."""
        return BUFFERS if self.computed is None else BUFFERS | self.computed.buffers

    @property
    def wrapper(self) -> tuple[object, ...]:
        """What it is wrapped in, and how: equal for layers that are wrapped alike."""
        return () if self.computed is None else (self.computed.function, *self.computed.arguments.items())

    @property
    def is_plain_activation(self) -> bool:
        """Whether this is an activation as it is without arguments."""
        return self.kind in ACTIVATIONS and self.complete_arguments() == self.signature

    def hold(self, name: str, weight: Weight) -> None:
        """Let it have a weight, or the parts that it computes it from."""
        computed = weight.value.meta.get(KEY)
        if name == "weight" and weight.transform is None and computed is not None:
            self.computed = computed
            self.weights.update({part: Weight(value, _shape(value)) for part, value in computed.parts.items()})
        else:
            self.weights[name] = weight

    def complete_arguments(self) -> dict[str, Any]:
        """Every argument in the order of the constructor, defaults filled in."""
        unknown = self.arguments.keys() - self.signature.keys()
        assert not unknown, f"{self.constructor} has no argument {', '.join(sorted(unknown))}"
        return {name: self.arguments.get(name, default) for name, default in self.signature.items()}


def _shape(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())
