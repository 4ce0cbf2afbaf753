"""`onnxlift profile` beside PyTorch's own counter, and beside onnx-tool on models from packages.

    python benchmarks/profiling.py [--only WORD] [--models FOLDER] [--packages FOLDER] [--environment FOLDER]
                                   [--skip torch|packages|speed ...]

- torch: the multiply-accumulates of every architecture of benchmarks/fidelity.py and both exporters, beside half of
  what `torch.utils.flop_counter` counts on the module that was exported, on the same inputs. It counts products of
  matrices and convolutions, and nothing else. Three things that it does not look into are taken apart for it, so that
  it can: fused attention (by its plain form), LSTM and GRU of oneDNN (by PyTorch's own), and the fast path of encoder
  layers. Where the export leaves out a module whose result nobody reads (the pooler of an encoder), the module is
  named, and its share is compared as well.
- packages: how many models of benchmarks/packages.txt are profiled, and in how many every cost is known; at open sizes,
  and at those that `verify` would make up. onnx-tool gets inputs of these sizes. It runs in an environment of its own,
  each model in a process that is ended after two minutes; it has profiled a model if it gives a number above zero.
- speed: a model of 10,000 nodes with open sizes, beside reading it and inferring its types.

(It is not called profile.py: Python's own module of that name would not be found from this folder.)
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from packages import fetch
from simplify import SECONDS, cache, set_up

import onnxlift
from onnxlift.errors import OnnxLiftError
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.verification.inputs import make_inputs
from onnxlift.workbench.profile import Profile

PINS = Path(__file__).with_name("profiling_peers.txt")
PEER = """
import sys, numpy, onnx_tool
shapes = dict(numpy.load(sys.argv[2]))
onnx_tool.model_profile(sys.argv[1], shapes, save_profile=sys.argv[3])
"""
LARGE = 10_000


def counted_by_torch(module: Any, inputs: dict[str, Any]) -> tuple[int, dict[str, int]]:
    """Return the multiply-accumulates of a run of a module, and those of each module in it, by path."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    torch.backends.mha.set_fastpath_enabled(False)
    # Its module tracker needs gradients where a module computes in place on what it was given.
    for gradients in (False, True):
        counter = FlopCounterMode(display=False)
        try:
            plain = torch.backends.mkldnn.flags(enabled=False)
            with torch.set_grad_enabled(gradients), sdpa_kernel(SDPBackend.MATH), plain, counter:
                module(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        except AssertionError:
            if gradients:
                raise
            continue
        break
    root = type(module).__name__
    modules = {path.removeprefix(f"{root}."): sum(each.values()) // 2 for path, each in counter.flop_counts.items()}
    return counter.get_total_flops() // 2, {
        path: macs for path, macs in modules.items() if path not in ("Global", root)
    }


def left_out(profile: Profile, modules: dict[str, int]) -> dict[str, int]:
    """Return the modules without a node in the profile that are in no other such module."""
    there = {group.name for group in profile.modules}
    missing = {path: macs for path, macs in modules.items() if macs and path not in there}
    return {path: macs for path, macs in missing.items() if path.rpartition(".")[0] not in missing}


def compare_with_torch(folder: Path, only: str) -> None:
    from fidelity import save

    from models.architectures import ARCHITECTURES
    from models.network import EXPORTERS

    print(f"{'':32} {'flop_counter':>16} {'profile':>16}  unknown")
    equal = every = 0
    for network in ARCHITECTURES:
        if only not in network.name:
            continue
        sample = network.samples()[0]
        macs, modules = counted_by_torch(network.module(), dict(sample))
        for exporter in EXPORTERS:
            path = folder / f"{network.name}_{exporter}.onnx"
            if not path.exists():
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    error = pool.submit(save, network.name, exporter, path).exception()
                if error is not None:
                    print(f"{network.name:24} {exporter:7} torch does not export it: {str(error).splitlines()[0][:60]}")
                    continue
            every += 1
            profile = onnxlift.profile(path, shapes={name: array.shape for name, array in sample.items()})
            ours = profile.total.costs.macs
            missing = left_out(profile, modules) if ours.number != macs else {}
            agrees = ours.number is not None and ours.number + sum(missing.values()) == macs
            equal += agrees
            note = ", ".join(f"{name} ({number:,})" for name, number in missing.items())
            said = f"  not in the export: {note}" if missing else ""
            mark = "" if agrees else "  DIFFERS"
            number = f"{ours.number:,}" if ours.number is not None else str(ours)
            print(f"{network.name:24} {exporter:7} {macs:>16,} {number:>16}  {profile.total.unknown:>4}{mark}{said}")
    print(f"equal: {equal} of {every}\n")


def sizes_for(path: Path) -> dict[str, Any]:
    """Return inputs for a model, as `verify` would make them up."""
    model = load(path)
    infer(model)
    return {name: value for name, value in make_inputs(model.graph).items() if isinstance(value, np.ndarray)}


def counted_by_peer(python: Path, path: Path, inputs: dict[str, Any]) -> str:
    """Let onnx-tool profile a model; return why it has not, or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder) / "inputs.npz", Path(folder) / "profile.csv"
        np.savez(given, **{name: value for name, value in inputs.items() if value.dtype != object})
        command = [python, "-c", PEER, path, given, result]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return "slow"
        if done.returncode or not result.exists():
            return "fails"
        total = [line for line in result.read_text(errors="replace").splitlines() if line.startswith("Total")]
        numbers = total[0].split(",") if total else []
        return "" if any(part.strip().replace(".", "").isdigit() and float(part) > 0 for part in numbers[1:]) else "0"


def compare_on_packages(models: list[Path], python: Path) -> None:
    ours = known = known_at_sizes = peer = 0
    print(f"{'':44} nodes  unknown  at sizes  onnx-tool")
    for path in models:
        try:
            profile = onnxlift.profile(path)
            inputs = sizes_for(path)
            fixed = onnxlift.profile(path, shapes={name: value.shape for name, value in inputs.items()})
        except OnnxLiftError as error:
            print(f"{path.stem[:44]:44} {str(error).splitlines()[0][:60]}")
            continue
        ours += 1
        known += not profile.total.unknown
        known_at_sizes += not fixed.total.unknown
        reason = counted_by_peer(python, path, inputs)
        peer += not reason
        figures = f"{profile.total.nodes:>5} {profile.total.unknown:>8} {fixed.total.unknown:>9}"
        print(f"{path.stem[:44]:44} {figures}  {reason or 'ok':>9}", flush=True)
    print(
        f"of {len(models)} models: profiled {ours}, with all costs known {known}, at fixed sizes {known_at_sizes}; "
        f"onnx-tool {peer}\n"
    )


def large_model() -> onnx.ModelProto:
    """Return a model of 10,000 nodes in 2,000 modules, with open sizes."""

    def layer(number: int, x: str) -> Iterator[onnx.NodeProto]:
        scope, weight, bias = f"/layers.{number}", f"layers.{number}.weight", f"layers.{number}.bias"
        yield helper.make_node("MatMul", [x, weight], [f"{scope}/m"], f"{scope}/MatMul")
        yield helper.make_node("Add", [f"{scope}/m", bias], [f"{scope}/a"], f"{scope}/Add")
        yield helper.make_node("Relu", [f"{scope}/a"], [f"{scope}/r"], f"{scope}/Relu")
        yield helper.make_node("Softmax", [f"{scope}/r"], [f"{scope}/s"], f"{scope}/Softmax")
        yield helper.make_node("Add", [f"{scope}/s", x], [f"{scope}/y"], f"{scope}/Add_1")

    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    value = "x"
    for number in range(LARGE // 5):
        nodes += layer(number, value)
        value = nodes[-1].output[0]
        weights.append(numpy_helper.from_array(np.zeros((16, 16), np.float32), f"layers.{number}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(16, np.float32), f"layers.{number}.bias"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 16])
    y = helper.make_tensor_value_info(value, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "large", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measure_speed() -> None:
    model = large_model().SerializeToString()
    onnxlift.profile(model)  # imports, and what is kept for the next time
    start = time.process_time()
    infer(load(model, faithful=True))
    read = time.process_time() - start
    start = time.process_time()
    profile = onnxlift.profile(model)
    taken = time.process_time() - start
    print(
        f"{profile.total.nodes:,} nodes, {profile.total.costs.macs}: {taken:.1f} s of processor time, "
        f"{taken / read:.1f} of the time of reading it and inferring its types"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="architectures and models with this word in their names")
    parser.add_argument("--models", type=Path, help="a folder that keeps the exported files, and has some already")
    parser.add_argument("--packages", type=Path, default=cache() / "models", help="a folder of models from packages")
    parser.add_argument("--environment", type=Path, help="a folder for the environment of onnx-tool")
    parser.add_argument("--skip", nargs="*", default=(), choices=("torch", "packages", "speed"))
    options = parser.parse_args()
    if "torch" not in options.skip:
        with tempfile.TemporaryDirectory() as folder:
            models = options.models or Path(folder)
            models.mkdir(parents=True, exist_ok=True)
            compare_with_torch(models, options.only)
    if "packages" not in options.skip:
        pins = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
        python = set_up(options.environment or cache() / f"profile-{pins}", PINS)
        found = [path for path in fetch(options.packages) if options.only in path.stem]
        compare_on_packages(found, python)
    if "speed" not in options.skip:
        measure_speed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
