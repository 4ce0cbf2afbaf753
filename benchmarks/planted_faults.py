"""Does `bisect` name the node in which a fault was planted? Prints a table, and exits with 1 if any is missed.

    python benchmarks/planted_faults.py MODEL... [--faults 20] [--first 0] [--json]

In each model, nodes are drawn at random, those inside branches and loops as well. In each of these a weight, an
attribute or the operator is changed. In every second one all names of the main graph are changed as well. `bisect` must
name the node; the reproducer must have at most five nodes, and its script must show the difference; all within a
minute. A fault that changes no output is counted, and another is drawn: it is one only if `verify` finds no difference
either.

The nodes are always the same ones for a model, so that `--first` can go on where another run has ended.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, numpy_helper

from onnxlift.errors import InvalidModelError, OnnxLiftError
from onnxlift.verification.models import verify_models
from onnxlift.workbench.bisect import bisect

MOST_NODES, MOST_SECONDS = 5, 60.0
OPERATORS = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Relu": "Sigmoid",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Softmax": "LogSoftmax",
    "LogSoftmax": "Softmax",
    "Exp": "Abs",
    "Sqrt": "Abs",
    "Erf": "Tanh",
    "HardSigmoid": "Elu",
    "HardSwish": "Relu",
    "LeakyRelu": "Elu",
    "ReduceMean": "ReduceMax",
    "ReduceMax": "ReduceMin",
    "GlobalAveragePool": "GlobalMaxPool",
    "Neg": "Abs",
    "Log": "Abs",
    "Pow": "Add",
    "Greater": "Less",
    "Less": "Greater",
    "Equal": "Greater",
    "And": "Or",
    "Or": "And",
    "Max": "Min",
    "Min": "Max",
    "Floor": "Ceil",
    "Ceil": "Floor",
}
"""Operator -> another one that takes the same."""


@dataclass(frozen=True)
class Row:
    """What happened to one fault."""

    model: str
    node: str
    operator: str
    fault: str
    named: str
    reproducer: int
    reproduces: bool
    seconds: float
    processor: float
    """The seconds of processor time, of all processes: a busy machine does not change them."""
    renamed: bool

    @property
    def is_named(self) -> bool:
        return self.named == self.node

    @property
    def passed(self) -> bool:
        small = 0 < self.reproducer <= MOST_NODES
        return self.is_named and small and self.reproduces and self.seconds <= MOST_SECONDS


def plant(model: ModelProto, node: NodeProto, kind: str) -> str | None:
    """Plant a fault of a kind in a node; return what it is, or None if the node has nothing to change."""
    if kind == "operator":
        other = OPERATORS.get(node.op_type) if not node.domain else None
        if other is None:
            return None
        told = f"{node.op_type} -> {other}"
        node.op_type = other
        keep = {each.name for each in node.attribute} & set(onnx.defs.get_schema(other).attributes)
        kept = [each for each in node.attribute if each.name in keep]
        del node.attribute[:]
        node.attribute.extend(kept)
        return told
    if kind == "weight":
        return _plant_weight(model, node)
    return _plant_attribute(node)


def _plant_weight(model: ModelProto, node: NodeProto) -> str | None:
    """Change a weight that only this node reads."""
    readers = [name for each in _all_nodes(model) for name in each.input]
    constants = {each.output[0]: each for each in _all_nodes(model) if each.op_type == "Constant"}
    for name in node.input:
        tensor = next((each for each in model.graph.initializer if each.name == name), None)
        if tensor is None and name in constants:
            tensor = next((each.t for each in constants[name].attribute if each.name == "value"), None)
        floats = (TensorProto.FLOAT, TensorProto.FLOAT16)
        if tensor is None or tensor.data_type not in floats or readers.count(name) != 1 or not tensor.ByteSize():
            continue
        array = numpy_helper.to_array(tensor).copy()
        if not array.size:
            continue
        flat = array.reshape(-1)
        part = max(1, flat.size // 10)
        flat[:part] = flat[:part] * 1.5 + np.asarray(0.1, array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return f"weight {name}: {part:,} of {flat.size:,} numbers"
    return None


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    waiting = list(model.graph.node)
    while waiting:
        node = waiting.pop()
        yield node
        for each in node.attribute:
            waiting += each.g.node


def _plant_attribute(node: NodeProto) -> str | None:
    """Change a number: of a float, or of a list of paddings, so that the shape stays."""
    for each in node.attribute:
        if each.type == AttributeProto.FLOAT:
            old = each.f
            each.f = old * 3 + 0.1
            return f"{each.name} {old:.4g} -> {each.f:.4g}"
        if each.name == "pads" and len(each.ints) == 4 and each.ints[0] != 0:
            old_pads = list(each.ints)
            each.ints[0], each.ints[2] = each.ints[0] - 1, each.ints[2] + 1
            return f"pads {old_pads} -> {list(each.ints)}"
        if each.name == "axis" and node.op_type in ("Softmax", "LogSoftmax", "ArgMax", "CumSum") and each.i != 0:
            old_axis, each.i = each.i, 0
            return f"axis {old_axis} -> 0"
        if each.name == "count_include_pad":
            each.i = 1 - each.i
            return f"count_include_pad -> {each.i}"
    return None


def named(model: ModelProto) -> ModelProto:
    """Return the model with a name of its own for every node, also for those inside others."""
    taken: set[str] = set()
    for place, node in enumerate(_all_nodes(model)):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{place}_unnamed"
        taken.add(node.name)
    return model


def rename(model: ModelProto) -> dict[str, str]:
    """Change the names of all nodes and values of the main graph but those of its interface; return those of nodes."""
    graph = model.graph
    fixed = {each.name for each in (*graph.input, *graph.output)}
    inner = {name for node in _all_nodes(model) for each in node.attribute for name in _names_inside(each)}
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        if tensor.name not in fixed | inner:
            names[tensor.name] = tensor.name = f"w{len(names)}"
    nodes: dict[str, str] = {}
    for node in graph.node:
        nodes[node.name] = node.name = f"n{len(nodes)}"
        for place, name in enumerate(node.output):
            if name and name not in fixed | inner:
                names[name] = node.output[place] = f"v{len(names)}"
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
    del graph.value_info[:]
    return nodes


def _names_inside(attribute: AttributeProto) -> Iterator[str]:
    for node in attribute.g.node:
        yield from (*node.input, *node.output)
    yield from (each.name for each in attribute.g.output)


def faults(path: Path) -> Iterator[tuple[ModelProto, str, str, str, bool]]:
    """Yield models with a fault each, the node's name, its operator, and what was changed."""
    original = named(onnx.load(path))
    draw = random.Random(path.name)
    nodes = list(_all_nodes(original))
    places = [place for place, node in enumerate(nodes) if node.op_type != "Constant"]
    draw.shuffle(places)
    for number, place in enumerate(places):
        kinds = ["weight", "attribute", "operator"]
        kinds = kinds[number % 3 :] + kinds[: number % 3]
        for kind in kinds:
            broken = ModelProto()
            broken.CopyFrom(original)
            node = list(_all_nodes(broken))[place]
            told = plant(broken, node, kind)
            if told is not None:
                renamed = number % 2 == 1
                name = node.name
                name = rename(broken).get(name, name) if renamed else name
                yield broken, name, nodes[place].op_type, told, renamed
                break


def measure(path: Path, count: int, first: int) -> tuple[list[Row], int]:
    """Plant faults in a model; return what happened to each, and how many had no effect."""
    rows: list[Row] = []
    idle = seen = 0
    original = named(onnx.load(path))
    for broken, name, operator, told, renamed in faults(path):
        if len(rows) == count:
            break
        seen += 1
        if seen <= first:
            continue
        start, spent = time.perf_counter(), _processor_time()
        try:
            report = bisect(original, broken)
        except InvalidModelError:
            continue  # the operator takes something else in this opset
        except OnnxLiftError as error:
            print(f"  {path.name} {name}: {error}", file=sys.stderr)
            rows.append(Row(path.name, name, operator, told, "error", 0, False, 0.0, 0.0, renamed))
            continue
        seconds, processor = time.perf_counter() - start, _processor_time() - spent
        if report.passed:
            if verify_models(original, broken).passed:
                idle += 1
                continue
            rows.append(Row(path.name, name, operator, told, "nothing", 0, False, seconds, processor, renamed))
            continue
        blamed = report.culprit.innermost.b if report.culprit is not None else None
        nodes, reproduces = 0, False
        if report.reproducer is not None:
            nodes = report.reproducer.nodes
            with tempfile.TemporaryDirectory() as folder:
                report.save(Path(folder) / "repro")
                command = [sys.executable, str(Path(folder) / "repro" / "reproduce.py")]
                done = subprocess.run(command, capture_output=True, check=False, text=True)
                reproduces = done.returncode == 1 and "node " in done.stdout
        found = (blamed or "", nodes, reproduces, seconds, processor)
        rows.append(Row(path.name, name, operator, told, *found, renamed))
        _show(rows[-1])
    return rows, idle


def _processor_time() -> float:
    """Return the seconds that this process and all its children have computed for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _show(row: Row) -> None:
    verdict = "ok" if row.passed else "MISSED"
    shown = row.node if row.is_named else f"{row.node} (named: {row.named})"
    size = f"{row.reproducer} node{'s' * (row.reproducer != 1)}{'' if row.reproduces else ', does not reproduce'}"
    print(
        f"{verdict:6} {row.model[:30]:30} {row.operator:16} {row.seconds:5.1f} s  {size:8}  {row.fault[:60]:60} {shown}"
    )
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--faults", type=int, default=20, help="how many for each model")
    parser.add_argument("--first", type=int, default=0, help="how many nodes to pass over")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    everything: list[Row] = []
    table: list[tuple[str, list[Row], int]] = []
    for path in options.models:
        rows, idle = measure(path, options.faults, options.first)
        everything += rows
        table.append((path.name, rows, idle))
    if options.json:
        print(json.dumps([asdict(row) for row in everything], indent=2))
    print(f"\n{'model':45} faults  named  reproduced  most nodes  slowest  of processor  without effect")
    for name, rows, idle in [*table, ("all", everything, sum(idle for _, _, idle in table))]:
        if rows:
            hit = sum(row.is_named for row in rows)
            shown = sum(row.reproduces for row in rows)
            most, slow = max(row.reproducer for row in rows), max(row.seconds for row in rows)
            spent = max(row.processor for row in rows)
            told = f"{shown:10}  {most:10}  {slow:5.1f} s  {spent:10.1f} s  {idle:14}"
            print(f"{name[:45]:45} {len(rows):6}  {hit:5}  {told}")
    return int(not all(row.passed for row in everything))


if __name__ == "__main__":
    sys.exit(main())
