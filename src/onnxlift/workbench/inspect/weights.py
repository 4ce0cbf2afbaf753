"""The weights of a model with statistics of their numbers, read piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnxlift.ir.graph.types import shape_text
from onnxlift.ir.graph.walk import Region, regions
from onnxlift.sizes import format_bytes
from onnxlift.terminal import plain
from onnxlift.workbench.numbers import statistics_of, type_name


@dataclass(frozen=True)
class WeightInfo:
    """One weight. `mean` and `std` are of its finite numbers; least and greatest too. None if there are none."""

    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    zeros: int
    not_finite: int
    """How many are NaN or infinite."""
    place: str = ""
    """The function whose body it is in; "" in the main graph and its subgraphs."""

    @property
    def size(self) -> int:
        found = 1
        for each in self.shape:
            found *= each
        return found

    def cells(self) -> list[str]:
        """Return what stands in the columns of the table."""
        share = f"{self.zeros / self.size:.0%}" if self.zeros and self.size else ""
        numbers = ["" if each is None else f"{each:.4g}" for each in (self.min, self.max, self.mean, self.std)]
        wrong = f"{self.not_finite:,} not finite" if self.not_finite else ""
        return [plain(self.name)[:80], f"{self.type} {shape_text(self.shape)}", *numbers, share, wrong]


def weight_infos(model: ir.Model, among: Collection[ir.Value] | None = None) -> Iterator[WeightInfo]:
    """Describe all initialisers of a model, or those among the given values, in their order."""
    for region in regions(model):
        for value in region.graph.initializers.values():
            if value.const_value is not None and (among is None or value in among):
                yield _info(value.name or "", value.const_value, region)


def _info(name: str, tensor: ir.TensorProtocol, region: Region) -> WeightInfo:
    found = statistics_of(tensor)
    numbers = found.numbers
    is_known = found.mean is not None
    return WeightInfo(
        name,
        type_name(tensor.dtype),
        tuple(tensor.shape.numpy()),
        tensor.nbytes if tensor.dtype != ir.DataType.STRING else 0,
        numbers.least if is_known else None,
        numbers.greatest if is_known else None,
        found.mean,
        found.std,
        found.zeros,
        numbers.nans + numbers.highs + numbers.lows,
        region.function.name if region.function is not None else "",
    )


def table(weights: Sequence[WeightInfo]) -> list[str]:
    """Write the weights as a table, with a line on all of them."""
    if not weights:
        return ["  no weights"]
    heads = ["weight", "type", "min", "max", "mean", "std", "zeros", ""]
    rows = [heads, *(weight.cells() for weight in weights)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        left = [f"{cell:{width}}" for cell, width in zip(row[:2], widths, strict=False)]
        right = [f"{cell:>{width}}" for cell, width in zip(row[2:7], widths[2:], strict=False)]
        lines.append(f"  {'  '.join([*left, *right, row[7]])}".rstrip())
    total = sum(weight.bytes for weight in weights)
    return [*lines, f"  {len(weights):,} weights, {format_bytes(total)}"]


def to_dicts(weights: Sequence[WeightInfo]) -> list[dict[str, Any]]:
    """Return the weights as plain data."""
    return [{**vars(weight), "shape": list(weight.shape)} for weight in weights]
