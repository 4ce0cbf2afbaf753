"""`onnxlift inspect` shows what is in a model, and whether it can be lifted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .each import run_each
from .options import Jobs, Json, Models
from .outcome import Outcome


def inspect(
    models: Models,
    nodes: Annotated[bool, typer.Option("--nodes", help="List the graph node by node, as text.")] = False,
    weights: Annotated[
        bool, typer.Option("--weights", help="List the weights, with least, greatest, mean and standard deviation.")
    ] = False,
    metadata: Annotated[bool, typer.Option("--metadata", help="Show what the file says of itself.")] = False,
    module: Annotated[
        str | None,
        typer.Option(
            "--module",
            metavar="PATH",
            help="Show one module, encoder.layer.0 say: what enters and leaves it, and what is in it. --nodes and "
            "--weights then list only what belongs to it.",
        ),
    ] = None,
    jobs: Jobs = 1,
    json: Json = False,
) -> None:
    """Show what is in a model: inputs, outputs, opsets, size, operators, and which of these cannot be lifted.

    With --nodes, --weights, --metadata or --module, show these instead. Only --weights needs external data.

    Example: onnxlift inspect resnet50.onnx

    Example: onnxlift inspect bert.onnx --module encoder.layer.0 --nodes
    """
    work = partial(_look, nodes=nodes, weights=weights, metadata=metadata, module=module)
    run_each("inspect", models, work, json=json, jobs=jobs)


def _look(source: Path | bytes, name: str, **options: Any) -> Outcome:
    from onnxlift.workbench.inspect import inspect as run

    inspection = run(source, **options)
    return Outcome(True, inspection.to_dict(), str(inspection))
