"""What an export needs beside the model: memory, and a compiler. Told before the work starts."""

from __future__ import annotations

import os
import shutil

from onnxlift.errors import OnnxLiftError
from onnxlift.sizes import format_bytes
from onnxlift.verification.children.child import Limits

from .report import ONNX, PACKAGE, PROGRAM

TORCH = 600 << 20
"""The memory that torch takes before it has any weight."""

TIMES = {PROGRAM: 1.2, PACKAGE: 3.5, ONNX: 3.5}
"""How many times the weights are in memory at most, by kind (`benchmarks/export.py memory` measures it)."""


def check_memory(name: str, kind: str, weights: int, limits: Limits) -> None:
    """Raise an error if there is not enough memory for a model with so many bytes of weights."""
    needed, most = round(TORCH + TIMES[kind] * weights), limits.bytes
    if most is not None and needed > most:
        cheaper = " A program of torch.export, without --aoti or --onnx, needs less." if kind != PROGRAM else ""
        raise OnnxLiftError(
            f"exporting {name} needs about {format_bytes(needed)} of memory, since torch holds its weights "
            f"({format_bytes(weights)}) up to {TIMES[kind]:g} times, and {format_bytes(most)} may be taken. Use a "
            f"machine with more, or raise the limit (--memory), if there is one.{cheaper}"
        )


def check_compiler() -> None:
    """Raise an error if there is no C++ compiler, which AOTInductor needs."""
    named = os.environ.get("CXX")
    wanted = (named,) if named else ("g++", "c++", "clang++")
    if not any(shutil.which(each) for each in wanted):
        raise OnnxLiftError(
            f"AOTInductor compiles C++, and there is no compiler ({', '.join(wanted)}) on this machine: install one "
            "(Debian: g++; Fedora: gcc-c++), or name it in the environment variable CXX."
        )


def check_exporter() -> None:
    """Raise an error if torch's exporter to ONNX lacks the package that it needs."""
    from importlib.util import find_spec

    if find_spec("onnxscript") is None:
        raise OnnxLiftError("torch's exporter to ONNX needs onnxscript: pip install 'onnxlift[export]'.")
