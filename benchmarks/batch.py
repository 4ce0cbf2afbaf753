"""How much a batch costs beyond the work itself, what two jobs gain, and what poisoned models cost the others.

    python benchmarks/batch.py [--models 1000] [--poisoned 20] [--compared 1000] [--chunk 50]

Models are generated: small networks of convolutions, linear layers and attention, each with weights of its own. Each
chunk of them goes through the same steps three times, in turns: by a plain loop in one process, which is the work
itself; by a batch with one job; and by a batch with two. The order of the three changes from chunk to chunk, so that
what else the machine does falls on all. Then one batch takes all models, of which some crash, hang, take all memory or
are garbage.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

ROOT = Path(__file__).parents[1]
POISON = ROOT / "tests" / "workbench" / "batch" / "poison"
STEPS: list[Any] = [{"lint": {"fail_on": "error"}}, "simplify", "convert"]
BARE: list[Any] = [{"lint": {"fail_on": "error"}}, {"simplify": {"verify": False}}, "convert"]
VERIFIED: list[Any] = ["convert", "verify"]
KINDS = ("Crash", "Hang", "Hoard", "garbage")


def network(seed: int) -> onnx.ModelProto:
    """A network of some blocks, with weights of its own."""
    choose = random.Random(seed)
    numbers = np.random.default_rng(seed)
    width = choose.choice((8, 16, 32))
    weights: dict[str, np.ndarray[Any, Any]] = {}
    lines: list[str] = []

    def weight(name: str, *shape: int) -> str:
        weights[name] = numbers.standard_normal(shape).astype(np.float32)
        return name

    value = "x"
    for block in range(choose.randrange(4, 12)):
        w, b = weight(f"w{block}", width, width), weight(f"b{block}", width)
        lines.append(f"m{block} = MatMul({value}, {w}) a{block} = Add(m{block}, {b})")
        kind = choose.choice(("Relu", "Sigmoid", "Tanh", "attention", "norm"))
        if kind == "attention":
            lines.append(
                f"t{block} = Transpose <perm = [0, 2, 1]> (a{block}) s{block} = MatMul(a{block}, t{block}) "
                f"p{block} = Softmax <axis = -1> (s{block}) o{block} = MatMul(p{block}, a{block})"
            )
        elif kind == "norm":
            scale = weight(f"g{block}", width)
            lines.append(f"o{block} = LayerNormalization <axis = -1> (a{block}, {scale})")
        else:
            lines.append(f"i{block} = Identity(a{block}) o{block} = {kind}(i{block})")
        value = f"o{block}"
    lines.append(f"y = Add({value}, x)")
    text = f'<ir_version: 10, opset_import: ["" : 20]> g (float[2, 5, {width}] x) => (float[2, 5, {width}] y)'
    model = parser.parse_model(f"{text} {{ {' '.join(lines)} }}")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def poison(kind: str, path: Path) -> None:
    if kind == "garbage":
        path.write_bytes(random.Random(path.name).randbytes(5000))
        return
    head = '<ir_version: 10, opset_import: ["" : 20, "poison" : 1]>'
    onnx.save(parser.parse_model(f"{head} g (float[3] x) => (float[3] y) {{ y = poison.{kind}(x) }}"), path)


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def processor_time(server: int | None = None) -> float:
    """The time that processors have spent on this process, on a server, and on those that they have waited for."""
    spent = sum(os.times()[:4])
    if server is not None:
        fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
        spent += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return spent


def looped(tasks: list[dict[str, Any]]) -> None:
    """The work itself: all tasks in one process, which forks those that run models as the children of a batch do."""
    from onnxlift.verification.children.forking import allow_forks
    from onnxlift.workbench.batch.work import work

    pid = os.fork()
    if pid == 0:
        allow_forks()
        for task in tasks:
            work(task, lambda told: None)
        os._exit(0)
    os.waitpid(pid, 0)


def compare(folder: Path, models: list[Path], size: int, title: str, steps: list[Any]) -> None:
    """Print the ratios of the three ways, chunk by chunk, and in all."""
    from onnxlift.workbench.batch.children import MOST_WARM_UPS, Children, Limits
    from onnxlift.workbench.batch.config import read_config
    from onnxlift.workbench.batch.plan import make_plan
    from onnxlift.workbench.batch.server import warm_up
    from onnxlift.workbench.batch.steps import needed_packages

    print(title)
    config = read_config({"inputs": [str(path) for path in models], "output_dir": str(folder / "out"), "steps": steps})
    begin = time.perf_counter()
    plan = make_plan(config)
    looking = time.perf_counter() - begin
    tasks = [dict(each.task) for each in plan.models]
    packages = needed_packages(config.steps)
    limits = Limits.of(600, None, 2)
    warm_up("work", packages, MOST_WARM_UPS)
    with Children("work", packages, jobs=1) as one, Children("work", packages, jobs=2) as two:
        for children in (one, two):
            list(children.run(tasks[:size], limits))
        totals: Counter[str] = Counter()
        spent: Counter[str] = Counter()
        gains, costs = [], []
        for number, start in enumerate(range(0, len(tasks), size)):
            chunk = tasks[start : start + size]
            ways: list[tuple[str, Callable[[], Any]]] = [
                ("loop", partial(looped, chunk)),
                ("one", partial(_drained, one, chunk, limits)),
                ("two", partial(_drained, two, chunk, limits)),
            ]
            shift = number % 3
            took = {}
            for name, call in ways[shift:] + ways[:shift]:
                server = {"one": one, "two": two}.get(name)
                pid = None if server is None or server._server is None else server._server.pid
                before = processor_time(pid)
                took[name] = timed(call)
                spent[name] += processor_time(pid) - before
            totals.update(took)
            gains.append(took["one"] / took["two"])
            costs.append(took["one"] / took["loop"] - 1)
            print(
                f"  {start + 1:>5,} to {start + len(chunk):>5,}: loop {took['loop']:6.2f} s, "
                f"one job {took['one']:6.2f} s, two jobs {took['two']:6.2f} s, "
                f"two to one {gains[-1]:.2f}, overhead {costs[-1]:+.1%}",
                flush=True,
            )
    share, overhead = looking / totals["loop"], totals["one"] / totals["loop"] - 1
    print(f"  work itself           {totals['loop'] / len(tasks) * 1000:8.1f} ms a model")
    print(f"  looking at all first  {looking / len(tasks) * 1000:8.1f} ms a model, {share:.1%} of the work")
    print(f"  overhead of one job   {overhead:8.1%} in all, median {median(costs):.1%}, by the clock")
    print(f"                        {spent['one'] / spent['loop'] - 1:8.1%} by the time of the processor")
    gain = totals["one"] / totals["two"]
    print(f"  two jobs to one       {gain:8.2f} times the throughput, median {median(gains):.2f}")
    load = os.getloadavg()[0]
    print(f"  load of the machine   {load:8.1f} for {os.cpu_count()} cores", flush=True)


def _drained(children: Any, tasks: list[dict[str, Any]], limits: Any) -> None:
    list(children.run(tasks, limits))


def survive(folder: Path) -> None:
    """Print what becomes of all models if some of them are poisoned."""
    import onnxlift

    config = {"inputs": str(folder / "models"), "output_dir": str(folder / "all"), "steps": BARE}
    config |= {"jobs": 2, "timeout": 60, "memory": "1GB"}
    report = onnxlift.batch(config)
    print(report)
    kinds = Counter((Path(row.model).stem.partition("-")[0], row.kind) for row in report.rows)
    for (made, kind), count in sorted(kinds.items()):
        print(f"  {count:>5,} {made:8} -> {kind}")
    seconds = timed(lambda: onnxlift.batch(config))
    print(f"  again, with nothing to do: {seconds:.1f} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--models", type=int, default=1000)
    arguments.add_argument("--poisoned", type=int, default=20)
    arguments.add_argument("--compared", type=int, default=1000, help="how many go through the three ways")
    arguments.add_argument("--chunk", type=int, default=50)
    options = arguments.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    # Operators that end a process, for every Python that is started from here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(POISON)])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = Path(tempfile.mkdtemp(prefix="onnxlift-benchmark-"))
    try:
        (folder / "models").mkdir()
        models = [folder / "models" / f"good-{number:04}.onnx" for number in range(options.models - options.poisoned)]
        for number, path in enumerate(models):
            onnx.save(network(number), path)
        compared = models[: options.compared]
        compare(folder, compared, options.chunk, "convert, verify", VERIFIED)
        compare(folder, compared, options.chunk, "lint, simplify with its comparison, convert", STEPS)
        compare(folder, compared, options.chunk, "lint, simplify without a comparison, convert", BARE)
        for number in range(options.poisoned):
            kind = KINDS[number % len(KINDS)]
            poison(kind, folder / "models" / f"{kind}-{number:02}.onnx")
        survive(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
