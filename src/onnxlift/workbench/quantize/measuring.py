"""Run the original and the result on samples, and measure noise and time. Called in a child process only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from .samples import Sample
from .slices import Slice, beside, find_slices
from .sqnr import Noise

LARGEST_TOGETHER = 1_900_000_000
"""The most bytes of the two models together for which single layers are measured: one message holds both."""
SECONDS = 2.0
FEWEST_RUNS, MOST_RUNS = 5, 200
_FOLDER_OPTION = "session.model_external_initializers_file_folder_path"


def session_of(model: Path | onnx.ModelProto, folder: Path, *, optimised: bool) -> Any:
    """Return a session of ONNX Runtime. External data of a proto lies in `folder`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    if isinstance(model, onnx.ModelProto):
        options.add_session_config_entry(_FOLDER_OPTION, str(folder))
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def measure_outputs(original: Path, folder: Path, result: Path, samples: Iterable[Sample]) -> dict[str, Noise]:
    """Return the noise of every output of the result, optimised as it would be used, against the plain original."""
    source = original if folder == original.parent else onnx.load(original, load_external_data=False)
    plain, quantised = session_of(source, folder, optimised=False), session_of(result, result.parent, optimised=True)
    names = [output.name for output in plain.get_outputs()]
    found = {name: Noise() for name in names}
    for sample in samples:
        expected, actual = _run(plain, names, sample), _run(quantised, names, sample)
        for name, one, other in zip(names, expected, actual, strict=True):
            found[name].add(one, other)
    return found


def measure_layers(
    original: Path, result: Path, samples: Iterable[Sample], *, with_totals: bool
) -> tuple[list[Slice], dict[str, Noise], dict[str, Noise]]:
    """Return the quantised layers, the noise that each adds by itself, and with `with_totals` that which has come
    together at each of them in the result. Both are by the value that a layer computes."""
    before, after = onnx.load(original, load_external_data=False), onnx.load(result, load_external_data=False)
    slices = find_slices(before, after)
    own = {each.value: Noise() for each in slices}
    total = {each.value: Noise() for each in slices} if with_totals else {}
    if not slices:
        return slices, own, total
    side_by_side = session_of(beside(before, after, slices), original.parent, optimised=False)
    quantised = session_of(_with_outputs(after, slices), result.parent, optimised=False) if with_totals else None
    if with_totals:
        plain = session_of(_with_outputs(before, slices), original.parent, optimised=False)
    sums = [name for each in slices for name in each.totals]
    values = [each.value for each in slices]
    for sample in samples:
        numbers = [float(number) for number in _run(side_by_side, sums, sample)]
        for value, signal, noise in zip(values, numbers[::2], numbers[1::2], strict=True):
            own[value].add_sums(signal, noise)
        if quantised is not None:
            pairs = zip(values, _run(plain, values, sample), _run(quantised, values, sample), strict=True)
            for value, one, other in pairs:
                total[value].add(one, other)
    return slices, own, total


def fits_together(*models: Path) -> bool:
    """Tell whether single layers of these models can be measured."""
    return sum(model.stat().st_size for model in models) < LARGEST_TOGETHER


def measure_speed(original: Path, folder: Path, result: Path, sample: Sample) -> dict[str, Any]:
    """Run both by turns on one sample, and return the seconds that each takes, and the ratio of each pair of runs."""
    source = original if folder == original.parent else onnx.load(original, load_external_data=False)
    sessions = [session_of(source, folder, optimised=True), session_of(result, result.parent, optimised=True)]
    for session in sessions:
        _run(session, None, sample)
    times: list[tuple[float, float]] = []
    end = time.monotonic() + SECONDS
    while len(times) < FEWEST_RUNS or (time.monotonic() < end and len(times) < MOST_RUNS):
        first, second = (_timed(session, sample) for session in sessions)
        times.append((first, second))
    pairs = np.array(times)
    ratios = pairs[:, 0] / pairs[:, 1]
    return {
        "before": float(np.median(pairs[:, 0])),
        "after": float(np.median(pairs[:, 1])),
        "ratio": float(np.median(ratios)),
        "quartiles": [float(np.quantile(ratios, share)) for share in (0.25, 0.75)],
        "runs": len(times),
    }


def _timed(session: Any, sample: Sample) -> float:
    start = time.perf_counter()
    _run(session, None, sample)
    return time.perf_counter() - start


def _run(session: Any, names: Sequence[str] | None, sample: Sample) -> list[Any]:
    known = {value.name for value in session.get_inputs()}
    results: list[Any] = session.run(names, {name: value for name, value in sample.items() if name in known})
    return results


def _with_outputs(model: onnx.ModelProto, slices: Sequence[Slice]) -> onnx.ModelProto:
    """Return the model with the values of all slices among its outputs."""
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=each.value) for each in slices if each.value not in known)
    return model
