"""Whether `onnxlift build-script` is exact: each script is run, and what it writes is compared by `onnxlift diff`.

    python benchmarks/build_script.py [--graphs 500] [--only golden random operators] [--match WORD] [--jobs 2]

The models are those whose lifted sources are in tests/golden, random graphs (those of benchmarks/fuzz.py), and the
single operators of ONNX's own suite. Each script is written with its weights, executed from its file, and the file that
it writes is compared with the model. Models run in forked children with limits of time and memory. Prints a table, and
below it what differs, what was refused as an error of onnxlift's own, and what crashed. Ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # children are forked, and a fork has one thread
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from onnxlift.errors import OnnxLiftError
from workbench.build_script.every import Make, golden_models, problem, random_graphs, single_operators

KINDS = ("same", "differs", "refused", "crashed", "too slow")
SECONDS = 120
BYTES = 6 << 30
"""What a child may take of addresses, what it has imported included."""

EVERY = 500
"""So often progress is told where no terminal is."""


@dataclass(frozen=True)
class Line:
    """What came of a model."""

    group: str
    name: str
    kind: str
    detail: str = ""


def judge(group: str, name: str, make: Make) -> Line:
    """Return what came of a model."""
    try:
        found = problem(make())
    except OnnxLiftError as error:
        return Line(group, name, "refused", str(error))
    except Exception as error:  # what else it is, is what we are looking for
        return Line(group, name, "crashed", f"{type(error).__name__}: {error}")
    return Line(group, name, "differs" if found else "same", found)


Work = Sequence[tuple[str, str, Make]]


def work(models: Work, start: int, sender: Any) -> None:
    """Send a line for each model from `start` on."""
    silent = os.open(os.devnull, os.O_RDWR)
    for standard in (1, 2):
        os.dup2(silent, standard)  # exporters talk
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    for group, name, make in models[start:]:
        sender.send(judge(group, name, make))


def run(models: Work, jobs: int) -> list[Line]:
    """Return a line for each model. Where a child dies or hangs, a new one goes on behind that model."""
    context = multiprocessing.get_context("fork")
    shares = [models[each::jobs] for each in range(jobs)]
    done = [0] * jobs
    begun = [0.0] * jobs
    children: dict[int, Any] = {}
    lines: list[Line] = []

    def launch(share: int) -> None:
        if done[share] >= len(shares[share]):
            children.pop(share, None)
            return
        receiver, sender = context.Pipe(False)
        process = context.Process(target=work, args=(shares[share], done[share], sender), daemon=True)
        process.start()
        sender.close()
        begun[share] = time.monotonic()
        children[share] = process, receiver

    def note(share: int, line: Line) -> None:
        lines.append(line)
        done[share] += 1
        begun[share] = time.monotonic()
        if sys.stderr.isatty() or len(lines) % EVERY == 0:
            faults = sum(each.kind != "same" for each in lines)
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{len(lines):,} of {len(models):,}, {faults} faults", end=end, file=sys.stderr, flush=True)

    for share in range(jobs):
        launch(share)
    while children:
        ready = multiprocessing.connection.wait([receiver for _, receiver in children.values()], timeout=1)
        for share, (process, receiver) in list(children.items()):
            group, name, _ = shares[share][min(done[share], len(shares[share]) - 1)]
            if receiver in ready:
                try:
                    note(share, receiver.recv())
                except EOFError:
                    process.join()
                    if done[share] < len(shares[share]):
                        note(share, Line(group, name, "crashed", f"the process ended with {process.exitcode}"))
                    launch(share)
            elif time.monotonic() - begun[share] > SECONDS and done[share] < len(shares[share]):
                process.kill()
                process.join()
                note(share, Line(group, name, "too slow", f"longer than {SECONDS} s"))
                launch(share)
    return lines


def table(lines: Sequence[Line], groups: Sequence[str]) -> str:
    """Return how many of each group came to what, and what is wrong."""
    rows = [f"{'':18}{'models':>8}" + "".join(f"{kind:>10}" for kind in KINDS)]
    for group in groups:
        counts = Counter(line.kind for line in lines if line.group == group)
        rows.append(f"{group:18}{counts.total():>8,}" + "".join(f"{counts[kind]:>10,}" for kind in KINDS))
    wrong = sorted(
        (line for line in lines if line.kind != "same"),
        key=lambda line: (KINDS.index(line.kind), line.group, line.name),
    )
    rows += [f"\n{line.group}, {line.name}: {line.kind}\n{indent(line.detail, '    ')}" for line in wrong]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("golden", "random", "operators")
    parser.add_argument("--graphs", type=int, default=500, help="how many random graphs")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="GROUP", help=", ".join(names))
    parser.add_argument("--match", default="", help="a word in the names of models")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    sources: Mapping[str, Any] = {
        "golden": golden_models,
        "random": lambda: random_graphs(options.graphs),
        "operators": single_operators,
    }
    models = [
        (group, name, make)
        for group in options.only
        for name, make in sources[group]().items()
        if options.match in name
    ]
    begin = time.perf_counter()
    lines = run(models, options.jobs)
    print(table(lines, options.only))
    print(f"\n{len(lines):,} models in {time.perf_counter() - begin:,.0f} s")
    return 0 if lines and all(line.kind == "same" for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
