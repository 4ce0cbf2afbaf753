"""Whether anything that a stranger sends makes onnxlift stumble: mutants of small valid models, lifted and saved.

    python benchmarks/mutants.py [--count 10000] [--start 0] [--seed 0] [--jobs 2]
    python benchmarks/mutants.py --only 4711 [--save mutant.onnx] [--digest]

Mutant number i of a seed is always the same file. Each is lifted and saved in a forked child that may take 30 seconds
and 2 GB. Prints how many there were of each answer, and the faults by their place in the source, each with the numbers
of a few mutants; the first of each place is told at once. `--only` lifts one of them in this process, so that its
traceback shows; in place of lifting it, `--save` writes its file, and `--digest` prints a hash of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import onnxlift
from fuzz.mutants.children import judge_all
from fuzz.mutants.judge import Kind, Verdict
from fuzz.mutants.make import Mutant, Nursery
from fuzz.mutants.seeds import seeds

LISTED = 8
EVERY = 5000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="lift this one in this process, without limits, and show what comes")
    parser.add_argument("--save", type=Path, help="with --only: write the mutant to this file, and do not lift it")
    parser.add_argument("--digest", action="store_true", help="with --only: print its hash, and do not lift it")
    options = parser.parse_args()

    nursery = Nursery(seeds(), options.seed)
    if options.only is not None:
        mutant = nursery.make(options.only)
        print(mutant.digest) if options.digest else replay(mutant, options.save)
        return 0
    start = time.perf_counter()
    verdicts: list[Verdict] = []
    places: set[str] = set()
    for verdict in judge_all(nursery, range(options.start, options.start + options.count), options.jobs):
        verdicts.append(verdict)
        if verdict.kind.is_fault and verdict.place not in places:
            places.add(verdict.place)
            print(f"number {verdict.number}: {verdict.kind}: {verdict.place}", file=sys.stderr, flush=True)
        if len(verdicts) % EVERY == 0:
            faults = sum(each.kind.is_fault for each in verdicts)
            print(f"{len(verdicts):,} of {options.count:,}: {faults} faults", file=sys.stderr, flush=True)
    print(summary(verdicts, time.perf_counter() - start))
    return 1 if any(verdict.kind.is_fault for verdict in verdicts) else 0


def replay(mutant: Mutant, save: Path | None) -> None:
    """Lift one mutant where its traceback can be seen, or write it to a file."""
    print(f"mutant {mutant.number} of {mutant.origin}: {', '.join(mutant.changes)}; options {dict(mutant.options)}")
    if save is None:
        print(onnxlift.lift(mutant.data, **mutant.options).source)
        return
    for name, data in {save.name: mutant.data, **mutant.files}.items():
        (save.parent / name).write_bytes(data)


def summary(verdicts: list[Verdict], seconds: float) -> str:
    """A table of the answers, and the faults by place."""
    counts = Counter(verdict.kind for verdict in verdicts)
    slowest = max(verdicts, key=lambda verdict: verdict.seconds)
    largest = max(verdicts, key=lambda verdict: verdict.megabytes)
    lines = [
        f"{len(verdicts):,} mutants in {seconds:,.0f} s",
        *(f"  {kind:<20} {counts[kind]:8,}" for kind in Kind),
        f"  slowest: number {slowest.number} with {slowest.seconds:.1f} s; "
        f"largest: number {largest.number} with {largest.megabytes:,.0f} MB",
    ]
    faults: dict[tuple[Kind, str], list[Verdict]] = defaultdict(list)
    for verdict in sorted(verdicts, key=lambda verdict: verdict.number):
        if verdict.kind.is_fault:
            faults[verdict.kind, verdict.place].append(verdict)
    for (kind, place), members in sorted(faults.items(), key=lambda fault: -len(fault[1])):
        numbers = " ".join(str(member.number) for member in members[:LISTED])
        lines += [f"{len(members):6} {kind}: {place}", f"       {members[0].detail}", f"       --only {numbers}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
