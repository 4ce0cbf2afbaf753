"""Whether trained weights find their way back into the file, over the architectures of `fidelity.py`, both exporters.

    python benchmarks/update.py [--only NAME ...] [--exporter script|dynamo] [--part 1/4] [--models FOLDER]

For each export: the file is lifted, and `update` is called twice. With the weights as they are, the bytes must be those
of the file. Then the module is trained for a step (in train mode, so that the statistics of batch norms change as
well), and its weights are put back; ONNX Runtime must compute with the new file what the trained module computes, at
two sizes, and the graph must have the nodes that it had. What cannot be undone is listed with its reason. `times` is
what `update` takes, without running anything, by what lifting takes in the same run. `--part 1/4` is the first of four
parts. Nothing is downloaded; `--models` keeps the exported files, and takes those that are there.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import onnx
import torch
from fidelity import BY_NAME, _in_silence, save
from torch import nn

import onnxlift
from models import Inputs
from models.network import EXPORTERS, Exporter, Network
from models.running import assert_close, run_onnxruntime, run_torch

RATE = 1e-3


@dataclass
class Row:
    """What became of one export."""

    title: str
    weights: int = 0
    changed: int = 0
    added: int = 0
    ratio: float = 0
    marks: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        numbers = f"{self.title:28} {self.weights:>7} {self.changed:>7} {self.added:>6} {self.ratio:>6.1f}  "
        return numbers + " ".join(f"{'ok' if mark == 'ok' else 'FAIL':^9}" for mark in self.marks.values())

    @property
    def reasons(self) -> list[str]:
        return [f"{check}: {mark}" for check, mark in self.marks.items() if mark != "ok"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), metavar="NAME", help="only these architectures")
    parser.add_argument("--exporter", choices=EXPORTERS, help="only what this exporter writes")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only the I-th of N parts")
    parser.add_argument("--models", type=Path, help="a folder to keep the exported files in, and to take them from")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    part, parts = map(int, options.part.split("/"))
    names = [name for number, name in enumerate(options.only or BY_NAME) if number % parts == part - 1]
    print(f"{'':28} {'weights':>7} {'changed':>7} {'added':>6} {'times':>6}  {'bytes':^9} {'numbers':^9} {'nodes':^9}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="onnxlift-update-") as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            for exporter in [options.exporter] if options.exporter else EXPORTERS:
                path = folder / f"{name}_{exporter}.onnx"
                problem = exported(name, exporter, path)
                if problem:
                    print(f"{name} {exporter}: torch cannot export it: {problem}", flush=True)
                    continue
                rows.append(measure(BY_NAME[name], exporter, path, Path(temporary) / "updated.onnx"))
                print("\n    ".join([str(rows[-1]), *rows[-1].reasons]), flush=True)
    short = [row for row in rows if row.reasons]
    print(f"{len(rows) - len(short)} of {len(rows)} exports are updated in place, and unchanged weights keep the bytes")
    return 1 if short else 0


def exported(name: str, exporter: Exporter, path: Path) -> str:
    """Export a network if need be, in a process of its own; return why torch cannot."""
    if path.exists():
        return ""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_in_silence) as pool:
        error = pool.submit(save, name, exporter, path).exception()
    return "" if error is None else next(iter(str(error).splitlines()), type(error).__name__)[:120]


def measure(network: Network, exporter: Exporter, path: Path, target: Path) -> Row:
    """Update the file at `path` twice: with its own weights, and with trained ones."""
    row = Row(f"{network.name} {exporter}")
    start = time.perf_counter()
    lifted = onnxlift.lift(path, name=network.name)
    lifting = time.perf_counter() - start
    module = lifted.module()
    same = lifted.update(module, verify=False).to_bytes() == path.read_bytes()
    row.marks["bytes"] = "ok" if same else "they differ with unchanged weights"
    try:
        train(module, network)
        start = time.perf_counter()
        report = lifted.update(module, verify=False)
        row.ratio = (time.perf_counter() - start) / lifting
    except onnxlift.OnnxLiftError as error:
        row.marks["numbers"] = str(error)
        return row
    row.weights, row.changed, row.added = report.total, len(report.weights), len(report.added)
    report.save(target, force=True)
    samples = network.samples()
    row.marks["numbers"] = difference(module, target, samples) or "ok"
    if not difference(module, path, samples):
        row.marks["numbers"] = "the original computes the same: training has changed too little to tell"
    row.marks["nodes"] = "ok" if nodes_of(path) == nodes_of(target) else "the graph has other nodes"
    return row


def difference(module: nn.Module, path: Path, samples: tuple[Inputs, ...]) -> str:
    """Return where a file computes something else than the module; nothing if it does not."""
    try:
        for inputs, outputs in zip(samples, run_onnxruntime(path, samples), strict=True):
            assert_close(run_torch(module, inputs), outputs)
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def train(module: nn.Module, network: Network) -> None:
    """Train a module for one step of gradient descent."""
    module.train()
    torch.manual_seed(0)
    inputs = [torch.from_numpy(array) for array in network.samples()[-1].values()]
    optimiser = torch.optim.AdamW(module.parameters(), lr=RATE)
    with torch.enable_grad():
        outputs = module(*inputs)
        tensors = outputs if isinstance(outputs, tuple | list) else [outputs]
        loss = sum((each.float() - 1).square().mean() for each in tensors if each.is_floating_point())
        loss.backward()
    optimiser.step()
    module.eval()


def nodes_of(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, operator and results of each node."""
    graph = onnx.load(path, load_external_data=False).graph
    return [(node.name, node.op_type, tuple(node.output)) for node in graph.node]


if __name__ == "__main__":
    sys.exit(main())
