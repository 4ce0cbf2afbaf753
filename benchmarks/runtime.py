"""How fast lifted modules run, each beside what it is compared with, in one process and in turn.

    python benchmarks/runtime.py [MODEL ...] [--json] [--no-compile] [--rounds 15]

A module is exported by PyTorch, lifted, and run against itself: eager against eager (budget: 5 % slower), compiled
against compiled; against the flat transcription of the same file (`lift(flat=True)`, budget: no slower), and against
ONNX Runtime (no budget). In every round each of them runs for the same number
of calls, so that whatever else the machine does meets them all; the result is the median, over the rounds, of the ratio
of two times of one round. One thread, no gradients. Below 1 the lifted module is the faster.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import onnxruntime
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

import onnxlift

SLOWER = 1.05  # than the exported module: how much is allowed, which is also what such a measurement can tell apart
SAMPLE_SECONDS = 0.05
Inputs = tuple[Tensor, ...]


class ConvBlock(nn.Module):
    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.down = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.down(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(ConvBlock(32, 32), ConvBlock(32, 64, 2), ConvBlock(64, 64), ConvBlock(64, 128, 2))
        self.fc = nn.Linear(128, 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = self.double(3, 16), self.double(16, 32)
        self.up, self.last = nn.ConvTranspose2d(32, 16, 2, 2), self.double(32, 16)
        self.head = nn.Conv2d(16, 2, 1)

    @staticmethod
    def double(channels: int, out: int) -> nn.Sequential:
        convs = [nn.Conv2d(channels, out, 3, padding=1), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1), nn.SiLU()]
        return nn.Sequential(*convs)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down1(x)
        x = self.up(self.down2(F.max_pool2d(skip, 2)))
        return self.head(self.last(torch.cat((x, skip), 1))).sigmoid()


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.rnn = kind(64, 96, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(192, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.fc(self.rnn(self.embedding(tokens))[0]).log_softmax(-1)


class Language(nn.Module):
    """A model of transformers from its configuration, reduced to its first output."""

    def __init__(self, config: transformers.PretrainedConfig, kind: Any = transformers.AutoModel) -> None:
        super().__init__()
        self.model = kind.from_config(config) if kind is transformers.AutoModel else kind(config)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, use_cache=False)[0]


class Vision(nn.Module):
    def __init__(self, config: transformers.PretrainedConfig) -> None:
        super().__init__()
        self.model = transformers.AutoModel.from_config(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self.model(pixel_values=pixel_values)[0]


WIDE = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 512}
TEXT = WIDE | {"vocab_size": 1000, "max_position_embeddings": 128}


def _image(size: int, batch: int = 2) -> Callable[[], Inputs]:
    return lambda: (torch.randn(batch, 3, size, size),)


def _tokens(length: int = 64, batch: int = 2) -> Callable[[], Inputs]:
    return lambda: (torch.randint(1000, (batch, length)),)


MODELS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)),
        lambda: (torch.randn(32, 256),),
    ),
    "resnet": (ResNet, _image(96)),
    "convnext": (
        lambda: nn.Sequential(nn.Conv2d(3, 48, 4, 4), *(ConvNeXtBlock(48) for _ in range(4))),
        _image(96),
    ),
    "unet": (UNet, _image(64)),
    "lstm": (lambda: Recurrent(nn.LSTM), _tokens(24)),
    "gru": (lambda: Recurrent(nn.GRU), _tokens(24)),
    "bert": (lambda: Language(transformers.BertConfig(**TEXT)), _tokens()),
    "gpt2": (
        lambda: Language(transformers.GPT2Config(vocab_size=1000, n_embd=192, n_layer=4, n_head=6, n_positions=128)),
        _tokens(),
    ),
    "llama": (lambda: Language(transformers.LlamaConfig(**TEXT, num_key_value_heads=2)), _tokens()),
    "t5_encoder": (
        lambda: Language(
            transformers.T5Config(vocab_size=1000, d_model=192, d_kv=32, d_ff=512, num_layers=4, num_heads=6),
            transformers.T5EncoderModel,
        ),
        _tokens(),
    ),
    "vit": (lambda: Vision(transformers.ViTConfig(**WIDE, image_size=96, patch_size=8)), _image(96)),
    "swin": (
        lambda: Vision(
            transformers.SwinConfig(image_size=64, embed_dim=48, depths=[2, 2], num_heads=[3, 6], window_size=4)
        ),
        _image(64),
    ),
}


@dataclass(frozen=True)
class Result:
    """How often longer the lifted module takes than each of the others; None for what was not measured."""

    model: str
    original: float
    flat: float
    onnxruntime: float
    compiled: float | None

    @property
    def holds(self) -> bool:
        """No slower than the exported module, nor than the transcript, as far as can be told apart."""
        return self.original <= SLOWER and self.flat <= SLOWER


def measure(name: str, rounds: int, compiled: bool) -> Result:
    torch.manual_seed(0)
    build, make_inputs = MODELS[name]
    original, inputs = build().eval(), make_inputs()
    program = torch.onnx.export(original, inputs, dynamo=True, verbose=False)
    file = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(file, _single_thread(), providers=["CPUExecutionProvider"])
    feeds = {each.name: tensor.numpy() for each, tensor in zip(session.get_inputs(), inputs, strict=True)}
    lifted, flat = onnxlift.lift(file, name=name).module(), onnxlift.lift(file, name=f"{name}_flat", flat=True).module()
    expected = original(*inputs)
    for module in (lifted, flat):
        torch.testing.assert_close(module(*inputs), expected, rtol=1e-3, atol=1e-3)
    subjects: dict[str, Callable[[], object]] = {
        "lifted": lambda: lifted(*inputs),
        "original": lambda: original(*inputs),
        "flat": lambda: flat(*inputs),
        "onnxruntime": lambda: session.run(None, feeds),
    }
    if compiled:
        fast, fast_original = torch.compile(lifted), torch.compile(original)
        subjects |= {
            "compiled lifted": lambda: fast(*inputs),
            "compiled original": lambda: fast_original(*inputs),
        }
    seconds = _in_turn(subjects, rounds)

    def ratio(ours: str, theirs: str) -> float:
        return statistics.median(a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True))

    against = {each: ratio("lifted", each) for each in ("original", "flat", "onnxruntime")}
    return Result(name, **against, compiled=ratio("compiled lifted", "compiled original") if compiled else None)


def _single_thread() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options


def _in_turn(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The times of each subject, one a round. The order turns with the rounds, so that none is always the first."""
    calls = max(1, round(SAMPLE_SECONDS / max(_time(run, 3) / 3 for run in subjects.values())))
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    for start in range(rounds):
        for i in range(len(names)):
            name = names[(start + i) % len(names)]
            seconds[name].append(_time(subjects[name], calls))
    return seconds


def _time(run: Callable[[], object], calls: int) -> float:
    run()  # what the one before has left in the caches is not this one's
    start = time.process_time()
    for _ in range(calls):
        run()
    return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; all of them by default")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each model")
    parser.add_argument(
        "--no-compile", action="store_true", help="leave out torch.compile, which takes most of the time"
    )
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {', '.join(unknown)}")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    results = []
    if not arguments.json:
        print(f"{'lifted / ...':14}{'original':>12}{'flat':>12}{'onnxruntime':>14}{'both compiled':>16}")
    for name in arguments.models or MODELS:
        result = measure(name, arguments.rounds, not arguments.no_compile)
        results.append(result)
        if arguments.json:
            print(json.dumps(asdict(result)), flush=True)
        else:
            last = "-" if result.compiled is None else f"{result.compiled:.2f}"
            row = f"{name:14}{result.original:12.2f}{result.flat:12.2f}{result.onnxruntime:14.2f}{last:>16}"
            print(row + ("" if result.holds else "   over budget"), flush=True)
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
