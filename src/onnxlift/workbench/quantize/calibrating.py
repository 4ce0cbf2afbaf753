"""Find the ranges of activations on samples, with ONNX Runtime's calibrators. Called in a child process only.

ONNX Runtime's own loop keeps what all samples give until the last has run. We give its calibrators one sample at a
time, so that a thousand take the memory of one. The methods that count values into histograms go through the samples
twice: the first time for the smallest and largest values, so that all are counted into the bins that they would get if
all were there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .samples import Sample

Ranges = dict[str, tuple[float, float]]
Samples = Callable[[], Iterator[Sample]]
"""A function that starts from the first sample again whenever it is called."""

BINS = {"entropy": 256, "percentile": 2048, "distribution": 2048}
QUANTIZED_BINS = 128


class _Reader:
    """Samples in the form that ONNX Runtime's calibrators read them."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Sample | None:
        return next(self._samples, None)


def find_ranges(
    model: Path, samples: Samples, op_types: Sequence[str], method: str, percentile: float, is_large: bool
) -> tuple[Ranges, int]:
    """Return the smallest and largest value of every activation of these operators, and the number of samples.

    Methods other than "minmax" cut off what is rare."""
    extremes, count = _extremes(model, samples, op_types, is_large)
    if method == "minmax":
        return extremes, count
    return _histograms(model, samples, op_types, method, percentile, is_large, extremes), count


def _extremes(model: Path, samples: Samples, op_types: Sequence[str], is_large: bool) -> tuple[Ranges, int]:
    from onnxruntime.quantization.calibrate import CalibrationMethod

    calibrator = _calibrator(model, op_types, CalibrationMethod.MinMax, is_large, {})
    count = 0
    for sample in samples():
        calibrator.collect_data(_Reader([sample]))
        count += 1
    return _as_ranges(calibrator.compute_data()), count


def _histograms(
    model: Path,
    samples: Samples,
    op_types: Sequence[str],
    method: str,
    percentile: float,
    is_large: bool,
    extremes: Ranges,
) -> Ranges:
    from onnxruntime.quantization.calibrate import CalibrationMethod, HistogramCollector

    bins = BINS[method]
    options = {"num_bins": bins, "num_quantized_bins": QUANTIZED_BINS, "percentile": percentile, "symmetric": False}
    calibrator = _calibrator(model, op_types, CalibrationMethod[method.capitalize()], is_large, options)
    collector = HistogramCollector(method, False, bins, QUANTIZED_BINS, percentile, "same")
    for name, (low, high) in extremes.items():
        lowest, highest = np.float32(low), np.float32(high)
        largest = np.float32(max(abs(lowest), abs(highest)))
        edge = largest or np.float32(0.5)  # as np.histogram has it for values that are all 0
        edges = np.linspace(-edge, edge, bins + 1, dtype=np.float32)
        collector.histogram_dict[name] = (np.zeros(bins, np.int64), edges, lowest, highest, largest)
    calibrator.collector = collector
    for sample in samples():
        calibrator.collect_data(_Reader([sample]))
    return _as_ranges(calibrator.compute_data())


def _calibrator(model: Path, op_types: Sequence[str], method: Any, is_large: bool, options: dict[str, Any]) -> Any:
    from onnxruntime.quantization.calibrate import create_calibrator

    return create_calibrator(
        model,
        list(op_types),
        augmented_model_path=str(model.with_name("augmented.onnx")),
        calibrate_method=method,
        use_external_data_format=is_large,
        extra_options=options,
    )


def _as_ranges(data: Any) -> Ranges:
    found: Ranges = {}
    for name, entry in data.items():
        low, high = (float(np.asarray(bound).reshape(-1)[0]) for bound in entry.range_value)
        found[name] = low, high
    return found
