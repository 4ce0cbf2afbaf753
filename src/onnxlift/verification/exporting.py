"""Export the lifted source to ONNX with torch. This is called in the child process only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .candidate import load_candidate


def export_candidate(
    source: Path,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    open_sizes: Mapping[str, Mapping[str, str]],
    target: Path,
    input_types: Mapping[str, str] | None = None,
) -> None:
    """Export the model of the file `source` to `target`, for these inputs.

    `open_sizes` has the axes of each input that stay open, as text, with the names of their sizes; empty for a size
    that has no name that torch takes. The file is executed: call this only with a file that we wrote."""
    candidate = load_candidate(source, input_types=input_types)
    shapes = tuple(
        {int(axis): size or torch.export.Dim.AUTO for axis, size in open_sizes.get(name, {}).items()} for name in inputs
    )
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            candidate.model,
            tuple(candidate.arguments(inputs)),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(inputs),
            output_names=list(outputs),
            verbose=False,
        )
        assert program is not None
        program.save(target)
