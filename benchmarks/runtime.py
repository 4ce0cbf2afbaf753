"""How fast lifted modules run, each beside what it is compared with, in one process and in turn.

    python benchmarks/runtime.py [MODEL ...] [--json] [--no-compile] [--rounds 75]

A module is exported by PyTorch, lifted, and run against itself: eager against eager (budget: 5 % slower), compiled
against compiled; against the flat transcription of the same file (`lift(structure="flat")`, budget: no slower, which
cannot be told from 5 %), and against ONNX Runtime (no budget). In every round each of them runs for the same number of
calls, so that whatever else the machine does meets them all; the result is the median, over the rounds, of the ratio of
two times of one round. One thread, no gradients. Below 1 the lifted module is the faster.
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
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import onnxruntime
import torch
from torch import Tensor, nn

import onnxlift
from models import convnets, pretrained, sequence, vision
from models.network import VOCABULARY

SLOWER = 1.05  # than the exported module: how much is allowed, which is also what such a measurement can tell apart
SAMPLE_SECONDS = 0.01  # short, for many rounds: on a busy machine equal modules are then 2 % apart, and not 6 %
Inputs = tuple[Tensor, ...]


LAYERS = {"hidden_size": 192, "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 512}
T5 = {"d_model": 192, "d_kv": 32, "d_ff": 512, "num_layers": 4, "num_heads": 6}
SWIN = {"image_size": 64, "embed_dim": 48, "depths": [2, 2], "num_heads": [3, 6], "window_size": 4}


def _floats(*shape: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(shape),)


def _tokens(length: int, masked: bool = False) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        tokens = torch.randint(VOCABULARY, (2, length))
        return (tokens, torch.ones_like(tokens)) if masked else (tokens,)

    return inputs


# The networks of the tests, as wide as it takes for the time of a run to be that of its computation: calling a module
# takes three microseconds, and a product with few rows is slower by an `nn.Linear`, which holds its matrix transposed.
MODELS: Mapping[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 10)),
        _floats(128, 512),
    ),
    "resnet": (lambda: vision.ResNet(48, 96), _floats(2, 3, 96, 96)),
    "convnext": (lambda: convnets.ConvNeXt(6), _floats(2, 3, 96, 96)),
    "unet": (lambda: vision.UNet(16, 24, 32), _floats(2, 3, 64, 64)),
    "lstm": (lambda: sequence.LSTMClassifier(8), _tokens(24)),
    "gru": (lambda: sequence.GRUTagger(8), _tokens(24)),
    "bert": (lambda: pretrained.text("BertModel", **LAYERS), _tokens(64, masked=True)),
    "gpt2": (
        lambda: pretrained.decoder("GPT2LMHeadModel", n_embd=192, n_layer=4, n_head=6),
        _tokens(64, masked=True),
    ),
    "llama": (
        lambda: pretrained.decoder("LlamaForCausalLM", **LAYERS, num_key_value_heads=2),
        _tokens(64, masked=True),
    ),
    "t5_encoder": (lambda: pretrained.text("T5EncoderModel", **T5), _tokens(128, masked=True)),
    "vit": (
        lambda: pretrained.vision("ViTForImageClassification", **LAYERS, image_size=96, patch_size=8),
        _floats(2, 3, 96, 96),
    ),
    "swin": (lambda: pretrained.vision("SwinForImageClassification", **SWIN), _floats(2, 3, 64, 64)),
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
    lifted, flat = (
        onnxlift.lift(file, name=name).module(),
        onnxlift.lift(file, name=f"{name}_flat", structure="flat").module(),
    )
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
    parser.add_argument("--rounds", type=int, default=75)
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
