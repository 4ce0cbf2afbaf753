"""Name functions of kernels/ in expressions: `kernel("resize")` is one to call, and its text is copied into the
output."""

from __future__ import annotations

from onnxlift.lifting import kernels
from onnxlift.lifting.code.expr import Name


def kernel(name: str) -> Name:
    assert kernels.exists(name), f"no function {name} in kernels/"
    return Name(name)
