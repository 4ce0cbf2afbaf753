"""What is asked of `quantize`: the options, checked, as plain values that a child can be told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from onnxlift.errors import OnnxLiftError

MODES = {
    "dynamic": "weights in 8 bits, activations in 8 bits with the range of each input",
    "static": "weights and activations in 8 bits, with ranges from samples",
    "weights": "weights in 8 or 4 bits, all computing in float32",
    "float16": "weights and computing in float16",
    "bfloat16": "weights and computing in bfloat16",
}
FORMATS = ("qdq", "qoperator")
METHODS = ("minmax", "entropy", "percentile", "distribution")
TYPES = ("uint8", "int8", "uint16", "int16")
BITS = (8, 4)
BLOCK_SIZES = (16, 32, 64, 128, 256)


class QuantizeError(OnnxLiftError):
    """The model cannot be quantised as asked for."""


@dataclass(frozen=True)
class Recipe:
    """How to quantise. `reduce_range` is None where the processor decides."""

    mode: str
    format: str = "qdq"
    bits: int = 8
    method: str = "minmax"
    activations: str = "uint8"
    weights: str = "int8"
    per_channel: bool = True
    reduce_range: bool | None = None
    block_size: int = 32
    percentile: float = 99.999
    op_types: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "op_types": list(self.op_types)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_dict` has described."""
        return cls(**{**data, "op_types": tuple(data["op_types"])})

    @property
    def runs_engine(self) -> bool:
        """Tell whether onnxruntime.quantization makes the model, in a child; else we do."""
        return self.mode in ("dynamic", "static")

    @property
    def opset(self) -> int:
        """The lowest opset that the result can be written in."""
        if self.mode == "weights" and self.bits == 4 and self.format == "qdq":
            return 21
        if self.mode == "static" and {"uint16", "int16"} & {self.activations, self.weights}:
            return 21
        return 22 if self.mode == "bfloat16" else 13

    def __str__(self) -> str:
        channels = "per channel" if self.per_channel else "per tensor"
        if self.mode == "static":
            named = {"qdq": "QDQ", "qoperator": "QOperator"}[self.format]
            return f"static {named}, {self.weights} weights {channels}, {self.activations} activations ({self.method})"
        if self.mode == "dynamic":
            return f"dynamic, {self.weights} weights {channels}"
        if self.mode == "weights":
            return (
                "weights in 8 bits, " + channels
                if self.bits == 8
                else f"weights in 4 bits, blocks of {self.block_size}"
            )
        return self.mode


def make_recipe(
    mode: str | None,
    *,
    has_samples: bool,
    format: str | None,
    bits: int,
    method: str,
    activations: str,
    weights: str,
    per_channel: bool,
    reduce_range: bool | None,
    block_size: int,
    percentile: float,
    op_types: Collection[str],
) -> Recipe:
    """Return what is asked for. Raises a QuantizeError if that makes no sense."""
    if mode is None:
        mode = "static" if has_samples else "dynamic"
    _check("mode", mode, tuple(MODES))
    _check("method", method, METHODS)
    _check("bits", bits, BITS)
    _check("block_size", block_size, BLOCK_SIZES)
    for name, type_name in (("activations", activations), ("weights", weights)):
        _check(name, type_name, TYPES)
    if format is None:
        format = "qoperator" if mode == "weights" and bits == 4 else "qdq"
    _check("format", format, FORMATS)
    if mode == "static" and not has_samples:
        raise QuantizeError(
            "static quantisation needs samples to find the ranges of activations: give some (--calibrate DIR, FILE.npz "
            "or script.py), or choose another mode (--mode dynamic)."
        )
    if mode != "weights" and bits != 8:
        raise QuantizeError(f"{bits} bits are for weights only (--mode weights), and not for the mode {mode!r}.")
    if activations == "int8" and weights == "uint8":
        raise QuantizeError("ONNX Runtime has no products of int8 activations and uint8 weights: choose other types.")
    if "16" in activations + weights and (mode != "static" or format != "qdq"):
        raise QuantizeError("types of 16 bits are for the mode static in the format qdq only.")
    if not 50 < percentile <= 100:
        raise QuantizeError(f"{percentile:g} is no percentile for a range: choose one above 50, up to 100.")
    return Recipe(
        mode,
        format,
        bits,
        method,
        activations,
        weights,
        per_channel,
        reduce_range,
        block_size,
        percentile,
        tuple(op_types),
    )


def _check(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise QuantizeError(f"{value!r} is no {name.replace('_', ' ')}: choose one of {', '.join(map(str, known))}.")
