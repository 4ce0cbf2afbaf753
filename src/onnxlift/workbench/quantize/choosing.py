"""Quantise, measure, and with a target keep nodes in float until it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .recipe import QuantizeError
from .report import Layer, Quality, worst
from .search import find_kept, groups_of
from .work import Made, Samples, Wanted, Work

FOR_TARGET = "for the target"
INFINITE = "a value that it reads or writes is infinite, or as good as that"


@dataclass(frozen=True)
class Chosen:
    """The quantised model that was chosen, its layers with those that were kept, and what was tried on the way."""

    made: Made
    layers: tuple[Layer, ...]
    probes: tuple[tuple[int, float | None], ...] = ()


def choose(
    work: Work,
    kept: Mapping[str, str],
    *,
    target: float | None,
    measured: Samples | None,
    calibrated: Samples | None,
    speed: bool,
) -> Chosen:
    """Quantise all but the nodes that are `kept` for a reason. With a target, keep more of them until it is reached.

    If `measured` is None, nothing is measured."""
    wanted = None if measured is None else Wanted(measured, totals=True, speed=speed)
    made = work.make(kept, wanted, calibrated)
    kept = {**kept, **{name: INFINITE for name in work.out_of_range if name not in kept}}
    if target is None or measured is None or _are_good(made.outputs, target):
        return Chosen(made, _listed(work, made, {}, kept), _probe(kept, made) if target is not None else ())
    if made.layers is None:
        raise QuantizeError(
            "the model is too large to be measured layer by layer, so no nodes to keep can be found for a target: name "
            "them (--keep), or leave out the target."
        )
    return _search(work, made, dict(kept), target, replace(Wanted(measured), totals=True, speed=speed))


def _search(work: Work, first: Made, kept: dict[str, str], target: float, wanted: Wanted) -> Chosen:
    noise = {layer.name: layer for layer in first.layers or () if layer.name not in kept}
    groups = groups_of(work.prepared.graph, noise)
    ranking = sorted(groups, key=lambda name: -sum(noise[each].power for each in groups[name]))
    probes = list(_probe(kept, first))
    work.drop(first)

    def members(leaders: frozenset[str]) -> list[str]:
        return [name for leader in leaders for name in groups[leader]]

    def reaches(leaders: frozenset[str]) -> bool:
        names = {*kept, *members(leaders)}
        made = work.make(names, replace(wanted, layers=False, totals=False, speed=False))
        probes.append((len(names), worst(made.outputs)))
        work.drop(made)
        return _are_good(made.outputs, target)

    more = find_kept(ranking, reaches)
    if more is None:
        best = max((sqnr for _, sqnr in probes if sqnr is not None), default=None)
        told = "" if best is None else f" The best that was seen is {best:.1f} dB."
        raise QuantizeError(
            f"no node can be quantised if every output must have {target:g} dB.{told} Choose a lower target, more bits "
            "(--mode weights or float16), or other ranges (--method)."
        )
    kept = {**kept, **dict.fromkeys(members(more), FOR_TARGET)}
    made = work.make(kept, wanted)
    return Chosen(made, _listed(work, made, noise, kept), tuple(probes))


def _are_good(outputs: tuple[Quality, ...], target: float) -> bool:
    return all(output.reaches(target) for output in outputs)


def _probe(kept: Mapping[str, str], made: Made) -> tuple[tuple[int, float | None], ...]:
    return ((len(kept), worst(made.outputs)),)


def _listed(work: Work, made: Made, before: Mapping[str, Layer], kept: Mapping[str, str]) -> tuple[Layer, ...]:
    """Return the layers in the order of the graph: those that are quantised, and those that were kept.

    Of those that were kept to reach a target, the noise is told that they would have added."""
    measured = {layer.name: layer for layer in made.layers or ()}
    rows: list[Layer] = []
    for node in work.prepared.graph:
        name = node.name or ""
        if name in kept:
            own = before[name].own if name in before else None
            rows.append(Layer(name, node.op_type, own, kept=kept[name]))
        elif name in measured:
            rows.append(measured[name])
    return tuple(rows)
