"""How long building a network takes, for 1,000 and for 10,000 nodes, and what importing the builder costs.

    python benchmarks/build.py [--json]

Both sizes are measured in one run, by the time of the processor, so that the machine cancels out of the ratio: 10 is
linear, and each is the best of three. `nodes` is the time in which the nodes are made, checked and inferred, `model`
that of the model at the end; `alone` is that of the nodes without Python's cycle collector, which goes through all
objects again and again while they grow in number, and levels off only with many more. The same network is made by
onnx.helper and inferred by onnx, for comparison. An import is measured in processes of its own, beside that of onnx_ir.
The last figure is how much more memory is taken when 400 MB of weights are saved.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlift import build
from onnxlift.build import op

SIZES = (1_000, 10_000)
REPEATS = 5
WIDTH = 16

SAVE = """
import resource, sys, tempfile
import numpy as np
from onnxlift import build
x = y = build.input("x", "float32", ["n", 1000])
for i in range(100):
    y = y @ build.parameter(f"w{i}", (1000, 1000), make=lambda: np.full((1000, 1000), 0.5, np.float32))
model = build.model([x], {"y": y})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/model.onnx", external_data="model.data")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024))
"""


def network(nodes: int) -> tuple[float, float]:
    """Seconds for the nodes, and for the model: layers of five nodes, each in a scope, with a weight and a bias."""
    started = time.process_time()
    x = y = build.input("x", "float32", ["n", WIDTH])
    with build.scope("", "Network"):
        for i in range(nodes // 5):
            with build.scope(f"layers.{i}", "Layer"):
                weight = build.parameter("weight", (WIDTH, WIDTH), make=lambda: np.ones((WIDTH, WIDTH), np.float32))
                bias = build.parameter("bias", (WIDTH,), make=lambda: np.zeros(WIDTH, np.float32))
                z = y @ weight
                y = op.Relu(z + bias) * op.Sigmoid(z)
    made = time.process_time()
    model = build.model([x], {"y": y})
    done = time.process_time()
    assert len(model.model.graph) == nodes
    return made - started, done - made


def alone(nodes: int) -> float:
    """Seconds for the nodes without the cycle collector."""
    gc.collect()
    gc.disable()
    try:
        return network(nodes)[0]
    finally:
        gc.enable()


def by_helper(nodes: int) -> float:
    """Seconds for the same network by onnx.helper, inferred by onnx."""
    started = time.process_time()
    made: list[Any] = []
    weights: list[Any] = []
    y = "x"
    for i in range(nodes // 5):
        weights += [
            numpy_helper.from_array(np.ones((WIDTH, WIDTH), np.float32), f"w{i}"),
            numpy_helper.from_array(np.zeros(WIDTH, np.float32), f"b{i}"),
        ]
        made += [
            helper.make_node("MatMul", [y, f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [f"r{i}"]),
            helper.make_node("Sigmoid", [f"m{i}"], [f"s{i}"]),
            helper.make_node("Mul", [f"r{i}", f"s{i}"], [f"y{i}"]),
        ]
        y = f"y{i}"
    ports = [helper.make_tensor_value_info(name, 1, ["n", WIDTH]) for name in ("x", y)]
    graph = helper.make_graph(made, "network", ports[:1], ports[1:], weights)
    onnx.shape_inference.infer_shapes(helper.make_model(graph), strict_mode=True)
    return time.process_time() - started


def seconds_to_import(module: str) -> float:
    """The least of several processes."""
    program = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(REPEATS))


def measure() -> dict[str, Any]:
    rows = {
        size: [
            min(each) for each in zip(*([*network(size), alone(size), by_helper(size)] for _ in range(3)), strict=True)
        ]
        for size in SIZES
    }
    names = ("nodes", "model", "alone", "helper")
    small, large = (dict(zip(names, rows[size], strict=True)) for size in SIZES)
    ours, theirs = seconds_to_import("onnxlift.build"), seconds_to_import("onnx_ir")
    return {
        "seconds": {str(size): rows[size] for size in SIZES},
        "ratio": {name: large[name] / small[name] for name in names},
        "import": {"onnxlift.build": ours, "onnx_ir": theirs, "ratio": ours / theirs},
        "bytes_to_save_400_MB": int(subprocess.check_output([sys.executable, "-c", SAVE])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    found = measure()
    if parser.parse_args().json:
        print(json.dumps(found, indent=2))
        return
    for size, (nodes, model, _, by_onnx) in found["seconds"].items():
        print(f"{int(size):7,} nodes: nodes {nodes:6.2f} s, model {model:6.2f} s, onnx.helper {by_onnx:6.2f} s")
    print("ratio:", ", ".join(f"{name} {value:.1f}" for name, value in found["ratio"].items()), "(10 is linear)")
    print(f"import: {found['import']['ratio']:.2f} times that of onnx_ir")
    print(f"saving 400 MB of weights: {found['bytes_to_save_400_MB'] / 1e6:.0f} MB of memory more")


if __name__ == "__main__":
    main()
