"""Statements in the order in which their computations begin.

    k = self.k(x).mT          q = self.q(x).sin()
    q = self.q(x).sin()  ->   k = self.k(x).mT         (if the graph begins with q)

After inlining a statement stands where its last node stood, while a reader expects it where its first one did: query,
key, value, and not whichever was transposed first. Applies to runs of assignments to variables that are written once;
what a statement reads still comes before it, and the calls of one module stay in their order.
"""

from __future__ import annotations

import heapq
from itertools import pairwise

from ..code.expr import Expr, Local, Ref, walk
from ..code.statements import Assign, Block, Statement
from .inline import Inlined, read_variables
from .prune import called_module


def arrange(block: Block, inlined: Inlined, begin: dict[int, int]) -> None:
    """Arrange the statements of a forward; `begin` tells where in the graph each one begins, by the id of it."""
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


def _sorted(run: list[Assign], inlined: Inlined, begin: dict[int, int]) -> list[Assign]:
    writer: dict[object, int] = {}
    for index, statement in enumerate(run):
        for target in statement.targets:
            if target is None:
                continue
            key = target._key if isinstance(target, Ref) else target
            if key in writer or isinstance(key, Local):
                return run  # written twice: the order has a meaning
            writer[key] = index
    waits = [{writer[k] for k in read_variables(s.expr, inlined) if k in writer} - {i} for i, s in enumerate(run)]
    for calls in _repeated_calls(run, inlined).values():
        for before, after in pairwise(dict.fromkeys(calls)):
            waits[after].add(before)
    wakes: dict[int, list[int]] = {}
    for index, sources in enumerate(waits):
        for source in sources:
            wakes.setdefault(source, []).append(index)
    ready = [(begin[id(run[index])], index) for index, sources in enumerate(waits) if not sources]
    heapq.heapify(ready)
    order: list[Assign] = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(run[index])
        for waiting in wakes.get(index, ()):
            waits[waiting].discard(index)
            if not waits[waiting]:
                heapq.heappush(ready, (begin[id(run[waiting])], waiting))
    return order if len(order) == len(run) else run


def _repeated_calls(run: list[Assign], inlined: Inlined) -> dict[int, list[int]]:
    """Where in a run each module is called that is called several times."""
    calls: dict[int, list[int]] = {}
    for index, statement in enumerate(run):
        waiting: list[Expr] = [statement.expr]
        while waiting:
            for part in walk(waiting.pop()):
                child = called_module(part)
                if child is not None and child.calls > 1:
                    calls.setdefault(id(child), []).append(index)
                if isinstance(part, Ref) and part._key in inlined:
                    waiting.append(inlined[part._key])
    return calls
