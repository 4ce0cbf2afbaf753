"""`diff`: what changed between two models, semantically.

    reading, checking, building ─▶ the same without names and order ─▶ matching ─▶ comparing ─▶ a report

Nodes are matched by structure and weights (matching.py), then compared (comparing.py). The interface, versions and
metadata are compared beside them (interface.py).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.graph.functions import function_title
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.unforeseen import answered
from onnxlift.workbench.report import name_of, open_model

from .changes import Fact, NodeChange, Size
from .comparing import Comparer, Found
from .functions import compare_functions, paired_functions
from .interface import Sizes, default_changes, metadata_changes, paired, port_changes, ports, version_changes
from .matching import Borders
from .numbers import Tolerance
from .report import ASPECTS, DiffReport
from .view import Side
from .weights import Weights

CHUNK = 1 << 20


def diff(
    a: Any,
    b: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ignore: Collection[str] = (),
    only: Collection[str] = (),
    source: bool = False,
) -> DiffReport:
    """Return what changed from the model in `a` to that in `b`.

    Names inside the models and the order of nodes do not count, nor does the order of the inputs of an Add. With
    `rtol` and `atol`, weights are different from |a - b| > atol + rtol * max(|a|, |b|) on; without them, if any bit is,
    except that NaN equals NaN. `ignore` and `only` say which aspects count: "interface", "names" (of inputs, outputs
    and sizes), "nodes", "weights", "opset" and "metadata". With `source`, the report also has a unified diff of the
    lifted text of both."""
    aspects = _aspects(ignore, only)
    with answered():
        given = [_held(unwrapped(each)) for each in (a, b)]
        names = _names(given)
        report = _of_equal_files(given, names)
        if report is None:
            models = tuple(open_model(each) for each in given)
            names = [name or name_of(each, model) for name, each, model in zip(names, given, models, strict=True)]
            report = _compare(models[0], models[1], names, Tolerance(rtol, atol), aspects)
        if source:
            report = replace(report, source=_source_diff(given, names))
    return report


def _aspects(ignore: Collection[str], only: Collection[str]) -> frozenset[str]:
    for aspect in (*ignore, *only):
        if aspect not in ASPECTS:
            raise OnnxLiftError(f"there is no aspect {quote(aspect)}: it is one of {', '.join(ASPECTS)}.")
    return frozenset(only or ASPECTS) - frozenset(ignore)


def _held(source: Any) -> Any:
    """Return a source that can be read twice."""
    return source.read() if hasattr(source, "read") else source


def _names(given: list[Any]) -> list[str]:
    """Return what to call the files: their names, or their paths where the names are the same; "" for no file."""
    paths = [Path(each) if isinstance(each, str | os.PathLike) else None for each in given]
    names = ["" if path is None else path.name for path in paths]
    if names[0] == names[1] and names[0]:
        names = [str(path) for path in paths]
    return names


def _of_equal_files(given: list[Any], names: list[str]) -> DiffReport | None:
    """Return the report on two files that are equal byte by byte, without a look at their weights; None if not."""
    if not _same_bytes(*given):
        return None
    model = open_model(given[0])
    is_path = isinstance(given[0], str | os.PathLike)
    others = data_files(model) - ({Path(given[0]).resolve()} if is_path else set())
    if others and not (is_path and Path(given[0]).samefile(given[1])):
        return None  # the external data of the two may differ
    size = size_of(Side(model))
    named = [name or name_of(each, model) for name, each in zip(names, given, strict=True)]
    return DiffReport(named[0], named[1], (size, size), size.nodes, notes=("the files are equal byte by byte",))


def _same_bytes(a: Any, b: Any) -> bool:
    if isinstance(a, bytes) and isinstance(b, bytes):
        return a == b
    if not isinstance(a, str | os.PathLike) or not isinstance(b, str | os.PathLike):
        return False
    path_a, path_b = Path(a), Path(b)
    if not path_a.is_file() or not path_b.is_file() or path_a.stat().st_size != path_b.stat().st_size:
        return False
    if path_a.samefile(path_b):
        return True
    with path_a.open("rb") as file_a, path_b.open("rb") as file_b:
        while chunk := file_a.read(CHUNK):
            if chunk != file_b.read(CHUNK):
                return False
    return True


def _compare(a: ir.Model, b: ir.Model, names: list[str], tolerance: Tolerance, aspects: frozenset[str]) -> DiffReport:
    inputs = ports(a, a.graph.inputs), ports(b, b.graph.inputs)
    outputs = ports(a, a.graph.outputs), ports(b, b.graph.outputs)
    pairs_in, pairs_out = paired(*inputs), paired(*outputs)
    interface: list[Fact] = []
    if "interface" in aspects or "names" in aspects:
        sizes: Sizes | None = None if "names" in aspects else {}
        interface += port_changes("input", *inputs, pairs_in, sizes)
        interface += port_changes("output", *outputs, pairs_out, sizes)
    if "interface" not in aspects:
        interface = [fact for fact in interface if fact.what.startswith("name of ")]
    else:
        interface += default_changes(a, b, pairs_in)
    sides = (
        Side(a, with_numbers="weights" in aspects),
        Side(b, with_numbers="weights" in aspects),
    )
    # Ties are broken by order. The same model comes first in both directions, so that one mirrors the other.
    is_turned = not _comes_first(*sides)
    comparer = compare_graphs(sides, pairs_in, pairs_out, tolerance, is_turned=is_turned)
    found, weights = comparer.found, comparer.weights
    nodes = [change.mirrored() for change in found.nodes] if is_turned else found.nodes
    changed = [change.mirrored() for change in weights.changes] if is_turned else weights.changes
    renamed = [each.mirrored() for each in found.names()] if is_turned else found.names()
    return DiffReport(
        names[0],
        names[1],
        (size_of(sides[0]), size_of(sides[1])),
        found.matched,
        interface=tuple(interface),
        nodes=tuple(nodes) if "nodes" in aspects else (),
        weights=tuple(changed) if "weights" in aspects else (),
        opset=tuple(_versions(a, b, found)) if "opset" in aspects else (),
        metadata=tuple(metadata_changes(a, b)) if "metadata" in aspects else (),
        renamed=tuple(renamed),
        reordered=found.reordered,
        notes=tuple(_unread(sides, names)),
    )


def compare_graphs(
    sides: tuple[Side, Side],
    inputs: list[tuple[int, int]],
    outputs: list[tuple[int, int]],
    tolerance: Tolerance,
    *,
    is_turned: bool = False,
) -> Comparer:
    """Compare the main graphs and the functions. If `is_turned`, the second model is taken for the first."""
    if is_turned:
        sides = (sides[1], sides[0])
        inputs, outputs = ([(j, i) for i, j in pairs] for pairs in (inputs, outputs))
    weights = Weights(sides, tolerance, shown=0 if is_turned else 1)
    comparer = Comparer(sides, weights)
    functions = paired_functions(sides, comparer.table)
    models = (sides[0].model, sides[1].model)
    opsets = (models[0].opset_imports, models[1].opset_imports)
    bodies = (sides[0].body(models[0].graph, opsets[0]), sides[1].body(models[1].graph, opsets[1]))
    comparer.compare(bodies, opsets, Borders(inputs, outputs), "")
    for id_a, id_b in functions:
        compare_functions(comparer, id_a, id_b)
    for side, model in enumerate(models):
        known = {pair[side] for pair in functions}
        for each in (each for each in model.functions if each not in known):
            names = (None, each[1]) if side else (each[1], None)
            change = NodeChange("added" if side else "removed", f"function {function_title(each)}", *names)
            comparer.found.nodes.append(change)
    return comparer


def _comes_first(a: Side, b: Side) -> bool:
    """Tell which of two models comes first in an order that depends on what is in them alone."""
    ranks = _rank(a.model), _rank(b.model)
    if ranks[0] != ranks[1]:
        return ranks[0] < ranks[1]
    return _digests(a) <= _digests(b)


def _rank(model: ir.Model) -> tuple[int, list[Any]]:
    nodes = [
        (node.op_type, node.name or "", len(node.inputs), sorted(_attribute_texts(node)))
        for region in regions(model)
        for node in region.graph
    ]
    return len(nodes), nodes


def _attribute_texts(node: ir.Node) -> Iterator[str]:
    for name, attribute in node.attributes.items():
        is_small = attribute.is_ref() or attribute.type.value <= ir.AttributeType.STRING.value
        yield f"{name} {attribute.value}" if is_small else name


def _digests(side: Side) -> list[bytes]:
    if not side.with_numbers:
        return []
    tensors = (value.const_value for region in regions(side.model) for value in region.graph.initializers.values())
    return [side.digest(tensor) for tensor in tensors if tensor is not None]


def _versions(a: ir.Model, b: ir.Model, found: Found) -> Iterator[Fact]:
    """Yield the changes of versions; with the operators in use that were redefined in between."""
    for fact in version_changes(a, b):
        domain = fact.what.removeprefix("opset ")
        redefined: Counter[str] = Counter()
        for (title, *_), count in found.revisions.items():
            if (title.rpartition("::")[0] or "ai.onnx") == domain:
                redefined[title] += count
        if fact.what == "IR version" or fact.a is None or fact.b is None:
            yield fact
            continue
        listed = ", ".join(f"{title} {count}" for title, count in sorted(redefined.items()))
        yield replace(fact, note=f"nodes with another revision of their operator: {listed}" if listed else "")


def size_of(side: Side) -> Size:
    """Return the size of a model."""
    nodes, tensors = 0, []
    for region in regions(side.model):
        body = side.body(region.graph, region.opsets)
        nodes += len(body.items)
        tensors += [value.const_value for value in region.graph.initializers.values() if value.const_value is not None]
        constants = [node.outputs[0] for node in region.graph if node.op_type == "Constant" and not node.domain]
        tensors += [found for value in constants if (found := side.tensor(value)) is not None]
    total = sum(tensor.nbytes for tensor in tensors if tensor.dtype != ir.DataType.STRING)
    return Size(nodes, len(tensors), total)


def _unread(sides: tuple[Side, Side], names: list[str]) -> Iterator[str]:
    """Say which model holds weights that nothing reads, if not both hold the same."""
    found = [
        sorted(
            side.digest(value.const_value)
            for region in regions(side.model)
            for value in region.graph.initializers.values()
            if value.const_value is not None and not value.uses() and not value.is_graph_output()
        )
        if side.with_numbers
        else []
        for side in sides
    ]
    if found[0] == found[1]:
        return
    for name, unread in zip(names, found, strict=True):
        if unread:
            yield f"{name} holds {len(unread):,} weight{'s' * (len(unread) > 1)} that nothing reads"


def _source_diff(given: list[Any], names: list[str]) -> str:
    from onnxlift.api import lift

    text_a, text_b = (
        # The first line names the file, which is no difference between the models.
        re.sub(r" from .*(?=: [\d,]+ nodes?, opset)", "", lift(each, name="model").source, count=1).splitlines(True)
        for each in given
    )
    return "".join(unified_diff(text_a, text_b, names[0], names[1]))
