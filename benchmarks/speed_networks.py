"""Networks whose compiled packages are measured: a MobileNet-v3 (large) in plain PyTorch, and some of transformers."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

KINDS = {"mobilenet_v3": "small CNN", "resnet_50": "ResNet", "deit_tiny": "transformer", "bert_mini": "transformer"}


def save(name: str, path: Path) -> None:
    """Export a network with random weights, its batch open."""
    torch.manual_seed(0)
    if name == "bert_mini":
        given, result = {"input_ids": torch.randint(0, 1000, (2, 128))}, "hidden"
    else:
        given, result = {"pixel_values": torch.randn(2, 3, 224, 224)}, "logits"
    axes = {each: {0: "batch"} for each in (*given, result)}
    torch.onnx.export(
        _build(name).eval(),
        tuple(given.values()),
        path,
        dynamo=False,
        input_names=list(given),
        output_names=[result],
        dynamic_axes=axes,
    )


def _build(name: str) -> nn.Module:
    if name == "mobilenet_v3":
        return MobileNetV3()
    if name == "resnet_50":
        return First(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000)))
    if name == "deit_tiny":
        sizes = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "num_labels": 1000}
        return First(transformers.DeiTForImageClassification(transformers.DeiTConfig(**sizes)))
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    return First(transformers.BertModel(transformers.BertConfig(vocab_size=1000, **sizes), add_pooling_layer=False))


class First(nn.Module):
    """The first of what a model computes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[0]


# MobileNet-v3

# kernel, expanded, channels, squeezed, activation, stride
ROWS = (
    (3, 16, 16, False, nn.ReLU, 1),
    (3, 64, 24, False, nn.ReLU, 2),
    (3, 72, 24, False, nn.ReLU, 1),
    (5, 72, 40, True, nn.ReLU, 2),
    (5, 120, 40, True, nn.ReLU, 1),
    (5, 120, 40, True, nn.ReLU, 1),
    (3, 240, 80, False, nn.Hardswish, 2),
    (3, 200, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 184, 80, False, nn.Hardswish, 1),
    (3, 480, 112, True, nn.Hardswish, 1),
    (3, 672, 112, True, nn.Hardswish, 1),
    (5, 672, 160, True, nn.Hardswish, 2),
    (5, 960, 160, True, nn.Hardswish, 1),
    (5, 960, 160, True, nn.Hardswish, 1),
)


class ConvNorm(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs, eps=0.001),
        )


class Squeeze(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = (channels // 4 + 4) // 8 * 8
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, narrow, 1)
        self.relu = nn.ReLU()
        self.fc2 = nn.Conv2d(narrow, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.fc2(self.relu(self.fc1(self.pool(x)))))


class Block(nn.Module):
    def __init__(
        self, inputs: int, kernel: int, expanded: int, channels: int, squeezed: bool, act: type[nn.Module], stride: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [] if expanded == inputs else [ConvNorm(inputs, expanded, 1), act()]
        layers += [ConvNorm(expanded, expanded, kernel, stride, groups=expanded), act()]
        layers += [Squeeze(expanded)] if squeezed else []
        self.layers = nn.Sequential(*layers, ConvNorm(expanded, channels, 1))
        self.is_residual = stride == 1 and inputs == channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvNorm(3, 16, 3, stride=2), nn.Hardswish()]
        inputs = 16
        for kernel, expanded, channels, squeezed, act, stride in ROWS:
            layers.append(Block(inputs, kernel, expanded, channels, squeezed, act, stride))
            inputs = channels
        self.features = nn.Sequential(*layers, ConvNorm(160, 960, 1), nn.Hardswish())
        self.classifier = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean((2, 3)))
