"""`expose`: the same model with values inside as outputs as well, so that any runtime shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.interface import interface_of
from onnxlift.ir.graph.types import ValueType
from onnxlift.ir.graph.walk import inner_nodes
from onnxlift.ir.inference.infer import infer
from onnxlift.unforeseen import answered
from onnxlift.verification.pieces import Piece

from .cutting import check_type, declare, unknown_ranks
from .extract import interface_lines
from .report import Checking, ModelReport, name_of, open_model
from .values import MainValues, has_type, known_type, type_dict


@dataclass(frozen=True)
class ExposeReport(ModelReport):
    """A model with more outputs: those that were added, with their types, and how many there are by now."""

    exposed: Mapping[str, ValueType] = field(default_factory=dict)
    outputs: int = 0

    def facts(self) -> dict[str, Any]:
        exposed = [{"name": name, **type_dict(type_)} for name, type_ in self.exposed.items()]
        return {"exposed": exposed, "outputs": self.outputs}

    def lines(self) -> list[str]:
        new = len(self.exposed)
        return [f"  outputs        {self.outputs - new:,} -> {self.outputs:,}", *interface_lines({}, self.exposed)]


def expose(
    source: Any,
    values: str | Sequence[str] = (),
    *,
    all: bool = False,
    verify: bool = True,
    **checking: Any,
) -> ExposeReport:
    """Return the model in `source` with `values` as outputs as well, after its own, in the order of the graph.

    Values are names, or globs like `*/Relu_output_*`; or `all` values that nodes of the main graph compute. Unless
    `verify` is False, the result is compared with the original; `checking` takes the options of `verify`."""
    wanted = list(dict.fromkeys([values] if isinstance(values, str) else values))
    if all == bool(wanted):
        raise OnnxLiftError("say which values to expose: names, globs, or all of them (--all), and not both.")
    with answered():
        model = open_model(source)
        infer(model)
        notes: list[str] = []
        graph = model.graph
        found = list(_all(model, notes) if all else _chosen(model, wanted, notes))
        graph.outputs.extend(found)
        notes += unknown_ranks(found)
        declare(model, interface_of(model).types)
        report = ExposeReport(
            name_of(source, model),
            model,
            notes=tuple(notes),
            exposed={value.name or "": known_type(value) for value in found},
            outputs=len(graph.outputs),
        )
    outputs = {value.name or "": value.name or "" for value in graph.outputs}
    inputs = {value.name or "": value.name or "" for value in graph.inputs}
    computed = {name: name for name in outputs if name not in inputs}
    original, result = Piece(source, inputs, computed), Piece(model, inputs, outputs)
    return replace(report, verification=Checking(verify, **checking).compare_pieces([original], result))


def _inside(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the values that nodes of the main graph compute, in their order, without those that are outputs."""
    outputs = set(model.graph.outputs)
    yield from (value for node in model.graph for value in node.outputs if value.name and value not in outputs)


def _all(model: ir.Model, notes: list[str]) -> Iterator[ir.Value]:
    unknown: list[str] = []
    for value in _inside(model):
        if has_type(value):
            yield value
        else:
            unknown.append(quote(value.name or ""))
    if unknown:
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        notes.append(f"not exposed, since their types are not known: {', '.join(unknown[:3])}{more}")
    holders = [node for node in model.graph if any(True for _ in inner_nodes(node))]
    if holders:
        nodes = "1 node" if len(holders) == 1 else f"{len(holders):,} nodes"
        notes.append(
            f"what is inside the subgraphs of {nodes} ({quote(holders[0].name or '')}"
            f"{', ...' if len(holders) > 1 else ''}) is not exposed: it may be computed never or many times"
        )


def _chosen(model: ir.Model, wanted: Sequence[str], notes: list[str]) -> Iterator[ir.Value]:
    """Yield the values that are meant, in the order of the graph. A name goes before a glob of the same spelling."""
    values = MainValues(model)
    outputs = {value.name for value in model.graph.outputs}
    candidates = list(_inside(model))
    chosen: set[ir.Value] = set()
    for text in wanted:
        is_glob = text not in values.by_name and any(sign in text for sign in "*?[")
        matching = [value for value in candidates if fnmatchcase(value.name or "", text)] if is_glob else []
        if is_glob and not matching and not any(fnmatchcase(name or "", text) for name in outputs):
            raise OnnxLiftError(f"no value that a node of the main graph computes matches {quote(text)}.")
        if not is_glob:
            value = values.find(text)
            if value.name in outputs:
                notes.append(f"{quote(text)} is an output already")
                continue
            if value.producer() is None:
                kind = "an initialiser" if value.is_initializer() else "an input"
                raise OnnxLiftError(
                    f"{quote(text)} is {kind} of the model, which no node computes: it is known already."
                )
            matching = [value]
        for value in matching:
            check_type(value, model)
        chosen.update(matching)
    yield from (value for value in candidates if value in chosen)
