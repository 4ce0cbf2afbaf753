"""How much of a torch module comes back when its export is lifted, over many architectures and both exporters.

    python benchmarks/fidelity.py [--only NAME ...] [--exporter script|dynamo] [--quick] [--models FOLDER] [--details]

One line for each export: parameters recovered by name, shape and value (of those that the exporter did not fold away),
module paths, lines of code against the original's, classes, lines of the longest forward; then whether the lifted
module gives ONNX Runtime's numbers, has the original's gradients parameter by parameter, compiles as one graph, can be
exported to ONNX again, is lifted to the same source from there, and can be exported with free sizes. How each is
counted is told in tests/models/fidelity.py. Nothing is downloaded: the architectures are built from their
configurations, with random weights. `--quick` leaves out what takes long (compile, export, round trip, and with it the
fixed point); `--models` keeps the exported files, and takes those that are there.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import onnx

import onnxlift
from models.architectures import ARCHITECTURES
from models.fidelity import CHECKS, OK, QUICK_CHECKS, Fidelity, export_saved, measure
from models.network import EXPORTERS, Exporter, Network

BY_NAME = {network.name: network for network in ARCHITECTURES}
HEADER = f"{'':28} params  fold extra  paths   lines / orig.  classes  forward  "


def save(name: str, exporter: Exporter, path: Path) -> None:
    """Export a network. It runs in a process of its own: other uses of torch.export would get in its way, and torch
    may end the process altogether."""
    onnx.save(BY_NAME[name].export(exporter), path)


def save_again(name: str, path: Path, folder: Path) -> Path:
    """Export what a network was lifted to."""
    return export_saved(BY_NAME[name], path, folder)


def _in_silence() -> None:
    """For processes that export: torch prints whole graphs when it fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def row(title: str, found: Fidelity) -> str:
    """One line of the table."""
    numbers = (
        f"{title:28} {found.recovered:>5.0%} {len(found.folded):>5} {len(found.extra):>5} "
        f"{found.recovered_paths:>6.0%} {found.lines:>7} / {found.original_lines:<5} "
        f"{found.classes:>3} / {found.original_classes:<3} {found.longest_forward:>6}  "
    )
    marks = {check: "ok" if found.checks.get(check, OK) == OK else "FAIL" for check in CHECKS}
    return numbers + " ".join(f"{mark if check in found.checks else '-':^10}" for check, mark in marks.items())


def examine(network: Network, exporter: Exporter, folder: Path, quick: bool) -> Fidelity | str:
    """Export if need be, lift, and measure; or why torch cannot export it."""
    path = folder / f"{network.name}_{exporter}.onnx"
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_in_silence) as pool:
        error = None if path.exists() else pool.submit(save, network.name, exporter, path).exception()
        if error is not None:
            return next(iter(str(error).splitlines()), type(error).__name__)[:120]

        def round_trip(saved: Path) -> Path:
            return pool.submit(save_again, network.name, path, saved).result()

        try:
            return measure(network, path, round_trip, QUICK_CHECKS if quick else CHECKS)
        except onnxlift.OnnxLiftError as error:
            return Fidelity(checks=dict.fromkeys(CHECKS, f"not lifted: {error}"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(BY_NAME), metavar="NAME", help="only these architectures")
    parser.add_argument("--exporter", choices=EXPORTERS, help="only what this exporter writes")
    parser.add_argument("--quick", action="store_true", help="no compiling and no exporting of what is lifted")
    parser.add_argument("--models", type=Path, help="a folder to keep the exported files in, and to take them from")
    parser.add_argument("--details", action="store_true", help="say below each line which targets are missed")
    options = parser.parse_args()
    logging.disable(logging.WARNING)

    short = 0
    print(HEADER + " ".join(f"{check:^10}" for check in CHECKS))
    with tempfile.TemporaryDirectory(prefix="onnxlift-fidelity-") as temporary:
        folder = options.models or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.only or BY_NAME:
            for exporter in [options.exporter] if options.exporter else EXPORTERS:
                title = f"{name} {exporter}"
                found = examine(BY_NAME[name], exporter, folder, options.quick)
                if isinstance(found, str):
                    print(f"{title:28} torch cannot export it: {found}", flush=True)
                    continue
                print(row(title, found), flush=True)
                short += bool(found.shortfalls)
                if options.details:
                    for line in found.shortfalls:
                        print(f"    {line}", flush=True)
    print(f"{short} of these miss a target" if short else "all targets are met")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
