"""`onnxlift simplify` beside onnxsim, onnxslim, onnxoptimizer and onnxscript's optimiser, on models from packages.

    python benchmarks/simplify.py [--models FOLDER] [--environment FOLDER] [--only WORD] [--speed] [--memory]

The peers run in an environment of their own, which is set up if it is not there yet, each model in a process of its
own that is ended after two minutes. A peer's result counts if ONNX Runtime takes it and it computes what the original
does (`onnxlift verify`, at two sizes where sizes are open): the table marks others with a star. Prints the nodes of
each result, subgraphs and functions included, and for our own whether it matches, passes onnx's full check and loads.
A name in brackets is the reason why there is no result. Packages ship the same network several times, with other
weights or sizes: of models with the same nodes, only the first counts.

With `--speed`, `onnxlift bench` runs original and our result by turns in ONNX Runtime, with its default optimisations
and one thread; the ratio is that of the medians of the processor's time, with its interval at 95 % confidence. Where
that is too wide to tell, or the median is above 1.02, it measures for longer, up to 64 seconds each. With `--memory`, a
model with 2.5 GB of external data is simplified, and the peak is printed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper
from packages import fetch

from onnxlift import bench, verify
from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.bench.statistics import Estimate
from onnxlift.workbench.simplify import simplify

ROOT = Path(__file__).parent.parent
PINS = Path(__file__).with_name("simplify_peers.txt")
PEERS = {
    "onnxsim": "import onnxsim; result = onnxsim.simplify(model)[0]",
    "onnxslim": "import onnxslim; result = onnxslim.slim(model)",
    "onnxoptimizer": (
        "import onnxoptimizer as o; result = o.optimize(model, o.get_fuse_and_elimination_passes(), fixed_point=True)"
    ),
    "onnxscript": "import onnxscript.optimizer as o; result = o.optimize(model)",
}
SECONDS = 120
SLOWEST = 1.02
"""A result is slower if the median of its time is above this part of the original's."""
TIMED = (4.0, 16.0, 64.0)
"""The seconds that each of the two runs for; a longer time, if a shorter one leaves a doubt."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnxlift"


def set_up(folder: Path, pins: Path = PINS) -> Path:
    """Return the Python of the peers' environment, which is made if it is not there yet."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"setting up {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", "-r", pins], check=True)
        (folder / "ready").touch()
    return python


def run_peer(python: Path, code: str, model: Path, result: Path) -> str:
    """Let a peer write its result; return why there is none, or an empty text."""
    program = f"import onnx, sys; model = onnx.load(sys.argv[1]); {code}; onnx.save(result, sys.argv[2])"
    try:
        done = subprocess.run(
            [python, "-c", program, model, result], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "slow"
    return "" if done.returncode == 0 and result.exists() else "fails"


@functools.cache
def nodes(model: Path) -> int:
    """Return the number of nodes of a file, subgraphs and functions included."""

    def count(items: Any) -> int:
        inner = (g for n in items for a in n.attribute for g in (*a.graphs, *([a.g] if a.HasField("g") else [])))
        return len(items) + sum(count(graph.node) for graph in inner)

    proto = onnx.load(model, load_external_data=False)
    return count(proto.graph.node) + sum(count(function.node) for function in proto.functions)


def distinct(models: Iterable[Path]) -> list[Path]:
    """Return the models without those that have the same nodes as an earlier one."""
    first: dict[tuple[str, ...], Path] = {}
    for model in models:
        graph = onnx.load(model, load_external_data=False).graph
        first.setdefault(tuple(node.op_type for node in graph.node), model)
    return list(first.values())


def judge(original: Path, result: Path) -> str:
    """Return what is wrong with a result; empty if nothing is."""
    try:
        report = verify(original, against=result, timeout=SECONDS)
    except OnnxLiftError as error:
        return f"not compared: {str(error).splitlines()[0][:60]}"
    return "" if report.passed else "differs"


def check(original: Path, result: Path) -> str:
    """Return what onnx's full check or ONNX Runtime has against a result that they do not have against the original."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    complaints = []
    for path in (original, result):
        found = set()
        try:
            onnx.checker.check_model(str(path), full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
            found.add("checker")
        try:
            onnxruntime.InferenceSession(str(path), options)
        except Exception:  # ONNX Runtime's errors have no type in common
            found.add("runtime")
        complaints.append(found)
    return ", ".join(sorted(complaints[1] - complaints[0]))


def measure(model: Path, python: Path, folder: Path) -> dict[str, Any]:
    """Return the row of a model: nodes before, ours and what is wrong with it, and the peers' nodes or reasons."""
    row: dict[str, Any] = {"model": model.name, "before": nodes(model)}
    ours = folder / f"ours_{model.name}"
    simplify(model, verify=False).save(ours, force=True)
    row["onnxlift"] = nodes(ours)
    row["wrong"] = judge(model, ours) or check(model, ours)
    for name, code in PEERS.items():
        result = folder / f"{name}_{model.name}"
        why = run_peer(python, code, model, result)
        row[name] = why or nodes(result)
        if not why and nodes(result) < row["onnxlift"] and judge(model, result):
            row[name] = f"{nodes(result)}*"
    return row


def shown(row: Mapping[str, Any]) -> str:
    cells = [f"{row['model'][:52]:52}", f"{row['before']:7}", f"{row['onnxlift']:9}"]
    cells += [
        f"{row[name] if isinstance(row[name], int) or '*' in row[name] else f'({row[name]})':>13}" for name in PEERS
    ]
    return " ".join([*cells, f"  {row['wrong']}"])


def speed(model: Path, folder: Path) -> Estimate | str:
    """Return the time of our result as a ratio of the original's, with its interval; or why it cannot be told."""
    for seconds in TIMED:
        try:
            report = bench(model, folder / f"ours_{model.name}", threads=1, seconds=seconds, processor=True)
        except OnnxLiftError as error:
            return str(error).splitlines()[0][:80]
        ratio = report.rows[1].ratio
        assert ratio is not None
        if report.passed and ratio.value <= SLOWEST:
            return ratio
    return ratio if report.passed else "the machine was too noisy to tell"


def memory(folder: Path) -> str:
    """Return the peak memory of simplifying a model with 2.5 GB of external data, in a process of its own."""
    rows = 10_300
    graph = helper.make_graph(
        [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(6)],
        "large",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["n", rows])],
        [helper.make_tensor_value_info("h6", TensorProto.FLOAT, ["n", rows])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for i in range(6):
        tensor = model.graph.initializer.add(name=f"w{i}", dims=[rows, rows], data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", 4 * rows * rows * i), ("length", 4 * rows * rows)):
            tensor.external_data.add(key=key, value=str(value))
    with (folder / "w.bin").open("wb") as file:
        file.truncate(4 * rows * rows * 6)
    onnx.save(model, folder / "large.onnx")
    command = [sys.executable, "-m", "onnxlift", "simplify", "large.onnx", "-o", "small.onnx", "--no-verify", "--quiet"]
    subprocess.run(command, cwd=folder, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return f"2.5 GB of external data: peak memory {peak:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=cache() / "models", help="a folder; fetched if it is empty")
    pins = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    parser.add_argument("--environment", type=Path, default=cache() / f"simplify-{pins}")
    parser.add_argument("--only", default="", help="models with this word in their names")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    python = set_up(options.environment)
    models = distinct(path for path in fetch(options.models) if options.only in path.name)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.memory:
            print(memory(folder))
        print(f"{'model':52} {'before':>7} {'onnxlift':>9} {' '.join(f'{name:>13}' for name in PEERS)}")
        rows = []
        ratios: dict[str, Estimate] = {}
        for model in models:
            rows.append(row := measure(model, python, folder))
            print(shown(row), flush=True)
            found = speed(model, folder) if options.speed else None
            if isinstance(found, Estimate):
                ratios[model.name] = found
                print(
                    f"{'':61} {found.value:.3f} of the original's time [{found.low:.3f}, {found.high:.3f}]", flush=True
                )
            elif found:
                print(f"{'':61} no time: {found}", flush=True)
        best = [min((row[name] for name in PEERS if isinstance(row[name], int)), default=10**9) for row in rows]
        wins = sum(row["onnxlift"] <= most for row, most in zip(rows, best, strict=True))
        near = sum(row["onnxlift"] <= most * 1.03 for row, most in zip(rows, best, strict=True))
        print(f"no more nodes than the best peer on {wins} of {len(rows)} models, within 3 % on {near}")
        print(f"nodes: {sum(row['before'] for row in rows):,} before, {sum(row['onnxlift'] for row in rows):,} ours")
        print(json.dumps({row["model"]: row["wrong"] for row in rows if row["wrong"]}, indent=1))
        all_done = [row for row in rows if all(isinstance(row[name], int) for name in PEERS)]
        totals = ", ".join(f"{name} {sum(row[name] for row in all_done):,}" for name in ("before", "onnxlift", *PEERS))
        print(f"nodes of the {len(all_done)} models that every peer gets right: {totals}")
        if ratios:
            slower = {name: ratio.low for name, ratio in ratios.items() if ratio.value > SLOWEST}
            middle = statistics.median(ratio.value for ratio in ratios.values())
            print(
                f"time in ONNX Runtime: median ratio of {len(ratios)} models {middle:.3f}; slower: {slower or 'none'}"
            )


if __name__ == "__main__":
    main()
