"""The result of a run: the inputs, the outputs, and where the time went."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.terminal import plain
from onnxlift.verification.compare import describe

from ..runtime.timings import Timings
from .values_file import encode, save_values

MOST_SHOWN = 6
"""Arrays of up to so many elements are printed; of others, the least, greatest and mean."""
WIDEST = 40


@dataclass(frozen=True)
class RunReport:
    """What a model computed: its outputs by name, as numpy arrays (lists and dicts for sequences and maps)."""

    name: str
    runtime: str
    inputs: Mapping[str, Any] = field(repr=False)
    outputs: Mapping[str, Any] = field(repr=False)
    made_up: tuple[str, ...] = ()
    """The inputs that nobody gave."""
    seed: int = 0
    timings: Timings | None = None
    """Where the time went, if a profile was asked for."""
    notes: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    """Files that were written while it ran: the optimised model, the trace."""

    @property
    def passed(self) -> bool:
        """Tell whether the model ran; if it does not, there is an error, and no report."""
        return True

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]

    def to_bytes(self, suffix: str = ".npz") -> bytes:
        """Return the outputs as the bytes of a file: .npz, .npy or .json."""
        return encode(self.outputs, suffix)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Write the outputs to a file, in the format that its suffix tells: .npz, .npy or .json.

        A file that is there already is replaced only with `force`."""
        return save_values(self.outputs, Path(path), force=force)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists. Of the outputs, it has what describes them."""
        inputs = [{**_facts(name, value), "made_up": name in self.made_up} for name, value in self.inputs.items()]
        return {
            "passed": self.passed,
            "runtime": self.runtime,
            "seed": self.seed,
            "inputs": inputs,
            "outputs": [_facts(name, value) for name, value in self.outputs.items()],
            "profile": None if self.timings is None else self.timings.to_dict(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        names = [_cut(name) for name in (*self.inputs, *self.outputs)]
        kinds = [describe(value) for value in (*self.inputs.values(), *self.outputs.values())]
        widths = max(map(len, names), default=0), max(map(len, kinds), default=0)
        lines = [self.name, f"  run by         {self.runtime}"]
        details = [f"made up (seed {self.seed})" if name in self.made_up else "" for name in self.inputs]
        details += [_summary(value) for value in self.outputs.values()]
        titles = ["input"] * len(self.inputs) + ["output"] * len(self.outputs)
        for title, name, kind, detail in zip(titles, names, kinds, details, strict=True):
            lines.append(f"  {title:13}  {name:{widths[0]}}  {kind:{widths[1]}}  {detail}".rstrip())
        lines += [f"  note           {note}" for note in self.notes]
        return "\n".join([*lines, *(self.timings.lines() if self.timings is not None else ())])


def _facts(name: str, value: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name, "type": describe(value)}
    if not isinstance(value, np.ndarray):
        return facts
    facts |= {"dtype": "string" if value.dtype.kind in "OUST" else value.dtype.name, "shape": list(value.shape)}
    numbers = _numbers(value)
    if numbers is not None:
        finite = numbers[np.isfinite(numbers)]
        facts["not_finite"] = int(numbers.size - finite.size)
        if finite.size:
            facts |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return facts


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return the elements as float64; None if they are no real numbers, or there are none."""
    if array.dtype.kind in "OUSTc" or not array.size:
        return None
    return array.astype(np.float64)


def _summary(value: Any) -> str:
    """Describe an output in a few words: its elements, if they are few, else the least, greatest and mean."""
    if not isinstance(value, np.ndarray):
        return ""
    if value.size <= MOST_SHOWN:
        return plain(
            ", ".join(f"{item:.5g}" if isinstance(item, float) else str(item) for item in value.ravel().tolist())
        )
    numbers = _numbers(value)
    if numbers is None:
        return ""
    finite = numbers[np.isfinite(numbers)]
    broken = f", {numbers.size - finite.size:,} not finite" if finite.size < numbers.size else ""
    if not finite.size:
        return "no number is finite"
    return f"{finite.min():.4g} to {finite.max():.4g}, mean {finite.mean():.4g}{broken}"


def _cut(name: str) -> str:
    text = plain(name)
    return text if len(text) <= WIDEST else f"...{text[3 - WIDEST :]}"
