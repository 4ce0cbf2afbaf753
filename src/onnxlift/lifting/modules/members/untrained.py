"""Say which floating-point constants will not train, and why."""

from __future__ import annotations

from collections.abc import Mapping

from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.modules.module import Entry
from onnxlift.report import patterns

_STATISTICS = frozenset({"running_mean", "running_var"})


def untrained_constants(entries: Mapping[str, Entry]) -> list[str]:
    """Return a sentence for each reason why floating-point tensors are buffers, with their keys.

    The statistics of norms are not among them: in train mode they follow the data."""
    reasons: dict[str, list[str]] = {}
    for key, entry in entries.items():
        is_statistic = entry.layer and key.rpartition(".")[2] in _STATISTICS
        if not entry.is_parameter and not is_statistic and entry.weight.value.dtype in FLOATS:
            reasons.setdefault(origin_of(entry.weight.value).reason, []).append(key)
    return [f"{', '.join(patterns(keys))} will not train: {reason}" for reason, keys in reasons.items()]
