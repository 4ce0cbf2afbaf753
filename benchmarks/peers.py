"""The table of the README: how many of ONNX's own cases of single operators others pass, and how many we do.

    python benchmarks/peers.py [--environment FOLDER] [--only PEER ...] [--seconds N] [--failures]

Sets up an environment of its own with the peers in the versions of `peers.txt` and ours, if it is not there yet, and
goes on in it. Each case runs through each peer in a process that is ended after a time limit, so that a crash costs one
case. What counts as passed:
- The peer takes the model as the suite makes it, and the inputs, and gives every output.
- Each output has the shape, the element type and, within the suite's own tolerance (rtol 1e-3, atol 1e-7), the numbers
  that the suite expects; sequences element by element, and as many of them.
- ONNX Runtime is told to try opsets and file versions that are newer than itself.
- Types that numpy lacks are carried in and out for the peer as far as it computes with them: as bits for PyTorch, with
  a Cast at the end for ONNX Runtime. Types that PyTorch lacks are handed over in the next wider one that it has, and
  the result is narrowed to what the model declares.

onnx2torch and onnx2pytorch use torchvision. Where pip finds only a build for CUDA, its compiled operators do not load:
what onnx2pytorch does with them fails then. 13 cases of ImageDecoder, DeformConv and RoiAlign say so; two more, of
RoiAlign, ran out of time (60 s), probably for the same reason.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import venv
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PINS = (ROOT / "constraints.txt", Path(__file__).with_name("peers.txt"))
READY = "peers-ready"
PACKAGES = ("onnx", "onnxruntime", "onnx2torch", "onnx2pytorch")
INSIDE = "ONNXLIFT_PEERS_INSIDE"

NEWEST_IR_OF_RUNTIME = 13
ODD_TYPES = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e8m0fnu")

Run = Callable[[Any, list[Any]], Sequence[Any]]
"""From a model and its inputs to its outputs."""


def default_environment() -> Path:
    """Return a folder for the environment below the user's cache, of its own for each set of versions."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    versions = hashlib.sha256(b"".join(path.read_bytes() for path in PINS))
    return cache / "onnxlift" / f"peers-{versions.hexdigest()[:12]}"


def set_up(folder: Path) -> Path:
    """Return the Python of the environment, which is made if it is not there yet."""
    python = folder / "bin" / "python"
    if not (folder / READY).exists():
        print(f"setting up {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += [f"--constraint={path}" for path in PINS]
        subprocess.run([*pip, "torch"], check=True)  # first, so that nobody asks for another build of it
        subprocess.run([*pip, "--editable", ROOT, *PACKAGES], check=True)
        (folder / READY).touch()
    return python


def run_onnxlift(model: Any, inputs: list[Any]) -> Sequence[Any]:
    """Lift the model, and run the source."""
    from onnxlift.backend import run_model

    return run_model(model, inputs)


def run_onnx_reference(model: Any, inputs: list[Any]) -> Sequence[Any]:
    """Run ONNX's reference implementation, written in numpy."""
    return _run_by_path(model, inputs, "onnx.reference")


def run_onnxruntime(model: Any, inputs: list[Any]) -> Sequence[Any]:
    """Run ONNX Runtime on the CPU, without its optimisations, and without its limit on opsets and file versions."""
    import onnx

    model = onnx.ModelProto.FromString(model.SerializeToString())
    model.ir_version = min(model.ir_version, NEWEST_IR_OF_RUNTIME)
    return _run_by_path(model, inputs, "onnxruntime")


def run_onnx2torch(model: Any, inputs: list[Any]) -> Sequence[Any]:
    """Convert with onnx2torch, and run the module."""
    _supply_suppression()
    from onnx2torch import convert

    return _run_module(convert(model), model, inputs)


def run_onnx2pytorch(model: Any, inputs: list[Any]) -> Sequence[Any]:
    """Convert with onnx2pytorch, and run the module. (`experimental` lets it take batches of any size.)"""
    _supply_suppression()
    from onnx2pytorch import ConvertModel

    return _run_module(ConvertModel(model, experimental=True), model, inputs)


PEERS: dict[str, tuple[str, Run]] = {
    "onnxlift": ("onnxlift", run_onnxlift),
    "onnx.reference": ("onnx", run_onnx_reference),
    "onnx2pytorch": ("onnx2pytorch", run_onnx2pytorch),
    "ONNX Runtime": ("onnxruntime", run_onnxruntime),
    "onnx2torch": ("onnx2torch", run_onnx2torch),
}
"""Name -> the package that it comes in, and how it is run."""


def _run_by_path(model: Any, inputs: list[Any], runtime: str) -> Sequence[Any]:
    from onnxlift.verification.reference import run_reference

    model, fed = _with_odd_inputs_inside(model, inputs)
    outputs = [value.name for value in model.graph.output]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        _, values = run_reference(path, path.parent, fed, outputs, [], runtime)
    return [values[name] for name in outputs]


def _with_odd_inputs_inside(model: Any, inputs: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model with those inputs as initialisers that no runtime takes from numpy, and the others by name."""
    import numpy as np
    import onnx

    inside = onnx.ModelProto.FromString(model.SerializeToString())
    del inside.graph.input[:]
    fed = {}
    for info, value in zip(model.graph.input, inputs, strict=True):
        array = np.asarray(value) if isinstance(value, np.generic) else value
        if isinstance(array, np.ndarray) and array.dtype.name in ODD_TYPES:
            inside.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
        else:
            inside.graph.input.append(info)
            fed[info.name] = array
    return inside, fed


def _run_module(module: Any, model: Any, inputs: list[Any]) -> Sequence[Any]:
    import onnx_ir as ir
    import torch

    from onnxlift.executing import to_argument, to_result

    module.eval()
    with torch.no_grad():
        results = module(*(to_argument(value) for value in inputs))
    outputs = model.graph.output
    if len(outputs) == 1:
        results = [results]
    types = [ir.serde.deserialize_type_proto_for_type(output.type) for output in outputs]
    return [to_result(result, type) for result, type in zip(results, types, strict=True)]


@functools.cache
def _supply_suppression() -> None:
    """Define torchvision's operators of non-maximum suppression in Python.

    Both converters import torchvision, which cannot be imported without them. The build of torchvision that an index
    gives by default has them compiled for CUDA, and that does not load beside a PyTorch for the CPU."""
    import torch

    def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        kept: list[int] = []
        for box in scores.argsort(descending=True, stable=True).tolist():
            corner, other = torch.maximum(boxes[box, :2], boxes[:, :2]), torch.minimum(boxes[box, 2:], boxes[:, 2:])
            common = (other - corner).clamp(min=0).prod(1)
            if not any(common[k] / (areas[box] + areas[k] - common[k]) > iou_threshold for k in kept):
                kept.append(box)
        return torch.tensor(kept, dtype=torch.int64)

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch.library.impl("torchvision::nms", "cpu", nms)
    import torchvision.ops

    torchvision.ops.boxes._assert_has_ops = lambda: None


def check(run: Run, case: Any) -> None:
    """Raise something unless the case passes."""
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.runner import Runner

    def plain(value: Any) -> Any:
        return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value

    def compare(expected: Any, actual: Any) -> None:
        if isinstance(expected, list):
            for one, other in zip(expected, actual, strict=True):
                compare(one, other)
        else:
            Runner.assert_similar_outputs([expected], [actual], case.rtol, case.atol)

    for inputs, outputs in case.data_sets:
        compare([plain(value) for value in outputs], list(run(case.model, [plain(value) for value in inputs])))


def serve(run: Run, cases: Sequence[Any], connection: Connection) -> None:
    """Answer the number of a case with what goes wrong in it, or with nothing. In the worker only."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    warnings.simplefilter("ignore")
    while True:
        number = connection.recv()
        try:
            check(run, cases[number])
        except BaseException as error:  # whatever a peer raises, its case has not passed
            connection.send(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        else:
            connection.send("")


@dataclass
class Worker:
    """A process that runs one case at a time."""

    run: Run
    cases: Sequence[Any]
    case: int | None = None
    deadline: float = math.inf
    process: Any = field(init=False)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        # It is forked, so that the cases, which take seconds to make, are there already.
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(self.run, self.cases, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, case: int, seconds: float) -> None:
        """Start on a case."""
        self.case, self.deadline = case, time.monotonic() + seconds
        self.connection.send(case)

    def end(self) -> None:
        """End the process, which may hang."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def run_peer(run: Run, cases: Sequence[Any], processes: int, seconds: float) -> list[str]:
    """Return what went wrong with each case; nothing for those that pass."""
    waiting = deque(range(len(cases)))
    answers = [""] * len(cases)
    idle, busy = [Worker(run, cases) for _ in range(processes)], list[Worker]()
    while waiting or busy:
        while waiting and idle:
            worker = idle.pop()
            worker.begin(waiting.popleft(), seconds)
            busy.append(worker)
        wait([worker.connection for worker in busy], max(0.0, min(w.deadline for w in busy) - time.monotonic()))
        for worker in list(busy):
            answer = _answer(worker)
            if answer is None:
                continue
            busy.remove(worker)
            answers[worker.case or 0], is_alive = answer
            if not is_alive:
                worker.end()
                worker = Worker(run, cases)
            idle.append(worker)
    for worker in idle:
        worker.end()
    return answers


def _answer(worker: Worker) -> tuple[str, bool] | None:
    """What a worker says, and whether it can go on; None if it has not finished."""
    if worker.connection.poll():
        try:
            return worker.connection.recv(), True
        except EOFError:
            return "the process crashed", False
    return ("it took too long", False) if time.monotonic() > worker.deadline else None


def table(passed: dict[str, int], all_cases: int) -> Iterator[str]:
    """The lines of the README's table, best first."""
    yield f"| | version | passes, of {all_cases:,} |"
    yield "|---|---|---|"
    for name in sorted(passed, key=lambda name: -passed[name]):
        yield f"| {name} | {version(PEERS[name][0])} | {passed[name]:,} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=default_environment(), help="where the peers are installed")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), metavar="PEER", help="only these")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=60.0, help="what a case may take")
    parser.add_argument("--failures", action="store_true", help="list what does not pass, and why")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        python = set_up(options.environment)
        here = {
            INSIDE: "yes",
            "OMP_NUM_THREADS": "1",
            "ALLOW_RELEASED_ONNX_OPSET_ONLY": "0",
            "PYTHONPATH": str(ROOT / "src"),
        }
        return subprocess.run([python, __file__, *sys.argv[1:]], env=os.environ | here, check=False).returncode

    from onnx.backend.test.loader import load_model_tests

    warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
    cases = load_model_tests(kind="node")
    passed: dict[str, int] = {}
    for name in options.only or PEERS:
        start = time.monotonic()
        answers = run_peer(PEERS[name][1], cases, options.processes, options.seconds)
        passed[name] = answers.count("")
        print(f"{name}: {passed[name]:,} of {len(cases):,} in {time.monotonic() - start:.0f} s", file=sys.stderr)
        if options.failures:
            for case, answer in zip(cases, answers, strict=True):
                if answer:
                    print(f"  {case.name}: {answer}")
    print(*table(passed, len(cases)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
