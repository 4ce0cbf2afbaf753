"""Decide which outputs of a model go to which inputs of another, and hold their types against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.types import Dim

from ..values import known_type, suggestion

Pairs = Mapping[str, str] | Sequence[str | tuple[str, str]]
"""Outputs of the first model and the inputs of the second that they go to: a dict, pairs, or texts `out=in`."""


@dataclass(frozen=True)
class Connection:
    """An output of the first model, and the input of the second that it goes to."""

    output: ir.Value
    input: ir.Value

    def __str__(self) -> str:
        return f"{quote(self.output.name or '')} -> {quote(self.input.name or '')}"


def find_connections(first: ir.Graph, second: ir.Graph, pairs: Pairs | None) -> list[Connection]:
    """Return the connections that `pairs` ask for; without these, outputs go to inputs of the same name."""
    outputs = {value.name or "": value for value in first.outputs}
    inputs = {value.name or "": value for value in second.inputs}
    if not pairs:
        found = [Connection(outputs[name], value) for name, value in inputs.items() if name in outputs]
        if not found:
            raise OnnxLiftError(
                f"no output of the first model has the name of an input of the second: outputs {_listed(outputs)}; "
                f"inputs {_listed(inputs)}. Say which belong together: --map OUTPUT=INPUT."
            )
        return found
    found = []
    for pair in pairs.items() if isinstance(pairs, Mapping) else pairs:
        output, input_ = _split(pair, outputs, inputs) if isinstance(pair, str) else pair
        if output not in outputs:
            hint = suggestion(output, outputs)
            raise OnnxLiftError(f"the first model has no output named {quote(output)}{hint}.")
        if input_ not in inputs:
            hint = suggestion(input_, inputs)
            raise OnnxLiftError(f"the second model has no input named {quote(input_)}{hint}.")
        if any(each.input is inputs[input_] for each in found):
            raise OnnxLiftError(f"input {quote(input_)} of the second model can take one output only.")
        found.append(Connection(outputs[output], inputs[input_]))
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(quote, names)) or "none"


def _split(text: str, outputs: Mapping[str, object], inputs: Mapping[str, object]) -> tuple[str, str]:
    """Split `out=in`. Names may hold a `=` themselves, so the place is chosen at which both sides are names."""
    places = [place for place, sign in enumerate(text) if sign == "="]
    if not places:
        raise OnnxLiftError(f"{quote(text)} is not of the form OUTPUT=INPUT.")
    splits = [(text[:place], text[place + 1 :]) for place in places]
    return next((split for split in splits if split[0] in outputs and split[1] in inputs), splits[0])


def unite_sizes(connections: Sequence[Connection], notes: list[str]) -> dict[str, Dim]:
    """Return what the named sizes of the second model are in the first, as far as the connections tell.

    Raises an error if a connected output cannot be what the input takes. Sizes that must be equal for the model to run,
    although nothing says that they are, are told in the notes."""
    sizes: dict[str, Dim] = {}
    for connection in connections:
        given, taken = known_type(connection.output), known_type(connection.input)
        if (given.dtype is not None and given.dtype != taken.dtype) or given.kind != taken.kind:
            raise OnnxLiftError(
                f"{connection} cannot be connected: the output is {given}, and the input takes {taken}."
            )
        if given.shape is None or taken.shape is None:
            continue
        if len(given.shape) != len(taken.shape):
            raise OnnxLiftError(
                f"{connection} cannot be connected: the output {given} has {len(given.shape)} axes, and the input "
                f"takes {taken}."
            )
        for size, wanted in zip(given.shape, taken.shape, strict=True):
            _unite(size, wanted, connection, sizes, notes)
    return sizes


def _unite(size: Dim, wanted: Dim, connection: Connection, sizes: dict[str, Dim], notes: list[str]) -> None:
    if size is None or wanted is None:
        return
    if isinstance(wanted, str):
        wanted = sizes.setdefault(wanted, size)
    if wanted == size:
        return
    if isinstance(size, int) and isinstance(wanted, int):
        raise OnnxLiftError(
            f"{connection} cannot be connected: the output is {known_type(connection.output)}, the input takes "
            f"{known_type(connection.input)}, and {size} is not {wanted}."
        )
    notes.append(f"{connection} fits only if the size {size} is {wanted}: nothing in the models says so")
