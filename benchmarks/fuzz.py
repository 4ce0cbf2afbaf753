"""How many random graphs are lifted to the numbers of ONNX Runtime.

    python benchmarks/fuzz.py [--graphs 5000] [--seed 0] [--variants NAMES] [--shrink] [--verbose]

Graph number i has the seed `--seed` + i, always the same graph. Each is lifted as it is and without simplification, one
in ten is also saved and imported. Some are first simplified as ONNX (`simplified`, and `standard` with --fuse-standard)
or brought to the newest opset or to 17 (`newest`, `older`), some are lifted without this or that pass, and each is run
for several choices of its symbolic sizes. `--variants simplified,older` tries these on every graph, and nothing else.
Prints how many matched, and the seeds of those that did not; with `--shrink` also the smallest part of each that still
fails.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np
import onnx.printer

import onnxlift
from fuzz.check import Kind, Outcome, check, options_of, variants_for
from fuzz.generate import Case, generate
from fuzz.shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", default="", help="names with commas; by default what its seed says of each graph")
    parser.add_argument("--shrink", action="store_true", help="print the smallest failing part of every failure")
    parser.add_argument("--verbose", action="store_true", help="print everything that did not match as it is found")
    options = parser.parse_args()

    seeds: dict[Kind, list[int]] = defaultdict(list)
    nodes, start = 0, time.perf_counter()
    for seed in range(options.seed, options.seed + options.graphs):
        case = generate(seed)
        nodes += len(case.model.graph.node)
        variants = options.variants.split(",") if options.variants else variants_for(seed)
        outcome = check(case.model, case.feeds, variants)
        seeds[outcome.kind].append(seed)
        if outcome.is_failure or (options.verbose and outcome.kind != Kind.MATCHED):
            print(f"seed {seed}: {outcome.kind} ({outcome.variant}): {outcome.detail}\n", flush=True)
            if options.shrink:
                print(reproduction(case, outcome), flush=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{options.graphs} graphs of {nodes / options.graphs:.1f} nodes in {seconds:.0f} s, with up to {peak} MB")
    for kind in Kind:
        listed = "" if kind == Kind.MATCHED else " ".join(map(str, seeds[kind][:40]))
        print(f"  {kind:<12} {len(seeds[kind]):6}  {listed}".rstrip())
    return 1 if seeds[Kind.MISMATCHED] or seeds[Kind.CRASHED] else 0


def reproduction(case: Case, outcome: Outcome) -> str:
    """The smallest part of a failing case as ONNX text, with its inputs and the lifted source."""
    for feeds in case.feeds:
        if check(case.model, [feeds], [outcome.variant]).is_like(outcome):
            break
    model, feeds = shrink(
        case.model, feeds, lambda model, feeds: check(model, [feeds], [outcome.variant]).is_like(outcome)
    )
    final = check(model, [feeds], [outcome.variant])
    with np.printoptions(threshold=20, precision=5):
        inputs = "\n".join(f"{name} = {array!r}" for name, array in feeds.items())
    try:
        source = onnxlift.lift(model, **options_of(outcome.variant)).source
    except Exception as error:  # a crash is what is being reported
        source = repr(error)
    return f"--- {final.detail}\n{onnx.printer.to_text(model)}\n{inputs}\n\n{source}\n"


if __name__ == "__main__":
    sys.exit(main())
