"""`run`: run a model on inputs, with ONNX Runtime or as the lifted module, and keep what it computes.

verb         all of it: read the inputs, run, profile
report       what was run, on what, and what came out
values_file  outputs as a file: .npz, .npy or .json
"""

from __future__ import annotations

from .verb import run

__all__ = ["run"]
