"""How long a conversion takes and how much memory, each beside what it is measured against in the same run.

    python benchmarks/convert.py [--json] [--quick]

Large weights are compared with copying the same files, node counts and odd graphs with one another, start-up with
importing torch or onnx_ir. The machine cancels out of a ratio, which an absolute time would not. Every measurement runs
in a process of its own, which does nothing else; this one imports neither numpy nor onnx, because a new process
inherits the peak memory of the one that started it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MB = 1_000_000
WIDTH = 1024
DEPTH = 20  # scopes within scopes

ODD = {
    "deep_scopes": (300, 3_000),
    "long_names": (100, 1_000),
    "many_inputs": (1_000, 10_000),
    "many_outputs": (1_000, 10_000),
    "many_readers": (1_000, 10_000),
    "nested_branches": (640, 6_400),
    "many_functions": (100, 1_000),
    "chain": (10_000, 100_000),
    "nearly_equal_blocks": (1_500, 15_000),
}
"""Function of odd_shapes.py -> two sizes to compare, the second ten times the first."""

# Lifts a small model first: what that imports and allocates is the baseline, and no part of the time per node. Copies
# twice: a virtual machine hands out memory slowly the first time, and neither side should pay for that.
CONVERT = """
import json, pathlib, resource, shutil, sys, time
import onnxlift

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

def copy():
    shutil.rmtree(out / "copy", ignore_errors=True)
    start = time.perf_counter()
    shutil.copytree(model.parent, out / "copy", copy_function=shutil.copyfile)
    return time.perf_counter() - start

small, model, out = map(pathlib.Path, sys.argv[1:])
onnxlift.lift(small).save(out / "small")
copying = [copy(), copy()][1]
shutil.rmtree(out / "copy")
baseline, start = peak(), time.perf_counter()
onnxlift.lift(model).save(out / "model")
print(json.dumps({"seconds": time.perf_counter() - start, "copying": copying, "bytes": peak() - baseline}))
"""
COMMAND_LINE = "from onnxlift.cli import main; main()"


@dataclass(frozen=True)
class Result:
    """One line of the report: a number, and the budget that it must stay below."""

    what: str
    value: float
    budget: float
    unit: str = "x"
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.value < self.budget

    def __str__(self) -> str:
        verdict = "ok  " if self.holds else "OVER"
        return f"{verdict}  {self.what:<58} {self.value:>9.2f} {self.unit:<8} budget {self.budget:>7g}   {self.note}"


@dataclass(frozen=True)
class Conversion:
    seconds: float
    copying: float
    """Seconds to copy all files of the model's folder."""
    bytes: int


def convert(small: Path, model: Path, out: Path) -> Conversion:
    """Convert once, in a new process."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-c", CONVERT, *map(str, (small, model, out))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Conversion(**json.loads(output))


def large_weights(folder: Path, small: Path, megabytes: int, repeats: int) -> Iterator[Result]:
    """Conversion of a model of that size in a single file, the same with external data, and with three times the data.

    The last tells whether memory is flat: it holds more data than the budget allows memory.
    """
    for kind, size, external in (("single file", megabytes, False), ("external data", megabytes, True),
                                 ("external data", 3 * megabytes, True)):  # fmt: skip
        source = folder / f"{size}_{external}"
        source.mkdir()
        in_a_process(build_layers, source / "model.onnx", size, external)
        runs = [convert(small, source / "model.onnx", folder / "out") for _ in range(repeats)]
        seconds, peak = statistics.median(run.seconds for run in runs), max(run.bytes for run in runs)
        copying = statistics.median(run.copying for run in runs)
        title = f"{size} MB, {kind}"
        note = f"{seconds:.2f} s, copying takes {copying:.2f} s"
        yield Result(f"{title}: time / copying", seconds / copying, 2, note=note)
        if external:
            yield Result(f"{title}: peak memory", peak / MB, 500, "MB")
        else:
            note = f"{peak / MB:.0f} MB"
            yield Result(f"{title}: peak memory / weights", peak / (size * MB), 1.3, note=note)
        for used in (source, folder / "out"):
            shutil.rmtree(used)


def many_nodes(folder: Path, small: Path, counts: list[int], repeats: int) -> Iterator[Result]:
    """Conversion of graphs of growing size: a deep network of equal blocks, one that never repeats, and scopes in
    scopes of which none can be a module."""
    shapes = {"equal blocks": build_blocks, "irregular": build_irregular, f"scopes {DEPTH} deep": build_nested}
    for kind, build in shapes.items():
        per_node: list[float] = []
        for count in counts:
            model = folder / f"{build.__name__}_{count}" / "model.onnx"
            model.parent.mkdir()
            in_a_process(build, model, count)
            runs = [convert(small, model, folder / "out") for _ in range(repeats if count < 50_000 else 1)]
            seconds = statistics.median(run.seconds for run in runs)
            per_node.append(seconds / count)
            title = f"{count:,} nodes, {kind}"
            yield Result(f"{title}: time", seconds, 60, "s", f"{per_node[-1] * 1e6:.0f} us a node")
            if len(per_node) > 1:
                growth = per_node[-1] / per_node[-2]
                yield Result(f"{title}: time per node / at {counts[len(per_node) - 2]:,}", growth, 1.5)


def odd_graphs(folder: Path, small: Path, scale: float) -> Iterator[Result]:
    """Conversion of graphs that cost more than they weigh, each in two sizes (see odd_shapes.py)."""
    for name, sizes in ODD.items():
        seconds: list[float] = []
        for size in (max(1, int(size * scale)) for size in sizes):
            model = folder / f"{name}_{size}" / "model.onnx"
            model.parent.mkdir()
            in_a_process(build_odd, model, name, size)
            seconds.append(convert(small, model, folder / "out").seconds)
        note = f"{seconds[0]:.2f} s and {seconds[1]:.2f} s"
        yield Result(f"{name.replace('_', ' ')}: time / with a tenth", seconds[1] / seconds[0], 15, note=note)


def build_odd(path: Path, name: str, size: int) -> None:
    import odd_shapes

    path.write_bytes(getattr(odd_shapes, name)(size).SerializeToString())


def start_up(folder: Path, small: Path, repeats: int) -> Iterator[Result]:
    """The command line on a small model, against a bare import."""
    inspect = [sys.executable, "-c", COMMAND_LINE, "inspect", str(small)]
    to_convert = [sys.executable, "-c", COMMAND_LINE, "convert", str(small), "-o"]
    imports = {module: [sys.executable, "-c", f"import {module}"] for module in ("onnx_ir", "torch")}
    seconds: dict[str, list[float]] = {}
    for repeat in range(repeats + 1):  # the first round only warms the caches of the file system
        commands = {"inspect": inspect, "convert": [*to_convert, str(folder / f"cli{repeat}")], **imports}
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    median = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    for command, module, budget in (("inspect", "onnx_ir", 1.5), ("convert", "torch", 1.0)):
        note = f"{median[command]:.2f} s, the import takes {median[module]:.2f} s"
        yield Result(f"onnxlift {command} / import {module}", median[command] / median[module], budget, note=note)


def in_a_process(build: Callable[..., None], *arguments: object) -> None:
    """Call it in a new process, so that the memory it takes is never ours."""
    process = multiprocessing.get_context("spawn").Process(target=build, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{build.__name__} failed")


def build_layers(path: Path, megabytes: int, external: bool) -> None:
    """Linear layers of 4 MiB; every other one is stored transposed, as exporters do either."""
    import numpy as np
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for i in range(megabytes * MB // (4 * WIDTH * WIDTH)):
        weight, bias = f"layers.{i}.weight", f"layers.{i}.bias"
        weights.append(numpy_helper.from_array(random.standard_normal((WIDTH, WIDTH), np.float32), weight))
        weights.append(numpy_helper.from_array(random.standard_normal(WIDTH, np.float32), bias))
        nodes.append(helper.make_node("Gemm", [x, weight, bias], [f"y{i}"], f"/layers.{i}/Gemm", transB=i % 2))
        x = f"y{i}"
    _save(nodes, weights, x, WIDTH, path, external)


def build_blocks(path: Path, count: int) -> None:
    """Residual blocks of five nodes, one after the other."""
    import numpy as np
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for i in range(count // 5):
        scope, layer = f"/blocks.{i}/", f"blocks.{i}.fc"
        weights.append(numpy_helper.from_array(random.standard_normal((8, 8), np.float32), f"{layer}.weight"))
        weights.append(numpy_helper.from_array(random.standard_normal(8, np.float32), f"{layer}.bias"))
        linear, gate, gated, out = (f"{scope}{name}" for name in ("fc/Gemm", "Sigmoid", "Mul", "Tanh"))
        nodes += [
            helper.make_node("Gemm", [x, f"{layer}.weight", f"{layer}.bias"], [linear], linear, transB=1),
            helper.make_node("Sigmoid", [linear], [gate], gate),
            helper.make_node("Mul", [linear, gate], [gated], gated),
            helper.make_node("Tanh", [gated], [out], out),
            helper.make_node("Add", [x, out], [f"{scope}Add"], f"{scope}Add"),
        ]
        x = f"{scope}Add"
    _save(nodes, weights, x, 8, path)


def build_irregular(path: Path, count: int) -> None:
    """Random operators, each on one or two of the last eight values, with shape arithmetic in between."""
    import random as standard_random

    from onnx import helper

    random = standard_random.Random(0)
    nodes, values = [], ["x"]
    while len(nodes) < count:
        out, recent = f"v{len(nodes)}", values[-8:]
        kind = random.randrange(10)
        if kind < 5:
            nodes.append(helper.make_node(random.choice(["Tanh", "Sigmoid", "Sin", "Abs", "Neg"]), [recent[-1]], [out]))
        elif kind < 9:
            operands = [recent[-1], random.choice(recent)]
            nodes.append(helper.make_node(random.choice(["Add", "Mul", "Sub", "Max"]), operands, [out]))
        else:
            nodes.append(helper.make_node("Shape", [random.choice(recent)], [f"{out}_shape"]))
            nodes.append(helper.make_node("Reshape", [recent[-1], f"{out}_shape"], [out]))
        values.append(out)
    _save(nodes, [], values[-1], 8, path)


def build_nested(path: Path, count: int) -> None:
    """Scopes in scopes. Each has layers that are called by mere numbers, and is no chain, so it can be neither a class
    nor an `nn.Sequential`: all the code is that of the model."""
    import numpy as np
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for level in range(DEPTH):
        parts = [f"part{outer}" for outer in range(level + 1)]
        for i in range(count // (2 * DEPTH)):
            scope, layer = f"/{'/'.join(parts)}/", f"{'.'.join(parts)}.{i}"
            weights.append(numpy_helper.from_array(random.standard_normal((8, 8), np.float32), f"{layer}.weight"))
            weights.append(numpy_helper.from_array(random.standard_normal(8, np.float32), f"{layer}.bias"))
            linear, product = f"{scope}{parts[-1]}.{i}/Gemm", f"{scope}Mul_{i}"
            nodes += [
                helper.make_node("Gemm", [x, f"{layer}.weight", f"{layer}.bias"], [linear], linear, transB=1),
                helper.make_node("Mul", [linear, x], [product], product),
            ]
            x = product
    _save(nodes, weights, x, 8, path)


def _save(nodes: list, weights: list, output: str, width: int, path: Path, external: bool = False) -> None:
    import onnx
    from onnx import TensorProto, helper

    nodes.append(helper.make_node("Identity", [output], ["y"], "/Identity"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name in "xy")
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location="weights.bin")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of lines")
    parser.add_argument("--quick", action="store_true", help="a tenth of the weights and of the nodes, once each")
    options = parser.parse_args()
    megabytes, counts, repeats = (40, [100, 1_000, 10_000], 1) if options.quick else (400, [1_000, 10_000, 100_000], 3)

    results = []
    with tempfile.TemporaryDirectory(prefix="onnxlift-benchmark-") as name:
        folder = Path(name)
        small = folder / "small.onnx"
        in_a_process(build_blocks, small, 10)
        for measured in (start_up(folder, small, repeats), large_weights(folder, small, megabytes, 2 * repeats - 1),
                         many_nodes(folder, small, counts, repeats),
                         odd_graphs(folder, small, 0.1 if options.quick else 1)):  # fmt: skip
            for result in measured:
                results.append(result)
                if not options.json:
                    print(result, flush=True)
    if options.json:
        print(json.dumps([{**asdict(result), "holds": result.holds} for result in results], indent=2))


if __name__ == "__main__":
    main()
