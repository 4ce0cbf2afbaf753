"""Put statements into the order in which their computations begin.

    k = self.k(x).mT          q = self.q(x).sin()
    q = self.q(x).sin()  ->   k = self.k(x).mT         (if the graph begins with q)

After inlining, a statement stands at the place of its last node. A reader expects it at the place of its first node:
query, key, value, and not first the one that happened to be transposed first. Applies to runs of assignments to
variables that are written once. Sound because whatever a statement reads still comes before it, and the calls of one
module stay in their order. Statements that each work on one part of a tensor that was cut come in the order of the
parts, even if the graph begins with another:

    q, k, v = x.chunk(3)        q, k, v = x.chunk(3)
    k = k.mT               ->   q = q.mT
    q = q.mT                    k = k.mT
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import pairwise

from onnxlift.lifting.code.expr import Expr, Ref, variable, walk
from onnxlift.lifting.code.reads import variables_behind
from onnxlift.lifting.code.statements import Assign, Block, Statement
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.signatures.prune import called_module

from .inline import Inlined


def arrange(block: Block, inlined: Inlined, begin: Mapping[Statement, int]) -> bool:
    """Arrange the statements of a forward; `begin` tells where in the graph each one begins. Tell whether their order
    changed."""
    before = block.statements
    arranged: list[Statement] = []
    run: list[Assign] = []
    for statement in block.statements:
        if isinstance(statement, Assign):
            run.append(statement)
        else:
            arranged += _sorted(run, inlined, begin)
            arranged.append(statement)
            run = []
    block.statements = [*arranged, *_sorted(run, inlined, begin)]
    return block.statements != before


def _sorted(run: list[Assign], inlined: Inlined, begin: Mapping[Statement, int]) -> list[Assign]:
    writer: dict[object, int] = {}
    reads = [set(variables_behind(statement.expr, inlined)) for statement in run]
    read = set[object]()
    for index, statement in enumerate(run):
        read |= reads[index]
        for key in (variable(target) for target in statement.targets if target is not None):
            if key in writer or key in read:
                return run  # written twice: the order has a meaning
            writer[key] = index
    waits = [{writer[key] for key in keys if key in writer} for keys in reads]
    for calls in _repeated_calls(run, inlined).values():
        for before, after in pairwise(dict.fromkeys(calls)):
            waits[after].add(before)
    starts = _starts(run, inlined, writer, begin)
    wakes: dict[int, list[int]] = {}
    for index, sources in enumerate(waits):
        for source in sources:
            wakes.setdefault(source, []).append(index)
    ready = [(starts[index], index) for index, sources in enumerate(waits) if not sources]
    heapq.heapify(ready)
    order: list[Assign] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(run[index])
        for waiting in wakes.get(index, ()):
            waits[waiting].discard(index)
            if not waits[waiting]:
                heapq.heappush(ready, (starts[waiting], waiting))
    return order if len(order) == len(run) else run


def _starts(
    run: list[Assign], inlined: Inlined, writer: dict[object, int], begin: Mapping[Statement, int]
) -> list[int]:
    """Return the place in the graph where each statement begins. Statements that each read one part of the same cut
    swap these places among them, so that they come in the order of the parts."""
    starts = [begin[statement] for statement in run]
    readers: dict[int, dict[int, list[int]]] = {}
    for index, statement in enumerate(run):
        cut = {
            (source, place)
            for key in variables_behind(statement.expr, inlined)
            if (source := writer.get(key, index)) != index and len(run[source].targets) > 1
            for place, target in enumerate(run[source].targets)
            if isinstance(target, Ref) and target._key is key
        }
        if len(cut) == 1:
            ((source, place),) = cut
            readers.setdefault(source, {}).setdefault(place, []).append(index)
    for parts in readers.values():
        if all(len(reading) == 1 for reading in parts.values()):
            indices = [parts[place][0] for place in sorted(parts)]
            for index, start in zip(indices, sorted(starts[i] for i in indices), strict=True):
                starts[index] = start
    return starts


def _repeated_calls(run: list[Assign], inlined: Inlined) -> dict[Module, list[int]]:
    """Return, for each module that is called several times, the statements of a run that call it."""
    calls: dict[Module, list[int]] = {}
    for index, statement in enumerate(run):
        waiting: list[Expr] = [statement.expr]
        while waiting:
            for part in walk(waiting.pop()):
                child = called_module(part)
                if child is not None and child.calls > 1:
                    calls.setdefault(child, []).append(index)
                if isinstance(part, Ref) and part._key in inlined:
                    waiting.append(inlined[part._key])
    return calls
