"""What `export` exports, how fast the compiled packages are, and how much memory it takes.

    python benchmarks/export.py corpus [FOLDER ...] [--golden] [--architectures] [--packages FOLDER] [--out FOLDER]
    python benchmarks/export.py speed [FILE ...] [--batch 1] [--rounds 30] [--open]
    python benchmarks/export.py memory [--megabytes 1000]

`corpus` exports the golden models, the architectures of benchmarks/fidelity.py with both exporters of PyTorch, and the
models of packages (benchmarks/packages.py) or of any other folder, each compared with ONNX Runtime. It prints one line
each, and at the end why the others are not exported. `speed` compiles models by `--aoti`, and prints the median of the
ratio of their time and ONNX Runtime's: all run in turn, in one process, with one thread. `floor` is the time that the
model's multiplications would take if all ran as fast as those of two large matrices do, so that no engine can be much
below it. Without a FILE it builds the networks of speed_networks.py with random weights. Sizes that a model leaves open
are fixed (to `--batch`), unless they are to be `--open`. `memory` exports a model with that many megabytes of weights,
and prints the peak of memory that the child has taken, as a multiple of the weights.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnxlift
from onnxlift.ir.load import load
from onnxlift.verification.children import child
from onnxlift.verification.inputs import make_inputs
from onnxlift.workbench.batch import Row

BARS = {"small CNN": 1.3, "ResNet": 1.1, "transformer": 0.9}
"""The most of ONNX Runtime's time that a compiled package should take."""


# What can be exported


def corpus(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="onnxlift-benchmark-") as place:
        folder = options.out or Path(place)
        titles = dict(_models(options, folder / "models"))
        if not titles:
            raise SystemExit("no models: name a FOLDER, --golden, --architectures or --packages FOLDER")
        kinds: Counter[str] = Counter()
        told: dict[str, list[str]] = {}
        packages: set[str] = set()

        def on_row(row: Row, done: int, total: int) -> None:
            kind, text = _outcome(row)
            title = titles[row.model]
            kinds[kind] += 1
            if kind == "exported" and "__" in title:
                packages.add(title.partition("__")[0])
            if kind != "exported":
                told.setdefault(kind, []).append(f"{title}: {text}")
            print(f"{done:4} {kind:14} {title:56} {row.seconds:6.1f} s  {text[:200]}", flush=True)

        config = {"inputs": list(titles), "output_dir": str(folder / "out"), "open_sizes": "keep", "jobs": options.jobs}
        onnxlift.batch({**config, "timeout": options.timeout, "steps": ["export"]}, on_row=on_row)
    for kind, lines in told.items():
        print("\n".join(["", f"{kind}:", *lines]))
    print(", ".join(f"{kind}: {count}" for kind, count in kinds.most_common()))
    if packages:
        print(f"of {len(packages)} packages at least one model is exported: {', '.join(sorted(packages))}")
    return 0 if kinds.keys() <= {"exported", "data decides"} else 1


def _outcome(row: Row) -> tuple[str, str]:
    """Return a word for what became of a model, and what there is to say of it."""
    if row.passed:
        data = row.steps[0]["data"]
        sizes = f"at {len(data['verification']['runs'])} sizes" if data["verification"] else "not compared"
        return "exported", "; ".join([sizes, *data["notes"]])
    reason = row.reason.removeprefix("export: ").splitlines()[0]
    if "data decides what happens" in reason:
        return "data decides", reason
    return {"failed": "differs", "error": "cannot"}.get(row.kind, row.kind), reason


def _models(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of models, with what to call them; those that are built are built first."""
    folder.mkdir(parents=True, exist_ok=True)
    if options.golden or options.architectures:
        from models.architectures import ARCHITECTURES
        from models.every import EXAMPLES
        from models.network import examples

        names = [example.name for example in EXAMPLES] if options.golden else []
        names += [example.name for example in examples(ARCHITECTURES)] if options.architectures else []
        waiting = [name for name in dict.fromkeys(names) if not (folder / f"{name}.onnx").exists()]
        while waiting:  # PyTorch's exporter crashes with one of them, and its process with it
            name = waiting.pop(0)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_in_silence) as pool:
                while pool.submit(_save, name, folder / f"{name}.onnx").exception() is None and waiting:
                    name = waiting.pop(0)
        yield from ((str(path), path.name) for path in sorted(folder.glob("*.onnx")))
    if options.packages:
        from packages import fetch

        yield from ((str(path), path.name) for path in fetch(options.packages))
    for given in options.files:
        yield from ((str(each), each.name) for each in (sorted(given.rglob("*.onnx")) if given.is_dir() else [given]))


def _save(name: str, path: Path) -> None:
    from models.every import save

    save(name, path)


def _in_silence() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


# How fast it is


def speed(options: argparse.Namespace) -> int:
    print(f"{'of ONNX Runtime':24}{'eager':>8}{'aoti':>8}{'floor':>8}{'bar':>8}{'compiled in':>14}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = {path.stem: ("", path) for path in options.files}
        if not files:
            from speed_networks import KINDS, save

            for name, kind in KINDS.items():
                files[name] = (kind, folder / f"{name}.onnx")
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_in_silence) as pool:
                    pool.submit(save, name, folder / f"{name}.onnx").result()
        missed = 0
        for name, (kind, path) in files.items():
            ratios, seconds = _measure(path, folder / f"{name}.pt2", options)
            bar = BARS.get(kind)
            missed += bar is not None and ratios["aoti"] > bar
            shown = "-" if bar is None else f"{bar:.2f}"
            told = "".join(f"{ratios[column]:8.2f}" for column in ("eager", "aoti", "floor"))
            print(f"{name:24}{told}{shown:>8}{seconds:12.0f} s", flush=True)
    return 1 if missed else 0


def _measure(path: Path, package: Path, options: argparse.Namespace) -> tuple[Mapping[str, float], float]:
    """Return the ratios to ONNX Runtime's time, and the seconds that compiling took."""
    import onnxruntime
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    shapes = {
        each.name: [size if isinstance(size, int) else options.batch for size in each.shape]
        for each in session.get_inputs()
    }
    start = time.monotonic()
    report = onnxlift.export(path, aoti=True, shapes={} if options.open else shapes, timeout=3600)
    seconds = time.monotonic() - start
    assert report.passed, report
    report.save(package)
    fast, module = torch._inductor.aoti_load_package(str(package)), onnxlift.lift(path).module()
    feeds = make_inputs(load(path).graph, shapes=shapes)
    arguments = [torch.from_numpy(value) for value in feeds.values()]
    square = torch.randn(512, 512)
    packed = torch.ops.mkldnn._linear_pointwise
    subjects: dict[str, Callable[[], object]] = {
        "ort": lambda: session.run(None, feeds),
        "matrices": lambda: packed(square, square, None, "none", [], ""),
        "eager": lambda: module(*arguments),
        "aoti": lambda: fast(*arguments),
    }
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for start_at in range(options.rounds):
        for i in range(len(subjects)):
            name = list(subjects)[(start_at + i) % len(subjects)]
            subjects[name]()  # what the one before has left in the caches is not this one's
            begin = time.process_time()
            for _ in range(3):
                subjects[name]()
            times[name].append(time.process_time() - begin)
    pairs = {name: zip(times[name], times["ort"], strict=True) for name in ("eager", "aoti", "matrices")}
    ratios = {name: statistics.median(ours / theirs for ours, theirs in each) for name, each in pairs.items()}
    macs = onnxlift.profile(path, shapes=shapes).to_dict()["total"]["macs"]
    return ratios | {"floor": ratios["matrices"] * macs / 512**3}, seconds


# How much memory it takes


def memory(options: argparse.Namespace) -> int:
    layers = max(1, options.megabytes // 64)
    weights = layers * 4096 * 4096 * 4
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "large.onnx"
        _write_large(path, layers)
        for kind in ("program", "aoti", "onnx"):
            peak = _Peak()
            with peak:
                onnxlift.export(path, verify=False, **({} if kind == "program" else {kind: True}), timeout=3600)
            anonymous = peak.bytes / weights
            print(
                f"{kind:8} {weights / 1e6:8.0f} MB of weights  peak {peak.bytes / 1e6:8.0f} MB  {anonymous:.2f} times"
            )
    return 0


class _Peak:
    """The most memory that a child has taken while it was watched."""

    bytes = 0

    def __enter__(self) -> None:
        self._memory_of = child.memory_of

        def watched(pid: int) -> int | None:
            found = self._memory_of(pid)
            self.bytes = max(self.bytes, found or 0)
            return found

        child.memory_of = watched

    def __exit__(self, *error: object) -> None:
        child.memory_of = self._memory_of


def _write_large(path: Path, layers: int) -> None:
    """Write a chain of products with square matrices, whose weights are in a file of their own."""
    random = np.random.default_rng(0)
    matrix = (random.standard_normal((4096, 4096)) / 64).astype(np.float32)
    names = ["x", *(f"h{i}" for i in range(1, layers)), "y"]
    nodes = [helper.make_node("MatMul", [a, f"w{i}"], [b], f"n{i}") for i, (a, b) in enumerate(pairwise(names))]
    weights = [numpy_helper.from_array(np.roll(matrix, i), f"w{i}") for i in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4096]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path, save_as_external_data=True, location="large.bin")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("corpus", help="what can be exported")
    part.set_defaults(run=corpus)
    part.add_argument("--golden", action="store_true", help="the golden models of the tests")
    part.add_argument("--architectures", action="store_true", help="the architectures of benchmarks/fidelity.py")
    part.add_argument("--packages", type=Path, metavar="FOLDER", help="models of packages, fetched into this folder")
    part.add_argument("files", type=Path, nargs="*", metavar="FOLDER", help="models of your own: folders or files")
    part.add_argument("--timeout", type=float, default=300.0)
    part.add_argument("--jobs", type=int, default=1)
    part.add_argument("--out", type=Path, help="where models and programs stay, so that a later run goes on from there")
    part = parts.add_parser("speed", help="how fast compiled packages are")
    part.set_defaults(run=speed)
    part.add_argument("files", type=Path, nargs="*", metavar="FILE", help="models to compile, in the place of ours")
    part.add_argument("--batch", type=int, default=1)
    part.add_argument("--rounds", type=int, default=30)
    part.add_argument("--open", action="store_true", help="leave sizes open")
    part = parts.add_parser("memory", help="how much memory it takes")
    part.set_defaults(run=memory)
    part.add_argument("--megabytes", type=int, default=1000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
