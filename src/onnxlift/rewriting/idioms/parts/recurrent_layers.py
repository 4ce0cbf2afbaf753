"""Put a recurrent layer into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnxlift.ir.editing.edit import Edit
from onnxlift.ir.editing.match import DOMAIN


def insert_layer(
    edit: Edit,
    place: ir.Node,
    inputs: Sequence[ir.Value | None],
    options: Mapping[str, int | str],
    *,
    like: ir.Node,
    kind: str | None = None,
) -> ir.Node:
    """Return a new lifted node before `place`; nobody reads its outputs yet.

    It takes the name and module of `like`, and also its operator if no `kind` is given.
    """
    kind = like.op_type if kind is None else kind
    count = 3 if kind == "LSTM" else 2
    type = inputs[0].type if inputs[0] is not None else None
    layer = ir.Node(
        DOMAIN,
        kind,
        inputs,
        [ir.convenience.convert_attribute(name, value) for name, value in options.items() if value],
        outputs=[ir.Value(name="", type=type) for _ in range(count)],
        name=like.name,
        metadata_props=dict(like.metadata_props),
    )
    edit.graph.insert_before(place, layer)
    return layer


def take_over(edit: Edit, old: ir.Value, new: ir.Value) -> None:
    """Let all readers of `old` read `new`, under the same name."""
    edit.redirect(old, new)
    if not new.name:
        new.name, old.name = old.name, None
