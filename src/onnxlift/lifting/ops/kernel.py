"""`kernel("resize")`: a function of kernels/ as an expression to call; its text comes along into the output."""

from __future__ import annotations

from onnxlift.lifting import kernels
from onnxlift.lifting.code.expr import Name


def kernel(name: str) -> Name:
    assert kernels.exists(name), f"no function {name} in kernels/"
    return Name(name)
