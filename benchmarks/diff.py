"""How long `diff` takes, for models of 500 and of 5,000 nodes, as a ratio; and how much memory for large weights.

    python benchmarks/diff.py [--json]

Both sizes are measured in one run, by the time of the processor, so that the machine cancels out of the ratio: 10 is
linear; Python's garbage collector, which looks at all objects now and then, makes some 16 of it. Loading both models is
measured apart, as what every verb pays. Memory is the peak beyond that of comparing a small model, in a process of its
own, for two models whose weights lie in external files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlift.workbench.diff import diff
from onnxlift.workbench.report import open_model

SIZES = (500, 5_000)
MB = 1_000_000
LARGE = 400 * MB

PEAK = """
import resource, sys
from onnxlift.workbench.diff import diff
small, a, b = sys.argv[1:]
diff(small, small.replace("small", "other"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert diff(a, b).counts["weights"] == 1
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


def network(nodes: int, seed: int = 0, width: int = 16) -> onnx.ModelProto:
    """Layers of five nodes, each with a weight and a bias."""
    data = np.random.default_rng(seed)
    made, weights, x = [], [], "x"
    for i in range(nodes // 5):
        weights += [
            numpy_helper.from_array(data.standard_normal((width, width), np.float32), f"layers.{i}.weight"),
            numpy_helper.from_array(data.standard_normal(width, np.float32), f"layers.{i}.bias"),
        ]
        steps = [
            ("MatMul", [x, f"layers.{i}.weight"], "m"),
            ("Add", [f"m{i}", f"layers.{i}.bias"], "a"),
            ("Relu", [f"a{i}"], "r"),
            ("Sigmoid", [f"m{i}"], "s"),
            ("Mul", [f"r{i}", f"s{i}"], "y"),
        ]
        made += [helper.make_node(op, read, [f"{out}{i}"], name=f"/layers.{i}/{op}") for op, read, out in steps]
        x = f"y{i}"
    ports = [helper.make_tensor_value_info(name, 1, ["n", width]) for name in ("x", x)]
    graph = helper.make_graph(made, "network", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def renamed(nodes: int) -> onnx.ModelProto:
    model = network(nodes)
    for i, node in enumerate(model.graph.node):
        node.name = f"node_{i}"
    return model


def one_weight(nodes: int) -> onnx.ModelProto:
    model = network(nodes)
    tensor = model.graph.initializer[nodes // 5]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))
    return model


def operators(nodes: int) -> onnx.ModelProto:
    """Every third layer has another operator."""
    model = network(nodes)
    for i, node in enumerate(each for each in model.graph.node if each.op_type == "Relu"):
        node.op_type = "Tanh" if i % 3 == 0 else "Relu"
    return model


def everything(nodes: int) -> onnx.ModelProto:
    """Other weights, other operators, and every fifth layer is gone."""
    model = network(nodes, seed=1)
    gone = {f"/layers.{i}/Sigmoid" for i in range(0, nodes // 5, 5)}
    for node in model.graph.node:
        if node.op_type == "Mul":
            node.op_type = "Sub" if int(node.name.split("/")[1].split(".")[1]) % 4 else "Mul"
        if node.name in gone:
            node.op_type = "Softplus"
    return model


CASES: dict[str, Callable[[int], onnx.ModelProto]] = {
    "renamed": renamed,
    "one weight": one_weight,
    "all weights": lambda nodes: network(nodes, seed=1),
    "a third of the layers": operators,
    "nearly everything": everything,
}


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """Return the time of the best of so many runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def build(root: Path) -> None:
    """Write two large models, which differ in one number, and two small ones."""
    large = network(20, width=int((LARGE / 4 / 4) ** 0.5))
    for name in ("a", "b"):
        if name == "b":
            array = numpy_helper.to_array(large.graph.initializer[2]).copy()
            array[0, 0] += 1
            large.graph.initializer[2].CopyFrom(numpy_helper.from_array(array, "layers.1.weight"))
        (root / name).mkdir()
        copy = onnx.ModelProto()
        copy.CopyFrom(large)
        onnx.save(copy, root / name / "m.onnx", save_as_external_data=True, location="m.data")
    onnx.save(network(20), root / "small.onnx")
    onnx.save(one_weight(20), root / "other.onnx")


def peak() -> float:
    """Return how many bytes of memory it takes to compare two large models.

    A new process inherits the peak of the one that started it, so the models are made by another one."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run([sys.executable, __file__, "--build", folder], check=True)
        arguments = [str(root / "small.onnx"), *(str(root / name / "m.onnx") for name in ("a", "b"))]
        result = subprocess.run([sys.executable, "-c", PEAK, *arguments], check=True, capture_output=True, text=True)
    return float(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.build:
        build(wanted.build)
        return
    memory = peak()
    diff(network(20), one_weight(20))  # what is imported and cached once
    rows = {}
    if not wanted.json:
        print(
            f"{'seconds of the processor':24} {SIZES[0]:>8,} {SIZES[1]:>8,} {'ratio':>7}   of which loading", flush=True
        )
    for name, other in CASES.items():
        pairs = {nodes: (network(nodes), other(nodes)) for nodes in SIZES}
        loading = [seconds(lambda pair=pair: list(map(open_model, pair)), times=1) for pair in pairs.values()]
        whole = [seconds(lambda pair=pair: diff(*pair)) for pair in pairs.values()]
        rows[name] = {"seconds": whole, "loading": loading, "ratio": whole[1] / whole[0]}
        if not wanted.json:
            print(
                f"{name:24} {whole[0]:8.2f} {whole[1]:8.2f} {whole[1] / whole[0]:7.1f}   {loading[1]:.2f}", flush=True
            )
    if wanted.json:
        print(json.dumps({"nodes": SIZES, "cases": rows, "peak": memory, "weights": 2 * LARGE}, indent=2))
        return
    print(f"\npeak memory for 2 x {LARGE / MB:,.0f} MB of external weights: {memory / MB:,.0f} MB")


if __name__ == "__main__":
    main()
