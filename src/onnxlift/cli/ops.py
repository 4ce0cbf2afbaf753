"""`onnxlift ops` lists the operators that can be lifted."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json
from .outcome import Outcome


def ops(
    domain: Annotated[
        str | None, typer.Option(help="Only this domain: ai.onnx, ai.onnx.ml, com.microsoft, ...")
    ] = None,
    json: Json = False,
) -> None:
    """List the operators that can be lifted.

    Operators that are not listed are lifted all the same if their ONNX schema defines them by others.

    Example: onnxlift ops --domain com.microsoft
    """
    from onnxlift.errors import OnnxLiftError
    from onnxlift.ir.graph.marks import DOMAIN
    from onnxlift.lifting.ops import registry
    from onnxlift.rewriting import bodies

    table: dict[str, list[str]] = {}
    known = {(operator.domain, operator.op_type) for operator in registry.operators()} | set(bodies.operators())
    for owner, op_type in sorted(known):
        if owner != DOMAIN:
            table.setdefault(owner or "ai.onnx", []).append(op_type)
    if domain is not None:
        if domain not in table:
            raise OnnxLiftError(f"there are no operators of domain {domain!r}; the domains are {', '.join(table)}.")
        table = {domain: table[domain]}
    lines = [line for title, names in table.items() for line in (f"{title}: {len(names)} operators", _columns(names))]
    Outcome(True, {"operators": table}, "\n".join(lines)).show("ops", None, json=json)


def _columns(names: list[str], width: int = 100) -> str:
    """Arrange the names in columns, as many as fit into `width` characters."""
    column = max(map(len, names)) + 2
    rows = -(-len(names) // max(1, width // column))
    lines = ["".join(f"{name:{column}}" for name in names[row::rows]).rstrip() for row in range(rows)]
    return "\n".join(f"  {line}" for line in lines)
