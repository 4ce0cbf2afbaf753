"""Noise, size and speed of quantised models from packages, beside plain onnxruntime.quantization.

    python benchmarks/quantize.py MODEL.onnx ... [--target DB] [--samples N]
    python benchmarks/quantize.py --memory

Each model is quantised with `onnxlift.quantize` (static QDQ) and with `quantize_static` of ONNX Runtime, whose defaults
are taken, on the same made-up samples; with both, noise is measured on other samples, and time by turns in one run.
With --memory, models of growing size are quantised, and the peak memory of ONNX Runtime's quantiser is printed as a
multiple of the model's bytes, beside that of weights only.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnxlift
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.verification.children.child import Limits
from onnxlift.verification.given import Given
from onnxlift.verification.judge import Judge
from onnxlift.verification.model_file import ModelFile
from onnxlift.verification.models import Pair
from onnxlift.workbench.quantize.measuring import measure_outputs, measure_speed

Sample = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--target", type=float)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        _one(Path(options.one[0]), options.one[1])
    elif options.memory:
        _memory()
    else:
        titles = ("model", "", "dB", "size", "speed")
        print("{:44} {:12} {:>7} {:>7} {:>7}".format(*titles))
        for path in options.models:
            _compare(path, options.samples, options.target)


def _compare(path: Path, count: int, target: float | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder)
        try:
            samples = _samples(path, job, count + 4)
            results = {
                "ours": _ours(path, job, samples[:count], None),
                "ONNX Runtime": _theirs(path, job, samples[:count]),
            }
            if target is not None:
                results[f"ours {target:g} dB"] = _ours(path, job, samples[:count], target)
        except onnxlift.OnnxLiftError as error:
            print(f"{path.name:44} {str(error)[:120]}")
            return
        for name, result in results.items():
            if isinstance(result, str):
                print(f"{path.name:44} {name:12} {result[:100]}")
                continue
            try:
                noises = measure_outputs(path, path.parent, result, samples[count:])
            except Exception as error:  # ONNX Runtime does not load or run what it has quantised
                print(f"{path.name:44} {name:12} {str(error).splitlines()[0][:100]}", flush=True)
                continue
            worst = [noise.decibels for noise in noises.values() if noise.decibels is not None]
            speed = measure_speed(path, path.parent, result, samples[0])["ratio"]
            size = path.stat().st_size / result.stat().st_size
            told = f"{min(worst):7.1f}" if worst else f"{next(iter(noises.values())).state:>7}"
            print(f"{path.name:44} {name:12} {told} {size:7.2f} {speed:7.2f}", flush=True)


def _samples(path: Path, job: Path, count: int) -> list[Sample]:
    model = load(path)
    infer(model)
    file = ModelFile(path.absolute(), path.absolute().parent)
    pair = Pair(job, model, model, (file, file), Limits(), Judge(model.graph, None, None))
    first = pair.find_inputs(Given((), None, {}, 0))
    shapes = {name: value.shape for name, value in first.items()}
    return [Given((), shapes, {}, seed).make(model.graph) for seed in range(count)]


def _ours(path: Path, job: Path, samples: list[Sample], target: float | None) -> Path | str:
    try:
        report = onnxlift.quantize(path, calibrate=samples, target_sqnr=target, speed=False)
    except onnxlift.OnnxLiftError as error:
        return str(error)
    return report.save(job / f"ours_{target}.onnx")[0]


def _theirs(path: Path, job: Path, samples: list[Sample]) -> Path | str:
    from onnxruntime.quantization import quantize_static

    rest = iter(samples)

    class Reader:
        def get_next(self) -> Any:
            return next(rest, None)

    result = job / "theirs.onnx"
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            quantize_static(path, result, Reader())
        onnx.checker.check_model(result)
    except Exception as error:  # whatever it raises is its result
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return result


def _memory() -> None:
    print(f"{'model':>10} {'static':>10} {'weights':>10}   peak of the process, as a multiple of the model's bytes")
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in (200, 400, 800):
            path = Path(folder) / "model.onnx"
            _write(path, megabytes)
            peaks = [_peak(path, mode) for mode in ("static", "weights")]
            print(f"{megabytes:>7} MB" + "".join(f" {peak / 1e6 / megabytes:10.2f}" for peak in peaks), flush=True)


def _write(path: Path, megabytes: int) -> None:
    """Write a chain of products with weights of so many megabytes."""
    width, random = 2048, np.random.default_rng(0)
    count = round(megabytes * 1e6 / (width * width * 4))
    weights = [random.standard_normal((width, width)).astype(np.float32) / 45 for _ in range(count)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"n{i}") for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in ("x0", f"x{count}")]
    tensors = [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def _peak(path: Path, mode: str) -> int:
    """Return the peak memory of a process that quantises a model, or of its children, whichever is more."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(path), mode], capture_output=True, check=True, text=True
    )
    return int(done.stdout.split()[-1])


def _one(path: Path, mode: str) -> None:
    samples = [{"x0": np.ones((1, 2048), np.float32)}]
    report = onnxlift.quantize(path, mode=mode, calibrate=samples, verify=False)
    with tempfile.TemporaryDirectory() as folder:
        report.save(Path(folder) / "result.onnx")
    if mode == "static":
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
        return
    # The kernel's own figure for this process would begin with the peak of the one that started it.
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(int(line.split()[1]) * 1024)


if __name__ == "__main__":
    main()
