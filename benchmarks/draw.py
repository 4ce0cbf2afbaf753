"""Draw synthetic models of 500, 5,000 and 50,000 nodes, and print the processor's time of each part.

    python benchmarks/draw.py [NODES ...]

The models are made of residual blocks with three branches. One mask feeds every block, and one skip in ten goes to the
end of the model: lines for these would cross the whole picture.

- `flat` draws the nodes of the file: read, built, laid out and written as SVG.
- `modules` draws the same model by its modules, all of them, which includes lifting it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxlift.workbench.draw import draw

NODES_A_BLOCK = 9


def residual_blocks(nodes: int) -> onnx.ModelProto:
    """Return a model of about so many nodes, whose blocks all read one mask."""
    width = 8
    numbers = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []
    made: list[onnx.NodeProto] = []
    x, far = "x", []
    for block in range(max(nodes // NODES_A_BLOCK, 1)):
        path = f"/layers.{block}"

        def add(op: str, *inputs: str, path: str = path) -> str:
            name = f"{path}/{op}_{len(made)}"
            made.append(helper.make_node(op, list(inputs), [f"{name}_output_0"], name))
            return f"{name}_output_0"

        keys = [f"layers.{block}.fc1.weight", f"layers.{block}.fc2.weight"]
        weights += [numpy_helper.from_array(numbers.standard_normal((width, width), np.float32), key) for key in keys]
        branches = [add("Relu", add("MatMul", x, keys[0])), add("Tanh", add("MatMul", x, keys[1]))]
        branches.append(add("Sigmoid", x))
        masked = add("Mul", add("Sum", *branches), "mask")
        x = add("Add", add("Neg", masked), x)
        far += [masked] if block % 10 == 0 else []
    made.append(helper.make_node("Sum", [x, *far], ["y"], "/end/Sum"))
    sizes = ["batch", width]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("x", "mask")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)]
    graph = helper.make_graph(made, "blocks", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="pytorch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", metavar="NODES", default=[500, 5_000, 50_000])
    sizes = parser.parse_args().nodes
    print(
        f"{'nodes':>8}  {'drawn as':8}  {'boxes':>8}  {'edges':>8}  {'picture s':>10}  {'layout, SVG s':>13}  {'MB':>6}"
    )
    for nodes in sizes:
        model = residual_blocks(nodes)
        for title, options in (("flat", {"flat": True}), ("modules", {"depth": 24})):
            started = time.process_time()
            drawing = draw(model, **options)
            built = time.process_time()
            svg = drawing.svg()
            done = time.process_time()
            boxes, edges = drawing.picture.count()
            print(
                f"{len(model.graph.node):>8,}  {title:8}  {boxes:>8,}  {edges:>8,}  {built - started:>10.2f}  "
                f"{done - built:>13.2f}  {len(svg) / 1e6:>6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
